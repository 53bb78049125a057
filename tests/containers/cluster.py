"""Three regions in containers, a network for each link, and clients that write to all of them.

A `Cluster` owns its containers, networks and volumes and leaves none behind. Clients reach a region through the default
bridge, which no fault touches; regions reach each other through the link's own network alone.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from crdtstream.processes.clients import pairs
from crdtstream.processes.waiting import until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAMES = ("east", "west", "north")
SERVING_S = 90.0
STREAM = "orders"
GROUP = "workers"
DEPTH = 8
PACE_S = 0.02


def run(*argv: str | Path, **environment: str) -> str:
    """Its output; a failure shows what it said."""
    done = subprocess.run(
        ["env", *(f"{name}={value}" for name, value in environment.items()), *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{argv[0]}: {done.stdout}{done.stderr}"
    return done.stdout


class Region:
    """One container, its data volume, and the links that it ends."""

    def __init__(self, name: str, container: Any) -> None:
        self.name = name
        self._container = container
        self.links: dict[str, Any] = {}

    @property
    def engine(self) -> Any:
        return self._container.get_wrapped_container()

    def connect(self, timeout_s: float = 2.0) -> Any:
        """The published port is another one after every start."""
        self.engine.reload()
        published = self.engine.attrs["NetworkSettings"]["Ports"].get("6379/tcp")
        if not published:
            raise redis.ConnectionError(f"{self.name} does not run")
        client = redis.Redis(
            port=int(published[0]["HostPort"]),
            socket_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            single_connection_client=True,
            protocol=2,
        )
        client.response_callbacks.clear()
        return client

    def ask(self, *argv: str | bytes | int) -> Any:
        with self.connect(30.0) as client:
            return client.execute_command(*argv)

    def state(self) -> str:
        """What the image's own health check says."""
        self.engine.reload()
        return str(self.engine.attrs["State"]["Health"]["Status"])

    def await_healthy(self) -> None:
        until(lambda: self.state() == "healthy", lambda: f"{self.name} is healthy: {self.log()}", SERVING_S)

    def open_links(self) -> set[str]:
        rows = [pairs(row) for row in self.ask("CRDT.REGIONS")]
        return {row[b"name"].decode() for row in rows if row[b"link"] == b"open"}

    def await_links(self, *names: str) -> None:
        until(lambda: self.open_links() == set(names), lambda: f"{self.name} linked to {names}: {self.open_links()}")

    def cut(self, peer: Region) -> None:
        self.links[peer.name].disconnect(self.engine.id)

    def heal(self, peer: Region) -> None:
        self.links[peer.name].connect(self.engine.id, aliases=[self.name])

    def log(self) -> str:
        said: bytes = self.engine.logs(tail=30)
        return said.decode(errors="replace")


class Cluster:
    """The regions by name; `close` removes everything, whatever became of it."""

    def __init__(self, image: str, directory: Path) -> None:
        self.regions: dict[str, Region] = {}
        self._owned = ExitStack()
        try:
            self._start(image, directory)
        except BaseException:
            self.close()
            raise

    def _start(self, image: str, directory: Path) -> None:
        import docker

        engine = docker.from_env()
        self._owned.callback(engine.close)
        numbered = [f"{name}:{number}" for number, name in enumerate(NAMES, 1)]
        run(DEPLOY / "certificates", *numbered, TLS=str(directory))
        prefix = f"crdtstream-{uuid.uuid4().hex[:8]}"
        links = {}
        for pair in itertools.combinations(NAMES, 2):
            links[pair] = engine.networks.create(f"{prefix}-{'-'.join(pair)}", internal=True)
            self._owned.callback(links[pair].remove)
        for number, name in enumerate(NAMES, 1):
            volume = engine.volumes.create(f"{prefix}-{name}")
            self._owned.callback(volume.remove, force=True)
            self._add(Region(name, container_of(image, name, number, volume.name, directory / name)))
        for pair, network in links.items():
            for name, peer in (pair, pair[::-1]):
                network.connect(self.regions[name].engine.id, aliases=[name])
                self.regions[name].links[peer] = network

    def _add(self, region: Region) -> None:
        self._owned.callback(region._container.stop)
        region._container.start()
        self.regions[region.name] = region

    def await_healthy(self) -> None:
        for region in self.regions.values():
            region.await_healthy()

    def await_agreement(self) -> bytes:
        until(lambda: len(self.digests()) == 1, lambda: f"equal digests: {self.digests()}", SERVING_S)
        return self.digests().pop()

    def digests(self) -> set[bytes]:
        return {region.ask("CRDT.DIGEST") for region in self.regions.values()}

    def close(self) -> None:
        self._owned.close()


def container_of(image: str, name: str, number: int, volume: str, certificates: Path) -> Any:
    """As deploy/compose.yaml runs it."""
    from testcontainers.core.container import DockerContainer

    peers = [word for peer in NAMES if peer != name for word in ("--peer", f"{peer}:16379")]
    command = [
        "serve",
        "--name",
        name,
        "--region",
        str(number),
        "--cluster",
        "tests",
        "--data",
        "/data",
        "--bind",
        "0.0.0.0",
        "--no-protected-mode",
        "--replication-bind",
        "0.0.0.0",
        *peers,
        "--tls-certificate",
        "/tls/certificate.pem",
        "--tls-key",
        "/tls/key.pem",
        "--tls-authority",
        "/tls/authority.pem",
    ]
    container = DockerContainer(image, command=command)
    container.ports["6379/tcp"] = ("127.0.0.1",)
    container.with_volume_mapping(volume, "/data", "rw").with_volume_mapping(str(certificates), "/tls", "ro")
    return container.with_kwargs(read_only=True, cap_drop=["ALL"], security_opt=["no-new-privileges:true"])


class Load(threading.Thread):
    """A client of one region that adds, removes, and works in a group; it comes back after whatever happens.

    `added` and `removed` hold IDs whose reply came, `delivered` what the group gave.
    """

    def __init__(self, region: Region) -> None:
        super().__init__(daemon=True)
        self.region = region
        self.added: set[bytes] = set()
        self.removed: set[bytes] = set()
        self.maybe_removed: set[bytes] = set()
        self.delivered: set[bytes] = set()
        self.failures = 0
        self.last_failure = ""
        self._ended = threading.Event()
        self._turned = threading.Condition()
        self._running = False
        self._at_rest = True

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with self.region.connect() as client:
                    self._work(client)
            except (redis.RedisError, OSError) as error:
                self.failures += 1
                self.last_failure = repr(error)
            self._ended.wait(PACE_S)

    def _work(self, client: Any) -> None:
        while not self._ended.is_set():
            with self._turned:
                self._at_rest = not self._running
                self._turned.notify_all()
            if not self._at_rest:
                self._turn(client)
            self._ended.wait(PACE_S)

    def _turn(self, client: Any) -> None:
        pipeline = client.pipeline(transaction=False)
        for _ in range(DEPTH):
            pipeline.execute_command("XADD", STREAM, "*", "at", self.region.name)
        made = pipeline.execute()
        self.added.update(made)
        self.maybe_removed.add(made[0])
        if client.execute_command("XDEL", STREAM, made[0]) == 1:
            self.removed.add(made[0])
        self.read(client, ">")

    def read(self, client: Any, start: str) -> int:
        """Take what the group gives, acknowledge it; how many entries came."""
        reply = client.execute_command(
            "XREADGROUP", "GROUP", GROUP, self.region.name, "COUNT", "64", "STREAMS", STREAM, start
        )
        ids = [entry[0] for entry in reply[0][1]] if reply else []
        if ids:
            self.delivered.update(ids)
            client.execute_command("XACK", STREAM, GROUP, *ids)
        return len(ids)

    def resume(self) -> None:
        with self._turned:
            self._running, self._at_rest = True, False

    def rest(self) -> None:
        """Returns once nothing is under way."""
        with self._turned:
            self._running = False
            if not self._turned.wait_for(lambda: self._at_rest, SERVING_S):
                raise AssertionError(f"{self.region.name}'s client does not rest: {self.last_failure}")

    def await_added(self, count: int) -> None:
        """As many more, acknowledged."""
        goal = len(self.added) + count
        until(lambda: len(self.added) >= goal, lambda: f"{self.region.name} acknowledges writes: {self.last_failure}")

    def end(self) -> None:
        self._ended.set()
        self.join()
