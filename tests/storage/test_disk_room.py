"""Room on a disk that fills up: a region on the simulated disk, driven as the runtime does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.settings.config import Config, Limits
from crdtstream.storage.reserve import RESERVE
from simulations.disk import SimulatedDisk
from simulations.machine import ROOM_BYTES, Machine

NOW_MS = 100
VOLUME_BYTES = 384 << 10
LIMITS = Limits(segment_bytes_max=1 << 14, disk_reserve_bytes=1 << 14)
ADD = [b"XADD", b"x", b"MAXLEN", b"10", b"*", b"f", b"v" * 200]


def machine_on(volume_bytes: int | None, limits: Limits = LIMITS) -> Machine:
    config = Config(name="one", region=1, cluster="c", incarnation=0, limits=limits)
    return Machine(config, NOW_MS, SimulatedDisk(volume_bytes))


def add(machine: Machine, argv: list[bytes] = ADD) -> bool:
    machine.look_for_room()
    reply = machine.execute(argv, NOW_MS)
    assert reply is not None and (reply[:1] == b"$" or reply.startswith(b"-MISCONF")), reply
    return reply[:1] == b"$"


def fill(machine: Machine) -> None:
    """Write and remove until there is no room: what is left is the log."""
    for _ in range(10_000):
        if not add(machine):
            return
        machine.execute([b"DEL", b"x"], NOW_MS)
    raise AssertionError("the disk is not full")


def save(machine: Machine) -> None:
    while not machine.save(1_000):
        pass
    machine.sync()
    machine.look_for_room()


def test_a_checkpoint_is_due_before_the_disk_is_full_and_lets_writing_go_on() -> None:
    machine = machine_on(VOLUME_BYTES)
    saves = 0
    for _ in range(3_000):
        assert add(machine), machine.disk.names()
        if machine.room.is_short():
            save(machine)
            saves += 1
            assert not machine.room.is_short(), "it freed what it could"
            machine.room.check()
            machine.log.check()
    assert saves > 5
    assert machine.disk.used_bytes() <= VOLUME_BYTES


def test_while_room_is_plenty_no_checkpoint_is_due() -> None:
    machine = machine_on(None)
    assert fill_up_to(machine, 2_000) == 2_000
    assert not machine.room.is_short() and not machine.room.is_low()


def test_a_state_that_fits_less_than_twice_is_not_written_again_for_a_little_log() -> None:
    machine = machine_on(None)
    for number in range(1_500):
        assert add(machine, [b"XADD", b"kept-%d" % number, b"*", b"f", b"v" * 40])
    save(machine)
    state_bytes = machine.checkpointer.state_bytes()
    assert state_bytes > 10 * LIMITS.segment_bytes_max
    machine.disk.capacity_bytes = machine.disk.used_bytes() + 8 * state_bytes // 5
    assert machine.room.is_tight() and not machine.room.is_short()
    saves = 0
    before = machine.log.appended_bytes
    for _ in range(1_000):
        assert add(machine)
        if machine.room.is_short():
            assert machine.log.appended_bytes - before >= machine.checkpointer.state_bytes() // 8
            save(machine)
            before = machine.log.appended_bytes
            saves += 1
    assert saves > 3


def test_a_checkpoint_is_due_before_a_tight_disk_is_full_however_large_the_state() -> None:
    machine = machine_on(None)
    for number in range(1_500):
        assert add(machine, [b"XADD", b"kept-%d" % number, b"*", b"f", b"v" * 40])
    save(machine)
    state_bytes = machine.checkpointer.state_bytes()
    machine.disk.capacity_bytes = machine.disk.used_bytes() + state_bytes + 2 * LIMITS.segment_bytes_max
    logs: list[int] = []
    before = machine.log.appended_bytes
    for _ in range(500):
        assert add(machine), "writing goes on"
        if machine.room.is_short():
            logs.append(machine.log.appended_bytes - before)
            before = machine.log.appended_bytes
            save(machine)
    assert logs and max(logs) < state_bytes // 8


def fill_up_to(machine: Machine, count: int) -> int:
    return sum(add(machine) for _ in range(count))


def test_a_disk_that_others_fill_refuses_writes_and_nothing_that_frees_room() -> None:
    """Nothing has been saved, and hardly a byte is free besides the reserve."""
    machine = machine_on(None)
    assert add(machine, [b"XADD", b"kept", b"*", b"f", b"v"])
    machine.disk.capacity_bytes = machine.disk.used_bytes() + 1_000
    fill(machine)
    standing = machine.node.standing
    assert machine.room.full and standing.removal_bytes > 4_096 and standing.member_bytes > standing.removal_bytes
    assert machine.room.needed_bytes(ROOM_BYTES) > machine.room.free_bytes()
    for text in ("XTRIM kept MAXLEN 2", "XDEL kept 0-1", "PEXPIRE kept 100000000", "DEL y"):
        machine.look_for_room()
        reply = machine.execute(text.encode().split(), NOW_MS)
        assert reply is not None and reply[:1] == b":", (text, reply)
    assert machine.room.is_short()
    save(machine)
    assert add(machine), "the log is covered, the last segment too"
    assert machine.room.reserve.is_whole()
    machine.room.check()


def test_the_last_segment_is_released() -> None:
    """One segment holds everything, and no other fits."""
    machine = machine_on(None)
    machine.disk.capacity_bytes = machine.disk.used_bytes()
    fill(machine)
    [first] = machine.log.segment_firsts()
    save(machine)
    assert machine.log.first_position > first
    assert add(machine)


def test_removals_leave_a_part_of_the_reserve_to_members() -> None:
    machine = machine_on(None)
    assert add(machine, [b"XADD", b"kept", b"*", b"f", b"v"])
    machine.disk.capacity_bytes = machine.disk.used_bytes()
    fill(machine)
    machine.node.writable(False)
    refused = machine.execute([b"DEL", b"kept"], NOW_MS)
    assert refused is not None and refused.startswith(b"-MISCONF"), "without a reserve"
    replies: list[bytes | None] = []
    while not replies or replies[-1] == b":1\r\n":
        machine.look_for_room()
        replies.append(machine.execute([b"PEXPIRE", b"kept", b"%d" % (10**9 + len(replies))], NOW_MS))
    assert str(replies[-1]).startswith("b'-MISCONF") and len(replies) > 20
    standing = machine.node.standing
    assert standing.spend_members(4_096), "an eviction still fits"
    assert machine.room.reserve.held_bytes >= LIMITS.disk_reserve_bytes // 4
    save(machine)
    assert add(machine)


def test_without_room_for_the_reserve_a_start_refuses_writes() -> None:
    machine = machine_on(None)
    machine.stop()
    machine.disk.delete(RESERVE)
    machine.disk.capacity_bytes = machine.disk.used_bytes() + 100
    machine.start(NOW_MS)
    assert machine.room.full
    assert not add(machine)
    machine.disk.capacity_bytes += LIMITS.disk_reserve_bytes
    assert add(machine) and machine.room.reserve.is_whole()


@pytest.mark.parametrize("volume_bytes", [1 << 17, 1 << 18])
def test_a_volume_that_is_no_larger_than_the_reserve_takes_writes(volume_bytes: int) -> None:
    machine = machine_on(volume_bytes, replace(LIMITS, disk_reserve_bytes=1 << 18))
    assert add(machine)
    machine.room.check()
    assert machine.room.reserve.held_bytes == volume_bytes // 8
    fill(machine)
    save(machine)
    assert add(machine)


@pytest.mark.parametrize("steps", [1, 3, 1_000])
def test_a_checkpoint_that_finds_no_room_leaves_the_region_as_it_was(steps: int) -> None:
    machine = machine_on(None)
    for _ in range(200):
        assert add(machine, [b"XADD", b"kept", b"*", b"f", b"v" * 400])
    machine.disk.capacity_bytes = machine.disk.used_bytes()
    fill(machine)
    before = machine.disk.used_bytes()
    while not machine.save(steps):
        pass
    assert machine.node.saving.failure
    machine.room.check()
    assert machine.disk.used_bytes() <= before, "its files are gone"
    machine.look_for_room()
    reply = machine.execute([b"XTRIM", b"kept", b"MAXLEN", b"0"], NOW_MS)
    assert reply is not None and reply[:1] == b":"
    save(machine)
    assert add(machine), "with less data it fits"
