"""Regions as separate processes, for tests that kill them, and helpers that wait for them.

A `Regions` owns every process that a test starts and leaves none behind. Regions are on loopback by default. Ports are
free ones below the range that the kernel uses for outgoing connections, so that no dialler takes one while a region is
down.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import TryAgainError
from redis.retry import Retry

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 60.0
PORTS = (20_000, 32_000)
_given: set[int] = set()


def free_port() -> int:
    """Return a free port, never the same one twice."""
    while True:
        port = random.randrange(*PORTS)
        if port in _given:
            continue
        _given.add(port)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def until(condition: Callable[[], Any], what: str | Callable[[], str], deadline_s: float = DEADLINE_S) -> Any:
    """Return the condition's value once it is true; fail with `what` after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.01)


def creates(ask: Callable[..., Any], key: str, group: str, start: str = "0") -> bool:
    """Create the group; False if the region cannot create it yet."""
    try:
        ask("XGROUP", "CREATE", key, group, start, "MKSTREAM")
    except (TryAgainError, redis.BusyLoadingError):
        return False
    return True


Inside = Callable[[], AbstractContextManager[None]]


class _Connection(redis.Connection):
    """Connects inside a context, also for the connections that a pipeline opens later."""

    def __init__(self, inside: Inside, **settings: Any) -> None:
        super().__init__(**settings)  # type: ignore[no-untyped-call]
        self._inside = inside

    def _connect(self) -> Any:
        with self._inside():
            return super()._connect()  # type: ignore[no-untyped-call]


def client_of(port: int, timeout_s: float = DEADLINE_S, inside: Inside = nullcontext) -> Any:
    """Return a connected client whose replies are as on the wire."""
    pool = redis.ConnectionPool(
        connection_class=_Connection,
        inside=inside,
        port=port,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
    client = redis.Redis(connection_pool=pool, single_connection_client=True)
    client.auto_close_connection_pool = True
    client.response_callbacks.clear()
    return client


class RegionProcess:
    """One region; `start` runs `crdtstream serve` on its directory, repeatedly if needed."""

    def __init__(self, number: int, directory: Path) -> None:
        self.number = number
        self.name = f"region{number}"
        self.source = ROOT
        self.data = directory / self.name
        self.log_path = directory / f"{self.name}.log"
        self.port = free_port()
        self.replication_port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[Any] = []

    @property
    def address(self) -> str:
        """The address at which its peers dial it."""
        return f"127.0.0.1:{self.replication_port}"

    def launcher(self) -> list[str]:
        """Return a command prefix that starts the process; the process keeps its ID."""
        return []

    def inside(self) -> AbstractContextManager[None]:
        """Return a context in which created sockets reach the region."""
        return nullcontext()

    def start(self, *peers: RegionProcess, **settings: object) -> None:
        named: dict[str, object] = {
            "name": self.name,
            "region": self.number,
            "cluster": "tests",
            "data": self.data,
            "port": self.port,
            "replication-port": self.replication_port,
            **{name.replace("_", "-"): value for name, value in settings.items()},
        }
        arguments = [word for name, value in named.items() for word in (f"--{name}", str(value))]
        arguments += [word for peer in peers for word in ("--peer", self.path_to(peer))]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.launcher(), sys.executable, "-m", "crdtstream", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.source,
                start_new_session=True,
            )

    def path_to(self, peer: RegionProcess) -> str:
        """The address at which this region dials the peer."""
        return peer.address

    def client(self, timeout_s: float = DEADLINE_S) -> Any:
        """Return a connection that the caller closes."""
        return client_of(self.port, timeout_s, self.inside)

    def connect(self, timeout_s: float = DEADLINE_S) -> Any:
        """Return a connection that is closed with the region."""
        client = self.client(timeout_s)
        self._clients.append(client)
        return client

    def ask(self, *argv: str | bytes | int) -> Any:
        """Run one command on its own connection."""
        with self.client() as client:
            return client.execute_command(*argv)

    def create_group(self, key: str, group: str, start: str = "0") -> None:
        """Create a group, and the stream if needed; a region that has just started may have to be admitted first."""
        until(
            partial(creates, self.ask, key, group, start), lambda: f"{self.name} creates a group; {self.log()[-2000:]}"
        )

    def state(self) -> str:
        """Return `ok`, the text of a LOADING error, or `down`."""
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self.process.returncode}: {self.log()[-2000:]}")
        try:
            with self.client() as client:
                client.execute_command("XLEN", "x")
        except redis.BusyLoadingError as error:
            return str(error)
        except redis.ConnectionError:
            return "down"
        return "ok"

    def await_serving(self) -> RegionProcess:
        until(lambda: self.state() == "ok", lambda: f"{self.name} serves; its log: {self.log()[-2000:]}")
        return self

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(DEADLINE_S)
        self.disconnect()

    def terminate(self) -> int:
        """Ask the process to stop; return its exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(DEADLINE_S)
        self.disconnect()
        return code

    def disconnect(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()

    # What it reports about itself

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def origin(self) -> str:
        """The name of the origin under which it writes."""
        row = pairs(self.ask("CRDT.REGIONS")[0])
        return str(row[b"origin"].decode())

    def digest(self) -> bytes:
        return bytes(self.ask("CRDT.DIGEST"))


def pairs(flat: list[Any]) -> dict[bytes, Any]:
    """Convert a RESP2 map: key, value, key, value."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


class Regions:
    """The regions of one test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: list[RegionProcess] = []

    def make(self, *numbers: int) -> list[RegionProcess]:
        made = [RegionProcess(number, self.directory) for number in numbers]
        self.running += made
        return made

    def logs(self) -> str:
        return "\n".join(f"{region.name}: {region.log()[-1500:]}" for region in self.running)

    def await_agreement(self, *regions: RegionProcess) -> None:
        chosen = regions or tuple(self.running)
        until(lambda: len({region.digest() for region in chosen}) == 1, lambda: f"equal digests; {self.logs()}")


@contextmanager
def regions_in(directory: Path) -> Iterator[Regions]:
    regions = Regions(directory)
    try:
        yield regions
    finally:
        for region in regions.running:
            region.kill()
