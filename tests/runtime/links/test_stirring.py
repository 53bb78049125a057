"""Bytes that the kernel has seen, on connections that this process did not open itself."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Collection

import pytest

from crdtstream.runtime.links.stirring import DESCRIPTORS, Segments, SocketAddress, Stirring, addresses_of

HOST = "127.0.0.1"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the segments of a connection")


def segments(addresses: Collection[SocketAddress]) -> int:
    return Segments(addresses).of(addresses)


def test_data_stirs_and_silence_does_not() -> None:
    with socket.create_server((HOST, 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, address = listener.accept()
        with far:
            stirring = Stirring({address}, Segments({address}))
            assert not stirring.stirs(Segments({address}))
            near.sendall(b"x")
            assert far.recv(1) == b"x"
            assert stirring.stirs(Segments({address}))
            assert not stirring.stirs(Segments({address}))
            far.sendall(b"y")
            assert near.recv(1) == b"y"
            assert not stirring.stirs(Segments({address})), "what this side sent is no sign of the other"


def test_other_connections_do_not_count() -> None:
    with socket.create_server((HOST, 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        with far:
            near.sendall(b"x")
            assert far.recv(1) == b"x"
            assert segments({(HOST, 1), ("192.0.2.1", near.getsockname()[1])}) == 0
            assert segments(frozenset()) == 0


def test_every_descriptor_stays_open() -> None:
    with socket.create_server((HOST, 0)) as listener, open(os.devnull, "rb"):
        before = set(os.listdir(DESCRIPTORS))
        segments({(HOST, 1)})
        assert set(os.listdir(DESCRIPTORS)) == before
        socket.create_connection(listener.getsockname()).close()


async def test_a_name_leads_to_its_addresses() -> None:
    assert await addresses_of(HOST, 5) == {(HOST, 5)}
    assert await addresses_of("name.invalid", 5) == frozenset()
