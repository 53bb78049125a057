"""A move that is sent to another region than the one that delivers: that one makes it, and its answer comes back."""

from __future__ import annotations

import pytest

from crdtstream.connections.moves import REFUSED, MoveOrder
from crdtstream.protocols.call_rows import pack
from crdtstream.region.move_calls import MOVE_CALL, PREFIX, answer_in, order_payload
from simulations.cluster import Cluster
from tests.group_delivery import ALL, ask, away, formed, read, say
from tests.state_transfers import assert_equal

OTHER_CLIENT = 7


def answer(cluster: Cluster, number: int, ms: int = 300) -> bytes | None:
    cluster.live(ms)
    return cluster.pop_reply(number)


def move(cluster: Cluster, number: int, rest: str = "") -> None:
    assert ask(cluster, number, f"CRDT.GROUP MOVE s g 3 {rest}") is None, "the answer comes from elsewhere"


def is_moving(cluster: Cluster, number: int) -> bool:
    return cluster.node(number).delivering.is_moving((0, b"s"), b"g")


def test_the_region_that_delivers_makes_the_move_and_nothing_comes_twice() -> None:
    cluster = formed("DELIVER OWNER 1")
    found = read(cluster, 1, 5)
    say(cluster, 1, "XACK s g " + " ".join(found))
    move(cluster, 2)
    assert answer(cluster, 2) == b"+OK\r\n"
    assert read(cluster, 1) == [] and read(cluster, 3) == ALL[5:]
    assert_equal(cluster)


def test_the_refusal_of_the_region_that_delivers_comes_back_with_its_number() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 3)
    move(cluster, 2)
    reply = answer(cluster, 2)
    assert reply is not None and reply.startswith(b"-ERR 3 entries are pending, so the group was not moved")
    assert read(cluster, 1, 1) == ALL[3:4], "it still delivers"


def test_a_move_waits_at_the_region_that_delivers() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    move(cluster, 2, "WAIT 5000")
    assert answer(cluster, 2) is None
    assert read(cluster, 1) == [], "it moves"
    say(cluster, 1, "XACK s g 1-1 1-2")
    assert answer(cluster, 2) == b"+OK\r\n"
    assert read(cluster, 3) == ALL[2:]


def test_the_wait_ends_at_the_region_that_delivers() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    move(cluster, 2, "WAIT 500")
    assert answer(cluster, 2) is None
    reply = answer(cluster, 2, 600)
    assert reply is not None and reply.startswith(b"-ERR 2 entries are pending")
    assert read(cluster, 1) == ALL[2:]


def test_with_force_the_wait_ends_in_a_move() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    move(cluster, 2, "FORCE WAIT 500")
    assert answer(cluster, 2) is None
    assert answer(cluster, 2, 600) == b"+OK\r\n"
    assert read(cluster, 3) == ALL


def test_blocked_readers_get_new_entries_once_a_move_has_failed() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    move(cluster, 2, "WAIT 500")
    cluster.live(200)
    assert ask(cluster, 1, "XREADGROUP GROUP g c BLOCK 60000 STREAMS s >") is None
    reply = answer(cluster, 1, 900)
    assert reply is not None and b"1-3" in reply


def test_a_client_that_leaves_moves_nothing() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    machine = cluster.machines[2]
    machine.connect(OTHER_CLIENT, cluster.clock_ms(2))
    assert machine.execute(b"CRDT.GROUP MOVE s g 3 WAIT 60000".split(), cluster.clock_ms(2), OTHER_CLIENT) is None
    cluster.live(300)
    assert is_moving(cluster, 1)
    machine.node.disconnect(OTHER_CLIENT)
    cluster.live(300)
    assert not is_moving(cluster, 1)
    assert read(cluster, 1) == ALL[2:]


def test_a_link_that_breaks_ends_the_wait_on_both_sides() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    move(cluster, 2, "WAIT 60000")
    cluster.live(300)
    away(cluster, 1)
    reply = answer(cluster, 2)
    assert reply is not None and reply.startswith(b"-ERR region region1 (1) delivers this group and did not answer")
    assert b"nobody here knows" in reply
    assert not is_moving(cluster, 1) and read(cluster, 1) == ALL[2:]


def test_with_force_the_record_is_written_when_no_answer_comes() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    move(cluster, 2, "WAIT 60000 FORCE")
    cluster.live(300)
    away(cluster, 1)
    assert answer(cluster, 2) == b"+OK\r\n"
    assert read(cluster, 3) == ALL


def test_an_answer_that_does_not_come_in_time_is_not_awaited() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    cluster.node(1).exchange.forwarding.apart[PREFIX] = []
    move(cluster, 2, "WAIT 1000")
    assert answer(cluster, 2, 500 + cluster.node(2).limits.forward_timeout_ms) is None
    reply = answer(cluster, 2, 1_000)
    assert reply is not None and reply.startswith(b"-ERR region region1 (1) delivers this group and did not answer")


def test_a_region_that_delivers_no_more_says_so() -> None:
    """The one that asks has not heard of the last move yet."""
    cluster = formed("DELIVER OWNER 1")
    assert say(cluster, 1, "CRDT.GROUP MOVE s g 3") == b"+OK\r\n"
    move(cluster, 2)
    reply = answer(cluster, 2)
    assert reply == b"-ERR another region has delivered this group since: send the command again\r\n"


def test_errors_with_a_clients_bytes_come_back_as_they_are() -> None:
    cluster = formed("DELIVER OWNER 1")
    replies: list[tuple[int, bytes | None]] = []
    order = MoveOrder((0, b"s"), b"\xff" * 10_000, 3, 0, False)
    cluster.node(2).exchange.ask(1, order_payload(order), cluster.clock_ms(2), into=replies)
    cluster.live(300)
    told = answer_in(replies[0][1])
    assert told.kind == REFUSED and told.text.encode("utf-8", "surrogateescape").startswith(b"NOGROUP No such consumer")


def test_two_moves_of_one_group_do_not_wait_together() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    move(cluster, 2, "WAIT 60000")
    cluster.live(300)
    assert say(cluster, 1, "CRDT.GROUP MOVE s g 2 WAIT 100").startswith(b"-ERR another move of this group waits")


def test_a_move_is_not_forwarded_out_of_a_transaction() -> None:
    cluster = formed("DELIVER OWNER 1")
    say(cluster, 2, "MULTI")
    say(cluster, 2, "CRDT.GROUP MOVE s g 3")
    assert b"send the command there, or outside of MULTI" in say(cluster, 2, "EXEC")


def test_several_regions_that_deliver_are_named() -> None:
    cluster = formed("DELIVER ORIGIN")
    assert say(cluster, 2, "CRDT.GROUP MOVE s g 1") == b"+OK\r\n"
    cluster.live(300)
    reply = say(cluster, 2, "CRDT.GROUP MOVE s g 2")
    assert reply.startswith(b"-ERR regions region1 (1) and region3 (3) deliver this group: send the command to each")


@pytest.mark.parametrize("held", ["PAUSE 60000 WRITE", "disk"])
def test_a_region_that_takes_no_writes_refuses(held: str) -> None:
    cluster = formed("DELIVER OWNER 1")
    if held == "disk":
        cluster.node(1).writable(False)
    else:
        say(cluster, 1, f"CLIENT {held}")
    move(cluster, 2)
    reply = answer(cluster, 2)
    assert reply is not None and reply.startswith(
        (b"-MISCONF The disk is full", b"-ERR the region that delivers has pa")
    )


@pytest.mark.parametrize(
    "row",
    [[MOVE_CALL, []], [MOVE_CALL, [True, 0, "s", b"g", 3, 0, False]], [MOVE_CALL, [True, 99, b"s", b"g", 3, 0, False]]],
)
def test_a_call_that_cannot_be_read_is_refused(row: list[object]) -> None:
    cluster = formed("DELIVER OWNER 1")
    node, before = cluster.node(2), cluster.node(1).replica.applied.vector.copy()
    replies: list[tuple[int, bytes | None]] = []
    number = node.exchange.ask(1, pack(row), cluster.clock_ms(2), into=replies)
    cluster.live(300)
    [(answered, payload)] = replies
    assert answered == number and payload is not None and b"the call cannot be read" in payload
    assert cluster.node(1).replica.applied.vector == before


def test_a_region_of_a_release_that_does_not_know_the_call_is_named() -> None:
    cluster = formed("DELIVER OWNER 1")
    cluster.node(1).exchange.forwarding.apart.clear()
    move(cluster, 2)
    reply = answer(cluster, 2)
    assert reply is not None
    assert reply.startswith(b"-ERR region region1 (1) delivers this group and makes no move for another region (the ")
