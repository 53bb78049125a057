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
    pytest.param(2, _AsyncRESP2Parser, id="resp2"),
    pytest.param(3, _AsyncRESP3Parser, id="resp3"),
    pytest.param(2, _AsyncHiredisParser, id="resp2-hiredis", marks=needs_hiredis),
    pytest.param(3, _AsyncHiredisParser, id="resp3-hiredis", marks=needs_hiredis),
]


def connect(port: int, protocol: int, parser: Any) -> Any:
    pool: Any = ConnectionPool(
        port=port, protocol=protocol, parser_class=parser, decode_responses=True, retry=Retry(NoBackoff(), 0)
    )
    return Redis.from_pool(pool)


async def create_group(client: Any) -> None:
    try:
        await client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except redis.ResponseError as error:
        assert str(error).startswith("BUSYGROUP"), error


async def produce(client: Any, orders: list[str]) -> None:
    """All at once, each on a connection of the pool."""
    await asyncio.gather(*(client.xadd(STREAM, {"order": order}) for order in orders))


async def read(client: Any, handled: Handled) -> list[str]:
    """Handle one batch; returns the IDs to acknowledge."""
    reply = await client.xreadgroup(GROUP, CONSUMER, {STREAM: ">"}, count=BATCH, block=BLOCK_MS)
    batches = [batch for _, batch in reply] if isinstance(reply, list) else [b for v in reply.values() for b in v]
    entries = [entry for batch in batches for entry in batch]
    for _, fields in entries:
        handled(fields["order"])
    return [entry_id for entry_id, _ in entries]


async def acknowledge(client: Any, entry_ids: list[str]) -> None:
    if entry_ids:
        assert await client.xack(STREAM, GROUP, *entry_ids) == len(entry_ids)


@pytest.mark.parametrize(("protocol", "parser"), PARSERS)
async def test_a_consumer_moves(pair: Pair, protocol: int, parser: Any) -> None:
    east, west = (connect(port, protocol, parser) for port in pair.ports)
    handled = Handled()
    await create_group(east)
    await asyncio.gather(produce(east, EAST), produce(west, WEST))
    pair.settle()
    for _ in range(BATCHES_BEFORE - 1):
        await acknowledge(east, await read(east, handled))
    in_hand = await read(east, handled)
    pair.crash()
    with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
        await acknowledge(east, in_hand)
    await create_group(west)
    await produce(west, LATER)
    while not handled.has_all():
        await acknowledge(west, await read(west, handled))
    assert (await west.xpending(STREAM, GROUP))["pending"] == 0
    for client in (east, west):
        await client.connection_pool.disconnect()
    handled.check(REDIS_PY_ASYNCIO.repeats)
    assert pair.unknown <= REDIS_PY_ASYNCIO.unknown
