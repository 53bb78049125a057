"""Regions as processes of their own, for whoever kills them, and what one waits with.

A `Regions` owns every process that a test starts and leaves none behind. Regions are on loopback unless their maker
says otherwise. Ports are free ones below the range that the kernel gives to outgoing connections, so that no dialler
takes one while a region is down.
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
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 60.0
PORTS = (20_000, 32_000)
_given: set[int] = set()


def free_port() -> int:
    """Never the same one twice."""
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
    """What the condition gives once that is true; fails with `what` after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.01)


Inside = Callable[[], AbstractContextManager[None]]


class _Connection(redis.Connection):
    """Connects inside a context; a pipeline has a connection of its own, made later."""

    def __init__(self, inside: Inside, **settings: Any) -> None:
        super().__init__(**settings)  # type: ignore[no-untyped-call]
        self._inside = inside

    def _connect(self) -> Any:
        with self._inside():
            return super()._connect()  # type: ignore[no-untyped-call]


def client_of(port: int, timeout_s: float = DEADLINE_S, inside: Inside = nullcontext) -> Any:
    """Connected; replies are as the wire has them."""
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
    """One region; `start` runs `crdtstream serve` over its directory, again and again if need be."""

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
        """Where its peers dial it."""
        return f"127.0.0.1:{self.replication_port}"

    def launcher(self) -> list[str]:
        """What starts the process that it is followed by; the process keeps its ID."""
        return []

    def inside(self) -> AbstractContextManager[None]:
        """Sockets that are made in it reach the region."""
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
        """The address at which this region dials that one."""
        return peer.address

    def client(self, timeout_s: float = DEADLINE_S) -> Any:
        """A connection that is the caller's to close."""
        return client_of(self.port, timeout_s, self.inside)

    def connect(self, timeout_s: float = DEADLINE_S) -> Any:
        """A connection that ends with the region."""
        client = self.client(timeout_s)
        self._clients.append(client)
        return client

    def ask(self, *argv: str | bytes | int) -> Any:
        """One command on a connection of its own."""
        with self.client() as client:
            return client.execute_command(*argv)

    def state(self) -> str:
        """`ok`, the text of the error that PING and XLEN get, or `down`."""
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
        """As a crash of the process does it."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(DEADLINE_S)
        self.disconnect()

    def terminate(self) -> int:
        """Ask it to stop; its exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(DEADLINE_S)
        self.disconnect()
        return code

    def disconnect(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()

    # What it says of itself

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def origin(self) -> str:
        """`region.incarnation` of the origin under which it writes."""
        row = pairs(self.ask("CRDT.REGIONS")[0])
        return str(row[b"origin"].decode())

    def digest(self) -> bytes:
        return bytes(self.ask("CRDT.DIGEST"))


def pairs(flat: list[Any]) -> dict[bytes, Any]:
    """A RESP2 map: key, value, key, value."""
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
