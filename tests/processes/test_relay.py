"""A relay passes bytes on when open, keeps them while held, one way or both, and drops and rejects when cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from crdtstream.processes.ports import free_port
from crdtstream.processes.relay import Relay, drop
from crdtstream.processes.waiting import DEADLINE_S, until

SILENCE_S = 0.05


class Echo:
    """A server that sends everything back, and counts what reached it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.heard = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(ConnectionError):  # a relay that is cut may reset it
            while chunk := client.recv(4096):
                self.heard += chunk
                client.sendall(chunk)

    def close(self) -> None:
        drop(self._listener)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def relay(echo: Echo) -> Iterator[Relay]:
    with Relay(echo.port) as made:
        yield made


def dial(relay: Relay) -> socket.socket:
    host, port = relay.address.split(":")
    return socket.create_connection((host, int(port)), DEADLINE_S)


def says(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(100)


def is_silent(client: socket.socket) -> bool:
    client.settimeout(SILENCE_S)
    try:
        client.recv(100)
    except TimeoutError:
        return True
    finally:
        client.settimeout(DEADLINE_S)
    return False


def hears_end(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionError:
        return True


def test_an_open_relay_passes_and_counts_both_ways(relay: Relay) -> None:
    with dial(relay) as client:
        assert says(client, b"one") == b"one"
        assert says(client, b"two") == b"two"
        assert (relay.to_target, relay.from_target) == (6, 6)


def test_each_direction_has_its_count() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Relay(listener.getsockname()[1]) as relay,
        dial(relay) as near,
        listener.accept()[0] as far,
    ):
        near.sendall(b"hello")
        assert far.recv(100) == b"hello"
        far.sendall(b"you")
        assert near.recv(100) == b"you"
        assert (relay.to_target, relay.from_target) == (5, 3)


def test_a_relay_that_leads_nowhere_rejects(echo: Echo) -> None:
    with Relay() as relay:
        with dial(relay) as client:
            assert hears_end(client)
        relay.lead_to(echo.port)
        with dial(relay) as client:
            assert says(client, b"there") == b"there"


def test_a_held_relay_keeps_connections_and_bytes(relay: Relay, echo: Echo) -> None:
    with dial(relay) as client:
        assert says(client, b"a") == b"a"
        relay.hold()
        client.sendall(b"b")
        assert is_silent(client)
        assert echo.heard == b"a"
        relay.heal()
        assert client.recv(100) == b"b"


def test_a_direction_can_be_held_alone(relay: Relay, echo: Echo) -> None:
    with dial(relay) as client:
        assert says(client, b"a") == b"a"
        relay.hold_one_way(to_target=False)
        client.sendall(b"b")
        until(lambda: echo.heard == b"ab", "the other direction passes")
        assert is_silent(client)
        relay.heal()
        assert client.recv(100) == b"b"
        relay.hold_one_way(to_target=True)
        client.sendall(b"c")
        assert is_silent(client)
        assert echo.heard == b"ab"


def test_a_cut_drops_connections_even_held_ones(relay: Relay, echo: Echo) -> None:
    with dial(relay) as client:
        assert says(client, b"a") == b"a"
        relay.hold()
        client.sendall(b"lost")
        relay.cut()
        assert hears_end(client)
    assert echo.heard == b"a"


def test_a_cut_relay_rejects_until_it_heals(relay: Relay) -> None:
    with dial(relay) as client:
        assert says(client, b"a") == b"a"
        assert relay.connected.is_set() and not relay.is_cut
        relay.cut()
        assert hears_end(client)
    assert not relay.connected.is_set() and relay.is_cut
    with dial(relay) as client:
        assert hears_end(client)
    relay.heal()
    with dial(relay) as client:
        assert says(client, b"again") == b"again"
    assert relay.connected.is_set()


def test_the_end_of_one_side_ends_the_other(relay: Relay) -> None:
    with dial(relay) as client:
        assert says(client, b"a") == b"a"
        client.shutdown(socket.SHUT_WR)
        assert hears_end(client)


def test_nobody_at_the_far_end_rejects() -> None:
    with Relay(free_port()) as relay:
        for _ in range(2):
            with dial(relay) as client:
                assert hears_end(client)


def ask_once(relay: Relay) -> bytes:
    """An end before the reply is a lost connection."""
    with dial(relay) as client:
        client.sendall(b"a")
        reply = client.recv(100)
    if not reply:
        raise ConnectionError
    return reply


def test_a_closed_relay_is_gone(relay: Relay) -> None:
    relay.close()
    with pytest.raises(ConnectionError):
        ask_once(relay)
