"""Calls between regions: what goes out when, and what ends without a reply."""

from __future__ import annotations

from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.forwarding import Forwarding

BYTES = 1 << 20


def sent(forwarding: Forwarding, link: int, served: int = 0, bytes_max: int = BYTES) -> tuple[list[int], list[int]]:
    message = wire.Message()
    forwarding.fill(message, link, bytes_max, served)
    forwarding.check()
    return [one.number for one in message.calls], [one.number for one in message.answers]


def asked(forwarding: Forwarding, link: int, payload: bytes = b"p", deadline_ms: int = 100) -> int:
    number = forwarding.next_number()
    forwarding.ask(number, link, payload, deadline_ms)
    return number


def test_a_call_goes_out_once_over_its_link() -> None:
    forwarding = Forwarding()
    first, second, other = asked(forwarding, 1), asked(forwarding, 1), asked(forwarding, 2)
    assert sent(forwarding, 1) == ([first, second], [])
    assert sent(forwarding, 1) == ([], [])
    assert sent(forwarding, 2) == ([other], [])


def test_a_reply_ends_its_call() -> None:
    forwarding = Forwarding()
    number = asked(forwarding, 1)
    forwarding.receive_answer(2, number, b"from another link")
    forwarding.receive_answer(1, number, b"r")
    forwarding.receive_answer(1, number, b"twice")
    assert forwarding.drain_replies() == [(number, b"r")]
    assert forwarding.drain_replies() == []


def test_a_reply_waits_until_its_turn_is_served() -> None:
    forwarding = Forwarding()
    forwarding.receive_call(1, 7, b"p")
    (call,) = forwarding.drain_arrived()
    forwarding.answer(call, b"r")
    assert sent(forwarding, 1, served=100) == ([], [])
    forwarding.end_turn(5)
    assert sent(forwarding, 1, served=4) == ([], [])
    forwarding.receive_call(1, 8, b"p")
    forwarding.answer(forwarding.drain_arrived()[0], b"r")
    assert sent(forwarding, 1, served=5) == ([], [7])
    forwarding.end_turn(6)
    assert sent(forwarding, 1, served=6) == ([], [8])


def test_a_message_is_bounded_but_always_carries_one() -> None:
    forwarding = Forwarding()
    numbers = [asked(forwarding, 1, b"x" * 100) for _ in range(3)]
    assert sent(forwarding, 1, bytes_max=1)[0] == numbers[:1]
    assert sent(forwarding, 1, bytes_max=250)[0] == numbers[1:]


def test_a_closed_link_ends_its_calls_and_forgets_those_of_its_peer() -> None:
    forwarding = Forwarding()
    here, there = asked(forwarding, 1), asked(forwarding, 2)
    forwarding.receive_call(1, 7, b"p")
    forwarding.leave(1)
    assert forwarding.drain_replies() == [(here, None)]
    assert forwarding.drain_arrived() == []
    assert sent(forwarding, 1) == ([], [])
    assert sent(forwarding, 2) == ([there], [])


def test_time_ends_a_call() -> None:
    forwarding = Forwarding()
    late, early = asked(forwarding, 1, deadline_ms=200), asked(forwarding, 1, deadline_ms=100)
    forwarding.tick(99)
    assert forwarding.drain_replies() == []
    forwarding.tick(100)
    assert forwarding.drain_replies() == [(early, None)]
    forwarding.receive_answer(1, early, b"too late")
    forwarding.receive_answer(1, late, b"r")
    assert forwarding.drain_replies() == [(late, b"r")]


def test_a_large_call_and_a_large_reply_go_in_two_messages() -> None:
    """Each of them may take half of what a message may have."""
    forwarding = Forwarding()
    call = asked(forwarding, 1, b"c" * 500)
    forwarding.receive_call(1, 7, b"asks")
    (arrived,) = forwarding.drain_arrived()
    forwarding.answer(arrived, b"a" * 500)
    forwarding.end_turn(1)
    assert sent(forwarding, 1, served=1, bytes_max=100) == ([call], [])
    assert sent(forwarding, 1, served=1, bytes_max=100) == ([], [7])


def test_what_the_peer_takes_bounds_calls_and_replies() -> None:
    forwarding = Forwarding()
    assert (forwarding.payload_max(2, 1_000), forwarding.reply_max(1, 1_000)) == (500, 500)
    forwarding.bound(1, 2, 600)
    assert (forwarding.payload_max(2, 1_000), forwarding.reply_max(1, 1_000)) == (300, 300)
    assert (forwarding.payload_max(3, 1_000), forwarding.payload_max(2, 400)) == (500, 200)
    forwarding.leave(1)
    assert forwarding.payload_max(2, 1_000) == 500


def test_calls_of_another_part_are_kept_apart_and_so_are_its_replies() -> None:
    forwarding = Forwarding()
    apart = forwarding.apart[b"apart:"] = []
    forwarding.receive_call(1, 7, b"apart:1")
    forwarding.receive_call(1, 8, b"1")
    forwarding.receive_call(2, 9, b"apart:2")
    assert [call.number for call in forwarding.drain_arrived()] == [8]
    assert [call.number for call in apart] == [7, 9]
    forwarding.leave(1)
    assert [call.number for call in apart] == [9]
    replies: list[tuple[int, bytes | None]] = []
    number = forwarding.next_number()
    forwarding.ask(number, 2, b"p", 100, replies)
    forwarding.receive_answer(2, number, b"r")
    assert replies == [(number, b"r")] and forwarding.drain_replies() == []
