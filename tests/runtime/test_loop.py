"""Turns on a real disk that the test makes fail or fill: what is answered, what is kept, when the region ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from crdtstream.commands.table import TABLE
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import Context, Reply
from crdtstream.protocols import codec
from crdtstream.region.node import Ready
from crdtstream.runtime import loop as looping
from crdtstream.runtime.blocked_turn import NO_ROOM, Unwritten
from crdtstream.runtime.loop import Loop
from crdtstream.runtime.turns import RegionFailed
from crdtstream.storage.disk import DiskFailed, DiskFull, RealDisk
from crdtstream.storage.log import Log, open_log
from tests.running_region import DEADLINE_S, Running, Wire, config_of, request, running, until

FULL = DiskFull(28, "no room")
KEYS = 3_000


class SmallDisk:
    """Lets the log of a region find the disk full, as long as `full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        for name in ("create", "allocate"):
            monkeypatch.setattr(RealDisk, name, self._guarded(getattr(RealDisk, name)))

    def _guarded(self, original: Callable[[RealDisk, str, int], None]) -> Callable[[RealDisk, str, int], None]:
        def guarded(disk: RealDisk, name: str, size_bytes: int) -> None:
            if self.full:
                raise FULL
            original(disk, name, size_bytes)

        return guarded


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
    return SmallDisk(monkeypatch)


async def add(wire: Wire, size: int = 1, key: str = "x") -> bytes:
    reply = await wire.ask("XADD", key, "*", "f", b"v" * size)
    return reply if reply[:1] == b"-" else await wire.line()


def records_of(directory: Path) -> list[int]:
    kinds: list[int] = []
    disk = RealDisk(str(directory / "data"))
    try:
        open_log(disk, lambda _position, kind, _payload: kinds.append(kind), salt=1)
    finally:
        disk.close()
    return kinds


# Room


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_a_full_disk_refuses_writes_until_there_is_room(tmp_path: Path, disk: SmallDisk, fsync: str) -> None:
    async with running(config_of(tmp_path, fsync=fsync)) as region:
        wire = await region.connect()
        disk.full = True
        replies = [await add(wire, 100_000) for _ in range(10)]
        refused = replies[-1]
        assert refused.startswith(b"-MISCONF")
        taken = len([reply for reply in replies if reply[:1] != b"-"])
        assert await wire.ask("XLEN", "x") == b":%d\r\n" % taken
        disk.full = False
        await until(lambda: region.loop.node.context.standing.writable, "writes are taken again")
        assert (await add(wire))[:1] != b"-"


async def test_a_request_larger_than_the_room_is_refused_not_lost(tmp_path: Path, disk: SmallDisk) -> None:
    """It arrives in many reads, each of which alone would fit."""
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        disk.full = True
        assert (await add(wire, 3 << 20)).startswith(b"-MISCONF")
        assert not region.loop.failed
        disk.full = False
        await until(lambda: region.loop.node.context.standing.writable, "writes are taken again")
        assert (await add(wire, 3 << 20))[:1] != b"-"


async def fill_keys(wire: Wire) -> None:
    """Keys whose names together exceed any segment, in small pieces, so that no piece asks for a large one."""
    for piece in range(KEYS // 50):
        names = [b"key-%02000d" % (50 * piece + i) for i in range(50)]
        await wire.send(b"".join(request("XADD", name, "1-*", "f", "v") for name in names))
        for _ in range(2 * len(names)):
            assert (await wire.line())[:1] != b"-"


async def test_a_turn_that_outgrows_the_room_is_kept(tmp_path: Path, disk: SmallDisk) -> None:
    """FLUSHALL is a few bytes, and its record names every key."""
    async with running(config_of(tmp_path)) as region:
        wire, other = await region.connect(), await region.connect()
        await fill_keys(wire)
        await add(other, key="kept")
        disk.full = True
        with structlog.testing.capture_logs() as told:
            await wire.send(request("FLUSHALL") + request("DBSIZE"))
            await until(lambda: not region.loop.node.context.standing.writable, "there is no room")
            assert await other.ask("PING") == b"+PONG\r\n"
            assert (await other.ask("XADD", "x", "*", "f", "v")).startswith(b"-MISCONF")
            assert region.loop._flush() == NO_ROOM
            assert not wire.reader._buffer, "nobody may be told yet"  # type: ignore[attr-defined]
            disk.full = False
            assert await wire.line() == b"+OK\r\n"
        assert await wire.line() == b":0\r\n"
        await until(lambda: region.loop.node.context.standing.writable, "writes are taken again")
        assert (await add(other))[:1] != b"-"
        assert len([line for line in told if line["event"] == "disk-full"]) == 1
    assert records_of(tmp_path)[-1] == codec.STOP
    async with running(config_of(tmp_path)) as region:
        assert await (await region.connect()).ask("DBSIZE") == b":1\r\n"


async def test_a_turn_that_never_found_room_was_told_to_nobody(tmp_path: Path, disk: SmallDisk) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await fill_keys(wire)
        disk.full = True
        await wire.send(request("FLUSHALL"))
        await until(lambda: not region.loop.node.context.standing.writable, "there is no room")
        region.loop.stop()
        assert await wire.rest() == b""
    assert records_of(tmp_path)[-1] != codec.STOP
    disk.full = False
    async with running(config_of(tmp_path)) as region:
        assert await (await region.connect()).ask("DBSIZE") == b":%d\r\n" % KEYS


def test_what_follows_an_unwritten_reply_waits_behind_it() -> None:
    unwritten = Unwritten()
    unwritten.records = [(1, b"")]
    due = unwritten.keep(Ready([(1, b"")], [(1, b"+OK"), (2, b"+OK")], [2], False, []))
    assert (due.replies, due.closing) == ([], [])
    due = unwritten.keep(Ready([], [(1, b"+PONG"), (3, b"+PONG")], [3], False, []))
    assert (due.replies, due.closing) == ([(3, b"+PONG")], [3])
    released = unwritten.release()
    assert (released.replies, released.closing) == ([(1, b"+OK+PONG"), (2, b"+OK")], [2])
    assert unwritten.release().replies == []


# Failures


async def failing(region: Running, reason: str) -> None:
    region.may_fail = True
    await until(lambda: region.loop.failed, "the region ends")
    with pytest.raises(RegionFailed, match=reason):
        await asyncio.wait_for(asyncio.shield(region.task), DEADLINE_S)


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_a_failed_append_ends_the_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: str) -> None:
    async with running(config_of(tmp_path, fsync=fsync)) as region:
        wire = await region.connect()
        first = await add(wire)

        def broken(_disk: RealDisk, _name: str, _offset: int, _data: bytes) -> None:
            raise DiskFailed(5, "broken disk")

        monkeypatch.setattr(RealDisk, "write", broken)
        await wire.send(request("XADD", "x", "*", "f", "v"))
        assert await wire.rest() == b"", "a write that is not in the log is not answered"
        await failing(region, "broken disk")
    monkeypatch.undo()
    async with running(config_of(tmp_path, fsync=fsync)) as region:
        wire = await region.connect()
        assert await wire.ask("XLEN", "x") == b":1\r\n"
        assert first


async def test_a_turn_that_is_not_in_the_log_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that needs it fails for that reason: not for lack of disk space if the region failed."""
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await add(wire)
        assert region.loop._flush() == ""

        def broken(_disk: RealDisk, _name: str, _offset: int, _data: bytes) -> None:
            raise MemoryError

        monkeypatch.setattr(RealDisk, "write", broken)
        await wire.send(request("XADD", "x", "*", "f", "v"))
        await failing(region, "^MemoryError$")
        assert region.loop._flush() == "the region failed: MemoryError"


async def test_a_failed_sync_on_its_thread_ends_the_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looping, "EVERYSEC_S", 0.01)
    async with running(config_of(tmp_path)) as region:

        def broken(_disk: RealDisk, _name: str) -> None:
            raise DiskFailed(5, "broken disk")

        monkeypatch.setattr(RealDisk, "sync", broken)
        wire = await region.connect()
        await wire.send(request("XADD", "x", "*", "f", "v"))
        await failing(region, "broken disk")


@pytest.mark.interpreted
async def test_a_task_that_dies_ends_the_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody's deadline would pass any more, or nothing would be synced."""
    async with running(config_of(tmp_path)) as region:

        def broken(_now_ms: int) -> None:
            raise ZeroDivisionError("in a tick")

        monkeypatch.setattr(region.loop.node, "tick", broken)
        await failing(region, "ZeroDivisionError: in a tick")


def harmful(context: Context, _client: Client, _argv: list[bytes]) -> Reply:
    context.replica.add_entry((0, b"x"), (5, 1), [b"f", b"v"])
    raise ZeroDivisionError("too late")


def harmless(_context: Context, _client: Client, _argv: list[bytes]) -> Reply:
    raise ZeroDivisionError("a fault of ours")


async def test_a_command_that_fails_half_way_ends_the_region_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TABLE, b"HARMFUL", Command("harmful", harmful, arity=-1))
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await add(wire)
        await wire.send(request("HARMFUL"))
        assert await wire.rest() == b""
        await failing(region, "ZeroDivisionError: too late")
    async with running(config_of(tmp_path)) as region:
        assert await (await region.connect()).ask("XLEN", "x") == b":1\r\n"


async def test_a_command_that_fails_before_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, b"HARMLESS", Command("harmless", harmless, arity=-1))
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        with structlog.testing.capture_logs() as told:
            assert (await wire.ask("HARMLESS")).startswith(b"-ERR internal error: ZeroDivisionError")
            assert await wire.ask("PING") == b"+PONG\r\n"
        assert [(line["event"], type(line["exc_info"])) for line in told] == [("command-failed", ZeroDivisionError)]


# A life


async def test_a_stop_answers_syncs_and_marks(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await add(wire)
        blocked = await region.connect()
        await blocked.send(request("XREAD", "BLOCK", "0", "STREAMS", "x", "$"))
        await until(lambda: len(region.loop.node.context.parking) == 1, "it waits")
    kinds = records_of(tmp_path)
    assert (kinds[0], kinds[-1]) == (codec.START, codec.STOP)
    assert kinds.count(codec.BATCH) == 1


async def test_a_blocked_reader_times_out_without_a_command(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        assert await wire.ask("XREAD", "BLOCK", "30", "STREAMS", "x", "$") == b"*-1\r\n"


async def test_commands_are_timed(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        await add(await region.connect())
        assert region.loop.node.context.statistics.tally("xadd").took_ns > 0


async def test_a_directory_is_used_by_one_region_at_a_time(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        with pytest.raises(OSError, match="in use by another process"):
            Loop(config_of(tmp_path), lambda _loop: region.loop._server)
        assert await (await region.connect()).ask("PING") == b"+PONG\r\n"


async def test_everysec_makes_writes_durable_without_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looping, "EVERYSEC_S", 0.01)
    async with running(config_of(tmp_path)) as region:
        await add(await region.connect())
        log: Log = region.loop.log
        await until(lambda: log.synced_position == log.last_position, "it is synced")
        origin = region.loop.node.replica.applied.origin
        await until(lambda: region.loop.node.neighbours.durable().get(origin) == 1, "the node knows")
