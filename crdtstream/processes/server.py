"""A process that answers Redis requests at a port: started, waited for, asked, signalled, stopped, killed.

Whatever fails names the process and shows the end of its log.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import redis

from crdtstream.processes.clients import client_of
from crdtstream.processes.launching import LOCAL, Launching, Running
from crdtstream.processes.ports import free_port
from crdtstream.processes.waiting import DEADLINE_S, ProcessError, until

LOG_LINES_SHOWN = 20
STOP_S = 120.0
STATE_S = 5.0
SERVES, DOWN = "ok", "down"


class ServerProcess:
    """One process at a time, launched repeatedly if needed; a context manager that stops it at the end."""

    reply_s = DEADLINE_S

    def __init__(self, name: str, directory: Path, launcher: Launching = LOCAL, port: int = 0) -> None:
        self.name = name
        self.launcher = launcher
        self.port = port or free_port()
        self.log_path = directory / f"{name}.log"
        self.process: Running | None = None
        self._clients: list[Any] = []

    def __str__(self) -> str:
        return self.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def launch(self, arguments: Sequence[str]) -> None:
        self.process = self.launcher.launch(arguments, self.log_path)

    @property
    def pid(self) -> int:
        return self._started().pid

    def _started(self) -> Running:
        if self.process is None:
            raise ProcessError(f"{self} was never started")
        return self.process

    # Its log, and whether it serves

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_end(self) -> str:
        """The last lines of its log, to follow a complaint."""
        lines = self.log().splitlines()[-LOG_LINES_SHOWN:]
        return "".join(f"\n    {line}" for line in lines) or "; its log is empty"

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def check_alive(self) -> None:
        code = self._started().poll()
        if code is not None:
            raise ProcessError(f"{self} ended with exit code {code}{self.log_end()}")

    def state(self) -> str:
        """Return `ok`, the text of a LOADING error, or `down`; a process that has ended is an error."""
        self.check_alive()
        try:
            # Another program may hold the port and say nothing: then look soon whether the process still runs.
            with self.client(STATE_S) as client:
                client.execute_command("DBSIZE")
        except redis.BusyLoadingError as error:
            return str(error)
        except (redis.ConnectionError, redis.TimeoutError):
            return DOWN
        return SERVES

    def await_serving(self, deadline_s: float = DEADLINE_S) -> Self:
        until(
            lambda: self.state() == SERVES, lambda: f"{self} serves: it is {self.state()}{self.log_end()}", deadline_s
        )
        return self

    # Its clients

    def client(self, timeout_s: float = DEADLINE_S, decode: bool = False) -> Any:
        """Return a connection that the caller closes."""
        return client_of(self.port, timeout_s, self.launcher.inside, decode)

    def connect(self, timeout_s: float = DEADLINE_S, decode: bool = False) -> Any:
        """Return a connection that is closed when the process ends."""
        client = self.client(timeout_s, decode)
        self._clients.append(client)
        return client

    def ask(self, *argv: str | bytes | int) -> Any:
        """Run one command on its own connection."""
        with self.client(self.reply_s) as client:
            return client.execute_command(*argv)

    def disconnect(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()

    # Its end

    def signal(self, number: int) -> None:
        self._started().send_signal(number)

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self.process is not None and self.runs():
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(DEADLINE_S)
        self.disconnect()

    def request_stop(self) -> None:
        """Ask for a clean stop and return at once; several processes stop sooner when all are asked first."""
        if self.runs():
            self.signal(signal.SIGTERM)

    def await_end(self, deadline_s: float = DEADLINE_S) -> int:
        """Return its exit code."""
        try:
            code = self._started().wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"not within {deadline_s:g} s: {self} ends{self.log_end()}") from None
        self.disconnect()
        return code

    def terminate(self) -> int:
        """Stop it as an operator would, and return its exit code."""
        self.request_stop()
        return self.await_end()

    def stop(self, deadline_s: float = STOP_S) -> None:
        """Stop it, and kill it if it does not end; one that never started, or has ended, is left."""
        self.request_stop()
        try:
            if self.process is not None:
                self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            pass
        self.kill()
