"""Three regions in containers, a network for each link, and clients that write to all of them.

A `Cluster` owns its containers, networks and volumes and leaves none behind. Clients reach a region through the default
bridge, which no fault touches; regions reach each other through the link's own network alone.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import threading
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import redis

from crdtstream.processes.clients import Inside, client_of
from crdtstream.processes.region import RegionProcess, await_agreement
from crdtstream.processes.waiting import DEADLINE_S, ProcessError, until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAMES = ("east", "west", "north")
SERVING_S = 90.0
STREAM = "orders"
GROUP = "workers"
DEPTH = 8
PACE_S = 0.02
PATIENCE_S = 2.0
REDIS_PORT = 6379
REPLICATION_PORT = 16379


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


class Container:
    """Launches `crdtstream` as deploy/compose.yaml runs it, and is what was launched: one container, started again and
    again, with the arguments of its first start.
    """

    inside: Inside = staticmethod(nullcontext)

    def __init__(self, image: str, volume: str, certificates: Path) -> None:
        from testcontainers.core.container import DockerContainer

        self.volume = volume
        self._made = DockerContainer(image)
        self._made.ports["6379/tcp"] = ("127.0.0.1",)
        self._made.with_volume_mapping(volume, "/data", "rw").with_volume_mapping(str(certificates), "/tls", "ro")
        self._made.with_kwargs(read_only=True, cap_drop=["ALL"], security_opt=["no-new-privileges:true"])
        self._is_made = False

    def launch(self, arguments: Sequence[str], _log_path: Path) -> Container:
        if self._is_made:
            self.engine.start()
        else:
            self._made.with_command(list(arguments)).start()
            self._is_made = True
        return self

    def remove(self) -> None:
        """Repeated calls change nothing."""
        if self._is_made:
            self._is_made = False
            self._made.stop()

    @property
    def engine(self) -> Any:
        return self._made.get_wrapped_container()

    def shown(self, part: str) -> Any:
        self.engine.reload()
        return self.engine.attrs[part]

    def published(self) -> list[dict[str, str]]:
        """Where the Redis port is reached; nowhere while the container is stopped, or replaced by another one."""
        from docker.errors import NotFound
        from testcontainers.core.exceptions import ContainerStartException

        try:
            ports = self.shown("NetworkSettings")["Ports"]
        except (ContainerStartException, NotFound):
            return []
        return list(ports.get(f"{REDIS_PORT}/tcp") or [])

    @property
    def pid(self) -> int:
        return int(self.shown("State")["Pid"])

    def poll(self) -> int | None:
        state = self.shown("State")
        return None if state["Running"] else int(state["ExitCode"])

    def wait(self, timeout: float | None = None) -> int:
        try:
            until(lambda: self.poll() is not None, "it ends", DEADLINE_S if timeout is None else timeout)
        except ProcessError as error:
            raise subprocess.TimeoutExpired(self.engine.name, timeout or DEADLINE_S) from error
        return int(self.shown("State")["ExitCode"])

    def send_signal(self, sig: int, /) -> None:
        self.engine.kill(signal.Signals(sig).name)


class Region(RegionProcess):
    """A region in a container, and the links that it ends; peers dial it by its name."""

    def __init__(self, number: int, name: str, directory: Path, container: Container, known: Sequence[str]) -> None:
        super().__init__(number, directory, name, container, name, REDIS_PORT, REPLICATION_PORT)
        self.container = container
        self.directory = directory
        self.known = known
        self.links: dict[str, Any] = {}

    def begin(self) -> None:
        peers = [f"{peer}:{REPLICATION_PORT}" for peer in self.known]
        tls = {f"tls_{part}": f"/tls/{part}.pem" for part in ("certificate", "key", "authority")}
        everywhere = {"bind": "0.0.0.0", "replication_bind": "0.0.0.0", "protected_mode": False}
        self.start(*peers, data="/data", **everywhere, **tls)

    def client(self, timeout_s: float = DEADLINE_S, decode: bool = False) -> Any:
        """The published port is another one after every start."""
        published = self.container.published()
        if not published:
            raise redis.ConnectionError(f"{self} does not run")
        return client_of(int(published[0]["HostPort"]), timeout_s, decode=decode)

    def log(self) -> str:
        said: bytes = self.container.engine.logs(tail=30)
        return said.decode(errors="replace")

    def remove(self) -> None:
        self.container.remove()

    def health(self) -> str:
        """What the image's own health check says."""
        return str(self.container.shown("State")["Health"]["Status"])

    def await_healthy(self) -> None:
        until(lambda: self.health() == "healthy", lambda: f"{self} is healthy{self.log_end()}", SERVING_S)

    def cut(self, peer: Region) -> None:
        self.links[peer.name].disconnect(self.container.engine.id)

    def heal(self, peer: Region) -> None:
        self.links[peer.name].connect(self.container.engine.id, aliases=[self.name])


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

        self._engine = docker.from_env()
        self._owned.callback(self._engine.close)
        self._image, self._directory = image, directory
        self._prefix = f"crdtstream-{uuid.uuid4().hex[:8]}"
        links = {pair: self._link(pair) for pair in itertools.combinations(NAMES, 2)}
        for number, name in enumerate(NAMES, 1):
            self._add(number, name, [peer for peer in NAMES if peer != name])
        for pair, network in links.items():
            self._connect(pair, network)

    def _link(self, pair: tuple[str, str]) -> Any:
        network = self._engine.networks.create(f"{self._prefix}-{'-'.join(pair)}", internal=True)
        self._owned.callback(network.remove)
        return network

    def _connect(self, pair: tuple[str, str], network: Any) -> None:
        for name, peer in (pair, pair[::-1]):
            network.connect(self.regions[name].container.engine.id, aliases=[name])
            self.regions[name].links[peer] = network

    def _volume(self, name: str) -> str:
        volume = self._engine.volumes.create(f"{self._prefix}-{name}-{uuid.uuid4().hex[:4]}")
        self._owned.callback(volume.remove, force=True)
        return str(volume.name)

    def _add(self, number: int, name: str, known: Sequence[str]) -> Region:
        run(DEPLOY / "certificates", f"{name}:{number}", TLS=str(self._directory))
        container = Container(self._image, self._volume(name), self._directory / name)
        region = self.regions[name] = Region(number, name, self._directory, container, known)
        self._owned.callback(region.remove)
        region.begin()
        return region

    def join(self, name: str, number: int, peer: str) -> Region:
        """A region that knows one other, over one link."""
        region = self._add(number, name, [peer])
        self._connect((name, peer), self._link((name, peer)))
        return region

    def renew(self, region: Region, image: str, keep_volume: bool) -> None:
        """Run it in a new container of this image, with its volume or with an empty one."""
        region.remove()
        volume = region.container.volume if keep_volume else self._volume(region.name)
        region.container = region.launcher = Container(image, volume, self._directory / region.name)
        self._owned.callback(region.remove)
        region.begin()
        for network in region.links.values():
            network.connect(region.container.engine.id, aliases=[region.name])

    def await_healthy(self) -> None:
        for region in self.regions.values():
            region.await_healthy()

    def await_agreement(self) -> None:
        await_agreement(self.regions.values(), SERVING_S)

    def close(self) -> None:
        self._owned.close()


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
                with self.region.client(PATIENCE_S) as client:
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
