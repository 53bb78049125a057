"""A link relays when open, keeps every byte while held, and drops and turns away when cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from crdtstream.demo.link import Link, drop

PATIENCE_S = 60.0


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
        with client, suppress(ConnectionError):  # a link that is cut may reset it
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
def link(echo: Echo) -> Iterator[Link]:
    made = Link()
    made.lead_to(echo.port)
    yield made
    made.close()


def dial(link: Link) -> socket.socket:
    host, port = link.address.split(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def says(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(100)


def hears_end(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionError:
        return True


def test_an_open_link_relays_both_ways(link: Link) -> None:
    link.open()
    with dial(link) as client:
        assert says(client, b"one") == b"one"
        assert says(client, b"two") == b"two"


def test_a_new_link_is_cut(link: Link) -> None:
    with dial(link) as client:
        assert hears_end(client)


def test_a_held_link_keeps_connections_and_bytes(link: Link, echo: Echo) -> None:
    link.open()
    with dial(link) as client:
        assert says(client, b"a") == b"a"
        link.hold()
        client.sendall(b"b")
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.recv(100)
        assert echo.heard == b"a"
        client.settimeout(PATIENCE_S)
        link.open()
        assert client.recv(100) == b"b"


def test_a_cut_drops_connections_even_held_ones(link: Link, echo: Echo) -> None:
    link.open()
    with dial(link) as client:
        assert says(client, b"a") == b"a"
        link.hold()
        client.sendall(b"lost")
        link.cut()
        assert hears_end(client)
    assert echo.heard == b"a"


def test_a_cut_link_turns_away_until_it_is_open_again(link: Link) -> None:
    link.open()
    link.cut()
    with dial(link) as client:
        assert hears_end(client)
    link.open()
    with dial(link) as client:
        assert says(client, b"again") == b"again"


def test_the_end_of_one_side_ends_the_other(link: Link) -> None:
    link.open()
    with dial(link) as client:
        assert says(client, b"a") == b"a"
        client.shutdown(socket.SHUT_WR)
        assert hears_end(client)


def test_nobody_at_the_far_end_turns_away(link: Link, echo: Echo) -> None:
    echo.close()
    link.open()
    with dial(link) as client:
        assert hears_end(client)


def ask_once(link: Link) -> bytes:
    """An end before the reply is a lost connection."""
    with dial(link) as client:
        client.sendall(b"a")
        reply = client.recv(100)
    if not reply:
        raise ConnectionError
    return reply


def test_a_closed_link_is_gone(link: Link) -> None:
    link.open()
    link.close()
    with pytest.raises(ConnectionError):
        ask_once(link)
