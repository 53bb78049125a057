"""Three regions in namespaces and on disks of their own, or on loopback; the owner removes everything at the end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import redis

from nemesis.disks import small_disk
from nemesis.loopback import Loopback
from nemesis.network import PREFIX, Namespace, Network, entered
from nemesis.region_process import ROOT, RegionProcess, pairs, until

NAMES = {1: "east", 2: "west", 3: "north"}
DISK_KIB = 256 << 10
AGREEMENT_S = 90.0
SERVING_S = 60.0
REDIS_PORT = 6379
REPLICATION_PORT = 16379

# Limits small enough that segments, checkpoints and reconnections all occur within seconds.
SETTINGS = """
insecure_replication = true

[limits]
segment_bytes_max = 262144
checkpoint_log_bytes = 8388608
backoff_ms_max = 1000
"""

PACKETS = "namespaces and packets"
RELAYS = "loopback and relays"


class Region(RegionProcess):
    """A region by name; its process ends with the process that started it."""

    def __init__(self, number: int, directory: Path) -> None:
        super().__init__(number, directory)
        self.name = NAMES[number]
        self.data = directory / self.name
        self.log_path = directory / f"{self.name}.log"

    def launcher(self) -> list[str]:
        return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def effects(self) -> int:
        """Return how many effects it has applied, including its own."""
        return sum(pairs(pairs(self.ask("CRDT.VECTOR"))[b"applied"]).values())

    def took_state(self) -> bool:
        """Return whether it joined a state transfer since its last start."""
        return "is joined" in self.log().rpartition("disk read")[2]

    def open_links(self) -> set[str]:
        """Return the names of the linked peers."""
        try:
            rows = [pairs(row) for row in self.ask("CRDT.REGIONS")]
        except redis.RedisError:
            return set()
        return {row[b"name"].decode() for row in rows if row[b"link"] == b"open"}


class NamespacedRegion(Region):
    """A region whose sockets are all in its namespace."""

    def __init__(self, number: int, directory: Path, namespace: Namespace) -> None:
        super().__init__(number, directory)
        self.port = REDIS_PORT
        self.replication_port = REPLICATION_PORT
        self._namespace = namespace

    @property
    def address(self) -> str:
        return f"{self._namespace.address}:{self.replication_port}"

    def launcher(self) -> list[str]:
        return [*super().launcher(), "ip", "netns", "exec", self._namespace.name]

    def inside(self) -> AbstractContextManager[None]:
        return entered(self._namespace.name)


class RelayedRegion(Region):
    """A region that dials its peers through relays."""

    def __init__(self, number: int, directory: Path, loopback: Loopback) -> None:
        super().__init__(number, directory)
        self._loopback = loopback
        loopback.lead(number, self.replication_port)

    def path_to(self, peer: RegionProcess) -> str:
        return self._loopback.address(self.number, peer.number)


class Cluster:
    """The regions by name; `kind` says how they are connected, `source` is the checkout that they run."""

    def __init__(self, directory: Path, fsync: str, seed: int, kind: str = PACKETS, source: Path = ROOT) -> None:
        self.regions: dict[str, Region] = {}
        self._owned = ExitStack()
        self._settings: dict[str, Any] = {"fsync": fsync, "config": directory / "settings.toml"}
        try:
            (directory / "settings.toml").write_text(settings_for(source))
            if kind == PACKETS:
                self._join_namespaces(directory, seed)
            else:
                self._join_relays(directory)
            for region in self.regions.values():
                region.source = source
                self._owned.callback(region.kill)
                self.start(region, incarnation=0)
            self.await_linked()
        except BaseException:
            self.close()
            raise

    def _join_namespaces(self, directory: Path, seed: int) -> None:
        network = Network(NAMES, seed)
        self._owned.callback(network.close)
        self.network: Network | Loopback = network
        for number, namespace in network.namespaces.items():
            region = NamespacedRegion(number, directory, namespace)
            self._owned.enter_context(small_disk(region.data, DISK_KIB))
            self.regions[region.name] = region

    def _join_relays(self, directory: Path) -> None:
        loopback = self.network = Loopback(NAMES)
        self._owned.callback(loopback.close)
        for number, name in NAMES.items():
            self.regions[name] = RelayedRegion(number, directory, loopback)

    @property
    def packets(self) -> Network:
        """The network with the features that only namespaces have."""
        assert isinstance(self.network, Network), "this fault needs network namespaces"
        return self.network

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self, region: Region, **settings: Any) -> None:
        bind = region.address.partition(":")[0]
        region.start(*self.others(region), replication_bind=bind, **self._settings, **settings)

    def others(self, region: Region) -> list[Region]:
        return [other for other in self.regions.values() if other is not region]

    def cut(self, one: Region, other: Region) -> None:
        """Cut both directions."""
        self.network.cut(one.number, other.number)
        self.network.cut(other.number, one.number)

    def cut_off(self, region: Region) -> None:
        for other in self.others(region):
            self.cut(region, other)

    # Waiting

    def await_linked(self) -> None:
        for region in self.regions.values():
            until(partial(is_serving, region), self._complaint("serve", region), SERVING_S)
        for region in self.regions.values():
            until(partial(self._is_linked, region), self._complaint("have its links", region), SERVING_S)

    def _is_linked(self, region: Region) -> bool:
        return region.open_links() == {other.name for other in self.others(region)}

    def _complaint(self, what: str, region: Region) -> Callable[[], str]:
        return lambda: f"{region.name} should {what}; its log: {region.log()[-1500:]}"

    def await_agreement(self) -> None:
        until(lambda: len(set(self.digests().values())) == 1, lambda: f"equal digests: {self.digests()}", AGREEMENT_S)

    def digests(self) -> dict[str, bytes]:
        return {name: region.digest() for name, region in self.regions.items()}

    def close(self) -> None:
        self._owned.close()


def settings_for(source: Path) -> str:
    """Return the settings file. Regions in namespaces are not on loopback, so each needs the list of allowed regions,
    which older versions do not know.
    """
    asked = [sys.executable, "-c", "from crdtstream.config import Config; print(*Config.__annotations__)"]
    known = subprocess.run(asked, cwd=source, check=True, capture_output=True, text=True).stdout.split()
    if "allowed_regions" not in known:
        return SETTINGS
    return f"allowed_regions = {list(NAMES)}\n{SETTINGS}"


def is_serving(region: Region) -> bool:
    return region.state() == "ok"


@contextmanager
def workplace() -> Iterator[Path]:
    """Provide a directory for a cluster and remove it at the end; directories of killed processes are removed first."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*"):
        found = re.fullmatch(rf"{PREFIX}-(\d+)-\w+", path.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            _remove(path)
    directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-"))
    try:
        yield directory
    finally:
        _remove(directory)


def _remove(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_mount():
            subprocess.run(["umount", "--lazy", str(path)], check=False)
    shutil.rmtree(directory, ignore_errors=True)
