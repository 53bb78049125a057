"""The servers of one row: started when the row asks for them, removed with their directory when it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.instructions import Counter
from benchmarks.load.wire import Connection
from benchmarks.profiler import Profile
from benchmarks.report.figures import Sample
from benchmarks.scale import Scale
from benchmarks.servers import EVERYSEC, NO_REDIS_SERVER, ROOT, BenchmarkError, Redis, Region, Server, region_in
from benchmarks.slot_servers import CLUSTER_MODE, SlotServers, founded, slot_servers_of
from crdtstream.processes.clients import pairs
from crdtstream.processes.launching import Launcher
from crdtstream.processes.ports import free_port
from crdtstream.processes.relay import Relay
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import until

CONVERGE_TIMEOUT_S = 300.0
REST_TIMEOUT_S = 120.0
TURN_MS_MAX = 600_000

ABOUT = """
import json, platform
from crdtstream import __version__
from crdtstream.core.entries import block
print(json.dumps({"version": __version__, "python": platform.python_version(), "file": block.__file__}))
"""


@dataclass(frozen=True, slots=True)
class Node:
    """The crdtstream under measurement: how to run it, and its version."""

    python: str
    environment: dict[str, str]
    version: str
    python_version: str
    compiled: bool


def find_node(python: str) -> Node:
    """Find the crdtstream installed in that interpreter, or use this checkout."""
    python = os.path.abspath(shutil.which(python) or python)
    # The region of a checkout keeps its bytecode, as an installed one has it; or else each start would compile it.
    without = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {key: value for key, value in os.environ.items() if key not in without}
    with tempfile.TemporaryDirectory() as elsewhere:
        for path in ({}, {"PYTHONPATH": str(ROOT)}):
            tried = {**environment, **path}
            done = subprocess.run([python, "-c", ABOUT], cwd=elsewhere, env=tried, capture_output=True, check=False)
            if done.returncode == 0:
                about = json.loads(done.stdout)
                compiled = not about["file"].endswith(".py")
                return Node(python, tried, about["version"], about["python"], compiled)
    raise BenchmarkError(f"{python} cannot run crdtstream: {done.stderr.decode(errors='replace')}")


class Bench:
    """Starts servers for one row; a context manager."""

    def __init__(
        self,
        scale: Scale,
        node: Node,
        redis_server: Path | None,
        profile: Profile | None = None,
        counter: Counter | None = None,
    ) -> None:
        self.scale = scale
        self.node = node
        self._redis_server = redis_server
        self._profile = profile
        self._counter = counter
        self._profiled_id = 0
        self._stack = ExitStack()
        self._relays: list[Relay] = []
        self.directory = Path()

    @property
    def counts(self) -> bool:
        """Whether instructions are counted, and what is timed means nothing."""
        return self._counter is not None

    def __enter__(self) -> Self:
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtstream-bench-")))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def redis(self, fsync: str = EVERYSEC, cluster: bool = False) -> Redis:
        if self._redis_server is None:
            raise BenchmarkError(NO_REDIS_SERVER)
        directory = Path(tempfile.mkdtemp(prefix="redis-", dir=self.directory))
        server = self._stack.enter_context(Redis(self._redis_server, directory, fsync, self._counter))
        server.begin(**(CLUSTER_MODE | {"cluster_port": free_port()} if cluster else {}))
        return server

    def region(
        self,
        number: int = 1,
        peers: tuple[str, ...] = (),
        fsync: str = EVERYSEC,
        before: Region | None = None,
        bulk: bool = False,
        oci_port: int = 0,
        hot_bytes_max: int = 0,
        checkpoint_log_bytes: int = 0,
    ) -> Region:
        """Start a region. Region 1 is the one that is measured and profiled; `before` is an ended region that is
        started again, with its `hot_bytes_max` and `checkpoint_log_bytes`.
        """
        region = before or self._new_region(number, bulk)
        region.hot_bytes_max = region.hot_bytes_max or hot_bytes_max
        region.checkpoint_log_bytes = region.checkpoint_log_bytes or checkpoint_log_bytes
        region.begin(peers, fsync, oci_port)
        if self._profile is not None and number == 1:
            self._profiled_id = region.pid
        if region.counter is not None:
            # The 5 ms of a turn say nothing about a server that valgrind slows down: turns end when their work is done.
            region.ask("CONFIG", "SET", "turn-ms-max", TURN_MS_MAX)
        return region

    def _new_region(self, number: int, bulk: bool) -> Region:
        directory = Path(tempfile.mkdtemp(prefix="region-", dir=self.directory))
        command = [self.node.python, "-m", "crdtstream"]
        if self._profile is not None and number == 1:
            command = self._profile.command(command)
        counter = self._counter if number == 1 else None
        before = () if counter is None else counter.before
        launcher = Launcher(tuple(command), before, directory, self.node.environment)
        region = self._stack.enter_context(region_in(directory, number, launcher, bulk))
        region.counter = counter
        return region

    def shards(self, count: int) -> SlotServers:
        """Start a region of so many shards."""
        directory = Path(tempfile.mkdtemp(prefix="region-", dir=self.directory))
        launcher = Launcher((self.node.python, "-m", "crdtstream"), (), directory, self.node.environment)
        region = self._stack.enter_context(ShardedRegion(1, directory, count, launcher=launcher))
        return slot_servers_of(region)

    def redis_cluster(self, count: int) -> SlotServers:
        """Start so many redis-servers in a cluster."""
        return founded([self.redis(cluster=True) for _ in range(count)])

    def cluster(self, count: int = 3, fsync: str = EVERYSEC) -> list[Region]:
        """Start regions that are all linked with each other."""
        servers: list[Region] = []
        for number in range(1, count + 1):
            peers = tuple(self._address(server) for server in servers)
            servers.append(self.region(number, peers, fsync))
        for server in servers:
            await_links(server, count - 1)
        return servers

    def _address(self, server: Region) -> str:
        """Where a peer dials a region: a relay if instructions are counted, so that the regions can be parted."""
        if not self.counts:
            return server.address
        self._relays.append(self.relay(server))
        return self._relays[-1].address

    @contextmanager
    def parted(self, regions: Sequence[Region]) -> Iterator[None]:
        """Cut all links meanwhile, but only if instructions are counted."""
        if not self._relays:
            yield
            return
        for relay in self._relays:
            relay.cut()
        for region in regions:
            await_links(region, 0)
        yield
        for relay in self._relays:
            relay.heal()
        for region in regions:
            await_links(region, len(regions) - 1)

    def tools(self) -> Path:
        """Return a directory in which modules of this package can be run, whatever else the interpreter has
        installed.
        """
        link = self.directory / Path(__file__).parent.name
        if not link.exists():
            link.symlink_to(Path(__file__).parent)
        return self.directory

    def relay(self, target: Region) -> Relay:
        return self._stack.enter_context(Relay(target.replication_port))

    def samples(self, servers: tuple[Server, ...], measure: Callable[[Server, int], Sample]) -> list[list[Sample]]:
        """Take samples of each server; the servers take turns."""
        taken: list[list[Sample]] = [[] for _ in servers]
        with self.profiled():
            for repetition in range(self.scale.repetitions):
                for server, samples in zip(servers, taken, strict=True):
                    samples.append(measure(server, repetition))
        return taken

    def profiled(self) -> AbstractContextManager[None]:
        """Return a context for the part of a row that the profile must cover, if one was requested."""
        return nullcontext() if self._profile is None else self._profile.attached(self._profiled_id)


def await_links(region: Region, count: int) -> None:
    until(lambda: len(region.open_links()) == count, lambda: f"{region} has {count} open links{region.log_end()}")


def vector(connection: Connection) -> dict[bytes, int]:
    """Return what is applied there: origin -> counter."""
    applied: dict[bytes, int] = pairs(pairs(connection.ask("CRDT.VECTOR"))[b"applied"])
    return applied


def await_applied(server: Server, wanted: dict[bytes, int]) -> None:
    """Wait until the region has applied everything in that vector."""
    with Connection(server.port) as connection:

        def has_all() -> bool:
            server.check_alive()
            own = vector(connection)
            return all(own.get(origin, 0) >= counter for origin, counter in wanted.items())

        until(has_all, lambda: f"{server} has applied what the others have{server.log_end()}", CONVERGE_TIMEOUT_S)


def await_rest(region: Server) -> None:
    """Wait until the region has compressed everything that it will: walks that began from now on have found no full
    block left to compress.
    """
    begun = memory_field(region, "blocks_walks") + 1
    until(lambda: is_at_rest(region, begun), f"{region.name} compressed its blocks", REST_TIMEOUT_S)


def is_at_rest(region: Server, walks_before: int) -> bool:
    cold = memory_field(region, "blocks_cold") == memory_field(region, "blocks_full")
    return cold and memory_field(region, "blocks_walks") > walks_before


def memory_field(server: Server, name: str) -> int:
    text = server.ask("INFO", "memory")
    assert isinstance(text, bytes)
    found = re.search(rf"{name}:(\d+)".encode(), text)
    return int(found[1]) if found else 0


def await_agreement(servers: Sequence[Server]) -> None:
    """Wait until all regions have applied what each of them has now."""
    for source in servers:
        with Connection(source.port) as connection:
            wanted = vector(connection)
        for server in servers:
            await_applied(server, wanted)
