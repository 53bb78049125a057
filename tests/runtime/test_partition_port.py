"""Partitioned streams through a running region: coroutines, what they wait for, restarts, and two regions on TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from crdtstream.partitions.values import (
    UNKNOWN_STREAM,
    UNREACHABLE,
    UNWRITABLE,
    Bookmark,
    NewMessage,
    Refused,
    StreamSpec,
)
from crdtstream.processes.ports import free_port
from crdtstream.settings.config import ALWAYS, Config
from tests.running_region import Running, config_of, running, until

DAY_MS = 86_400_000
SPEC = StreamSpec("s", 2, DAY_MS)


@asynccontextmanager
async def two_regions(directory: Path) -> AsyncIterator[tuple[Running, Running]]:
    ports = [free_port(), free_port()]
    configs = [pair_config(directory, number, ports) for number in (1, 2)]
    async with running(configs[0]) as one, running(configs[1]) as other:
        await until(lambda: all(region.loop.node.exchange.greeted() for region in (one, other)), "both are linked")
        yield one, other


def pair_config(directory: Path, number: int, ports: list[int]) -> Config:
    peer = f"127.0.0.1:{ports[2 - number]}"
    config = config_of(directory / str(number), replication_port=ports[number - 1], peers=(peer,))
    return replace(config, name=f"r{number}", region=number)


def message(value: bytes, partition: int = 0) -> NewMessage:
    return NewMessage(partition, b"k", value)


@pytest.mark.parametrize("fsync", ["everysec", ALWAYS])
async def test_what_was_put_is_there_after_a_restart(tmp_path: Path, fsync: str) -> None:
    config = config_of(tmp_path, fsync=fsync)
    async with running(config) as region:
        port = region.loop.partitions
        await port.create_stream(SPEC)
        stamps = await port.put("s", [message(b"a"), message(b"b", 1), message(b"c")])
        assert [(one.partition, one.offset) for one in stamps] == [(0, 0), (1, 0), (0, 1)]
        mark = await port.join_group("s", "g", "TRIM_HORIZON", 0, 50)
        polled = await port.poll("s", "g", "A", 30_000, mark, True)
        assert polled.positions == {0: 0, 1: 0}
        read = Bookmark(polled.generation, polled.epoch, polled.start, {0: 1})
        assert (await port.heartbeat("s", "g", "A", 30_000, read)).offsets == {0: 1}
        assert (await port.commit("s", "g", "A", 30_000, read)).offsets == {}
        await port.write_document("pool", "p", b"{}")
    async with running(config) as region:
        port = region.loop.partitions
        messages, epoch = await port.read("s", 0, 0, port.epoch("s"), 10, 1 << 20)
        assert ([one.value for one in messages], epoch) == ([b"a", b"c"], port.epoch("s"))
        assert [one.committed for one in await port.group("s", "g")] == [1, -1]
        assert (port.documents("pool"), port.bounds("s", 0)) == ({"p": b"{}"}, (0, 2))
        assert await port.offset_at("s", 0, 0) == 0
        assert port.clamp_offset("s", 0, 9, port.epoch("s")) == 9
        await port.reset_group("s", "g", "LATEST", 0)
        assert [one.committed for one in await port.group("s", "g")] == [-1, -1]
        await port.delete_stream("s")
        assert port.spec("s") is None
        with pytest.raises(Refused) as raised:
            await port.put("s", [message(b"d")])
        assert raised.value.code == UNKNOWN_STREAM


async def test_two_regions_serve_one_stream(tmp_path: Path) -> None:
    async with two_regions(tmp_path) as (one, other):
        here, there = one.loop.partitions, other.loop.partitions
        await here.create_stream(SPEC)
        await until(lambda: there.spec("s") is not None, "the stream is known")
        stamps = await asyncio.gather(*[there.put("s", [message(b"%d" % number)]) for number in range(20)])
        assert sorted(stamp.offset for (stamp,) in stamps) == list(range(20))
        await until(lambda: there.bounds("s", 0) == (0, 20), "all messages are there")
        assert len((await there.read("s", 0, 0, there.epoch("s"), 100, 1 << 20))[0]) == 20
        await there.join_group("s", "g", "TRIM_HORIZON", 0, 0)
        assert (await there.poll("s", "g", "A", 30_000, Bookmark(0, (0, 0), (0, 0), {}), True)).positions == {
            0: 0,
            1: 0,
        }
        await there.take_over("s")
        await there.put("s", [message(b"after")])
        await until(lambda: here.bounds("s", 0) == (0, 21), "the new home has numbered")


async def test_calls_end_with_the_region(tmp_path: Path) -> None:
    async with two_regions(tmp_path) as (one, other):
        await one.loop.partitions.create_stream(SPEC)
        there = other.loop.partitions
        await until(lambda: there.spec("s") is not None, "the stream is known")
        call = asyncio.create_task(there.put("s", [message(b"a")]))
        while not there._waiting:
            await asyncio.sleep(0)
        there.stop()
        with pytest.raises(Refused) as raised:
            await call
        assert raised.value.code == UNWRITABLE


async def test_where_an_offset_belongs_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_regions(tmp_path) as (one, other):
        here, there = one.loop.partitions, other.loop.partitions
        await here.create_stream(SPEC)
        await here.put("s", [message(b"a")])
        await until(lambda: there.spec("s") is not None, "the stream is known")
        assert await there.locate("s", 0, 0) == here.epoch("s")
        assert await there.locate("s", 0, 7) is None
        assert not there.misses_regions()
        await until(lambda: there.epoch("s") == here.epoch("s"), "the epoch is known")
        refusal = Refused(UNREACHABLE, "away")

        async def refuse(*_: object) -> None:
            raise refusal

        monkeypatch.setattr(there, "_call", refuse)
        assert await there.locate("s", 0, 7) == there.epoch("s"), "under the epoch that is known"
        refusal = Refused(UNKNOWN_STREAM, "gone")
        with pytest.raises(Refused):
            await there.locate("s", 0, 7)
