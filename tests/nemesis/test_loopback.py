"""Relays between two regions: what they pass and what they block, in both directions of dialling."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from crdtstream.processes.ports import HOST
from crdtstream.processes.waiting import DEADLINE_S
from nemesis.loopback import Loopback

SILENCE_S = 0.05


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with closing(Loopback((1, 2))) as made:
        yield made


@contextmanager
def linked(loopback: Loopback, dialler: int, dialled: int) -> Iterator[dict[int, socket.socket]]:
    """The two ends of a connection, by region."""
    with socket.create_server((HOST, 0)) as listener:
        loopback.lead(dialled, listener.getsockname()[1])
        host, port = loopback.address(dialler, dialled).split(":")
        with socket.create_connection((host, int(port)), DEADLINE_S) as near, listener.accept()[0] as far:
            yield {dialler: near, dialled: far}


def hears(end: socket.socket, timeout_s: float = DEADLINE_S) -> bytes | None:
    end.settimeout(timeout_s)
    try:
        return end.recv(100)
    except TimeoutError:
        return None


@pytest.mark.parametrize(("dialler", "dialled"), [(1, 2), (2, 1)])
def test_one_way_is_silent_until_it_heals_whoever_dialled(loopback: Loopback, dialler: int, dialled: int) -> None:
    with linked(loopback, dialler, dialled) as ends:
        loopback.cut_one_way(1, 2)
        ends[1].sendall(b"held")
        ends[2].sendall(b"passes")
        assert hears(ends[1]) == b"passes"
        assert hears(ends[2], SILENCE_S) is None
        loopback.heal()
        assert hears(ends[2]) == b"held"


@pytest.mark.parametrize(("dialler", "dialled"), [(1, 2), (2, 1)])
def test_a_cut_ends_the_connection_whoever_dialled(loopback: Loopback, dialler: int, dialled: int) -> None:
    with linked(loopback, dialler, dialled) as ends:
        loopback.cut(1, 2)
        assert hears(ends[1]) == hears(ends[2]) == b""
