"""The port as both disks keep it, and what only the real one can show: locks, descriptors, failures of the kernel."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.storage.disk import Disk, DiskFailed, DiskFull, DiskLocked, RealDisk
from simulations.disk import SimulatedDisk
from tests.storage.logs import failing


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealDisk]:
    disk = RealDisk(str(tmp_path / "data"))
    yield disk
    disk.check()
    disk.close()


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    if request.param == "simulated":
        return SimulatedDisk()
    chosen: RealDisk = request.getfixturevalue("real")
    return chosen


def test_created_file_is_zeros_of_its_size(disk: Disk) -> None:
    disk.create("a", 10_000)
    assert disk.names() == ["a"]
    assert disk.size("a") == 10_000
    assert disk.read("a", 0, 20_000) == bytes(10_000)


def test_create_refuses_an_existing_name(disk: Disk) -> None:
    disk.create("a", 0)
    with pytest.raises(DiskFailed):
        disk.create("a", 0)


@pytest.mark.parametrize("count", [0, 1, 2, 1024, 1025, 3000])
def test_parts_are_written_as_one(disk: Disk, count: int) -> None:
    disk.create("a", 10)
    parts = [b"%d" % number for number in range(count)]
    disk.write_parts("a", 3, parts)
    assert disk.read("a", 3, 20_000).rstrip(b"\0") == b"".join(parts)


def test_write_changes_its_bytes_alone(disk: Disk) -> None:
    disk.create("a", 10_000)
    disk.write("a", 4_090, b"x" * 20)
    assert disk.read("a", 4_089, 22) == b"\0" + b"x" * 20 + b"\0"
    assert disk.size("a") == 10_000
    disk.write("a", 10_000, b"end")
    assert disk.read("a", 9_999, 10) == b"\0end"


def test_read_is_cut_at_the_end(disk: Disk) -> None:
    disk.create("a", 10)
    assert disk.read("a", 8, 10) == bytes(2)
    assert disk.read("a", 10, 10) == disk.read("a", 99, 10) == b""


def test_what_was_truncated_comes_back_as_zeros(disk: Disk) -> None:
    disk.create("a", 0)
    disk.write("a", 0, b"x" * 9_000)
    disk.truncate("a", 5_000)
    assert disk.size("a") == 5_000
    disk.allocate("a", 9_000)
    assert disk.read("a", 0, 9_000) == b"x" * 5_000 + bytes(4_000)


def test_reserve_never_shrinks(disk: Disk) -> None:
    disk.create("a", 9_000)
    disk.allocate("a", 5_000)
    assert disk.size("a") == 9_000


def test_replace_makes_and_overwrites(disk: Disk) -> None:
    disk.replace("manifest", b"one")
    disk.replace("manifest", b"second")
    assert disk.read("manifest", 0, 99) == b"second"
    assert disk.names() == ["manifest"]


def test_replace_reaches_later_writers(disk: Disk) -> None:
    disk.create("a", 0)
    disk.write("a", 0, b"old")
    disk.replace("a", b"new")
    disk.write("a", 3, b"er")
    assert disk.read("a", 0, 99) == b"newer"


def test_deleted_file_is_gone(disk: Disk) -> None:
    disk.create("a", 10)
    disk.create("b", 10)
    disk.delete("a")
    assert disk.names() == ["b"]
    for action in (lambda: disk.size("a"), lambda: disk.read("a", 0, 1), lambda: disk.sync("a")):
        with pytest.raises(DiskFailed):
            action()
    disk.create("a", 3)
    assert disk.read("a", 0, 99) == bytes(3)


def test_released_file_can_be_written_again(disk: Disk) -> None:
    disk.create("a", 10)
    disk.write("a", 0, b"x")
    disk.release("a")
    disk.release("a")
    disk.write("a", 1, b"y")
    disk.sync("a")
    disk.sync_directory()
    assert disk.read("a", 0, 2) == b"xy"


def test_directory_is_held_by_one(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    first = RealDisk(path)
    with pytest.raises(DiskLocked, match=rf"{path} is in use by another process \(PID {os.getpid()}\)"):
        RealDisk(path)
    first.close()
    RealDisk(path).close()


def test_leftover_of_a_replace_is_removed(tmp_path: Path) -> None:
    RealDisk(str(tmp_path)).close()
    (tmp_path / ".new-manifest").write_bytes(b"half")
    disk = RealDisk(str(tmp_path))
    assert disk.names() == []
    assert not (tmp_path / ".new-manifest").exists()
    disk.close()


def test_files_are_private(real: RealDisk) -> None:
    real.create("a", 1)
    real.replace("b", b"x")
    for name in ("a", "b"):
        assert os.stat(os.path.join(real.path, name)).st_mode & 0o077 == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_leaves_no_file_behind(real: RealDisk, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    real.create("a", 100)
    monkeypatch.setattr(os, "posix_fallocate", failing(number))
    with pytest.raises(DiskFull) as caught:
        real.create("b", 100)
    assert caught.value.errno == number
    assert real.names() == ["a"]
    with pytest.raises(DiskFull):
        real.allocate("a", 200)
    assert real.size("a") == 100


def test_room_that_cannot_be_held_is_sparse(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.EOPNOTSUPP))
    real.create("a", 100)
    assert real.size("a") == 100
    real.allocate("a", 50)
    assert real.size("a") == 100


def test_other_errors_are_failures_with_the_path(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    real.create("a", 100)
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    with pytest.raises(DiskFailed, match=r"cannot sync .*/data/a: Input/output error"):
        real.sync("a")


def test_short_writes_are_continued(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: whole(descriptor, data[:3], offset))
    real.create("a", 0)
    real.write("a", 2, b"0123456789")
    assert real.read("a", 0, 99) == b"\0\x000123456789"


def test_short_writes_of_parts_are_continued(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda descriptor, parts, offset: whole(descriptor, [parts[0][:3]], offset))
    real.create("a", 0)
    real.write_parts("a", 2, [b"0123", b"", b"456789"])
    assert real.read("a", 0, 99) == b"\0\x000123456789"


# A full disk


def test_free_bytes_are_those_of_the_volume(real: RealDisk) -> None:
    volume = os.statvfs(real.path)
    assert 0 < real.free_bytes() <= volume.f_blocks * volume.f_frsize


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_opened_without_the_pid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(os, "pwrite", failing(number))
    disk = RealDisk(str(tmp_path / "full"))
    with pytest.raises(DiskLocked, match="PID unknown"):
        RealDisk(disk.path)
    disk.close()
    monkeypatch.setattr(os, "pwrite", failing(errno.EIO))
    with pytest.raises(DiskFailed):
        RealDisk(disk.path)


def test_a_replacement_that_does_not_fit_takes_no_space(real: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    real.replace("a", b"old")
    written: list[int] = []

    def write_some(descriptor: int, data: bytes, offset: int) -> int:
        if written:
            raise OSError(errno.ENOSPC, "full")
        written.append(os.pwritev(descriptor, [data[:2]], offset))
        return 2

    monkeypatch.setattr(os, "pwrite", write_some)
    with pytest.raises(DiskFull):
        real.replace("a", b"newer")
    assert [name for name in os.listdir(real.path) if name != ".lock"] == ["a"]
    assert real.read("a", 0, 10) == b"old"


def test_a_replacement_whose_name_may_not_be_durable_is_a_failure(
    real: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DiskFull would say that the old content is in place."""
    real.replace("a", b"old")
    synced: list[int] = []

    def sync(descriptor: int) -> None:
        if synced:
            raise OSError(errno.ENOSPC, "full")
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(DiskFailed):
        real.replace("a", b"new")
    assert real.read("a", 0, 10) == b"new"
