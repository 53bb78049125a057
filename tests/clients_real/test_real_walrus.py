"""walrus: streams and consumer groups as objects, on top of redis-py."""

from __future__ import annotations

from typing import Any

import pytest
import redis
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
from tests.clients_real.rows import WALRUS

walrus = pytest.importorskip("walrus", reason="needs walrus")


def connect(port: int) -> Any:
    return walrus.Database(port=port, protocol=2, retry=Retry(NoBackoff(), 0))


def group_in(database: Any) -> Any:
    """Walrus would make a missing stream by an entry with the ID 0-1; MKSTREAM does it without."""
    group = database.consumer_group(GROUP, {STREAM: "0"}, consumer=CONSUMER)
    group.create(ensure_keys_exist=False, mkstream=True)
    return group.streams[STREAM]


def produce(database: Any, orders: list[str]) -> None:
    for order in orders:
        database.Stream(STREAM).add({"order": order})


def read(stream: Any, handled: Handled) -> list[bytes]:
    """Handle one batch; returns the IDs to acknowledge."""
    entries = stream.read(count=BATCH, block=BLOCK_MS)
    for _, fields in entries:
        handled(fields[b"order"].decode())
    return [entry_id for entry_id, _ in entries]


def acknowledge(stream: Any, entry_ids: list[bytes]) -> None:
    if entry_ids:
        assert stream.ack(*entry_ids) == len(entry_ids)


def test_a_consumer_moves(pair: Pair) -> None:
    east, west = (connect(port) for port in pair.ports)
    handled = Handled()
    stream = group_in(east)
    produce(east, EAST)
    produce(west, WEST)
    pair.settle()
    for _ in range(BATCHES_BEFORE - 1):
        acknowledge(stream, read(stream, handled))
    in_hand = read(stream, handled)
    pair.crash()
    with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
        acknowledge(stream, in_hand)
    stream = group_in(west)
    produce(west, LATER)
    while not handled.has_all():
        acknowledge(stream, read(stream, handled))
    assert stream.pending() == []
    assert len(stream) == len(handled.times)
    for database in (east, west):
        database.close()
    handled.check(WALRUS.repeats)
    assert pair.unknown <= WALRUS.unknown
