"""redis-py on asyncio: both protocols, with the parser in Python and with hiredis-py."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

import pytest
import redis
from redis._parsers import _AsyncHiredisParser, _AsyncRESP2Parser, _AsyncRESP3Parser
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tests.clients_real.moving import (
    BATCH,
    BATCHES_BEFORE,
    BLOCK_MS,
    CONSUMER,
    EAST,
    GROUP,
    LATER,
    STREAM,
    WEST,
    Handled,
    Pair,
)
from tests.clients_real.rows import REDIS_PY_ASYNCIO

needs_hiredis = pytest.mark.skipif(find_spec("hiredis") is None, reason="needs hiredis-py")
PARSERS = [
    pytest.param({2: _AsyncRESP2Parser, 3: _AsyncRESP3Parser}, id="python"),
    pytest.param({2: _AsyncHiredisParser, 3: _AsyncHiredisParser}, id="hiredis", marks=needs_hiredis),
]


def connect(port: int, protocol: int, parser: Any) -> Any:
    pool: Any = ConnectionPool(
        port=port, protocol=protocol, parser_class=parser, decode_responses=True, retry=Retry(NoBackoff(), 0)
    )
    return Redis.from_pool(pool)


class Consumer:
    """Reads in batches; which region it is in, its test says."""

    def __init__(self, ports: tuple[int, int], protocol: int, parser: Any) -> None:
        self.east, self.west = (connect(port, protocol, parser) for port in ports)
        self.handled = Handled()
        self.stream = f"{STREAM}-{protocol}"

    async def arrive(self, client: Any) -> None:
        try:
            await client.xgroup_create(self.stream, GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            assert str(error).startswith("BUSYGROUP"), error

    async def produce(self, client: Any, orders: list[str]) -> None:
        """All at once, each on a connection of the pool."""
        await asyncio.gather(*(client.xadd(self.stream, {"order": order}) for order in orders))

    async def read(self, client: Any) -> list[str]:
        """Handle one batch; returns the IDs to acknowledge."""
        reply = await client.xreadgroup(GROUP, CONSUMER, {self.stream: ">"}, count=BATCH, block=BLOCK_MS)
        batches = [batch for _, batch in reply] if isinstance(reply, list) else [b for v in reply.values() for b in v]
        entries = [entry for batch in batches for entry in batch]
        for _, fields in entries:
            self.handled(fields["order"])
        return [entry_id for entry_id, _ in entries]

    async def acknowledge(self, client: Any, entry_ids: list[str]) -> None:
        if entry_ids:
            assert await client.xack(self.stream, GROUP, *entry_ids) == len(entry_ids)

    async def begin(self) -> list[str]:
        """Work in the east; returns what is in hand at the end."""
        await self.arrive(self.east)
        for _ in range(BATCHES_BEFORE - 1):
            await self.acknowledge(self.east, await self.read(self.east))
        return await self.read(self.east)

    async def move(self, in_hand: list[str]) -> None:
        with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
            await self.acknowledge(self.east, in_hand)
        await self.arrive(self.west)
        while not self.handled.has_all():
            await self.acknowledge(self.west, await self.read(self.west))
        assert (await self.west.xpending(self.stream, GROUP))["pending"] == 0
        for client in (self.east, self.west):
            await client.connection_pool.disconnect()


@pytest.mark.parametrize("parsers", PARSERS)
async def test_consumers_move(pair: Pair, parsers: dict[int, Any]) -> None:
    """One for each protocol, with a stream of its own, all of them at the same time."""
    consumers = [Consumer(pair.ports, protocol, parser) for protocol, parser in parsers.items()]
    await asyncio.gather(*(one.produce(one.east, EAST) for one in consumers))
    await asyncio.gather(*(one.produce(one.west, WEST) for one in consumers))
    pair.settle()
    in_hand = await asyncio.gather(*(one.begin() for one in consumers))
    pair.crash()
    await asyncio.gather(*(one.produce(one.west, LATER) for one in consumers))
    await asyncio.gather(*(one.move(entry_ids) for one, entry_ids in zip(consumers, in_hand, strict=True)))
    for one in consumers:
        one.handled.check(REDIS_PY_ASYNCIO.repeats)
    assert pair.unknown <= REDIS_PY_ASYNCIO.unknown
