"""redis-py, synchronous: both protocols, with the parser in Python and with hiredis-py."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
import redis
from redis._parsers import _HiredisParser, _RESP2Parser, _RESP3Parser
from redis.backoff import NoBackoff
from redis.retry import Retry

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
from tests.clients_real.rows import REDIS_PY

needs_hiredis = pytest.mark.skipif(find_spec("hiredis") is None, reason="needs hiredis-py")
PARSERS = [
    pytest.param({2: _RESP2Parser, 3: _RESP3Parser}, id="python"),
    pytest.param({2: _HiredisParser, 3: _HiredisParser}, id="hiredis", marks=needs_hiredis),
]


class Consumer:
    """Reads in batches; moves to the other region when one does not answer, and takes up what is pending there."""

    def __init__(self, ports: tuple[int, int], protocol: int, parser: Any) -> None:
        self.clients = [connect(port, protocol, parser) for port in ports]
        self.handled = Handled()
        self.in_hand: list[str] = []
        self.stream = f"{STREAM}-{protocol}"
        self.create_group()

    @property
    def client(self) -> Any:
        return self.clients[0]

    def read(self) -> None:
        reply = self.client.xreadgroup(GROUP, CONSUMER, {self.stream: ">"}, count=BATCH, block=BLOCK_MS)
        # RESP2 gives pairs, RESP3 a map of lists of batches.
        batches = [batch for _, batch in reply] if isinstance(reply, list) else [b for v in reply.values() for b in v]
        for entry_id, fields in (entry for batch in batches for entry in batch):
            self.handled(fields["order"])
            self.in_hand.append(entry_id)

    def acknowledge(self) -> None:
        entry_ids, self.in_hand = self.in_hand, []
        if entry_ids:
            self.client.xack(self.stream, GROUP, *entry_ids)

    def work(self) -> None:
        try:
            self.acknowledge()
            self.read()
        except (redis.ConnectionError, redis.TimeoutError):
            self.move()

    def move(self) -> None:
        self.clients.pop(0).close()
        self.create_group()

    def create_group(self) -> None:
        try:
            self.client.xgroup_create(self.stream, GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            assert str(error).startswith("BUSYGROUP"), error

    def finish(self) -> None:
        while not self.handled.has_all():
            self.work()
        self.acknowledge()
        assert self.client.xpending(self.stream, GROUP)["pending"] == 0
        self.client.close()


def connect(port: int, protocol: int, parser: Any) -> Any:
    pool = redis.ConnectionPool(
        port=port, protocol=protocol, parser_class=parser, decode_responses=True, retry=Retry(NoBackoff(), 0)
    )
    return redis.Redis(connection_pool=pool)


def produce(client: Any, stream: str, orders: list[str]) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for order in orders:
            pipeline.xadd(stream, {"order": order})
        pipeline.execute()


@pytest.mark.parametrize("parsers", PARSERS)
def test_consumers_move(pair: Pair, parsers: dict[int, Any]) -> None:
    """One for each protocol, with a stream of its own."""
    consumers = [Consumer(pair.ports, protocol, parser) for protocol, parser in parsers.items()]
    for consumer in consumers:
        for client, orders in zip(consumer.clients, (EAST, WEST), strict=True):
            produce(client, consumer.stream, orders)
    pair.settle()
    for consumer in consumers:
        for _ in range(BATCHES_BEFORE):
            consumer.work()
        assert len(consumer.in_hand) == BATCH
    pair.crash()
    for consumer in consumers:
        produce(consumer.clients[1], consumer.stream, LATER)
        consumer.finish()
        consumer.handled.check(REDIS_PY.repeats)
    assert pair.unknown <= REDIS_PY.unknown
