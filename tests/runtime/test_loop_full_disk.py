"""A region whose volume fills up, and writes again once the cause is gone, without a command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from crdtstream.commands.disk import remedy
from crdtstream.processes.ports import free_port
from crdtstream.settings.config import Config, Limits
from tests.running_region import Running, Wire, config_of, request, running, until
from tests.small_volume import SmallVolume

MB = 1 << 20
CAPACITY_BYTES = 24 * MB
LIMITS = Limits(disk_reserve_bytes=4 * MB)
PIPELINE = 20


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch) -> SmallVolume:
    return SmallVolume(monkeypatch, CAPACITY_BYTES, "/east/")


async def add_some(wire: Wire, key: str = "x") -> int:
    """Add large entries to a stream that keeps ten; returns how many were taken."""
    one = request("XADD", key, "MAXLEN", "10", "*", "f", b"v" * 20_000)
    await wire.send(one * PIPELINE)
    taken = 0
    for _ in range(PIPELINE):
        reply = await wire.line()
        assert reply.startswith((b"$", b"-MISCONF")), reply
        if reply[:1] == b"$":
            await wire.line()
            taken += 1
    return taken


async def fill(wire: Wire) -> None:
    for _ in range(1_000):
        if not await add_some(wire):
            return
    raise AssertionError("the disk is not full")


def is_writable(region: Running) -> Callable[[], bool]:
    return lambda: region.loop.node.standing.writable


@pytest.mark.usefixtures("volume")
async def test_nothing_but_the_log_fills_the_disk_and_writing_never_stops_for_long(tmp_path: Path) -> None:
    """Ten entries are kept, and a hundred times what fits is written."""
    async with running(config_of(tmp_path / "east", LIMITS)) as region:
        wire = await region.connect()
        for _ in range(120):
            while not await add_some(wire):
                await until(is_writable(region), "writes are taken again")
        assert await wire.ask("XLEN", "x") == b":10\r\n"
        assert region.loop.log.first_position > 1
        region.loop.room.check()


async def test_others_fill_the_disk_and_free_it(tmp_path: Path, volume: SmallVolume) -> None:
    async with running(config_of(tmp_path / "east", LIMITS)) as region:
        wire = await region.connect()
        await add_some(wire)
        volume.fill_up(tmp_path / "east")
        with structlog.testing.capture_logs() as told:
            await fill(wire)
            await until(lambda: not is_writable(region)(), "the disk is full")
        [event] = [line for line in told if line["event"] == "disk-full"]
        assert event["needed_bytes"] > event["free_bytes"] == 0 < event["log_bytes"]
        assert event["remedy"].startswith("free space on the volume")
        info = await section(wire, "persistence")
        assert info["disk_full"] == "1" and int(info["disk_needed_bytes"]) > int(info["disk_free_bytes"])
        assert info["disk_remedy"] == event["remedy"] and "," not in info["disk_remedy"]
        for argv in (("XTRIM", "x", "MAXLEN", "5"), ("DEL", "y"), ("EXPIRE", "x", "1000")):
            reply = await wire.ask(*argv)
            assert reply[:1] == b":", (argv, reply)
        assert (await wire.ask("SAVE")).startswith((b"+OK", b"-ERR the checkpoint failed"))
        volume.empty()
        await until(is_writable(region), "writes are taken again")
        assert await add_some(wire)
        info = await section(wire, "persistence")
        assert (info["disk_full"], info["disk_needed_bytes"], info["disk_remedy"]) == ("0", "0", "")


async def section(wire: Wire, name: str) -> dict[str, str]:
    head = await wire.ask("INFO", name)
    text = (await wire.reader.readexactly(int(head[1:]) + 2)).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


async def test_a_start_on_a_full_disk_serves_and_heals(tmp_path: Path, volume: SmallVolume) -> None:
    config = config_of(tmp_path / "east", LIMITS)
    async with running(config) as region:
        wire = await region.connect()
        assert await add_some(wire)
        volume.fill_up(tmp_path / "east")
        await fill(wire)
    async with running(config) as region:
        wire = await region.connect()
        assert await wire.ask("XLEN", "x") == b":10\r\n"
        await fill(wire)
        assert (await wire.ask("XTRIM", "x", "MAXLEN", "1"))[:1] == b":"
        volume.empty()
        await until(is_writable(region), "writes are taken again")
        assert await add_some(wire)


def peers(tmp_path: Path) -> tuple[Config, Config]:
    """Two regions; only the first one lies on the small volume."""
    east = config_of(tmp_path / "east", LIMITS, incarnation=None)
    west = config_of(tmp_path / "west", LIMITS, incarnation=None, region=2)
    ports = free_port(), free_port()
    east = replace(east, replication_port=ports[0], peers=(f"127.0.0.1:{ports[1]}",))
    west = replace(west, name="west", replication_port=ports[1], peers=(f"127.0.0.1:{ports[0]}",))
    return east, west


async def admitted(*regions: Running) -> None:
    await until(lambda: all(region.loop.node.membership.admitted for region in regions), "all are admitted")


async def fill_for_good(region: Running, wire: Wire) -> None:
    """Until not even a checkpoint lets writing go on."""
    for _ in range(100):
        await fill(wire)
        await until(lambda: not region.loop.node.saving.running, "no checkpoint is under way")
        if not await add_some(wire):
            return
    raise AssertionError("the disk is not full for good")


@pytest.mark.usefixtures("volume")
async def test_the_eviction_of_a_dead_peer_works_and_frees_the_log(tmp_path: Path) -> None:
    first, second = peers(tmp_path)
    async with running(first) as east:
        wire = await east.connect()
        async with running(second) as west:
            await admitted(east, west)
        await fill_for_good(east, wire)
        context = east.loop.node.context
        await until(lambda: "evict it (CRDT.EVICT west)" in remedy(context), "the event names the peer")
        info = await section(wire, "persistence")
        assert info["disk_remedy"] in ("", remedy(context)) and int(info["log_held_bytes"]) > MB
        assert (await wire.ask("CRDT.EVICT", "west"))[:1] == b"*"
        for _ in range(2):
            await wire.line()
        await until(lambda: east.loop.log.byte_count() < CAPACITY_BYTES // 2, "the log is shortened")
        await until(is_writable(east), "writes are taken again")


@pytest.mark.usefixtures("volume")
async def test_the_return_of_a_dead_peer_frees_the_log(tmp_path: Path) -> None:
    first, second = peers(tmp_path)
    async with running(first) as east:
        wire = await east.connect()
        async with running(second) as west:
            await admitted(east, west)
        await fill_for_good(east, wire)
        async with running(second) as west:
            await until(lambda: has_all(east, west), "it has caught up")
            await until(is_writable(east), "writes are taken again")


def has_all(east: Running, west: Running) -> bool:
    return west.loop.node.replica.applied.vector.descends(east.loop.node.replica.applied.vector)


@pytest.mark.usefixtures("volume")
async def test_a_dead_peer_does_not_stop_the_others_for_good(tmp_path: Path) -> None:
    first, second = peers(tmp_path)
    first = replace(first, limits=replace(first.limits, log_yield_ms=2_000))
    async with running(first) as east:
        wire = await east.connect()
        async with running(second) as west:
            await admitted(east, west)
        with structlog.testing.capture_logs() as told:
            after = 0
            while after < 20:
                while not await add_some(wire):
                    await until(is_writable(east), "writes are taken again")
                after += any(line["event"] == "log-yielded" for line in told)
        async with running(second) as west:
            await until(lambda: has_all(east, west), "it has taken a state")
