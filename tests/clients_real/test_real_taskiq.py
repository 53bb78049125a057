"""taskiq with the stream broker of taskiq-redis: a worker in one region, then in the other.

Between two reads the broker claims what dead workers left, under a lock that is a string key, released by a script;
the server has neither. XAUTOCLAIM needs no lock: a region runs it as one step, and no other region shares its pending
entries. So the broker here claims without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
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
from tests.clients_real.rows import TASKIQ

pytest.importorskip("taskiq_redis", reason="needs taskiq-redis")
from redis.asyncio import Redis
from taskiq import AckableMessage
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

CANCELLATIONS = 30
# What the lock of the broker as it comes needs.
SCRIPTED = {"SCRIPT EXISTS", "SCRIPT LOAD", "EVALSHA", "SET"}


# --8<-- [start:broker]
class StreamBroker(RedisStreamBroker):
    """Claims without a lock."""

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        async with Redis(connection_pool=self.connection_pool) as client:
            while True:
                claimed: Any = await client.xautoclaim(
                    self.queue_name, self.consumer_group_name, self.consumer_name, self.idle_timeout, count=BATCH
                )
                for entry in claimed[1]:
                    yield self._message(*entry)
                for entry in await self._read(client):
                    yield self._message(*entry)

    async def _read(self, client: Any) -> list[Any]:
        reply = await client.xreadgroup(
            self.consumer_group_name, self.consumer_name, {self.queue_name: ">"}, count=self.count, block=self.block
        )
        batches = [batch for _, batch in reply] if isinstance(reply, list) else [b for v in reply.values() for b in v]
        return [entry for batch in batches for entry in batch]

    def _message(self, entry_id: bytes, fields: dict[bytes, bytes]) -> AckableMessage:
        return AckableMessage(data=fields[b"data"], ack=self._ack_generator(id=entry_id, queue_name=self.queue_name))


# --8<-- [end:broker]


def broker_of(kind: type[RedisStreamBroker], port: int, protocol: int = 2) -> Any:
    """The group is created from 0 instead of `$`, which skips what is there already."""
    return kind(
        f"redis://127.0.0.1:{port}",
        queue_name=STREAM,
        consumer_group_name=GROUP,
        consumer_name=CONSUMER,
        consumer_id="0",
        xread_block=BLOCK_MS,
        xread_count=BATCH,
        protocol=protocol,
    )


def worker_of(broker: Any) -> asyncio.Task[None]:
    """One task at a time, acknowledged when it was executed."""
    return asyncio.create_task(
        run_receiver_task(broker, max_async_tasks=1, ack_time=AcknowledgeType.WHEN_EXECUTED, run_startup=False)
    )


async def stop(worker: asyncio.Task[None]) -> None:
    """A worker that is just losing its region may swallow a cancellation, so it is asked again. One whose
    acknowledgement failed may wait for an origin for ever, and is left behind, as a process that hangs would be.
    """
    for _ in range(CANCELLATIONS):
        if worker.done():
            break
        worker.cancel()
        await asyncio.wait([worker], timeout=0.1)
    else:
        return
    with suppress(asyncio.CancelledError, redis.RedisError):
        worker.result()


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
async def test_a_worker_moves(pair: Pair, protocol: int) -> None:
    handled, crashed = Handled(), asyncio.Event()

    async def bill(order: str) -> None:
        if handled(order) == ORDERS_BEFORE:
            await asyncio.to_thread(pair.crash)
            crashed.set()

    east, west = (broker_of(StreamBroker, port, protocol) for port in pair.ports)
    tasks = [broker.register_task(bill, task_name="bill") for broker in (east, west)]
    for broker, task, orders in ((east, tasks[0], EAST), (west, tasks[1], WEST)):
        await broker.startup()
        for order in orders:
            await task.kiq(order)
    pair.settle()
    worker = worker_of(east)
    await asyncio.wait_for(crashed.wait(), DEADLINE_S)
    await stop(worker)
    for order in LATER:
        await tasks[1].kiq(order)
    worker = worker_of(west)
    async with asyncio.timeout(DEADLINE_S):
        while not handled.has_all() or pair.west.ask("XPENDING", STREAM, GROUP)[0]:
            await asyncio.sleep(0.01)
    await stop(worker)
    for broker in (east, west):
        await broker.shutdown()
    handled.check(TASKIQ.repeats)
    assert pair.unknown <= TASKIQ.unknown


async def test_the_broker_as_it_comes_needs_scripts(pair: Pair) -> None:
    """It delivers what the first read brings, and ends before the second one."""
    broker = broker_of(RedisStreamBroker, pair.ports[0])
    await broker.startup()
    await broker.register_task(asyncio.sleep, task_name="rest").kiq(0)
    messages = aiter(broker.listen())
    await asyncio.wait_for(anext(messages), DEADLINE_S)
    with pytest.raises(redis.ResponseError, match="no scripts"):
        await asyncio.wait_for(anext(messages), DEADLINE_S)
    await broker.shutdown()
    assert pair.unknown <= SCRIPTED
