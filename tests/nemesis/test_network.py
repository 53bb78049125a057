"""Two namespaces and the switch: what passes, what does not, and that nothing stays."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator

import pytest

from crdtstream.processes.waiting import DEADLINE_S
from nemesis.network import PREFIX, Direction, Network, entered, run
from tests.nemesis.needs import namespaces

pytestmark = namespaces

PORT = 5_000
SHORT_S = 0.4


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network({1: "east", 2: "west"})
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def west(network: Network) -> Iterator[socket.socket]:
    with entered(network.namespaces[2].name), socket.create_server(("", PORT)) as listener:
        yield listener


def connect(network: Network, timeout_s: float = DEADLINE_S) -> socket.socket:
    """From east to west; raises TimeoutError."""
    with entered(network.namespaces[1].name):
        made = socket.socket()
    made.settimeout(timeout_s)
    try:
        made.connect((network.namespaces[2].address, PORT))
    except TimeoutError:
        made.close()
        raise
    return made


def test_bytes_pass(network: Network, west: socket.socket) -> None:
    data = bytes(range(256)) * 4_096
    with connect(network) as near:
        far, address = west.accept()
        with far:
            near.sendall(data[:10_000])
            received = b""
            while len(received) < 10_000:
                received += far.recv(1 << 16)
            assert received == data[:10_000]
            assert address[0] == network.namespaces[1].address


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize(("source", "sink"), [(1, 2), (2, 1)])
def test_a_direction_that_is_cut_is_silent_until_it_heals(network: Network, source: int, sink: int) -> None:
    network.cut_one_way(source, sink)
    with pytest.raises(TimeoutError):
        connect(network, SHORT_S)
    network.heal()
    connect(network).close()


@pytest.mark.usefixtures("west")
def test_a_slow_direction_delays(network: Network) -> None:
    network.slow(1, 2, 0.2)
    begun_s = time.monotonic()
    connect(network).close()
    assert time.monotonic() - begun_s >= 0.2


def test_a_narrow_direction_passes_so_many_bytes_and_drops_what_would_wait_long() -> None:
    direction = Direction()
    assert direction.passes_s(1_000, 5.0) == 5.0
    direction.bytes_s = 1_000.0
    assert [direction.passes_s(500, 5.0) for _ in range(4)] == [5.5, 6.0, 6.5, None]
    assert direction.passes_s(500, 6.0) == 7.0
    direction.heal()
    assert direction.passes_s(500, 6.0) == 6.0


def test_bytes_pass_a_narrow_direction(network: Network, west: socket.socket) -> None:
    network.narrow(1, 2, 200_000)
    with connect(network) as near:
        far, _ = west.accept()
        with far:
            near.sendall(bytes(100_000))
            far.settimeout(DEADLINE_S)
            left = 100_000
            while left:
                left -= len(far.recv(1 << 16))


@pytest.mark.usefixtures("west")
def test_a_direction_that_loses_everything_is_as_good_as_cut(network: Network) -> None:
    network.lose(2, 1, 1.0)
    with pytest.raises(TimeoutError):
        connect(network, SHORT_S)


def test_no_way_leads_out(network: Network) -> None:
    with entered(network.namespaces[1].name):
        inside = socket.socket()
    inside.settimeout(SHORT_S)
    with inside, pytest.raises(OSError, match=os.strerror(errno.ENETUNREACH)):
        inside.connect(("192.0.2.1", PORT))


def test_nothing_stays() -> None:
    made = Network({1: "east", 2: "west"})
    names = [namespace.name for namespace in made.namespaces.values()]
    made.close()
    assert not [name for name in names if name in run("ip", "netns", "list")]


def test_what_a_dead_maker_left_is_removed() -> None:
    name = f"{PREFIX}-4194999-gone{os.getpid()}"  # beyond what a process ID can be
    run("ip", "netns", "add", name)
    Network({1: "east"}).close()
    assert name not in run("ip", "netns", "list")
