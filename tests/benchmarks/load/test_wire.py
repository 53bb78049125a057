"""Requests to bytes, and the blocking connection against a socket that says what it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.load.wire import Connection, ReplyError, command

ENTRY = b"*2\r\n$%d\r\n%b\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


@contextmanager
def connected(reply: bytes) -> Iterator[Connection]:
    """To a server that answers the first request with `reply` and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        with Connection(listener.getsockname()[1], timeout_s=10) as connection:
            yield connection
        thread.join()


def test_a_command_is_an_array_of_bulks() -> None:
    assert command("XADD", b"k\r\n", 12) == b"*3\r\n$4\r\nXADD\r\n$3\r\nk\r\n\r\n$2\r\n12\r\n"


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (b"+OK\r\n", b"OK"),
        (b":-12\r\n", -12),
        (b"$4\r\na\r\nb\r\n", b"a\r\nb"),
        (b"$-1\r\n", None),
        (b"*-1\r\n", None),
        (b"*0\r\n", []),
        (b"*2\r\n*1\r\n:1\r\n$0\r\n\r\n", [[1], b""]),
    ],
)
def test_replies_come_as_values(reply: bytes, value: object) -> None:
    with connected(reply) as connection:
        assert connection.ask("ASK") == value


def test_an_error_is_raised() -> None:
    with connected(b"-ERR no such thing\r\n") as connection, pytest.raises(ReplyError, match="ERR no such thing"):
        connection.ask("ASK")


def test_a_cut_reply_is_a_lost_connection() -> None:
    with connected(b"$4") as connection, pytest.raises(ConnectionError):
        connection.ask("ASK")


def test_entries_are_their_ids_and_their_length() -> None:
    reply = b"*2\r\n" + ENTRY % (3, b"1-1") + ENTRY % (4, b"10-2")
    with connected(reply) as connection:
        connection.send("XRANGE")
        assert connection.entries() == ([b"1-1", b"10-2"], len(reply))
