"""Checkpoints beside turns: when they are taken, what a failure does, and what a cancelled one leaves in the hands of a
thread.

A real disk and a real log, a node without sockets; its turns are run by hand.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from crdtstream.region.node import Node
from crdtstream.runtime import saver as saver_module
from crdtstream.runtime.blocked_turn import NO_ROOM
from crdtstream.runtime.metrics.meters import Meters
from crdtstream.runtime.saver import Saver, WriteRate, on_thread
from crdtstream.settings.config import Config, Limits
from crdtstream.storage.checkpoint import MANIFEST, Checkpointer, checkpoint_names
from crdtstream.storage.disk import DiskFailed, DiskFull, RealDisk
from crdtstream.storage.disk_room import DiskRoom
from crdtstream.storage.log import Log, LogFailed
from crdtstream.storage.restore import open_storage
from crdtstream.storage.sections import Section

CLIENT = 1
DEADLINE_S = 60.0


class Region:
    """One node on its disk; `lack` is why a turn is not in the log."""

    def __init__(self, directory: Path, limits: Limits) -> None:
        self.disk = RealDisk(str(directory / "data"))
        self.config = Config(name="one", region=1, cluster="c", limits=limits)
        self.node = Node(self.config, 1)
        self.log: Log
        self.checkpointer: Checkpointer
        self.log, self.checkpointer = open_storage(self.disk, self.node, salt=7, segment_bytes_max=1 << 16)
        self.lack = ""
        self.node.start(self.log, 5, 1)
        self.settle()
        self.node.synced(self.log.sync())
        self.node.connect(CLIENT, "127.0.0.1:0", 1)
        self.space = DiskRoom(self.disk, self.log, self.checkpointer, 1 << 16, 1 << 16)
        self.saver = Saver(self.node, self.log, self.checkpointer, self.space, self.settle, lambda: 1234, Meters())

    def settle(self) -> str:
        ready = self.node.ready()
        while ready is not None:
            self.log.append(ready.records)
            ready = self.node.ready()
        return self.lack

    def add(self, count: int = 100) -> None:
        for _ in range(count):
            self.node.execute(CLIENT, [b"XADD", b"x", b"*", b"f", b"v" * 50], 1)
        self.settle()

    def entries(self) -> int:
        """After a start from what is on disk."""
        node = Node(self.config, 1)
        self.disk.close()
        self.disk = RealDisk(self.disk.path)
        open_storage(self.disk, node, salt=7, segment_bytes_max=1 << 16)
        return node.replica.keyspace.databases[0][b"x"].length

    async def until(self, holds: Callable[[], bool]) -> None:
        """Run the saver until this holds."""
        running = asyncio.get_running_loop().create_task(self.saver.run())
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not holds():
                    assert not running.done() or running.result() is None
                    await asyncio.sleep(0.001)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Region]:
    monkeypatch.setattr(saver_module, "LOOK_S", 0.001)
    made = Region(tmp_path, replace(Limits(), checkpoint_log_bytes=0))
    yield made
    made.disk.close()


async def test_a_request_is_a_checkpoint(region: Region) -> None:
    region.add()
    saving = region.node.context.saving
    number = saving.request()
    assert not saving.completed(number)
    await region.until(lambda: saving.completed(number))
    assert (saving.saved_ms, saving.failure, saving.running, saving.requested) == (1234, "", False, False)
    saving.check()
    assert MANIFEST in region.disk.names()
    assert region.entries() == 100


@pytest.mark.parametrize(("hot_bytes_max", "stands_still"), [(1, True), (1 << 30, False), (0, False)])
async def test_beyond_what_blocks_may_take_the_loop_leaves_the_interpreter_to_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hot_bytes_max: int, stands_still: bool
) -> None:
    """Clients that never pause would add more than the writer's thread can write beside them."""
    monkeypatch.setattr(saver_module, "LOOK_S", 0.001)
    region = Region(tmp_path, replace(Limits(), checkpoint_log_bytes=0, hot_bytes_max=hot_bytes_max))
    region.add(50_000)
    while region.node.context.spilling.step(1_000, region.log.appended_bytes):
        """It counts what blocks take."""
    turns, meanwhile = 0, []
    write = region.checkpointer.write

    def write_slowly(sections: list[Section], sums: bool) -> None:
        before = turns
        time.sleep(0.01)
        meanwhile.append(turns - before)
        write(sections, sums)

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(region.saver, "_checkpointer", Writing(region.checkpointer, write_slowly))
    saving = region.node.context.saving
    number = saving.request()
    taking = asyncio.create_task(take_turns())
    await region.until(lambda: saving.completed(number))
    taking.cancel()
    assert saving.failure == "" and meanwhile
    # Of several sections, because a busy machine may stop the writer for longer than the loop waits for it.
    assert len(meanwhile) > 2 and (median(meanwhile) == 0) is stands_still
    region.disk.close()


@pytest.mark.parametrize("is_fast", [False, True])
async def test_no_sums_are_worked_out_while_much_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_fast: bool
) -> None:
    monkeypatch.setattr(WriteRate, "bytes_a_s", lambda _: saver_module.SUMMED_BYTES_A_S + int(is_fast))
    wanted = []
    region = Region(tmp_path, replace(Limits(), checkpoint_log_bytes=0, hot_bytes_max=1 << 30))
    write = region.checkpointer.write

    def note(sections: list[Section], sums: bool) -> None:
        wanted.append(sums)
        write(sections, sums)

    monkeypatch.setattr(region.saver, "_checkpointer", Writing(region.checkpointer, note))
    region.add()
    saving = region.node.context.saving
    number = saving.request()
    await region.until(lambda: saving.completed(number))
    assert saving.failure == "" and set(wanted) == {not is_fast}
    region.disk.close()


def test_the_rate_of_writes_is_that_of_the_last_seconds(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    rate, begin = WriteRate(region.log), region.log.appended_bytes
    region.add(10)
    added = region.log.appended_bytes - begin
    assert rate.bytes_a_s() == added
    for clock[0] in (101.0, 101.5, 102.5):
        rate.look()
    assert rate.bytes_a_s() == 0.0, "of the second before the last one"
    region.add(10)
    clock[0] = 103.0
    assert rate.bytes_a_s() == (region.log.appended_bytes - begin - added) / 2
    clock[0] = 200.0
    rate.look()
    assert rate.bytes_a_s() == 0.0, "after a pause nothing is known"


class Writing:
    """A checkpointer that writes in this way."""

    def __init__(self, checkpointer: Checkpointer, write: Callable[[list[Section], bool], None]) -> None:
        self._checkpointer = checkpointer
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._checkpointer, name)


async def test_blocks_of_a_checkpoint_are_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when another checkpoint has deleted them; and a start leaves them there."""
    monkeypatch.setattr(saver_module, "LOOK_S", 0.001)
    other = Region(tmp_path / "other", replace(Limits(), checkpoint_log_bytes=0, hot_bytes_max=1))
    other.add(3_000)
    saving, replica = other.node.context.saving, other.node.replica
    tree = next(iter(replica.keyspace.databases[0][b"x"].trees.values()))
    blocks = tree.blocks()[0][:-1]
    before = [block.entry_slice(0, block.count) for block in blocks]
    for _ in range(2):
        number = saving.request()
        await other.until(partial(saving.completed, number))
        for block in blocks:
            block.spill(other.node.open_blocks)
        assert sum(block.is_spilled() for block in blocks) > 8
        other.node.execute(CLIENT, [b"XTRIM", b"x", b"MAXLEN", b"600"], 1)
        other.settle()
    for name in checkpoint_names(other.disk):
        other.disk.delete(name)
    assert [block.entry_slice(0, block.count) for block in blocks] == before
    other.disk.close()


async def test_without_a_request_the_length_of_the_log_decides(tmp_path: Path) -> None:
    other = Region(tmp_path / "other", replace(Limits(), checkpoint_log_bytes=20_000))
    other.add(50)
    other.saver._retry_s = 0.0
    assert not other.saver._is_due()
    other.add(500)
    assert other.saver._is_due()
    await other.until(lambda: other.node.context.saving.saved_ms == 1234)
    assert not other.saver._is_due()
    assert other.entries() == 550
    other.disk.close()


async def test_a_request_meanwhile_is_another_checkpoint(region: Region) -> None:
    """The one under way began before it, and may lack what was answered since."""
    region.add()
    saving = region.node.context.saving
    saving.begin()
    region.checkpointer.begin()
    second = saving.request()
    region.checkpointer.abort()
    saving.end(1)
    assert not saving.completed(second)
    await region.until(lambda: saving.completed(second))


async def test_a_failure_is_told_and_leaves_the_region(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    region.add()
    saving = region.node.context.saving
    first = saving.request()
    await region.until(lambda: saving.completed(first))
    named = checkpoint_names(region.disk)
    region.add(1000)

    def fail(_name: str, _offset: int, _data: bytes) -> None:
        raise DiskFull(28, "no room: simulated")

    second = saving.request()
    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, "write", lambda _self, name, offset, data: fail(name, offset, data))
        await region.until(lambda: saving.completed(second))
    assert "no room: simulated" in saving.failure
    assert checkpoint_names(region.disk) == named, "what the failure left is still there"
    assert not region.saver._is_due()
    region.add()
    third = saving.request()
    await region.until(lambda: saving.completed(third))
    assert saving.failure == ""
    assert region.entries() == 1200


@pytest.mark.parametrize("lack", [NO_ROOM, "the region failed: MemoryError"])
async def test_nothing_is_captured_that_is_not_in_the_log_and_the_failure_says_why(region: Region, lack: str) -> None:
    region.add()
    region.lack = lack
    saving = region.node.context.saving
    number = saving.request()
    await region.until(lambda: saving.completed(number))
    assert saving.failure == f"the checkpoint failed: {lack}"
    assert MANIFEST not in region.disk.names()


async def test_a_log_that_fails_ends_the_region(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    region.add()
    monkeypatch.setattr(RealDisk, "sync", lambda _self, name: _raise(name))
    region.node.context.saving.request()
    region.log._last += 0
    monkeypatch.setattr(Checkpointer, "write", lambda *_, **_named: None)
    with pytest.raises(LogFailed):
        async with asyncio.timeout(DEADLINE_S):
            await region.saver.run()


def _raise(name: str) -> None:
    raise DiskFailed(5, f"cannot sync {name}: simulated")


async def test_who_is_cancelled_waits_for_the_thread() -> None:
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        may_end.wait(DEADLINE_S)
        ended.set()

    task = asyncio.get_running_loop().create_task(on_thread(work))
    while not began.is_set():
        await asyncio.sleep(0)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


# Lack of room


class Volume:
    """What is free on the volume, and what the files of the region take of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free_bytes = 1 << 30
        monkeypatch.setattr(RealDisk, "free_bytes", lambda _disk: self.free_bytes)


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch) -> Volume:
    return Volume(monkeypatch)


async def test_lack_of_room_makes_a_checkpoint_due(region: Region, volume: Volume) -> None:
    region.add(1_000)
    assert not region.saver._is_due()
    volume.free_bytes = region.checkpointer.needed_bytes()
    assert region.saver._is_due(), "less is left than two checkpoints may need"
    await region.until(lambda: region.node.context.saving.saved_ms == 1234)
    assert not region.saver._is_due(), "another one would free nothing"
    assert region.entries() == 1_000


async def test_on_a_full_disk_whatever_the_log_has_makes_a_checkpoint_due(region: Region, volume: Volume) -> None:
    region.add(3)
    volume.free_bytes = 0
    assert not region.space.has_room(1 << 20)
    assert region.saver._is_due()
    saving = region.node.context.saving
    await region.until(lambda: saving.saved_ms == 1234)
    assert not region.saver._is_due(), "nothing has changed since"
    region.add(1)
    region.saver._short_retry_s = 0.0
    assert region.saver._is_due()


async def test_a_region_that_does_not_serve_yet_heals_too(
    region: Region, volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for an admission, in a batch that only room lets in."""
    region.add(3)
    monkeypatch.setattr(type(region.node), "is_serving", lambda _node: False)
    volume.free_bytes = 0
    assert not region.saver._is_due()
    assert not region.space.has_room(1 << 20)
    assert region.saver._is_due()


async def test_checkpoints_that_free_too_little_follow_at_growing_distances(region: Region, volume: Volume) -> None:
    volume.free_bytes = 0
    assert not region.space.has_room(1 << 20)
    waits = [region.saver._short_wait_s]
    for _ in range(8):
        region.saver._space_out()
        waits.append(region.saver._short_wait_s)
    assert waits == sorted(waits) and waits[1] == 2 * waits[0] and waits[-1] == saver_module.SHORT_RETRY_S_MAX
    assert waits[-1] < 30.0, "writes go on within that time once the cause is gone"
    volume.free_bytes = 1 << 30
    assert region.space.has_room(1 << 16)
    region.saver._space_out()
    assert region.saver._short_wait_s == waits[0]


async def test_checkpoints_for_lack_of_room_are_spaced_even_where_each_frees_all_it_can(
    region: Region, volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saver_module, "SHORT_RETRY_S", 3_600.0)
    region.saver._short_wait_s = 3_600.0
    region.add(1_000)
    volume.free_bytes = region.checkpointer.needed_bytes()
    await region.until(lambda: region.node.context.saving.saved_ms == 1234)
    volume.free_bytes = 1 << 30
    region.add(1_000)
    volume.free_bytes = region.checkpointer.needed_bytes()
    assert region.space.is_short() and not region.saver._is_due()
    region.saver._short_retry_s = 0.0
    assert region.saver._is_due()


async def test_a_disk_that_became_full_since_the_last_checkpoint_does_not_wait_and_then_it_does(
    region: Region, volume: Volume
) -> None:
    region.saver._space_out()
    region.saver._short_retry_s = float("inf")
    region.add(3)
    volume.free_bytes = 0
    assert not region.space.has_room(1 << 20)
    assert region.saver._is_due()
    region.saver._space_out()
    region.saver._short_retry_s = float("inf")
    assert not region.saver._is_due()


async def test_while_space_is_low_the_log_is_shortened_without_a_checkpoint(
    region: Region, volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that lacked the beginning has caught up since the last checkpoint, or counts no more."""
    region.add(3_000)
    needed = [0]
    monkeypatch.setattr(type(region.node), "needed_position", lambda _node, _milestones, _yields=False: needed[0])
    saving = region.node.context.saving
    saving.request()
    await region.until(lambda: saving.saved_ms == 1234)
    assert region.log.first_position == 1
    needed[0] = region.log.last_position
    await region.until(lambda: not saving.running)
    assert region.log.first_position == 1, "there is room"
    volume.free_bytes = 1
    await region.until(lambda: region.log.first_position > 1)
    assert region.entries() == 3_000


async def test_a_failed_checkpoint_takes_its_reserve_back(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    region.add(1_000)
    region.space.full = True

    write = RealDisk.write

    def fail(disk: RealDisk, name: str, offset: int, data: bytes) -> None:
        if name.startswith("log-"):
            return write(disk, name, offset, data)
        assert not region.space.reserve.is_whole(), "it is for the checkpoint"
        raise DiskFull(28, "no room: simulated")

    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, "write", fail)
        saving = region.node.context.saving
        number = saving.request()
        await region.until(lambda: saving.completed(number) and not saving.running)
    assert "no room" in saving.failure
    assert region.space.reserve.fill()
    region.space.check()
