"""Pipelines with bursts of XADD against the same requests one by one: nobody can tell the difference."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.commands import bursts
from crdtstream.core.entries.bursts import Burst
from crdtstream.core.replica import Replica
from crdtstream.core.values.entry_id import LIBERAL, SEMI_STRICT, STRICT
from crdtstream.protocols import replies
from crdtstream.protocols.requests import RequestParser
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, Limits
from simulations.machine import CLIENT, Machine

START_MS = 1_000
OTHER = 2
ENTRY_BYTES_MAX = 600

add = st.sampled_from(
    [b"XADD s * f v", b"XADD s * f v g w", b"xadd s * f v", b"XADD t * f v", b"Xadd s * f v", b"XADD s * f"]
).map(bytes.split)
trims = st.sampled_from(
    [
        b"XADD s MAXLEN 3",
        b"XADD s MAXLEN ~ 2",
        b"XADD s MAXLEN ~ 0",
        b"XADD s MAXLEN = 1",
        b"XADD s MINID 1000-65537",
        b"XADD s maxlen ~ 4",
        b"XADD s MAXLEN -1",
        b"XADD s MAXLEN x",
        b"XADD s MAXLEN ~ 2 LIMIT 1",
        b"XADD s MAXLEN",
    ]
).map(lambda line: [*line.split(), b"*", b"f", b"v"])
sized = st.integers(1, 2 * ENTRY_BYTES_MAX).map(lambda size: [b"XADD", b"s", b"*", b"f", bytes(size)])
adds = st.lists(add | sized | trims, min_size=1, max_size=4).flatmap(
    lambda rows: st.sampled_from([rows, rows * 3, rows[:1] * 9])
)
between = st.sampled_from(
    [
        b"XLEN s",
        b"XADD s 5000 f v",
        b"XADD s NOMKSTREAM * f v",
        b"DEL s",
        b"PEXPIRE s 0",
        b"MULTI",
        b"EXEC",
        b"SELECT 1",
        b"CLIENT REPLY OFF",
        b"CLIENT REPLY ON",
        b"XRANGE s - +",
        b"XTRIM s MAXLEN 2",
    ]
).map(bytes.split)
pipelines = st.lists(adds | between.map(lambda row: [row]), min_size=1, max_size=6).map(
    lambda parts: [row for part in parts for row in part]
)
# What the other client did before, and what it asks afterwards.
beforehand = st.sampled_from(
    [
        [],
        [b"XREAD BLOCK 0 STREAMS s 0"],
        [b"XREAD BLOCK 0 STREAMS t $"],
        [b"WATCH s", b"MULTI", b"PING"],
        [b"MONITOR"],
        [b"CONFIG SET notify-keyspace-events KEA", b"SUBSCRIBE __keyspace@0__:s"],
        [b"CONFIG SET slowlog-log-slower-than 0"],
    ]
)
LOOKS = [b"EXEC", b"XINFO STREAM s FULL", b"XINFO STREAM t FULL", b"XRANGE s - +", b"SLOWLOG LEN", b"DBSIZE"]


def node_of(id_mode: str) -> Node:
    limits = dataclasses.replace(Limits(), entry_bytes_max=ENTRY_BYTES_MAX, stream_node_entries_max=3)
    config = Config(name="east", region=1, cluster="c", id_mode=id_mode, incarnation=0, limits=limits)
    region = Machine(config, START_MS)
    region.connect(OTHER, START_MS)
    return region.node


def replies_of(node: Node) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while (ready := node.ready()) is not None:
        node.check()
        for client_id, data in ready.replies:
            found[client_id] = found.get(client_id, b"") + data
    return found


ONE_BY_ONE, TOGETHER, AS_BYTES = "one by one", "together", "as bytes"


def arrive(node: Node, data: bytes) -> None:
    """What the Redis port does with bytes."""
    requests = RequestParser().feed(data[(taken := node.execute_bytes(CLIENT, data, START_MS)) :])
    if requests:
        node.execute_all(CLIENT, requests, START_MS, taken > 0)


def told(id_mode: str, before: list[bytes], requests: list[list[bytes]], how: str) -> list[dict[int, bytes]]:
    node = node_of(id_mode)
    for line in before:
        node.execute(OTHER, line.split(), START_MS)
    said = [replies_of(node)]
    if how == AS_BYTES:
        arrive(node, b"".join(map(replies.bulk_array, requests)))
    else:
        for pipeline in [requests] if how == TOGETHER else [[request] for request in requests]:
            node.execute_all(CLIENT, pipeline, START_MS)
    said.append(replies_of(node))
    if b"XREAD BLOCK" not in b"".join(before) and b"MONITOR" not in before:
        for line in LOOKS:
            node.execute(OTHER, line.split(), START_MS)
        said.append(replies_of(node))
    said.append({CLIENT: b"%d" % node.statistics.tally("xadd").calls})
    return said


@settings(max_examples=120)
@given(st.sampled_from([STRICT, SEMI_STRICT, LIBERAL]), beforehand, pipelines, st.sampled_from([TOGETHER, AS_BYTES]))
def test_a_pipeline_is_its_requests(id_mode: str, before: list[bytes], requests: list[list[bytes]], how: str) -> None:
    assert told(id_mode, before, requests, how) == told(id_mode, before, requests, ONE_BY_ONE)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each burst has that is executed from now on."""
    found: list[int] = []

    def counted(replica: Replica, key: tuple[int, bytes], burst: Burst) -> None:
        found.append(burst.count)
        real(replica, key, burst)

    real = Replica.add_burst
    monkeypatch.setattr(Replica, "add_burst", counted)
    return found


@pytest.mark.interpreted
def test_a_pipeline_of_adds_is_bursts(counts: list[int]) -> None:
    node = node_of(STRICT)
    row = [b"XADD", b"s", b"*", b"f", b"v"]
    node.execute_all(CLIENT, [row] * 40 + [[b"PING"]] + [row] + [[b"XADD", b"t", b"*", b"f", b"v"]] * 2, START_MS)
    replies_of(node)
    # The add before those to another key stands alone.
    assert counts == [40, 2]


@pytest.mark.interpreted
def test_adds_that_trim_are_bursts(counts: list[int]) -> None:
    node = node_of(STRICT)
    node.execute_all(CLIENT, [b"XADD s MAXLEN ~ 6 * f v".split()] * 40, START_MS)
    replies_of(node)
    assert counts == [40]
    node.execute(CLIENT, [b"XLEN", b"s"], START_MS)
    # Nodes of 3 entries are dropped as a whole.
    assert replies_of(node) == {CLIENT: b":7\r\n"}


@pytest.mark.interpreted
def test_the_backlog_is_executed_in_bursts(counts: list[int]) -> None:
    node = node_of(STRICT)
    row = [b"XADD", b"s", b"*", b"f", b"v"]
    node.execute_all(CLIENT, [row] * 5, START_MS)
    replies_of(node)
    counts.clear()
    node.execute_all(CLIENT, [b"XREAD BLOCK 1 STREAMS t 0".split(), *[row] * (2 * bursts.BURST_ENTRIES_MAX)], START_MS)
    replies_of(node)
    assert not counts
    node.tick(START_MS + 2)
    replies_of(node)
    assert counts == [bursts.BURST_ENTRIES_MAX] * 2


@pytest.mark.interpreted
def test_adds_are_taken_as_bytes(counts: list[int]) -> None:
    node = node_of(STRICT)
    row = replies.bulk_array([b"XADD", b"s", b"*", b"f", b"v"])
    trimmed = replies.bulk_array(b"XADD s MAXLEN ~ 6 * f v".split())
    ping = replies.bulk_array([b"PING"])
    assert node.execute_bytes(CLIENT, row * 40 + trimmed * 9 + row[:-1], START_MS) == len(row * 40 + trimmed * 9)
    assert counts == [40, 9]
    # One add alone is no burst, nor is anything else.
    for data in (row, ping * 9, ping + row * 9, row + ping * 5, b"", b"*1\r\n"):
        assert node.execute_bytes(CLIENT, data, START_MS) == 0
    replies_of(node)
    node.execute(CLIENT, b"XREAD BLOCK 0 STREAMS t 0".split(), START_MS)
    assert node.execute_bytes(CLIENT, row * 9, START_MS) == 0


def test_a_share_ends_between_bursts() -> None:
    """What is left of a pipeline when its share ends waits for the next turn."""
    node = node_of(STRICT)
    limits = dataclasses.replace(node.settings.config.limits, turn_reply_bytes_max=1 << 10)
    node.reconfigure(dataclasses.replace(node.settings.config, limits=limits))
    rows = [[b"XADD", b"s", b"*", b"f", b"v"], [b"XADD", b"t", b"*", b"f", b"v"]] * 100
    arrive(node, b"".join(map(replies.bulk_array, [row for row in rows for _ in range(3)])))
    assert node.is_behind()
    assert replies_of(node)[CLIENT].count(b"$") == 600
