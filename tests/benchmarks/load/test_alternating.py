"""Two servers compared in short rounds, one of which answers more slowly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.load.alternating import alternated
from benchmarks.load.loads import Exchanges, Load
from benchmarks.servers import Server
from crdtstream.processes.launching import Launcher
from crdtstream.processes.waiting import until

CLIENTS, STEPS, PAIRS = 2, 2, 6
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
    started = []
    for delay_ms in (20, 1):
        directory = tmp_path / str(delay_ms)
        directory.mkdir()
        server = Server(f"echo-{delay_ms}", directory, Launcher((sys.executable, "-c", SLOW_ECHO), (), directory))
        server.launch([str(server.port), str(delay_ms)])
        until(lambda server=server: "listens" in server.log(), "the server listens")  # type: ignore[misc]
        started.append(server)
    yield started[0], started[1]
    for server in started:
        server.kill()


def load_of(server: Server, _pair: int) -> Load:
    return Exchanges(server.port, [[(b"x", 1)] * STEPS] * CLIENTS, CLIENTS * STEPS)


def test_the_slower_of_two_servers_has_less_of_the_rate(servers: tuple[Server, Server]) -> None:
    slow, fast = servers
    multiple = alternated(slow, fast, load_of, PAIRS)
    assert 0 < multiple.rate < 0.9 and multiple.cpu > 0 and multiple.error > 0
    assert alternated(fast, slow, load_of, PAIRS).rate > 1.1


def test_the_servers_change_places_and_one_slow_round_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def timed(server: str, pair: int) -> tuple[float, float]:
        asked.append(server)
        return (100.0, 1.0) if (server, pair) == ("one", 3) else (2.0, 3.0) if server == "one" else (1.0, 2.0)

    monkeypatch.setattr("benchmarks.load.alternating.short_round", lambda server, pair: timed(server, pair))
    found = alternated("one", "other", lambda _server, pair: pair, PAIRS)  # type: ignore[arg-type, return-value]
    assert (found.rate, found.cpu) == (0.5, 1.5)
    assert asked[:4] == ["one", "other", "other", "one"]
