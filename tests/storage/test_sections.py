"""Files of a checkpoint, section by section."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.storage.block_images import BlockPacker
from crdtstream.storage.disk import RealDisk
from crdtstream.storage.recovery import CheckpointDamaged
from crdtstream.storage.sections import (
    FORMAT_VERSION,
    HEADER_BYTES,
    ROWS,
    SECTION_BYTES,
    Draft,
    read_sections,
    read_version,
    write_section,
)
from crdtstream.storage.segment import FormatUnknown


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    opened = RealDisk(str(tmp_path))
    yield opened
    opened.close()


def write_file(disk: RealDisk, payloads: list[bytes]) -> int:
    """Write a file with these sections; returns its size."""
    draft = Draft("state-3", 3, ROWS)
    for payload in payloads:
        draft.add_rows([payload])
        write_section(disk, draft.drain(), BlockPacker())
    return draft.byte_count


def test_sections_come_back_in_order(disk: RealDisk) -> None:
    payloads = [b"a" * 5, b"b" * 2_000_000, b"c"]
    byte_count = write_file(disk, payloads)
    found = list(read_sections(disk, "state-3", 3, byte_count, FORMAT_VERSION))
    assert [payload for _, payload in found] == payloads
    first = HEADER_BYTES + SECTION_BYTES
    assert [offset for offset, _ in found] == [first, first + 5 + SECTION_BYTES, byte_count - 1]


def test_what_was_written_behind_the_file_of_the_manifest_is_not_read(disk: RealDisk) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("state-3", byte_count, b"more")
    assert len(list(read_sections(disk, "state-3", 3, byte_count, FORMAT_VERSION))) == 1


@pytest.mark.parametrize("length", [4, 6, 2**40, 2**64 - 1])
def test_a_wrong_length_is_damage_and_reads_nothing_huge(disk: RealDisk, length: int) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("state-3", HEADER_BYTES + 5, length.to_bytes(8, "little"))
    with pytest.raises(CheckpointDamaged, match="the checksum of a section is wrong"):
        list(read_sections(disk, "state-3", 3, byte_count, FORMAT_VERSION))


@pytest.mark.parametrize(
    ("missing", "reason"), [(0, "checksum"), (1, "the file ends there"), (6, "the file ends there")]
)
def test_a_file_that_lost_its_end_is_damage(disk: RealDisk, missing: int, reason: str) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("state-3", byte_count - 1, b"x")
    disk.truncate("state-3", byte_count - missing)
    with pytest.raises(CheckpointDamaged, match=reason):
        list(read_sections(disk, "state-3", 3, byte_count, FORMAT_VERSION))


@pytest.mark.parametrize(("missing", "reason"), [(2, "checksum"), (12, "a section header is truncated")])
def test_a_file_that_shrinks_while_it_is_read_is_damage(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch, missing: int, reason: str
) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("state-3", byte_count - 1, b"x")
    disk.truncate("state-3", byte_count - missing)
    monkeypatch.setattr(RealDisk, "size", lambda _disk, _name: byte_count)
    with pytest.raises(CheckpointDamaged, match=reason):
        list(read_sections(disk, "state-3", 3, byte_count, FORMAT_VERSION))


def test_half_a_head_of_a_section_is_damage(disk: RealDisk) -> None:
    byte_count = write_file(disk, [b"a" * 5])
    disk.write("state-3", byte_count, b"half")
    with pytest.raises(CheckpointDamaged, match="a section header is truncated"):
        list(read_sections(disk, "state-3", 3, byte_count + 4, FORMAT_VERSION))


def test_a_file_says_its_format(disk: RealDisk) -> None:
    write_file(disk, [b"a" * 5])
    assert read_version(disk, "state-3", 3) == FORMAT_VERSION


@pytest.mark.parametrize("version", [1, 5])
def test_another_format_is_refused(disk: RealDisk, version: int) -> None:
    write_file(disk, [b"a" * 5])
    disk.write("state-3", 8, version.to_bytes(4, "little"))
    with pytest.raises(FormatUnknown, match=f"format {version}, but this release reads formats 2, 3 and 4"):
        read_version(disk, "state-3", 3)


@pytest.mark.parametrize(("offset", "reason"), [(0, "not a checkpoint file"), (12, "header is wrong")])
def test_a_wrong_header_is_damage(disk: RealDisk, offset: int, reason: str) -> None:
    write_file(disk, [b"a" * 5])
    disk.write("state-3", offset, b"X")
    with pytest.raises(CheckpointDamaged, match=reason):
        read_version(disk, "state-3", 3)
