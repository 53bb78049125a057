"""A shard that moves hands its directory over once the log has the mark of a clean stop, or not at all."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from crdtstream.processes.ports import free_port
from crdtstream.protocols import codec
from crdtstream.protocols.log_port import NewRecord
from crdtstream.runtime.loop import Loop
from crdtstream.runtime.redis.resp_server import RespServer
from crdtstream.runtime.shard_place import DirectoryPlace, read_place
from crdtstream.runtime.turns import RegionFailed
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.sharding import of_shard
from crdtstream.storage.disk import DiskFull, RealDisk
from crdtstream.storage.log import Log
from crdtstream.supervisor.founding import found_or_follow
from tests.running_region import DEADLINE_S, Running, config_of, running

FULL = "shard 0 cannot move: the disk is full: the log cannot hold the latest turn; free space on the disk"


@pytest.fixture
def region(tmp_path: Path) -> Config:
    made = config_of(tmp_path, shards=2)
    with closing(RealDisk(made.data)) as disk:
        found_or_follow(made, disk)
    return made


def send_away(region: Config) -> None:
    with closing(RealDisk(region.data)) as disk:
        found_or_follow(replace(region, shard="1", announce=("0=b.example.net:7000",)), disk)


async def failure_of(running_shard: Running) -> str:
    running_shard.may_fail = True
    with pytest.raises(RegionFailed) as failed:
        await asyncio.wait_for(running_shard.task, DEADLINE_S)
    return str(failed.value)


@pytest.mark.interpreted
async def test_without_room_for_the_mark_of_the_stop_nothing_is_handed_over(
    region: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Log.append

    def append_but_no_stop(log: Log, records: list[NewRecord]) -> int:
        if any(kind == codec.STOP for kind, _ in records):
            raise DiskFull(28, "no room: simulated")
        return append(log, records)

    monkeypatch.setattr(Log, "append", append_but_no_stop)
    shard = of_shard(region, 0)
    async with running(shard) as found:
        send_away(region)
        assert FULL in await failure_of(found)
    with closing(RealDisk(shard.data)) as disk:
        place = read_place(disk)
    assert place is not None and (place.address, place.position) == (f"127.0.0.1:{shard.port}", 0)


async def test_one_that_serves_at_its_new_address_already_does_not_serve_here_to_move(region: Config) -> None:
    """It was started there with `replace`, because this machine was lost."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"+PONG\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    port = free_port()
    shard = of_shard(region, 0)
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        with closing(RealDisk(region.data)) as disk:
            found_or_follow(replace(region, shard="1", announce=(f"0=127.0.0.1:{port}",)), disk)
        text = f"shard 0 is not handed over to 127.0.0.1:{port}, because .* was not handed over, and the shard serves"
        with pytest.raises(ConfigError, match=text):
            await asyncio.wait_for(Loop(shard, RespServer).run(), DEADLINE_S)
    with closing(RealDisk(shard.data)) as disk:
        assert read_place(disk) == DirectoryPlace(f"127.0.0.1:{shard.port}")
