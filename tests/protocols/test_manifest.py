"""The manifest: comes back as it was, and every flipped bit is seen."""

from __future__ import annotations

import pytest

from crdtstream.core.causality import VersionVector
from crdtstream.protocols.columns import CodecError
from crdtstream.protocols.manifest import Manifest, UnknownFormat, decode_manifest, encode_manifest


def full_manifest() -> Manifest:
    manifest = Manifest(7, VersionVector({1: 2**63, 258: 3}))
    manifest.through = 2**40
    manifest.saved_ms = 1_700_000_000_000
    manifest.members = [(1, 2, 2**40), (2, 0, 0), (258, 1, 7), (258, 65537, 7)]
    manifest.records = [(3, b"birth"), (4, b"")]
    manifest.milestones = [(1, VersionVector()), (8, VersionVector({1: 5}))]
    manifest.block_files = [(3, 100), (9, 2**33)]
    manifest.state_files = [(4, 50)]
    return manifest


def fields(manifest: Manifest) -> list[object]:
    return [getattr(manifest, name) for name in Manifest.__slots__]


@pytest.mark.interpreted
def test_it_comes_back() -> None:
    for manifest in (full_manifest(), Manifest(1, VersionVector())):
        assert fields(decode_manifest(encode_manifest(manifest))) == fields(manifest)


def test_every_flipped_bit_is_seen() -> None:
    data = encode_manifest(full_manifest())
    for at in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            with pytest.raises(CodecError):
                decode_manifest(bytes(damaged))
    for end in range(len(data)):
        with pytest.raises(CodecError):
            decode_manifest(data[:end])


@pytest.mark.parametrize("row", [(0, 1, 1), (256, 1, 1), (1, 256, 1), (1, 65536 + 256, 1), (1, 2**18, 1), (1, 2, 0)])
def test_a_member_that_is_none_is_refused(row: tuple[int, int, int]) -> None:
    manifest = full_manifest()
    manifest.members = [row]
    with pytest.raises(CodecError, match=r"member|sponsor|counter of a join"):
        decode_manifest(encode_manifest(manifest))


def test_another_format_is_named() -> None:
    data = bytearray(encode_manifest(full_manifest()))
    data[8] = 9
    with pytest.raises(UnknownFormat, match="format 9"):
        decode_manifest(bytes(data))
