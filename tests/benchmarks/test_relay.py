"""The relay counts each way, and a cut ends what passes until it is healed."""

from __future__ import annotations

import socket

from benchmarks.relay import Relay
from benchmarks.servers import free_port


def dial(relay: Relay) -> socket.socket:
    host, port = relay.address.split(":")
    return socket.create_connection((host, int(port)), 10)


def test_bytes_are_counted_each_way() -> None:
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


def test_a_cut_lasts_until_it_is_healed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, Relay(listener.getsockname()[1]) as relay:
        with dial(relay) as near, listener.accept()[0]:
            assert relay.connected.wait(10)
            relay.cut()
            assert near.recv(100) == b""
        assert not relay.connected.is_set()
        with dial(relay) as near:
            assert is_ended(near)
        relay.heal()
        with dial(relay) as near, listener.accept()[0] as far:
            far.sendall(b"back")
            assert near.recv(100) == b"back"


def is_ended(near: socket.socket) -> bool:
    try:
        return near.recv(100) == b""
    except ConnectionResetError:
        return True


def test_an_unreachable_target_ends_the_connection() -> None:
    with Relay(free_port()) as relay, dial(relay) as near:
        assert is_ended(near)
        with dial(relay) as again:
            assert is_ended(again)
