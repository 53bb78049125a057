"""Blocks as they lie in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.core.block import Block
from crdtstream.core.encoding import encode_entry
from crdtstream.storage.disk import RealDisk
from crdtstream.storage.sections import (
    BLOCK_BYTES,
    HEADER_BYTES,
    SECTION_BYTES,
    CheckpointDamaged,
    Draft,
    block_parts,
    read_blocks,
    read_sections,
    write_section,
)

WIDTHS_OFFSET = BLOCK_BYTES - 4


def block_of(first: int, step_ms: int, gap: int, *, sealed: bool) -> Block:
    block = Block()
    for index in range(5):
        entry_id = (first + step_ms * index, 1 + 65_536 * index)
        block.append(entry_id, 9 + gap * index, encode_entry(entry_id, [b"f", b"%d" % index]))
    if sealed:
        block.seal()
    return block


BLOCKS = [
    block_of(1_795_251_600_000, 1, 1, sealed=True),
    block_of(1_795_251_600_000, 1, 3, sealed=True),
    block_of(2**32 - 2, 1, 1, sealed=True),
    block_of(1_795_251_600_000, 1, 2**40, sealed=True),
    block_of(1_795_251_600_000, 1, 1, sealed=False),
    block_of(1_795_251_600_000, 1, 3, sealed=False),
]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_blocks_come_back_as_they_were(count: int) -> None:
    payload = b"".join(part for block in BLOCKS for part in block_parts(block, count))
    found: dict[int, Block] = {}
    read_blocks("blocks-3", 3, 100, memoryview(payload), found)
    place = 3 << 40 | 100
    for block, (at, again) in zip(BLOCKS, found.items(), strict=True):
        again.check()
        assert again.kept(count) == block.kept(count)
        assert again.data() == block.entry_slice(0, count)
        assert (at, again.place, again.stored_count) == (place, place, count)
        place += again.stored_bytes
    assert place == (3 << 40 | 100) + len(payload)


@pytest.mark.parametrize(
    ("offset", "value"), [(0, 0), (0, 200), (8, 1), (WIDTHS_OFFSET, 3), (WIDTHS_OFFSET, 0), (WIDTHS_OFFSET + 3, 8)]
)
def test_a_head_that_does_not_fit_is_named(offset: int, value: int) -> None:
    payload = bytearray(b"".join(block_parts(BLOCKS[0], 5)))
    payload[offset] = value
    with pytest.raises(CheckpointDamaged, match="blocks-3"):
        read_blocks("blocks-3", 3, 100, memoryview(payload), {})


def test_half_a_head_is_named() -> None:
    payload = b"".join(block_parts(BLOCKS[0], 5)) + b"half"
    with pytest.raises(CheckpointDamaged, match="truncated"):
        read_blocks("blocks-3", 3, 100, memoryview(payload), {})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    opened = RealDisk(str(tmp_path))
    yield opened
    opened.close()


def write_file(disk: RealDisk, payloads: list[bytes]) -> int:
    """Write a file with these sections; returns its size."""
    draft = Draft("blocks-3", 3)
    for payload in payloads:
        draft.add([payload])
        write_section(disk, draft.take())
    return draft.byte_count()


def test_sections_come_back_in_order(disk: RealDisk) -> None:
    payloads = [b"a" * 5, b"b" * 2_000_000, b"c"]
    byte_count = write_file(disk, payloads)
    found = list(read_sections(disk, "blocks-3", 3, byte_count))
    assert [bytes(payload) for _, payload in found] == payloads
    first = HEADER_BYTES + SECTION_BYTES
    assert [offset for offset, _ in found] == [first, first + 5 + SECTION_BYTES, byte_count - 1]


def test_what_was_written_behind_the_file_of_the_manifest_is_not_read(disk: RealDisk) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("blocks-3", byte_count, b"more")
    assert len(list(read_sections(disk, "blocks-3", 3, byte_count))) == 1


@pytest.mark.parametrize("length", [4, 6, 2**40, 2**64 - 1])
def test_a_wrong_length_is_damage_and_reads_nothing_huge(disk: RealDisk, length: int) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("blocks-3", HEADER_BYTES + 4, length.to_bytes(8, "little"))
    with pytest.raises(CheckpointDamaged, match="the checksum of a section is wrong"):
        list(read_sections(disk, "blocks-3", 3, byte_count))


@pytest.mark.parametrize(
    ("missing", "reason"), [(0, "checksum"), (1, "the file ends there"), (6, "the file ends there")]
)
def test_a_file_that_lost_its_end_is_damage(disk: RealDisk, missing: int, reason: str) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("blocks-3", byte_count - 1, b"x")
    disk.truncate("blocks-3", byte_count - missing)
    with pytest.raises(CheckpointDamaged, match=reason):
        list(read_sections(disk, "blocks-3", 3, byte_count))


@pytest.mark.parametrize(("missing", "reason"), [(2, "checksum"), (12, "a section header is truncated")])
def test_a_file_that_shrinks_while_it_is_read_is_damage(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch, missing: int, reason: str
) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("blocks-3", byte_count - 1, b"x")
    disk.truncate("blocks-3", byte_count - missing)
    monkeypatch.setattr(RealDisk, "size", lambda _disk, _name: byte_count)
    with pytest.raises(CheckpointDamaged, match=reason):
        list(read_sections(disk, "blocks-3", 3, byte_count))


def test_half_a_head_of_a_section_is_damage(disk: RealDisk) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("blocks-3", byte_count, b"half")
    with pytest.raises(CheckpointDamaged, match="a section header is truncated"):
        list(read_sections(disk, "blocks-3", 3, byte_count + 4))
