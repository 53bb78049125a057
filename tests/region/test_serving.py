"""Turns that end: what clients get of each, in which order, and what becomes of the rest."""

from __future__ import annotations

import dataclasses

import pytest

from crdtstream.connections.allowance import MS_NS
from crdtstream.connections.statistics import Stopwatch
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import replies
from crdtstream.region.node import Node, Ready
from crdtstream.settings.config import Config, Limits
from simulations.machine import CLIENT, Machine

START_MS = 1_000
LARGE_BYTES = 100_000
TURN_BYTES = 1 << 20
READ = b"XRANGE x - +".split()
PING = [b"PING"]
PONG = b"+PONG\r\n"


def region_of() -> Machine:
    small = dataclasses.replace(Limits(), segment_bytes_max=1 << 20, turn_reply_bytes_max=TURN_BYTES)
    region = Machine(Config(name="east", region=1, cluster="c", id_mode=STRICT, incarnation=0, limits=small), START_MS)
    for client_id in range(2, 6):
        region.connect(client_id, START_MS)
    region.execute([b"XADD", b"x", b"*", b"f", bytes(LARGE_BYTES)], START_MS)
    return region


@pytest.fixture
def region() -> Machine:
    return region_of()


@pytest.fixture
def node(region: Machine) -> Node:
    return region.node


def large(node: Node) -> bytes:
    """The reply to `READ`."""
    node.execute(5, READ, START_MS)
    return dict(turn(node).replies)[5]


def turn(node: Node) -> Ready:
    ready = node.ready()
    assert ready is not None
    node.check()
    return ready


def all_turns(node: Node) -> list[dict[int, bytes]]:
    """The replies of each turn until nothing is left."""
    turns: list[dict[int, bytes]] = []
    while (ready := node.ready()) is not None:
        node.check()
        turns.append(dict(ready.replies))
    return turns


def test_a_turn_ends_and_the_rest_follows_in_order(node: Node) -> None:
    one = large(node)
    requests = [request for number in range(50) for request in (READ, [b"ECHO", b"%d" % number])]
    node.execute_all(CLIENT, requests, START_MS)
    turns = all_turns(node)
    assert len(turns) > 2
    assert all(len(answered[CLIENT]) <= TURN_BYTES + 2 * len(one) for answered in turns)
    expected = b"".join(one + replies.bulk(b"%d" % number) for number in range(50))
    assert b"".join(answered[CLIENT] for answered in turns) == expected


def test_others_are_served_in_the_turn_in_which_they_ask(node: Node) -> None:
    node.execute_all(CLIENT, [READ] * 100, START_MS)
    for client_id in (2, 3, 4):
        node.execute(client_id, PING, START_MS)
        assert dict(turn(node).replies)[client_id] == PONG
        assert node.serving.is_behind()


def test_who_comes_when_the_turn_is_over_is_first_in_the_next(node: Node) -> None:
    for client_id in (CLIENT, 2, 3, 4):
        node.execute_all(client_id, [READ] * 100, START_MS)
    node.execute(5, PING, START_MS)
    first, second = dict(turn(node).replies), dict(turn(node).replies)
    assert PONG in (first.get(5), second.get(5))


def test_large_pipelines_share_the_turns(node: Node) -> None:
    one = large(node)
    clients = (CLIENT, 2, 3, 4)
    for client_id in clients:
        node.execute_all(client_id, [READ] * 60, START_MS)
    got = dict.fromkeys(clients, 0)
    for answered in all_turns(node):
        for client_id, data in answered.items():
            got[client_id] += len(data) // len(one)
        unfinished = [count for count in got.values() if count < 60]
        assert not unfinished or max(got.values()) - min(unfinished) <= 7, got
    assert set(got.values()) == {60}


class Clock:
    """Every reading is a command that took so long."""

    def __init__(self, step_ns: int) -> None:
        self.step_ns = step_ns
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns


def test_a_turn_ends_after_a_time(node: Node) -> None:
    node.context.stopwatch = Stopwatch(Clock(MS_NS // 2))
    node.execute_all(CLIENT, [PING] * 100, START_MS)
    counts = [answered[CLIENT].count(PONG) for answered in all_turns(node)]
    assert sum(counts) == 100
    assert max(counts) <= 2 * Limits().turn_ms_max + 2


def test_a_transaction_is_not_torn(node: Node) -> None:
    one = large(node)
    node.execute_all(CLIENT, [READ] * 40 + [[b"MULTI"], READ, [b"XLEN", b"x"], [b"EXEC"]], START_MS)
    received = b""
    while (ready := node.ready()) is not None:
        received += dict(ready.replies).get(CLIENT, b"")
        node.execute(2, b"XADD x * f v".split(), START_MS)
        if not node.serving.is_behind():
            break
    transaction = received[received.index(b"+OK\r\n") :]
    assert transaction.startswith(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*")
    count = int(transaction.rsplit(b":", 1)[1])
    assert transaction.count(b"$1\r\nf\r\n") == count > 1, "the range and the length are of one moment"
    assert len(one) < len(transaction)


def test_what_waits_behind_a_parked_request_goes_on_in_turns(node: Node) -> None:
    one = large(node)
    requests = [b"XREAD BLOCK 0 STREAMS y $".split(), *[READ] * 30, PING]
    node.execute_all(CLIENT, requests, START_MS)
    assert node.ready() is None
    node.execute(2, b"XADD y * f v".split(), START_MS)
    turns = all_turns(node)
    assert len(turns) > 1
    received = b"".join(answered.get(CLIENT, b"") for answered in turns)
    assert received.endswith(one * 30 + PONG)


def test_a_request_in_the_middle_may_park(node: Node) -> None:
    node.execute_all(CLIENT, [*[READ] * 10, b"XREAD BLOCK 0 STREAMS y $".split(), *[READ] * 20, PING], START_MS)
    all_turns(node)
    client = node.context.clients[CLIENT]
    assert client.parked and len(client.backlog) == 21
    node.execute(2, b"XADD y * f v".split(), START_MS)
    received = b"".join(answered.get(CLIENT, b"") for answered in all_turns(node))
    assert received.endswith(PONG) and not client.backlog and not client.backlog_bytes


def test_a_client_that_says_no_more_is_answered_before_it_is_closed(node: Node) -> None:
    one = large(node)
    node.execute_all(CLIENT, [READ] * 30, START_MS)
    node.ended(CLIENT)
    received = b""
    closing: list[int] = []
    while (ready := node.ready()) is not None:
        assert not closing
        received += dict(ready.replies).get(CLIENT, b"")
        closing += ready.closing
    assert received == one * 30
    assert closing == [CLIENT]


def test_a_refusal_comes_behind_what_was_asked(node: Node) -> None:
    one = large(node)
    node.execute_all(CLIENT, [READ] * 30, START_MS)
    node.refuse(CLIENT, b"-ERR no\r\n")
    received = b"".join(answered.get(CLIENT, b"") for answered in all_turns(node))
    assert received == one * 30 + b"-ERR no\r\n"


def test_a_client_that_left_takes_no_share(node: Node) -> None:
    node.execute_all(CLIENT, [READ] * 30, START_MS)
    node.ended(CLIENT)
    node.disconnect(CLIENT)
    assert not any(CLIENT in answered for answered in all_turns(node))
    assert not node.serving.is_behind()


def test_requests_that_want_no_reply_are_run_to_the_end(node: Node) -> None:
    """A turn may have nothing to say and something left to do."""
    node.context.stopwatch = Stopwatch(Clock(MS_NS))
    node.execute_all(CLIENT, [[b"CLIENT", b"REPLY", b"OFF"], *[PING] * 50], START_MS)
    assert all_turns(node)
    assert not node.context.clients[CLIENT].backlog
    assert node.context.statistics.tally("ping").calls == 50


def test_a_stranger_is_not_kept_waiting_for_its_turn() -> None:
    """What it may send next depends on how its AUTH ends."""
    region = region_of()
    node = region.node
    node.execute(2, b"CONFIG SET requirepass secret".split(), START_MS)
    node.connect(9, "127.0.0.1:9", START_MS)
    node.execute_all(2, [READ] * 30, START_MS)
    for client_id in (3, 4):
        node.execute_all(client_id, [READ] * 30, START_MS)
    node.execute(9, b"AUTH secret".split(), START_MS)
    assert node.context.clients[9].authenticated


def test_idle_clients_are_closed_but_not_those_that_wait_for_their_turn(node: Node) -> None:
    node.execute_all(CLIENT, [READ] * 100, START_MS)
    node.replica.keyspace.now_ms = START_MS + 10_000
    node.serving.close_idle(1)
    assert not node.context.clients[CLIENT].closing
    assert node.context.clients[5].closing


# Messages


def test_messages_come_in_the_turn_in_which_they_were_published(node: Node) -> None:
    node.execute(2, b"SUBSCRIBE a".split(), START_MS)
    turn(node)
    node.execute_all(3, [b"PUBLISH a x".split(), b"PUBLISH a y".split()], START_MS)
    x, y = (b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n%b\r\n" % text for text in (b"x", b"y"))
    assert dict(turn(node).replies) == {2: x + y, 3: b":1\r\n:1\r\n"}
    node.disconnect(2)
    node.execute(3, b"PUBLISH a z".split(), START_MS)
    assert turn(node).replies == [(3, b":0\r\n")]


def test_listeners_are_not_idle(node: Node) -> None:
    node.execute(2, b"SUBSCRIBE a".split(), START_MS)
    node.execute(3, [b"MONITOR"], START_MS)
    turn(node)
    node.replica.keyspace.now_ms += 1_000
    node.serving.close_idle(1)
    assert [client.id for client in node.clients.values() if client.closing] == [1, 4, 5]


def test_events_of_what_no_command_did_come_at_the_end_of_the_turn(node: Node) -> None:
    node.execute(2, b"CONFIG SET notify-keyspace-events KA".split(), START_MS)
    node.execute(2, b"SUBSCRIBE __keyspace@0__:s".split(), START_MS)
    turn(node)
    node.begin_slice(START_MS)
    node.replica.add_entry((0, b"s"), (START_MS, 1), [b"f", b"v"])
    node.end_slice()
    assert dict(turn(node).replies) == {2: b"*3\r\n$7\r\nmessage\r\n$16\r\n__keyspace@0__:s\r\n$4\r\nxadd\r\n"}
