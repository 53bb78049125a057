"""Two transports on loopback in one event loop, each with a node that only says and hears."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

import grpc.aio
import pytest
import structlog.testing
from structlog.typing import EventDict

from crdtstream.processes.ports import free_port
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.wire_pb2_grpc import ReplicationStub
from crdtstream.runtime.links import grpc_transport
from crdtstream.runtime.links.envelope import EnvelopePacker
from crdtstream.runtime.links.grpc_transport import CONTESTED, DISPLACED_MAX, SUPERSEDED, GrpcTransport, TransportError
from crdtstream.runtime.links.streams import SEE_LOG
from crdtstream.settings.config import Config
from tests.runtime.speakers import LIMITS, Speaker, Transports, claim, config, nothing, pair, until

Starter = Callable[[Config, Speaker], "asyncio.Future[GrpcTransport]"]


async def test_both_sides_greet_and_hear_each_other(transports: Transports) -> None:
    east, west = await pair(transports)
    assert list(east.open.values()) == [False]
    assert list(west.open.values()) == [True]
    east.say(b"from east")
    west.say(b"from west", b"again")
    await until(lambda: bool(east.payloads()) and bool(west.payloads()))
    assert west.payloads() == [b"from east"]
    assert east.payloads() == [b"from west", b"again"]
    assert east.turns > 0
    assert [transport.linked_regions() for transport in transports.running] == [[2], [1]]


async def test_messages_keep_their_order_and_large_ones_pass(transports: Transports) -> None:
    east, west = await pair(transports)
    payloads = [bytes([number]) * (1 << 19 if number % 10 == 0 else 10) for number in range(30)]
    for payload in payloads:
        east.say(payload)
    await until(lambda: len(west.payloads()) == 30)
    assert west.payloads() == payloads


async def test_wakes_between_two_pulls_make_one_pull(transports: Transports) -> None:
    east, _ = await pair(transports)
    assert east.transport is not None
    await asyncio.sleep(0.05)
    before = east.pulls
    for _ in range(200):
        east.transport.wake()
        await asyncio.sleep(0)
    assert east.pulls - before < 20


async def test_a_lost_link_is_dialled_again(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    port = free_port()
    first = await transports.start(config(1, port=port), east)
    await transports.start(config(2, port), west)
    await until(lambda: west.greetings() == 1, "the greeting")
    await transports.stop(first)
    await until(lambda: not west.open, "the loss")
    await transports.start(config(1, port=port), east)
    await until(lambda: west.greetings() == 2 and bool(east.open), "the return")
    west.say(b"back")
    await until(lambda: east.payloads() == [b"back"])


async def test_a_peer_that_comes_late_is_met(transports: Transports) -> None:
    west, east = Speaker(2), Speaker(1)
    port = free_port()
    await transports.start(config(2, port), west)
    await asyncio.sleep(0.03)
    assert not west.open
    assert not west.closed
    await transports.start(config(1, port=port), east)
    await until(lambda: west.greetings() == 1, "the greeting")


async def test_two_that_dial_each_other_keep_the_stream_of_the_lower_region(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    ports = free_port(), free_port()
    await transports.start(config(2, ports[0], port=ports[1]), west)
    await transports.start(config(1, ports[1], port=ports[0]), east)

    def settled() -> bool:
        return list(east.open.values()) == [True] and list(west.open.values()) == [False]

    # A stream that lost may be dialled once more before its end hears of the other one: the choice holds in the end.
    for _ in range(50):
        await until(lambda: bool(east.met and west.met) and settled(), "the choice between two streams")
        count = east.greetings()
        await asyncio.sleep(0.4)
        if settled() and east.greetings() == count:
            break
    else:
        raise AssertionError(f"the choice between two streams does not last: {east.closed}")
    east.say(b"x")
    west.say(b"y")
    await until(lambda: west.payloads() == [b"x"] and east.payloads() == [b"y"])
    ends = {grpc_transport.SUPERSEDED, f"the peer ended the stream{SEE_LOG}", "the stream was torn down"}
    ends.add(f"the peer ended the stream: {grpc_transport.SUPERSEDED}")
    assert {reason for _, reason in east.closed} <= ends


async def test_a_peer_configured_twice_has_one_stream(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1), east)
    peers = tuple(f"{host}:{listening.port}" for host in ("127.0.0.1", "localhost"))
    await transports.start(config(2, peers=peers), west)
    await until(lambda: east.greetings() >= 2, "both greetings")
    await until(lambda: len(east.open) == len(west.open) == 1, "one stream")


async def test_two_processes_of_one_region_are_linked_side_by_side(transports: Transports) -> None:
    """Each start is an origin of its own; which of them stays is not for the transport to say."""
    east, west, again = Speaker(1), Speaker(2), Speaker(2, origin=258)
    listening = await transports.start(config(1), east)
    for one in (west, again):
        await transports.start(config(2, listening.port), one)
    await until(lambda: west.greetings() == again.greetings() == 1, "the greetings")
    assert len(east.open) == 2 and listening.linked_regions() == [2]
    east.say(b"to both")
    await until(lambda: west.payloads() == again.payloads() == [b"to both"], "what is said")
    assert east.closed == []


async def test_two_that_say_they_are_one_origin_do_not_take_turns_for_ever(transports: Transports) -> None:
    east, copies = Speaker(1), [Speaker(2), Speaker(2)]
    with structlog.testing.capture_logs() as told:
        listening = await transports.start(config(1), east)
        for copy in copies:
            await transports.start(config(2, listening.port), copy)
        contested = [CONTESTED] * 3
        await until(lambda: [why for _, why in east.closed if why == CONTESTED][:3] == contested, "three more tries")
    assert [why for _, why in east.closed].count(SUPERSEDED) == DISPLACED_MAX
    assert len([line for line in told if line.get("reason") == CONTESTED]) == 1
    assert listening.linked_regions() == [2]
    east.say(b"one of them is linked")
    await until(lambda: any(copy.payloads() for copy in copies))


async def test_who_is_refused_takes_nobodys_place(transports: Transports) -> None:
    """A region of another cluster with the number and the origin of one of ours, which dials us by mistake."""
    east, west, stranger = Speaker(1), Speaker(2), Speaker(2, "staging")
    east.unwelcome = "staging"
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port), west)
    await until(lambda: west.greetings() == 1 and listening.linked_regions() == [2], "the link")
    await transports.start(config(2, listening.port), stranger)
    await until(lambda: len(stranger.closed) >= 3, "three more tries")
    assert west.closed == [] and west.greetings() == 1
    east.say(b"still linked")
    await until(lambda: west.payloads() == [b"still linked"])


async def test_a_dialler_learns_who_answers_at_an_address(transports: Transports) -> None:
    """Also when the stream that it dialled is given up for another one between the same regions."""
    east, west = Speaker(1), Speaker(2)
    first_port, second_port = free_port(), free_port()
    await transports.start(config(1, second_port, port=first_port), east)
    await transports.start(config(2, first_port, port=second_port), west)
    await until(lambda: bool(east.met and west.met), "both know")
    assert east.met == {f"127.0.0.1:{second_port}": 2}
    assert west.met == {f"127.0.0.1:{first_port}": 1}


async def test_links_to_different_regions_live_side_by_side(transports: Transports) -> None:
    east, west, north = Speaker(1), Speaker(2), Speaker(3)
    first = await transports.start(config(1), east)
    second = await transports.start(config(2, first.port), west)
    await transports.start(config(3, first.port, second.port), north)
    await until(lambda: all(node.greetings() == 2 for node in (east, west, north)), "the greetings")
    assert second.linked_regions() == [1, 3]


@pytest.mark.parametrize("who", ["listener", "dialler"])
async def test_a_refusal_reaches_the_other_side(transports: Transports, who: str) -> None:
    east, west = Speaker(1), Speaker(2)
    refuser, refused = (east, west) if who == "listener" else (west, east)
    refuser.refuses = "wrong cluster"
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port), west)
    await until(lambda: bool(refuser.closed) and bool(refused.closed), "the end")
    assert refuser.closed[0][1] == "wrong cluster"
    assert refused.closed[0][1] == "the peer refused: wrong cluster"


async def test_a_verdict_ends_a_link_whose_write_hangs(transports: Transports) -> None:
    """The peer reads nothing, so the stream's own window fills and the write never returns."""
    east = Speaker(1)
    listening = await transports.start(config(1), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        call = ReplicationStub(channel).Exchange(metadata=claim(2))
        await call.write(EnvelopePacker().pack(wire.Message(hello=wire.Hello(region=2, origin=2))))
        await until(lambda: east.greetings() == 1)
        for number in range(64):
            east.say(noise(number))
        pulls = -1
        while pulls != east.pulls:
            pulls = east.pulls
            await asyncio.sleep(0.1)
        (link_id,) = east.open
        assert len(east.outbox[link_id]) > 0
        east.verdicts[link_id] = "nothing heard from the peer"
        east.turn()
        assert east.closed == [(link_id, "nothing heard from the peer")]


def noise(seed: int) -> bytes:
    import random

    return random.Random(seed).randbytes(500_000)


async def test_a_node_that_fails_is_reported(transports: Transports) -> None:
    class Broken(Speaker):
        def receive(self, link_id: int, message: wire.Message, byte_count: int, now_ms: int) -> None:
            raise ZeroDivisionError

    east = Broken(1)
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port), Speaker(2))
    await until(lambda: bool(transports.failures), "the failure")
    assert isinstance(transports.failures[0], ZeroDivisionError)


async def test_stopping_closes_links_and_frees_the_port(transports: Transports) -> None:
    east, west = await pair(transports)
    listening = transports.running[0]
    await transports.stop(listening)
    assert [reason for _, reason in east.closed] == ["this region is shutting down"]
    await until(lambda: bool(west.closed), "the end")
    await transports.start(config(1, port=listening.port), Speaker(1))


async def test_a_port_in_use_is_named(transports: Transports) -> None:
    listening = await transports.start(config(1), Speaker(1))
    with pytest.raises(TransportError, match=rf"cannot listen .* 127\.0\.0\.1:{listening.port}.*--replication-port"):
        await GrpcTransport(config(2, port=listening.port), Speaker(2), nothing, lambda: 0).start()


def is_warning(line: EventDict, event: str) -> bool:
    return (line["event"], line["log_level"]) == (event, "warning")


async def test_what_fails_again_is_told_once(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    west.refuses = "wrong cluster"
    soon = dataclasses.replace(LIMITS, peer_timeout_ms=40)
    with structlog.testing.capture_logs() as logged:
        listening = await transports.start(config(1), east)
        nobody = free_port()
        dialling = await transports.start(config(2, listening.port, nobody, limits=soon), west)
        await until(lambda: len(east.closed) >= 3, "three refusals")
        await until(lambda: any(is_warning(line, "peer-unreachable") for line in logged), "nobody answers")
    early = [line for line in logged if line["event"] == "dial-failed"]
    assert early, "the first tries are no warning"
    told = [line for line in logged if line["log_level"] != "debug"]
    reasons = sorted(str(line["reason"]) for line in told if line["event"] == "link-closed")
    assert reasons == ["the peer refused: wrong cluster", "wrong cluster"]
    assert len([line for line in told if line["event"] == "peer-unreachable"]) == 1
    assert {line["log_level"] for line in told} == {"warning"}
    assert listening.refusals["accepted", ""] >= 2
    assert dialling.refusals["dialled", f"127.0.0.1:{listening.port}"] >= 2
    assert dialling.dial_failures[f"127.0.0.1:{nobody}"] >= len(early) + 1


async def test_what_a_region_cannot_read_is_told_once_as_a_warning(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    small = dataclasses.replace(LIMITS, message_bytes=1 << 10, message_bytes_max=1 << 12)
    with structlog.testing.capture_logs() as told:
        listening = await transports.start(config(1, limits=small), east)
        await transports.start(config(2, listening.port), west)
        for ends in range(3):
            await until(lambda ends=ends: west.greetings() > ends, "a greeting")  # type: ignore[misc]
            west.say(bytes(1 << 13))
            await until(lambda ends=ends: len(west.closed) > ends, "the end")  # type: ignore[misc]
    closed = [line for line in told if line["event"] == "link-closed"]
    assert [line["log_level"] for line in closed] == ["warning"]
    assert "outside the permitted 1 to 4096" in str(closed[0]["reason"])


async def test_who_dialled_is_told_why_the_other_side_ended_the_link(transports: Transports) -> None:
    with structlog.testing.capture_logs() as told:
        east, _ = await pair(transports)
        east.say(b"x")
        await until(lambda: any(line["event"] == "link-opened" for line in told))
        assert east.transport is not None
        next(iter(east.transport._links.values())).close("it was too quiet")
        await until(lambda: any(line["event"] == "link-lost" for line in told))
    lost = next(line for line in told if line["event"] == "link-lost")
    assert (lost["side"], lost["reason"]) == ("dialled", "the peer ended the stream: it was too quiet")
    assert {"silent_ms", "write_ms", "message_bytes"} <= lost.keys()


async def test_links_that_open_and_end_are_told(transports: Transports) -> None:
    with structlog.testing.capture_logs() as told:
        east, _ = await pair(transports)
        east.say(b"x")
        await until(lambda: any(line["event"] == "link-opened" for line in told))
        await transports.stop(transports.running[0])
        await until(lambda: any(line["event"] == "link-lost" for line in told))
    opened = next(line for line in told if line["event"] == "link-opened")
    assert (opened["peer"], opened["peer_name"], opened["side"]) == (1, "east", "dialled")
