"""Two servers compared in short rounds, one of which answers more slowly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest

from benchmarks.load.alternating import alternated
from benchmarks.load.loads import Exchanges, Load
from benchmarks.servers import Server
from crdtstream.processes.launching import Launcher
from crdtstream.processes.waiting import until

CLIENTS, STEPS, COMPARISONS = 2, 2, 3
# Answers PING, and each byte with one after so many milliseconds.
SLOW_ECHO = """
import selectors, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
ready = selectors.DefaultSelector()
ready.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fileobj is listener:
            ready.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(1 << 16)
        if not data:
            ready.unregister(key.fileobj)
            key.fileobj.close()
        elif b"PING" in data:
            key.fileobj.sendall(b"+PONG\\r\\n")
        else:
            time.sleep(float(sys.argv[2]) / 1000)
            key.fileobj.sendall(data)
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """One that takes 20 ms for an answer, and one that takes 1 ms."""
    with ExitStack() as stack:
        slow, fast = (stack.enter_context(echo(tmp_path / str(delay_ms), delay_ms)) for delay_ms in (20, 1))
        yield slow, fast


@contextmanager
def echo(directory: Path, delay_ms: int) -> Iterator[Server]:
    directory.mkdir()
    with Server(f"echo-{delay_ms}", directory, Launcher((sys.executable, "-c", SLOW_ECHO), (), directory)) as server:
        server.launch([str(server.port), str(delay_ms)])
        until(lambda: "listens" in server.log(), "the server listens")
        yield server


def load_of(server: Server, _round: int) -> Load:
    return Exchanges(server.port, [[(b"x", 1)] * STEPS] * CLIENTS, CLIENTS * STEPS)


def rests(_server: object) -> None:
    """What does nothing by itself is at rest."""


def test_the_slower_of_two_servers_has_less_of_the_rate(servers: tuple[Server, Server]) -> None:
    slow, fast = servers
    multiple = alternated(slow, fast, load_of, COMPARISONS, rests)
    assert 0 < multiple.rate < 0.9 and multiple.cpu > 0 and multiple.error > 0
    assert alternated(fast, slow, load_of, COMPARISONS, rests).rate > 1.1


def named_load(server: Server, number: int) -> Load:
    """What `timed` below takes for a load."""
    return cast(Load, (server, number))


class Timed:
    """A server that does nothing; each round of it takes one second of CPU time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.rounds: list[int] = []

    def cpu_s(self) -> float:
        return float(len(self.rounds))


def test_one_slow_round_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Timed(2.0), Timed(1.0)
    order: list[Timed] = []

    def timed(load: tuple[Timed, int]) -> tuple[float, float]:
        server, number = load
        order.append(server)
        server.rounds.append(number)
        return (100.0 if (server, number) == (one, 3) else server.seconds), 1.0

    monkeypatch.setattr("benchmarks.load.alternating.short_round", timed)
    found = alternated(cast(Server, one), cast(Server, other), named_load, 5, rests)
    assert (found.rate, found.cpu, found.driver) == (0.5, 1.0, 20 / (9 * 2 + 100 + 10)) and not found.driver_bound
    assert order[:4] == [one, other, other, one] and one.rounds == other.rounds == [*range(10)]
