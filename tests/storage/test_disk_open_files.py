"""Files that are open for reading, as both disks keep the port, and what the kernel alone can show."""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crdtstream.storage import disk as disk_module
from crdtstream.storage.backup import Description, File, Frozen
from crdtstream.storage.disk import Disk, DiskFailed, RealDisk
from simulations.disk import Misses, SimulatedDisk
from tests.storage.logs import failing


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealDisk]:
    disk = RealDisk(str(tmp_path / "data"))
    yield disk
    disk.close()


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    if request.param == "simulated":
        return SimulatedDisk()
    chosen: RealDisk = request.getfixturevalue("real")
    return chosen


def write(disk: Disk, data: bytes) -> None:
    disk.create("a", 0)
    disk.write("a", 0, data)


def is_open(path: str) -> bool:
    """Whether this process has the file open, with or without its name."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return any(os.readlink(link).startswith(path) for link in links if os.path.islink(link))


def test_an_open_file_is_read_as_the_disk_reads_it(disk: Disk) -> None:
    write(disk, b"0123456789" * 1_000)
    file = disk.open_file("a")
    for offset, length in [(0, 10_000), (4_090, 20), (9_995, 50), (10_000, 5), (20_000, 5), (3, 0)]:
        found = disk.read("a", offset, length)
        assert file.read(offset, length) == found
        assert file.at_once(offset, length) in (found, None)


def test_a_file_without_a_name_is_read_to_its_last_reader(disk: Disk) -> None:
    write(disk, b"first")
    file = disk.open_file("a")
    disk.delete("a")
    write(disk, b"other")
    assert file.read(0, 99) == b"first"
    assert disk.open_file("a").read(0, 99) == b"other"


def test_a_file_that_is_not_there_is_not_opened(disk: Disk) -> None:
    with pytest.raises(DiskFailed):
        disk.open_file("a")


def test_copies_of_a_state_share_its_open_files(real: RealDisk) -> None:
    write(real, b"first")
    file = real.open_file("a")
    assert copy.deepcopy([file]) == [file]


def test_copies_of_an_open_file_read_the_same(disk: Disk) -> None:
    """Those of a simulated disk are files of their own, of a machine that is copied."""
    write(disk, b"first")
    assert copy.deepcopy(disk.open_file("a")).read(0, 5) == b"first"


def test_the_descriptor_is_closed_with_the_last_reference(real: RealDisk) -> None:
    write(real, b"first")
    real.release("a")
    path = os.path.join(os.path.realpath(real.path), "a")
    file = real.open_file("a")
    others = [file, file]
    real.delete("a")
    del file
    assert is_open(path) and others[0].read(0, 5) == b"first"
    others.clear()
    assert not is_open(path)


def test_a_backup_opens_its_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"first")
    description = Description(1, "", "", "", "", 1, {}, "", 0, "", files=[File("a", 5, "")])
    frozen: Disk = Frozen(str(tmp_path), description)
    assert frozen.open_file("a").read(1, 3) == b"irs"
    with pytest.raises(DiskFailed, match="cannot open"):
        frozen.open_file("b")


# What the kernel alone can show


def test_what_would_wait_is_not_there_at_once(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    write(real, b"first")
    file = real.open_file("a")
    monkeypatch.setattr(os, "preadv", failing(errno.EAGAIN))
    assert file.at_once(0, 5) is None
    monkeypatch.undo()
    assert file.at_once(0, 5) in (b"first", None)


def test_a_part_that_is_in_memory_is_not_enough(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    write(real, b"first")
    file = real.open_file("a")

    def some(_descriptor: int, buffers: list[bytearray], offset: int, _flags: int) -> int:
        kept = b"first"[offset : offset + 2]
        buffers[0][: len(kept)] = kept
        return len(kept)

    monkeypatch.setattr(os, "preadv", some)
    assert file.at_once(0, 5) is None
    assert file.at_once(3, 5) in (b"st", None)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_that_cannot_tell_is_asked_once(
    real: RealDisk, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write(real, b"first")
    file = real.open_file("a")
    asked: list[Any] = []

    def refuse(*arguments: object) -> int:
        asked.append(arguments)
        raise OSError(number, "no")

    monkeypatch.setattr(os, "preadv", refuse)
    assert file.at_once(0, 5) is None and file.at_once(0, 5) is None
    assert len(asked) <= 1 and file.read(0, 5) == b"first"


@pytest.mark.interpreted
def test_a_system_that_cannot_tell_is_never_asked(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "_NOWAIT", 0)
    monkeypatch.setattr(os, "preadv", failing(errno.EIO))
    write(real, b"first")
    assert real.open_file("a").at_once(0, 5) is None


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system cannot tell what it has in memory")
def test_errors_of_an_open_file_have_its_path(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    write(real, b"first")
    file = real.open_file("a")
    monkeypatch.setattr(os, "preadv", failing(errno.EIO))
    monkeypatch.setattr(os, "pread", failing(errno.EIO))
    for read in (file.at_once, file.read):
        with pytest.raises(DiskFailed, match=r"cannot read .*/data/a: Input/output error"):
            read(0, 5)


def test_short_reads_are_continued(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    write(real, b"0123456789")
    file, whole = real.open_file("a"), os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, length, offset: whole(descriptor, min(length, 3), offset))
    assert file.read(1, 99) == b"123456789"


# The simulated disk


def test_a_simulated_disk_has_not_everything_at_once() -> None:
    disk = SimulatedDisk()
    write(disk, b"first")
    file = disk.open_file("a")
    assert [file.at_once(0, 5) for _ in range(5)] == [b"first"] * 5
    disk.misses = Misses(Random(1))
    found = [file.at_once(0, 5) for _ in range(50)]
    assert set(found) == {b"first", None}
    disk.misses = Misses(Random(1), 1.0)
    assert file.at_once(0, 5) is None and file.read(0, 5) == b"first"


def test_an_open_file_sees_the_bit_that_flipped() -> None:
    disk = SimulatedDisk()
    write(disk, b"first")
    file = disk.open_file("a")
    disk.flip_bit("a", 0)
    assert file.read(0, 5) == file.at_once(0, 5) == b"girst"


def test_a_read_that_is_to_fail_fails_once() -> None:
    disk = SimulatedDisk()
    write(disk, b"first")
    file = disk.open_file("a")
    disk.fail_next_read()
    with pytest.raises(DiskFailed, match="cannot read a: simulated"):
        file.at_once(0, 5)
    assert file.read(0, 5) == b"first"
    disk.fail_next_read()
    disk.heal()
    assert file.read(0, 5) == b"first"
