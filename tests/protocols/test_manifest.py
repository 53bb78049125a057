"""The manifest: comes back as it was, and every flipped bit is seen."""

from __future__ import annotations

import pytest

from crdtstream.core.members import ADMITTED, EVICTED, JOINED, KNEW
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.columns import CodecError
from crdtstream.protocols.manifest import Manifest, UnknownFormat, decode_manifest, encode_manifest


def full_manifest() -> Manifest:
    manifest = Manifest(7, VersionVector({1: 2**63, 258: 3}))
    manifest.through = 2**40
    manifest.saved_ms = 1_700_000_000_000
    manifest.contexts = {1: VersionVector({258: 3}), 258: VersionVector()}
    manifest.members = [(JOINED, 1, 2, 2**40, 0), (ADMITTED, 2, 0, 0, 1), (EVICTED, 3, 2, 7, 0), (KNEW, 1, 2, 7, 0)]
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


def test_a_context_of_what_is_no_origin_is_refused() -> None:
    manifest = full_manifest()
    manifest.contexts[512] = VersionVector()
    with pytest.raises(CodecError, match="context: 512 is not an origin"):
        decode_manifest(encode_manifest(manifest))


def test_another_format_is_named() -> None:
    data = bytearray(encode_manifest(full_manifest()))
    data[8] = 9
    with pytest.raises(UnknownFormat, match="format 9"):
        decode_manifest(bytes(data))
