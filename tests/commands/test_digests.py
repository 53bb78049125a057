"""CRDT.DIGEST of much: its client waits, others do not, and it says what it says of little."""

from __future__ import annotations

import dataclasses

import pytest

from crdtstream.commands.digests import DigestWork
from crdtstream.core.digest import Digesting, digest_replica, digest_stream
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import replies
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, Limits
from simulations.machine import CLIENT, Machine

START_MS = 1_000
DIGEST = [b"CRDT.DIGEST"]
PONG = b"+PONG\r\n"


@pytest.fixture
def node() -> Node:
    small = dataclasses.replace(Limits(), segment_bytes_max=1 << 20, digest_entries_max=20)
    region = Machine(Config(name="east", region=1, cluster="c", id_mode=STRICT, incarnation=0, limits=small), START_MS)
    for client_id in range(2, 6):
        region.connect(client_id, START_MS)
    for number in range(300):
        region.execute([b"XADD", b"key-%d" % (number % 30), b"*", b"f", b"v"], START_MS)
    return region.node


def turn(node: Node) -> dict[int, bytes]:
    ready = node.ready()
    node.check()
    return {} if ready is None else dict(ready.replies)


def until_answered(node: Node, client_id: int, turns_max: int = 1_000) -> bytes:
    for _ in range(turns_max):
        reply = turn(node).get(client_id)
        if reply is not None:
            return reply
    raise AssertionError(f"client {client_id} is not answered within {turns_max} turns")


def digesting_of(node: Node) -> Digesting:
    work = node.context.works[0]
    assert isinstance(work, DigestWork)
    return work.digesting


def expected(node: Node) -> bytes:
    return replies.bulk(digest_replica(node.replica).hex().encode())


def test_others_are_served_while_it_is_made(node: Node) -> None:
    node.execute(CLIENT, DIGEST, START_MS)
    answered: dict[int, bytes] = {}
    turns = 0
    while CLIENT not in answered:
        assert node.serving.is_behind()
        node.execute(2, [b"PING"], START_MS)
        answered = turn(node)
        assert answered[2] == PONG
        turns += 1
    assert turns > 10
    assert answered[CLIENT] == expected(node)
    assert not node.serving.is_behind()


def test_it_is_answered_under_writes(node: Node) -> None:
    """Of which it knows what came before its moment."""
    node.execute(CLIENT, DIGEST, START_MS)
    for number in range(1_000):
        node.execute(2, [b"XADD", b"key-%d" % (number % 30), b"*", b"f", b"v"], START_MS)
        reply = turn(node).get(CLIENT)
        if reply is not None:
            break
    assert reply is not None and reply.startswith(b"$40\r\n") and reply != expected(node)
    assert not node.replica.keyspace.observers


def test_who_asks_the_same_before_its_moment_shares_it(node: Node) -> None:
    for client_id in (CLIENT, 2, 3):
        node.execute(client_id, DIGEST, START_MS)
    node.execute(4, [*DIGEST, b"key-1"], START_MS)
    assert len(node.context.works) == 1
    reply = until_answered(node, CLIENT)
    assert reply == expected(node)


def test_who_asks_after_its_moment_gets_a_later_one(node: Node) -> None:
    node.execute(CLIENT, DIGEST, START_MS)
    while not digesting_of(node).is_fixed():
        turn(node)
    before = expected(node)
    node.execute(2, b"XADD key-1 * f v".split(), START_MS)
    node.execute(2, DIGEST, START_MS)
    assert len(node.context.works) == 2
    assert until_answered(node, CLIENT) == before
    assert until_answered(node, 2) == expected(node) != before
    assert not node.context.works


def test_one_that_nobody_waits_for_is_given_up(node: Node) -> None:
    node.execute(CLIENT, DIGEST, START_MS)
    while not node.replica.keyspace.observers:
        turn(node)
    node.disconnect(CLIENT)
    turn(node)
    assert not node.context.works and not node.replica.keyspace.observers and not node.serving.is_behind()


def test_what_its_client_asked_behind_it_waits(node: Node) -> None:
    node.execute_all(CLIENT, [DIGEST, [b"PING"]], START_MS)
    reply = until_answered(node, CLIENT)
    while node.serving.is_behind():
        reply += turn(node).get(CLIENT, b"")
    assert reply == expected(node) + PONG


def test_of_one_large_key(node: Node) -> None:
    for _ in range(500):
        node.execute(2, b"XADD large * f v".split(), START_MS)
    node.execute(CLIENT, [*DIGEST, b"large"], START_MS)
    assert node.context.clients[CLIENT].parked
    stream = node.replica.keyspace.databases[0][b"large"]
    assert until_answered(node, CLIENT) == replies.bulk(digest_stream(stream).hex().encode())


def test_within_a_transaction_it_is_made_at_once(node: Node) -> None:
    for words in ([b"MULTI"], DIGEST, [b"EXEC"]):
        node.execute(CLIENT, words, START_MS)
    assert turn(node)[CLIENT].endswith(b"*1\r\n" + expected(node))
    turn(node)
    assert not node.context.works and not node.replica.keyspace.observers
