"""Peers that are added and removed while a transport runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
import structlog.testing

from crdtstream.processes.ports import free_port
from crdtstream.replication import wire_pb2 as wire
from crdtstream.runtime.links import grpc_transport, stirring
from crdtstream.runtime.links.stirring import SocketAddress
from tests.runtime.speakers import Speaker, Transports, config, until


async def test_a_peer_that_is_added_is_dialled(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1), east)
    dialling = await transports.start(config(2), west)
    with structlog.testing.capture_logs() as told:
        dialling.follow((f"127.0.0.1:{listening.port}",))
        dialling.follow((f"127.0.0.1:{listening.port}",))
    await until(lambda: east.greetings() == 1 == west.greetings(), "the greetings")
    (line,) = [line for line in told if line["event"] == "peers-changed"]
    assert (line["added"], line["removed"]) == (f"127.0.0.1:{listening.port}", "")


async def test_a_peer_that_is_removed_before_it_answers_is_not_dialled_again(transports: Transports) -> None:
    west, port = Speaker(2), free_port()
    address = f"127.0.0.1:{port}"
    dialling = await transports.start(config(2, port), west)
    await until(lambda: address in west.failed, "a dial that fails")
    dialling.follow(())
    assert not dialling.dial_failures
    east = Speaker(1)
    await transports.start(config(1, port=port), east)
    await asyncio.sleep(0.2)
    assert not east.open and not west.open


async def test_a_link_that_the_node_ends_has_its_last_words(transports: Transports) -> None:
    """The node refuses the peer, and the transport stops dialling it."""
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1), east)
    dialling = await transports.start(config(2, listening.port), west)
    await until(lambda: east.greetings() == 1 == west.greetings(), "the greetings")
    (link_id,) = west.open
    west.outbox[link_id].append(wire.Message(refused=wire.Refused(reason="no peer")))
    dialling.follow(())
    dialling.wake()
    await until(lambda: not west.open and not east.open, "the end of the link")
    assert [reason for _, reason in east.closed] == ["the peer refused: no peer"]
    await asyncio.sleep(0.2)
    assert east.accepted == 1, "it is not dialled again"


async def test_a_link_that_the_node_keeps_ends_with_its_dialler(
    transports: Transports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it greeted just when its address was removed."""
    monkeypatch.setattr(grpc_transport, "PARTING_S", 0.05)
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1), east)
    dialling = await transports.start(config(2, listening.port), west)
    await until(lambda: east.greetings() == 1 == west.greetings(), "the greetings")
    dialling.follow(())
    await until(lambda: not west.open and not east.open, "the end of the link")


async def test_a_peer_that_comes_back_is_dialled_by_one_dialler(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1), east)
    address = f"127.0.0.1:{listening.port}"
    dialling = await transports.start(config(2, listening.port), west)
    await until(lambda: east.greetings() == 1 == west.greetings(), "the greetings")
    dialling.follow(())
    dialling.follow((address,))
    await until(lambda: east.accepted >= 2, "another dial")
    await until(lambda: dialling.linked_regions() == [1] and len(west.open) == 1, "one link")


async def test_a_resolver_that_hangs_keeps_no_peer_waiting(
    transports: Transports, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hanging(*_: object) -> frozenset[SocketAddress]:
        await asyncio.Event().wait()
        return frozenset()

    monkeypatch.setattr(grpc_transport, "addresses_of", hanging)
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port), west)
    await until(lambda: east.greetings() == 1 == west.greetings(), "the greetings")


async def test_connections_are_looked_through_once_for_all_quiet_links(
    transports: Transports, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[bool] = []

    def connections() -> Iterator[socket.socket]:
        walks.append(True)
        return iter(())

    monkeypatch.setattr(stirring, "connections", connections)
    east = Speaker(1)
    listening = await transports.start(config(1), east)
    others = [Speaker(2), Speaker(3)]
    for other in others:
        await transports.start(config(other.region, listening.port), other)
    await until(lambda: len(listening.linked_regions()) == 2 == east.greetings(), "the greetings")
    for other in others:
        other.say(b"something")
    await until(lambda: len(east.payloads()) == 2, "what opens the links")
    for heard_s, expected in ((None, 0), (-1e9, 1), (-1e9, 2)):
        for link in listening._links.values():
            link._heard_s = link._heard_s if heard_s is None else heard_s
        listening._looked_s = -1e9
        listening.look_for_life()
        assert len(walks) == expected
