"""A process from its launch to its end, and what is said when it does not do as it should.

The processes here are short scripts: a port that answers DBSIZE like a Redis server, or one that never does.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crdtstream.processes.launching import Launcher
from crdtstream.processes.server import DOWN, SERVES, ServerProcess
from crdtstream.processes.waiting import ProcessError, until

SERVING = """
import os, signal, socket, sys
print("began with", *sys.argv[2:], "in", os.getcwd(), os.environ.get("MARK"), flush=True)
{handler}
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    while True:
        client, _ = listener.accept()
        while data := client.recv(4096):
            for word, reply in ((b"DBSIZE", {reply}), (b"SETINFO", b"+OK\\r\\n")):
                client.sendall(reply * data.count(word))
"""
DEAF = "signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))"


def made(log_in: Path, reply: str = 'b":0\\r\\n"', handler: str = "", **settings: object) -> ServerProcess:
    script = SERVING.format(reply=reply, handler=handler)
    launcher = replace(Launcher((sys.executable, "-c", script)), **settings)  # type: ignore[arg-type]
    return ServerProcess("server", log_in, launcher)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = made(tmp_path, directory=tmp_path, environment={"MARK": "here"}, before=("nice", "-n", "1"))
    server.launch([str(server.port), "words"])
    yield server
    server.kill()


def test_it_is_launched_as_it_is_told(server: ServerProcess, tmp_path: Path) -> None:
    server.await_serving()
    assert server.log() == f"began with words in {tmp_path} here\n"
    assert server.state() == SERVES
    assert server.terminate() == -signal.SIGTERM
    server.launch([str(server.port), "again"])
    server.await_serving()
    assert server.log().count("began with") == 2


def test_a_client_is_closed_with_it(server: ServerProcess) -> None:
    client = server.await_serving().connect()
    assert client.execute_command("DBSIZE") == 0
    server.kill()
    assert client.connection is None or not client.connection.is_connected
    assert not server.runs()


def test_its_end_is_named_with_its_log(server: ServerProcess) -> None:
    server.await_serving().signal(signal.SIGKILL)
    until(lambda: not server.runs(), "it ends")
    with pytest.raises(ProcessError, match=r"server ended with exit code -9\n    began with words"):
        server.await_serving()


def test_one_that_does_not_serve_is_named_with_its_log(tmp_path: Path) -> None:
    server = made(tmp_path, "b'-LOADING the log is read\\r\\n'")
    server.launch([str(server.port)])
    try:
        until(lambda: server.state() != DOWN, "it answers")
        with pytest.raises(ProcessError, match=r"not within 0 s: server serves: it is the log is read\n    began"):
            server.await_serving(0)
    finally:
        server.kill()


def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    server = made(tmp_path, handler=DEAF)
    server.launch([str(server.port)])
    with server.await_serving():
        server.request_stop()
        until(lambda: "no" in server.log().splitlines(), "it was asked")
        with pytest.raises(ProcessError, match=r"not within 0.1 s: server ends\n"):
            server.await_end(0.1)
        server.stop(0.1)
        assert not server.runs()
        assert server.await_end() == -signal.SIGKILL


def test_one_that_was_never_started(tmp_path: Path) -> None:
    server = ServerProcess("server", tmp_path)
    server.stop()
    server.kill()
    assert not server.runs() and server.log_end() == "; its log is empty"
    with pytest.raises(ProcessError, match="server was never started"):
        server.check_alive()


def test_it_has_a_session_of_its_own(server: ServerProcess) -> None:
    found = subprocess.run(["ps", "-o", "sid=", "-p", str(server.pid)], capture_output=True, text=True, check=True)
    assert int(found.stdout) == server.pid
