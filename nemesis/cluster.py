"""Three regions in namespaces and on disks of their own, or on loopback; the owner removes everything at the end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from crdtstream.processes.launching import Launcher
from crdtstream.processes.region import RegionProcess, await_agreement
from nemesis.disks import small_disk
from nemesis.loopback import Loopback
from nemesis.network import PREFIX, Namespace, Network, entered

ROOT = Path(__file__).resolve().parent.parent
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

    def __init__(
        self,
        number: int,
        directory: Path,
        source: Path,
        namespace: Namespace | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        launcher = launcher_of(source, namespace, environment)
        if namespace is None:
            super().__init__(number, directory, NAMES[number], launcher)
            return
        host = namespace.address
        super().__init__(number, directory, NAMES[number], launcher, host, REDIS_PORT, REPLICATION_PORT)

    def effects(self) -> int:
        """Return how many effects it has applied, including its own."""
        return sum(self.vector().values())

    def took_state(self) -> bool:
        """Return whether it joined a state transfer since its last start."""
        return "is joined" in self.log().rpartition("disk-read")[2]


def launcher_of(source: Path, namespace: Namespace | None, environment: Mapping[str, str] | None = None) -> Launcher:
    """Return how a region of that checkout is run; with a namespace, all its sockets and its clients' are in it."""
    before: tuple[str, ...] = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    if namespace is None:
        return Launcher(before=before, directory=source, environment=environment)
    before += ("ip", "netns", "exec", namespace.name)
    inside = partial(entered, namespace.name)
    return Launcher(before=before, directory=source, environment=environment, inside=inside)


class Cluster:
    """The regions by name; `kind` says how they are connected, `source` is the checkout that they run. `limits` are
    further lines of their settings, and `environment` has the variables of a region by its number.
    """

    def __init__(
        self,
        directory: Path,
        fsync: str,
        seed: int,
        kind: str = PACKETS,
        source: Path = ROOT,
        limits: str = "",
        environment: Callable[[int], Mapping[str, str]] | None = None,
    ) -> None:
        self.regions: dict[str, Region] = {}
        self._source = source
        self._environment = environment
        self._owned = ExitStack()
        self._settings: dict[str, Any] = {"fsync": fsync, "config": directory / "settings.toml"}
        try:
            (directory / "settings.toml").write_text(settings_for(source) + limits)
            if kind == PACKETS:
                self._join_namespaces(directory, seed)
            else:
                self._join_relays(directory)
            for region in self.regions.values():
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
            region = Region(number, directory, self._source, namespace, self._variables(number))
            self._owned.enter_context(small_disk(region.data, DISK_KIB))
            self.regions[region.name] = region

    def _join_relays(self, directory: Path) -> None:
        loopback = self.network = Loopback(NAMES)
        self._owned.callback(loopback.close)
        for number, name in NAMES.items():
            region = self.regions[name] = Region(number, directory, self._source, None, self._variables(number))
            loopback.lead(number, region.replication_port)

    def _variables(self, number: int) -> Mapping[str, str] | None:
        return None if self._environment is None else self._environment(number)

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
        paths = [self._path(region, other) for other in self.others(region)]
        region.start(*paths, replication_bind=region.host, **self._settings, **settings)

    def _path(self, region: Region, peer: Region) -> str:
        """Return the address at which the region dials its peer."""
        if isinstance(self.network, Loopback):
            return self.network.address(region.number, peer.number)
        return peer.address

    def others(self, region: Region) -> list[Region]:
        return [other for other in self.regions.values() if other is not region]

    def cut(self, one: Region, other: Region) -> None:
        """Cut both directions."""
        self.network.cut(one.number, other.number)

    def cut_off(self, region: Region) -> None:
        for other in self.others(region):
            self.cut(region, other)

    # Waiting

    def await_linked(self) -> None:
        for region in self.regions.values():
            region.await_serving(SERVING_S)
        for region in self.regions.values():
            region.await_links(*(other.name for other in self.others(region)), deadline_s=SERVING_S)

    def await_agreement(self) -> None:
        await_agreement(self.regions.values(), AGREEMENT_S)

    def close(self) -> None:
        self._owned.close()


def settings_for(source: Path) -> str:
    """Return the settings file. Regions in namespaces are not on loopback, so each needs the list of allowed regions,
    which older versions do not know.
    """
    asked = [sys.executable, "-c", "from crdtstream.settings.config import Config; print(*Config.__annotations__)"]
    known = subprocess.run(asked, cwd=source, check=True, capture_output=True, text=True).stdout.split()
    if "allowed_regions" not in known:
        return SETTINGS
    return f"allowed_regions = {list(NAMES)}\n{SETTINGS}"


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
