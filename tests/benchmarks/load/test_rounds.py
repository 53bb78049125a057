"""Loads in rounds: the server finds the same each time, and so executes as many instructions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.instructions import Callgrind
from benchmarks.load.driver import Talker
from benchmarks.load.loads import Appends
from benchmarks.load.rounds import counted, play
from benchmarks.servers import EVERYSEC, Redis, Server
from crdtstream.processes.launching import Launcher
from crdtstream.processes.waiting import ProcessError, until
from tests.benchmarks.valgrind import needs_valgrind

CLIENTS, ROUNDS = 6, 20
# Answers each byte with one, and prints how many connections each pass of its loop found ready.
ECHO = """
import selectors, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
ready = selectors.DefaultSelector()
for _ in range(int(sys.argv[2])):
    ready.register(listener.accept()[0], selectors.EVENT_READ)
while True:
    found = [key.fileobj for key, _ in ready.select()]
    print(len(found), flush=True)
    for peer in found:
        data = peer.recv(1 << 16)
        if not data:
            sys.exit()
        peer.sendall(data)
"""


@pytest.fixture
def echo(tmp_path: Path) -> Server:
    return Server("echo", tmp_path, Launcher((sys.executable, "-c", ECHO)))


def test_each_pass_of_the_server_finds_the_whole_round(echo: Server) -> None:
    with echo:
        talkers = connected(echo)
        play(echo, talkers, by_lines=False)
        for talker in talkers:
            talker.socket.close()
        echo.await_end()
    passes = echo.log().splitlines()[1:]
    assert passes[:ROUNDS] == [str(CLIENTS)] * ROUNDS


def test_a_server_that_ends_is_an_error(echo: Server) -> None:
    with echo:
        talkers = connected(echo)
        echo.kill()
        with pytest.raises(ProcessError, match="echo ended"):
            play(echo, talkers, by_lines=False)
        for talker in talkers:
            talker.socket.close()


def connected(echo: Server) -> list[Talker]:
    echo.launch([str(echo.port), str(CLIENTS)])
    until(lambda: "listens" in echo.log(), "echo listens")
    return [Talker(echo.port, [(b"abc", 3)] * ROUNDS) for _ in range(CLIENTS)]


@needs_valgrind
def test_the_same_load_takes_as_many_instructions_again(redis_server: Path, tmp_path: Path) -> None:
    counter = Callgrind(tmp_path)
    with Redis(redis_server, tmp_path, EVERYSEC, counter) as server:
        server.begin()
        load = Appends([server.port] * 10, ["stream"], count=160, depth=16)
        first, second = (counted(server, load, counter).instructions_each for _ in range(2))
    assert first is not None
    assert second == pytest.approx(first, rel=0.02)
