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

PARSERS = {"resp2": (2, _RESP2Parser), "resp3": (3, _RESP3Parser)}
HIREDIS_PARSERS = {"resp2-hiredis": (2, _HiredisParser), "resp3-hiredis": (3, _HiredisParser)}


class Consumer:
    """Reads in batches; moves to the other region when one does not answer, and takes up what is pending there."""

    def __init__(self, ports: tuple[int, int], protocol: int, parser: Any) -> None:
        self.clients = [connect(port, protocol, parser) for port in ports]
        self.handled = Handled()
        self.in_hand: list[str] = []
        create_group(self.client)

    @property
    def client(self) -> Any:
        return self.clients[0]

    def read(self) -> None:
        reply = self.client.xreadgroup(GROUP, CONSUMER, {STREAM: ">"}, count=BATCH, block=BLOCK_MS)
        # RESP2 gives pairs, RESP3 a map of lists of batches.
        batches = [batch for _, batch in reply] if isinstance(reply, list) else [b for v in reply.values() for b in v]
        for entry_id, fields in (entry for batch in batches for entry in batch):
            self.handled(fields["order"])
            self.in_hand.append(entry_id)

    def acknowledge(self) -> None:
        entry_ids, self.in_hand = self.in_hand, []
        if entry_ids:
            self.client.xack(STREAM, GROUP, *entry_ids)

    def work(self) -> None:
        try:
            self.acknowledge()
            self.read()
        except (redis.ConnectionError, redis.TimeoutError):
            self.move()

    def move(self) -> None:
        self.clients.pop(0).close()
        create_group(self.client)


def connect(port: int, protocol: int, parser: Any) -> Any:
    pool = redis.ConnectionPool(
        port=port, protocol=protocol, parser_class=parser, decode_responses=True, retry=Retry(NoBackoff(), 0)
    )
    return redis.Redis(connection_pool=pool)


def create_group(client: Any) -> None:
    try:
        client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except redis.ResponseError as error:
        assert str(error).startswith("BUSYGROUP"), error


def produce(client: Any, orders: list[str]) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for order in orders:
            pipeline.xadd(STREAM, {"order": order})
        pipeline.execute()


@pytest.mark.parametrize(
    "name",
    [
        *PARSERS,
        *[
            pytest.param(name, marks=pytest.mark.skipif(find_spec("hiredis") is None, reason="needs hiredis-py"))
            for name in HIREDIS_PARSERS
        ],
    ],
)
def test_a_consumer_moves(pair: Pair, name: str) -> None:
    protocol, parser = {**PARSERS, **HIREDIS_PARSERS}[name]
    consumer = Consumer(pair.ports, protocol, parser)
    for client, orders in zip(consumer.clients, (EAST, WEST), strict=True):
        produce(client, orders)
    pair.settle()
    for _ in range(BATCHES_BEFORE):
        consumer.work()
    assert len(consumer.in_hand) == BATCH
    pair.crash()
    produce(consumer.clients[1], LATER)
    while not consumer.handled.has_all():
        consumer.work()
    consumer.acknowledge()
    assert consumer.client.xpending(STREAM, GROUP)["pending"] == 0
    consumer.client.close()
    consumer.handled.check(REDIS_PY.repeats)
    assert pair.unknown <= REDIS_PY.unknown
