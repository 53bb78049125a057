"""A clean stop with a checkpoint: when there is one, what a start then reads, and what ends it early."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from crdtstream.protocols import codec
from crdtstream.region.node import Node
from crdtstream.runtime.saver import Saver
from crdtstream.runtime.stopping import Stopping
from crdtstream.settings.config import Config, Limits
from crdtstream.storage.checkpoint import MANIFEST
from crdtstream.storage.disk import DiskFull, RealDisk
from crdtstream.storage.log import open_log
from crdtstream.storage.restore import open_storage
from simulations.machine import CLIENT
from tests.region.test_departing import begin_to_restore
from tests.region.test_serving_bursts import OTHER, replies_of
from tests.running_region import DEADLINE_S, Running, config_of, running, until

SHORT = Limits(stop_checkpoint_log_bytes=1, checkpoint_log_bytes=0)
PONG = b"+PONG\r\n"


async def stopped(region: Running) -> None:
    await asyncio.wait_for(asyncio.shield(region.task), DEADLINE_S)


async def add(region: Running, count: int = 20) -> None:
    wire = await region.connect()
    for _ in range(count):
        assert (await wire.ask("XADD", "x", "*", "f", "v")).startswith(b"$")
        await wire.line()


def has_checkpoint(config: Config) -> bool:
    return (Path(config.data) / MANIFEST).exists()


def last_record(config: Config) -> int:
    kinds: list[int] = []
    disk = RealDisk(config.data)
    try:
        open_log(disk, lambda _position, kind, _payload: kinds.append(kind), salt=1)
    finally:
        disk.close()
    return kinds[-1]


def read_again(config: Config) -> tuple[Node, list[int]]:
    """What a start makes of it, and the kinds of records that it replays."""
    node, kinds = Node(config, 1), []
    original = node.recover

    def recover(position: int, kind: int, payload: bytes) -> None:
        kinds.append(kind)
        original(position, kind, payload)

    node.recover = recover  # type: ignore[method-assign]
    disk = RealDisk(config.data)
    try:
        open_storage(disk, node, salt=1, segment_bytes_max=1 << 20)
    finally:
        disk.close()
    return node, kinds


class Never:
    """Checkpoints that never end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = asyncio.Event()
        monkeypatch.setattr(Saver, "save_soon", lambda _saver: self.wait())

    async def wait(self) -> None:
        self.began.set()
        await asyncio.Event().wait()


@pytest.mark.interpreted
async def test_the_next_start_replays_next_to_nothing(tmp_path: Path) -> None:
    config = config_of(tmp_path, SHORT)
    async with running(config) as region:
        await add(region)
        region.loop.stop()
        await stopped(region)
    node, kinds = read_again(config)
    assert node.replica.keyspace.databases[0][b"x"].length == 20
    assert kinds == [codec.STOP]


async def test_where_the_log_is_short_there_is_none(tmp_path: Path) -> None:
    config = config_of(tmp_path, Limits(stop_checkpoint_log_bytes=1 << 20))
    async with running(config) as region:
        await add(region)
    assert not has_checkpoint(config)
    assert last_record(config) == codec.STOP


async def test_none_is_wanted(tmp_path: Path) -> None:
    config = config_of(tmp_path, Limits(stop_checkpoint_log_bytes=1, stop_checkpoint_ms_max=0))
    async with running(config) as region:
        await add(region)
    assert not has_checkpoint(config)


@pytest.mark.parametrize(("words", "saves"), [((), True), (("NOSAVE",), False), (("SAVE",), True)])
async def test_shutdown(tmp_path: Path, words: tuple[str, ...], saves: bool) -> None:
    config = config_of(tmp_path, SHORT)
    async with running(config) as region:
        await add(region)
        wire = await region.connect()
        with suppress(ConnectionError):
            assert await wire.ask("SHUTDOWN", *words) == b""
        await stopped(region)
    assert has_checkpoint(config) == saves
    assert last_record(config) == codec.STOP


async def test_the_region_serves_until_the_checkpoint_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never = Never(monkeypatch)
    async with running(config_of(tmp_path, SHORT)) as region:
        wire = await region.connect()
        region.loop.stop()
        await never.began.wait()
        assert await wire.ask("PING") == PONG
        region.loop.stop()
        await stopped(region)
    assert last_record(region.loop.config) == codec.STOP


async def test_a_shutdown_at_once_ends_the_wait_of_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = Never(monkeypatch)
    async with running(config_of(tmp_path, SHORT)) as region:
        patient, other = await region.connect(), await region.connect()
        await patient.send(b"SHUTDOWN\r\n")
        await never.began.wait()
        await other.send(b"SHUTDOWN NOSAVE\r\n")
        await stopped(region)


async def test_it_takes_no_longer_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Never(monkeypatch)
    config = config_of(tmp_path, Limits(stop_checkpoint_log_bytes=1, stop_checkpoint_ms_max=20))
    with structlog.testing.capture_logs() as told:
        async with running(config) as region:
            region.loop.stop()
            await stopped(region)
    assert any(line["event"] == "stop-checkpoint-skipped" for line in told)
    assert last_record(config) == codec.STOP


async def test_a_checkpoint_that_fails_does_not_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_disk: RealDisk, _name: str, _data: bytes) -> None:
        raise DiskFull(28, "no room: simulated")

    monkeypatch.setattr(RealDisk, "replace", fail)
    config = config_of(tmp_path, SHORT)
    async with running(config) as region:
        await add(region)
        region.loop.stop()
        await stopped(region)
    assert not has_checkpoint(config)
    assert last_record(config) == codec.STOP


async def test_one_under_way_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_asked = threading.Event()
    replace = RealDisk.replace

    def replace_later(disk: RealDisk, name: str, data: bytes) -> None:
        assert name != MANIFEST or stop_asked.wait(DEADLINE_S)
        replace(disk, name, data)

    monkeypatch.setattr(RealDisk, "replace", replace_later)
    async with running(config_of(tmp_path, SHORT)) as region:
        await add(region)
        saving = region.loop.node.context.saving
        saving.request()
        await until(lambda: saving.running, "it is under way")
        expected = saving.next()
        region.loop.stop()
        stop_asked.set()
        await stopped(region)
    assert saving.completed(expected) and not saving.requested


async def test_a_move_waits_for_no_command_that_takes_several_turns(tmp_path: Path) -> None:
    """No turn runs until its end, so however much is left of these commands, clients wait no longer for it."""
    node = begin_to_restore((CLIENT, OTHER))
    assert len(node.context.works) == 2
    told: list[dict[int, bytes]] = []
    async with running(config_of(tmp_path)) as region:
        stopping = Stopping(node, region.loop._saver, region.loop.stop, lambda: told.append(replies_of(node)))
        await asyncio.wait_for(stopping.prepare_move(), DEADLINE_S)
    assert not node.context.works and not told
