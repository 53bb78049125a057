"""Clients of a shard that moves: held, then redirected, and nothing of theirs is done here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtstream.commands.routing import UNBLOCKED
from crdtstream.commands.table import TABLE
from crdtstream.connections.command import Command
from crdtstream.connections.shards import ShardAddress, map_of
from crdtstream.core.values.entry_id import STRICT
from crdtstream.region.departing import depart, hold_clients, ready_away, tick_away
from crdtstream.region.node import Node
from simulations.machine import CLIENT
from tests.commands import test_dumping_slices as slices
from tests.region.test_serving_bursts import OTHER, START_MS, node_of, replies_of

HERE = [ShardAddress("10.0.0.1", 7000, 0), ShardAddress("10.0.0.1", 7001, 0)]
THERE = [HERE[0], ShardAddress("10.0.0.2", 7001, 0)]
# `a` is a key of this shard, `b` of the other one.
MOVED = b"-MOVED 15495 10.0.0.2:7001\r\n"
TEXT = "shard 1 has moved"
LOADING = b"-LOADING shard 1 has moved\r\n"
DISCARDED = b"-EXECABORT Transaction discarded because of: LOADING shard 1 has moved\r\n"


def shard() -> Node:
    node = node_of(STRICT)
    node.follow_shards(map_of("c", 1, 1, HERE, 1))
    return node


def request(node: Node, *lines: bytes, client: int = CLIENT) -> None:
    node.execute_all(client, [line.split() for line in lines], START_MS)


def move(node: Node) -> dict[int, bytes]:
    """Stop the log and redirect; return what clients got."""
    replies_of(node)
    node.stop()
    depart(node, map_of("c", 1, 1, THERE, 2, away=True), TEXT)
    return answers(node)


def answers(node: Node) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while (ready := ready_away(node)) is not None:
        assert not ready.records and not ready.urgent
        for client_id, data in ready.replies:
            found[client_id] = found.get(client_id, b"") + data
    return found


def test_requests_are_held_and_then_redirected() -> None:
    node = shard()
    hold_clients(node)
    request(node, b"XADD a * f v", b"XLEN a", b"DBSIZE")
    request(node, b"PING", client=OTHER)
    assert replies_of(node) == {}
    assert move(node) == {
        CLIENT: MOVED * 2 + LOADING,
        OTHER: LOADING,
    }
    assert not node.replica.keyspace.keys(0)


def test_what_was_answered_before_is_in_the_log() -> None:
    node = shard()
    request(node, b"XADD a * f v")
    hold_clients(node)
    assert CLIENT in replies_of(node)
    move(node)
    request(node, b"XADD a * f v", b"XADD b * f v")
    assert answers(node) == {CLIENT: MOVED + b"-MOVED 3300 10.0.0.1:7000\r\n"}


def test_blocked_readers_are_redirected() -> None:
    node = shard()
    request(node, b"XREAD BLOCK 0 STREAMS a $")
    request(node, b"WAIT 1 0", client=OTHER)
    hold_clients(node)
    assert move(node) == {CLIENT: MOVED, OTHER: f"-{UNBLOCKED}\r\n".encode()}
    request(node, b"XREAD BLOCK 0 STREAMS a $")
    assert answers(node) == {CLIENT: MOVED}


@pytest.mark.parametrize("held", [False, True])
def test_a_transaction_fails(held: bool) -> None:
    node = shard()
    request(node, b"MULTI", b"XADD a * f v")
    if held:
        hold_clients(node)
        request(node, b"EXEC")
        assert move(node) == {CLIENT: MOVED}
    else:
        move(node)
        request(node, b"XADD a * f w", b"EXEC")
        assert answers(node)[CLIENT].startswith(MOVED * 2)
    request(node, b"MULTI", b"XADD a * f v", b"EXEC")
    assert answers(node)[CLIENT].startswith(b"+OK\r\n" + MOVED + b"-EXECABORT")
    assert not node.replica.keyspace.keys(0)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("queued", [b"FLUSHALL", b"PUBLISH news text", b"SUBSCRIBE news"])
def test_a_transaction_without_keys_fails_too(queued: bytes, held: bool) -> None:
    node = shard()
    request(node, b"XADD a * f v", b"MULTI", b"PING", queued)
    hold_clients(node)
    if held:
        request(node, b"EXEC")
        assert move(node) == {CLIENT: DISCARDED}
    else:
        move(node)
        request(node, b"EXEC")
        assert answers(node) == {CLIENT: DISCARDED}
    assert node.replica.keyspace.keys(0)
    request(node, b"EXEC")
    assert answers(node) == {CLIENT: b"-ERR EXEC without MULTI\r\n"}


def test_a_transaction_of_what_a_region_does_while_it_loads_is_done() -> None:
    node = shard()
    request(node, b"MULTI", b"CLIENT ID", b"UNSUBSCRIBE news")
    move(node)
    request(node, b"EXEC")
    assert answers(node)[CLIENT].startswith(b"*2\r\n:1\r\n*3\r\n")


def test_nothing_may_be_prepared_any_more() -> None:
    node = shard()
    request(node, b"XADD a * f v")
    move(node)
    node.replica.delete_stream((0, b"a"))
    with pytest.raises(AssertionError, match="changes nothing"):
        ready_away(node)


@pytest.mark.parametrize("line", [b"SUBSCRIBE news", b"PSUBSCRIBE n*", b"PUBLISH news text", b"MONITOR"])
def test_nobody_listens_or_publishes_here(line: bytes) -> None:
    node = shard()
    request(node, b"CLIENT ID", client=OTHER)
    hold_clients(node)
    replies_of(node)
    request(node, line)
    assert move(node)[CLIENT] == LOADING
    request(node, line, client=OTHER)
    assert answers(node) == {OTHER: LOADING}
    assert not node.clients[CLIENT].subscribed and not node.context.pubsub.published


def begin_to_restore(clients: tuple[int, ...] = (CLIENT,)) -> Node:
    """A shard that reads a payload in many turns."""
    node = slices.region_of()
    payload = slices.payload_of(node)
    node.follow_shards(map_of("c", 1, 1, HERE, 1))
    for client in clients:
        node.execute(client, [b"RESTORE", b"a", b"0", payload], START_MS)
    return node


def test_what_takes_several_turns_and_names_a_key_is_redirected() -> None:
    node = begin_to_restore()
    assert node.context.works
    hold_clients(node)
    assert not node.context.works and not node.is_behind() and replies_of(node) == {}
    assert move(node) == {CLIENT: MOVED}
    assert node.replica.keyspace.find((0, b"a")) is None


def test_what_takes_several_turns_and_names_no_key_is_cut_short() -> None:
    """Its client learns that it got no reply, and may ask again."""
    node = shard()
    request(node, b"CONFIG SET digest-entries-max 1", *[b"XADD a * f v"] * 3)
    replies_of(node)
    request(node, b"CRDT.DIGEST")
    assert node.context.works
    hold_clients(node)
    assert not node.context.works
    assert move(node) == {CLIENT: f"-{UNBLOCKED}\r\n".encode()}


def test_listeners_are_closed_and_others_may_look_at_the_map() -> None:
    node = shard()
    request(node, b"SUBSCRIBE news", client=OTHER)
    move(node)
    assert [client.id for client in node.clients.values() if client.closing] == [OTHER]
    request(node, b"CLUSTER SLOTS")
    assert b"10.0.0.2" in answers(node)[CLIENT]


def test_a_newer_map_is_followed() -> None:
    node = shard()
    move(node)
    elsewhere = [HERE[0], ShardAddress("10.0.0.3", 7001, 0)]
    depart(node, map_of("c", 1, 1, elsewhere, 3, away=True), TEXT)
    request(node, b"XLEN a")
    assert answers(node) == {CLIENT: b"-MOVED 15495 10.0.0.3:7001\r\n"}


def all_commands() -> Iterator[Command]:
    for command in TABLE.values():
        yield command
        yield from (command.subcommands or {}).values()


def test_no_command_that_writes_is_exempt() -> None:
    assert not [command.name for command in all_commands() if command.writes and command.loading_allowed]


@pytest.mark.parametrize("line", [b"DEBUG SLEEP 0.2", b"CLIENT PAUSE 200"])
def test_time_passes_for_who_waits_for_it_alone(line: bytes) -> None:
    node = shard()
    hold_clients(node)
    move(node)
    request(node, line)
    answers(node)
    request(node, b"INFO keyspace")
    assert answers(node) == {}
    tick_away(node, START_MS + 300)
    assert answers(node)[CLIENT].endswith(b"# Keyspace\r\n\r\n")
