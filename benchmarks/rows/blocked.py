"""Rows of clients that wait: what a write costs that wakes them, and what they cost while nothing comes.

Each stream has ten readers in `XREAD BLOCK 0`. A round adds an entry to every stream, waits until all readers have it,
and lets them wait again; only the part from the first write to the last delivery is measured.
"""

from __future__ import annotations

import resource
import selectors
import socket
import time
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.load.wire import Connection, command
from benchmarks.report.figures import AT_LEAST, AT_MOST, Result, Sample, Side, Target, summarize
from benchmarks.servers import BenchmarkError, Server

READERS = 10  # of each stream
SPARE_FILES = 200
RECEIVE_BYTES = 1 << 16
SILENCE_S = 60.0
WAKES = Target(AT_LEAST, 0.5)
IDLE = Target(AT_MOST, 20.0)


class Readers:
    """Blocked clients of one server; a context manager."""

    def __init__(self, server: Server, streams: int) -> None:
        self._server = server
        self._streams = [f"stream-{number}" for number in range(streams)]
        self._stack = ExitStack()
        self._sockets: dict[socket.socket, bytes] = {}
        self._selector = selectors.DefaultSelector()

    @property
    def count(self) -> int:
        return len(self._sockets)

    def __enter__(self) -> Readers:
        self._stack.callback(self._selector.close)
        self._writer = self._stack.enter_context(Connection(self._server.port))
        self._writer.ask("CONFIG", "SET", "maxclients", READERS * len(self._streams) + SPARE_FILES)
        for key in self._streams * READERS:
            connection = self._stack.enter_context(socket.create_connection(("127.0.0.1", self._server.port)))
            self._sockets[connection] = command("XREAD", "BLOCK", 0, "STREAMS", key, "$")
            self._selector.register(connection, selectors.EVENT_READ, connection)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def wait(self) -> None:
        """Let every client block; returns when the server has parked them all."""
        for connection, request in self._sockets.items():
            connection.sendall(request)
        end_s = time.monotonic() + SILENCE_S
        while self._blocked() < self.count:
            if time.monotonic() > end_s:
                raise BenchmarkError(f"{self._server.name} has {self._blocked()} of {self.count} clients blocked")
            time.sleep(0.05)

    def _blocked(self) -> int:
        fields = self._writer.ask("INFO", "clients").decode().splitlines()
        return int(next(line for line in fields if line.startswith("blocked_clients:")).partition(":")[2])

    def wake(self) -> Sample:
        """Add an entry to each stream, and receive it at every client."""
        adds = [command("XADD", key, "*", "field", b"v" * 16) for key in self._streams]
        server_s, driver_s, began_s = self._server.cpu_s(), time.process_time(), time.perf_counter()
        self._writer.pipeline(adds)
        self._receive()
        seconds = time.perf_counter() - began_s
        return Sample(self.count, seconds, self._server.cpu_s() - server_s, time.process_time() - driver_s)

    def _receive(self) -> None:
        missing = set(self._sockets)
        while missing:
            ready = self._selector.select(SILENCE_S)
            if not ready:
                raise BenchmarkError(f"{self._server.name} has not woken {len(missing)} of {self.count} clients")
            for key, _ in ready:
                connection: socket.socket = key.data
                reply = connection.recv(RECEIVE_BYTES)
                if not reply.endswith(b"\r\n") or connection not in missing:
                    raise BenchmarkError(f"{self._server.name} sends an unexpected piece: {reply[:100]!r}")
                missing.discard(connection)


def idle_ms(server: Server, seconds: float) -> float:
    """Return the CPU time of the server in a second in which nothing comes, in ms."""
    began_s = server.cpu_s()
    time.sleep(seconds)
    return (server.cpu_s() - began_s) / seconds * 1000


def blocked(bench: Bench, name: str) -> list[Result]:
    streams = streams_within(bench.scale.blocked_clients // READERS)
    idle: dict[str, tuple[float, float]] = {}

    def measure(server: Server, repetition: int) -> Sample:
        alone_ms = idle_ms(server, bench.scale.idle_s) if repetition == 0 else 0.0
        with Readers(server, streams) as readers:
            readers.wait()
            if repetition == 0:
                idle[server.name] = (alone_ms, idle_ms(server, bench.scale.idle_s))
            return readers.wake()

    servers = (bench.region(), bench.redis())
    ours, redis = bench.samples(servers, measure)
    title = f"{streams * READERS:,} clients blocked on {streams:,} streams"
    (alone, ours_idle), (_, redis_idle) = (idle[server.name] for server in servers)
    details = {"without_clients": alone, "redis": redis_idle}
    return [
        Result(name, f"{title}, woken", "op/s", summarize(ours), summarize(redis), WAKES),
        Result(f"{name}-idle", f"{title}, CPU while idle", "ms/s", Side(ours_idle), None, IDLE, details),
    ]


def streams_within(streams: int) -> int:
    """As many streams as this process may have clients for; the limit of open files is raised as far as it goes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(streams, (hard - SPARE_FILES) // READERS)
