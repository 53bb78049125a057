"""FastStream: a broker object for each region, with the same subscriber; the application moves between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from crdtstream.processes.waiting import DEADLINE_S
from tests.clients_real.moving import (
    BATCH,
    BLOCK_MS,
    CONSUMER,
    EAST,
    GROUP,
    LATER,
    ORDERS_BEFORE,
    STREAM,
    WEST,
    Handled,
    Pair,
)
from tests.clients_real.rows import FASTSTREAM

pytest.importorskip("faststream.redis", reason="needs faststream[redis]")
from faststream import AckPolicy
from faststream.redis import RedisBroker, StreamSub

Handler = Callable[[str], Awaitable[None]]


def broker_of(port: int, protocol: int, handler: Handler) -> Any:
    """`last_id` must stay `>`: with another one a group that exists is read from there, and nothing new comes."""
    broker = RedisBroker(f"redis://127.0.0.1:{port}", protocol=protocol, logger=None)
    source = StreamSub(STREAM, group=GROUP, consumer=CONSUMER, max_records=BATCH, polling_interval=BLOCK_MS)
    broker.subscriber(stream=source, ack_policy=AckPolicy.NACK_ON_ERROR)(handler)
    return broker


async def start(broker: Any) -> None:
    """FastStream would create the group from `$`, and what is there already would never come."""
    client = await broker.connect()
    try:
        await client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except redis.ResponseError as error:
        assert str(error).startswith("BUSYGROUP"), error
    await broker.start()


async def produce(broker: Any, orders: list[str]) -> None:
    for order in orders:
        await broker.publish(order, stream=STREAM)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
async def test_an_application_moves(pair: Pair, protocol: int) -> None:
    handled, crashed = Handled(), asyncio.Event()

    async def bill(order: str) -> None:
        if handled(order) == ORDERS_BEFORE:
            await asyncio.to_thread(pair.crash)
            crashed.set()

    east, west = (broker_of(port, protocol, bill) for port in pair.ports)
    for broker, orders in ((east, EAST), (west, WEST)):
        await broker.connect()
        await produce(broker, orders)
    pair.settle()
    await start(east)
    await asyncio.wait_for(crashed.wait(), DEADLINE_S)
    await east.stop()
    await produce(west, LATER)
    await start(west)
    await until(handled.has_all)
    await west.stop()
    handled.check(FASTSTREAM.repeats)
    assert pair.west.ask("XPENDING", STREAM, GROUP)[0] == 0
    assert pair.unknown <= FASTSTREAM.unknown
