"""Pipelines at a shard: bursts, requests taken as bytes, and requests that may need spilled blocks are redirected as
single requests are.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.connections.shards import ShardAddress, map_of
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import replies
from crdtstream.region.node import Node
from simulations.machine import CLIENT
from tests.region.test_serving_bursts import (
    AS_BYTES,
    ONE_BY_ONE,
    OTHER,
    START_MS,
    TOGETHER,
    arrive,
    node_of,
    replies_of,
)

# `b` is a key of this shard, `a` of the other one.
ADDRESSES = [ShardAddress("10.0.0.1", 7000, 0), ShardAddress("10.0.0.2", 7001, 0)]
MOVED = b"-MOVED 15495 10.0.0.2:7001\r\n"
ADD = b"XADD a * f v".split()


def shard(spills: bool = False) -> Node:
    node = node_of(STRICT)
    node.follow_shards(map_of("c", 1, 0, ADDRESSES, 1))
    node.replica.reads.on = spills
    return node


def test_adds_to_a_key_of_another_shard_are_no_burst() -> None:
    for spills in (False, True):
        node = shard(spills)
        node.execute_all(CLIENT, [ADD] * 5, START_MS)
        assert replies_of(node) == {CLIENT: MOVED * 5}
        arrive(node, b"*5\r\n$4\r\nXADD\r\n$1\r\na\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n" * 5)
        assert replies_of(node) == {CLIENT: MOVED * 5}
        assert not node.replica.keyspace.keys(0)


def test_adds_to_an_own_key_are_a_burst_still() -> None:
    node = shard()
    data = b"*5\r\n$4\r\nXADD\r\n$1\r\nb\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n" * 5
    assert node.execute_bytes(CLIENT, data, START_MS) == len(data)
    replies_of(node)
    assert node.statistics.tally("xadd").calls == 5


LINES = st.sampled_from(
    [
        b"XADD a * f v",
        b"XADD b * f v",
        b"XADD b MAXLEN 3 * f v",
        b"XLEN a",
        b"XRANGE b - +",
        b"XREAD COUNT 9 STREAMS a b 0 0",
        b"XREAD COUNT 9 STREAMS b {b}2 0 0",
        b"DEL b bar",
        b"MULTI",
        b"EXEC",
        b"PING",
    ]
)
PIPELINES = st.lists(st.tuples(LINES, st.integers(1, 4)), min_size=1, max_size=8).map(
    lambda drawn: [line.split() for line, times in drawn for _ in range(times)]
)


def replies_to(requests: list[list[bytes]], how: str, spills: bool) -> bytes:
    node = shard(spills)
    if how == AS_BYTES:
        arrive(node, b"".join(map(replies.bulk_array, requests)))
    else:
        for pipeline in [requests] if how == TOGETHER else [[request] for request in requests]:
            node.execute_all(CLIENT, pipeline, START_MS)
    return replies_of(node).get(CLIENT, b"")


@settings(max_examples=120)
@given(PIPELINES, st.sampled_from([TOGETHER, AS_BYTES]), st.booleans())
def test_a_pipeline_is_redirected_as_its_requests_are(requests: list[list[bytes]], how: str, spills: bool) -> None:
    assert replies_to(requests, how, spills) == replies_to(requests, ONE_BY_ONE, False)


def test_a_client_that_waits_goes_on_waiting_when_the_map_changes() -> None:
    """The hash slots of a shard never change, so the key that it waits for comes here."""
    node = shard()
    node.execute(CLIENT, b"XREAD BLOCK 0 STREAMS b 0".split(), START_MS)
    assert not replies_of(node)
    node.follow_shards(map_of("c", 1, 0, [ADDRESSES[0], ShardAddress("10.0.0.9", 9001, 0)], 2))
    assert not replies_of(node)
    node.execute(OTHER, b"XADD b * f v".split(), START_MS)
    told = replies_of(node)
    assert told[CLIENT].startswith(b"*1\r\n*2\r\n$1\r\nb\r\n") and told[OTHER].startswith(b"$")
    node.execute(CLIENT, b"XLEN a".split(), START_MS)
    assert replies_of(node) == {CLIENT: b"-MOVED 15495 10.0.0.9:9001\r\n"}
