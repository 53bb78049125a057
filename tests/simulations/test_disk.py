"""The simulated disk forgets what it may forget, keeps what it must, and repeats itself for a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from crdtstream.storage.disk import DiskFailed, DiskFull
from simulations.disk import PAGE_BYTES, PowerLost, SimulatedDisk, SimulatedFile


def written(data: bytes, size_bytes: int) -> SimulatedDisk:
    """One durable file, its content not synced."""
    disk = SimulatedDisk()
    disk.create("a", size_bytes)
    disk.sync("a")
    disk.sync_directory()
    disk.write("a", 0, data)
    return disk


def test_synced_bytes_survive_every_crash() -> None:
    for seed in range(50):
        disk = written(b"x" * 10_000, 20_000)
        disk.sync("a")
        disk.crash(Random(seed))
        disk.check()
        assert disk.read("a", 0, 20_000) == b"x" * 10_000 + bytes(10_000)


def test_any_combination_of_unsynced_pages_survives() -> None:
    seen = set()
    for seed in range(300):
        disk = written(b"x" * 3 * PAGE_BYTES, 3 * PAGE_BYTES)
        disk.crash(Random(seed))
        disk.check()
        seen.add(tuple(disk.read("a", page * PAGE_BYTES, PAGE_BYTES) == b"x" * PAGE_BYTES for page in range(3)))
    assert len(seen) == 8


def test_unsynced_page_falls_back_to_its_synced_content() -> None:
    seen = set()
    for seed in range(50):
        disk = written(b"old", 100)
        disk.sync("a")
        disk.write("a", 3, b"new")
        disk.crash(Random(seed))
        seen.add(disk.read("a", 0, 6))
    assert seen == {b"old\0\0\0", b"oldnew"}


def test_unsynced_names_may_vanish_and_deleted_ones_come_back() -> None:
    seen = set()
    for seed in range(100):
        disk = written(b"", 10)
        disk.delete("a")
        disk.create("b", 10)
        disk.sync("b")
        disk.crash(Random(seed))
        seen.add(tuple(disk.names()))
    assert seen == {(), ("a",), ("b",), ("a", "b")}


def test_unsynced_size_may_be_lost() -> None:
    seen = set()
    for seed in range(50):
        disk = written(b"x" * 5_000, 5_000)
        disk.sync("a")
        disk.truncate("a", 10)
        disk.crash(Random(seed))
        disk.check()
        seen.add((disk.size("a"), disk.read("a", 0, 11)))
    assert (10, b"x" * 10) in seen and (5_000, b"x" * 11) in seen
    assert all(data.startswith(b"x" * 10) for _, data in seen)


def test_replaced_file_is_durable_and_whole() -> None:
    for seed in range(20):
        disk = written(b"old", 3)
        disk.replace("a", b"second")
        disk.crash(Random(seed))
        assert disk.read("a", 0, 99) == b"second"


def test_failed_replace_keeps_the_old_content() -> None:
    disk = written(b"old", 3)
    disk.fail_next_sync()
    with pytest.raises(DiskFailed):
        disk.replace("a", b"second")
    assert disk.read("a", 0, 99) == b"old"


def test_same_seed_same_crash() -> None:
    outcomes = set()
    for _ in range(5):
        disk = written(b"x" * 100_000, 100_000)
        disk.create("b", 5)
        disk.crash(Random(7))  # any seed does: it is the same five times
        outcomes.add((tuple(disk.names()), disk.read("a", 0, 100_000)))
    assert len(outcomes) == 1


def test_failed_append_leaves_a_part() -> None:
    disk = written(b"", 10)
    disk.fail_next_append()
    with pytest.raises(DiskFailed):
        disk.write("a", 0, b"0123")
    assert disk.read("a", 0, 4) == b"01\0\0"
    disk.write("a", 0, b"0123")
    assert disk.read("a", 0, 4) == b"0123"


def test_retry_of_a_failed_sync_succeeds_and_saves_nothing() -> None:
    disk = written(b"lost", 10)
    disk.fail_next_sync()
    with pytest.raises(DiskFailed):
        disk.sync("a")
    disk.sync("a")
    disk.check()
    assert disk.read("a", 0, 4) == b"lost"
    disk.crash(Random(0))
    disk.check()
    assert disk.read("a", 0, 4) == bytes(4)


def test_flipped_bit_stays() -> None:
    disk = written(b"a", 10)
    disk.sync("a")
    disk.flip_bit("a", 0, 1)
    disk.check()
    disk.crash(Random(0))
    assert disk.read("a", 0, 1) == b"c"


def test_capacity_counts_what_is_preallocated() -> None:
    disk = SimulatedDisk(capacity_bytes=1_000)
    disk.create("a", 600)
    actions: list[Callable[[], object]] = [
        lambda: disk.create("b", 500),
        lambda: disk.allocate("a", 1_001),
        lambda: disk.write("a", 600, bytes(401)),
        lambda: disk.replace("b", bytes(401)),
    ]
    for action in actions:
        with pytest.raises(DiskFull):
            action()
    assert disk.names() == ["a"] and disk.size("a") == 600
    disk.write("a", 0, bytes(600))
    disk.allocate("a", 1_000)
    disk.delete("a")
    disk.create("b", 1_000)


def test_power_goes_in_the_middle_of_a_write() -> None:
    disk = SimulatedDisk()
    disk.create("a", 0)
    disk.lose_power_at(1, Random(3))
    disk.write("a", 0, b"whole")
    with pytest.raises(PowerLost):
        disk.write("a", 5, b"x" * 1000)
    assert 5 <= disk.size("a") < 1005


def test_power_goes_in_the_middle_of_a_sync() -> None:
    disk = SimulatedDisk()
    disk.create("a", 0)
    disk.write("a", 0, b"x" * 40_960)
    disk.sync_directory()
    disk.lose_power_at(0, Random(3))
    with pytest.raises(PowerLost):
        disk.sync("a")
    disk.crash(Random(3), 0.0)
    assert disk.size("a") == 0, "a size that was never synced is gone"
    disk.check()


def test_a_healed_disk_fails_no_more() -> None:
    disk = SimulatedDisk(capacity_bytes=0)
    disk.lose_power_at(0, Random(3))
    disk.fail_next_append()
    disk.heal()
    disk.create("a", 10)
    disk.write("a", 0, b"data")
    assert disk.read("a", 0, 4) == b"data"


def test_a_copy_is_what_a_reader_sees_and_lives_on_its_own() -> None:
    disk = SimulatedDisk()
    disk.create("a", 0)
    disk.write("a", 5_000, b"here")
    copy = disk.copy()
    disk.write("a", 5_000, b"gone")
    disk.create("b", 0)
    copy.crash(Random(0), 0.0)
    assert copy.names() == ["a"] and copy.read("a", 5_000, 9) == b"here"
    assert copy.read("a", 0, 5_000) == bytes(5_000)
    copy.check()


def test_a_bit_flips_in_the_file_that_is_open_and_not_in_another_of_its_name() -> None:
    disk = SimulatedDisk()
    disk.create("a", 0)
    disk.write("a", 0, b"first")
    file = disk.open_file("a")
    disk.delete("a")
    disk.create("a", 0)
    disk.write("a", 0, b"other")
    assert isinstance(file, SimulatedFile)
    file.flip_bit(0, 1)
    assert (file.read(0, 5), disk.read("a", 0, 5)) == (b"dirst", b"other")
