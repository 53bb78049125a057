"""A region as a process: the arguments of `crdtstream serve`, and what the region tells about itself.

`Regions` owns every process that is started in a context and leaves none behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import redis

from crdtstream.processes.clients import creates, pairs
from crdtstream.processes.launching import LOCAL, Launching
from crdtstream.processes.ports import HOST, free_port
from crdtstream.processes.server import ServerProcess
from crdtstream.processes.waiting import DEADLINE_S, until

CLUSTER = "tests"


def words_of(settings: dict[str, object]) -> list[str]:
    """Return options as words: a flag for True or False, one option for each item of a tuple, else name and value."""
    words: list[str] = []
    for name, value in settings.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [f"--{option}", str(each)]
    return words


class RegionProcess(ServerProcess):
    """One region; its data directory and its log are in `directory`, and `start` runs it there, repeatedly if needed.

    Ports are free ones unless they are given, and stay the same through all starts. `host` is where peers dial it.
    """

    def __init__(
        self,
        number: int,
        directory: Path,
        name: str = "",
        launcher: Launching = LOCAL,
        host: str = HOST,
        port: int = 0,
        replication_port: int = 0,
        bulk: bool = False,
    ) -> None:
        super().__init__(name or f"region{number}", directory, launcher, port)
        self.number = number
        self.data = directory / self.name
        self.host = host
        self.replication_port = replication_port or free_port()
        self.bulk_port = free_port() if bulk else 0

    def __str__(self) -> str:
        return self.name if self.name.startswith("region") else f"region {self.name}"

    @property
    def address(self) -> str:
        """The address at which its peers dial it."""
        return f"{self.host}:{self.replication_port}"

    @property
    def bulk_address(self) -> str:
        return f"{self.host}:{self.bulk_port}"

    def start(self, *peers: RegionProcess | str, **settings: object) -> None:
        """Start it with these peers, or addresses of peers, and settings by the names of their options."""
        named: dict[str, object] = {
            "name": self.name,
            "region": self.number,
            "cluster": CLUSTER,
            "data": self.data,
            "port": self.port,
            "replication_port": self.replication_port,
            **({"bulk_port": self.bulk_port} if self.bulk_port else {}),
            **settings,
        }
        addresses = tuple(peer if isinstance(peer, str) else peer.address for peer in peers)
        self.launch(["serve", *words_of({**named, "peer": addresses})])

    def create_group(self, key: str, group: str, start: str = "0") -> None:
        """Create a group, and the stream if needed; a region that has just started may have to be admitted first."""
        until(partial(creates, self.ask, key, group, start), lambda: f"{self} creates a group{self.log_end()}")

    # What it tells about itself

    def origin(self) -> str:
        """The name of the origin under which it writes."""
        row = pairs(self.ask("CRDT.REGIONS")[0])
        return str(row[b"origin"].decode())

    def digest(self, *key: str) -> bytes:
        return bytes(self.ask("CRDT.DIGEST", *key))

    def vector(self) -> dict[str, int]:
        """What it has applied: origin -> counter."""
        applied = pairs(pairs(self.ask("CRDT.VECTOR"))[b"applied"])
        return {origin.decode(): int(counter) for origin, counter in applied.items()}

    def told(self, field: str, section: str = "memory") -> int:
        """A number of INFO."""
        lines = self.ask("INFO", section).decode().splitlines()
        return int(dict(line.split(":", 1) for line in lines if ":" in line)[field])

    def is_admitted(self) -> bool:
        """Return whether XGROUP CREATE is answered at once."""
        return b"admitted:1" in self.ask("INFO", "replication").splitlines()

    def await_admitted(self) -> None:
        until(self.is_admitted, lambda: f"{self} is admitted{self.log_end()}")

    def open_links(self) -> set[str]:
        """Return the names of the linked peers; none while it does not answer."""
        try:
            return linked(self.ask("CRDT.REGIONS"))
        except redis.RedisError:
            return set()

    def await_links(self, *names: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until it is linked with these regions and no others."""
        wanted = set(names)

        def missing() -> str:
            return f"{self} is linked with {sorted(wanted)}, it is with {sorted(self.open_links())}{self.log_end()}"

        until(lambda: self.open_links() == wanted, missing, deadline_s)


def linked(reply: list[Any]) -> set[str]:
    """The names of the linked peers in a reply to CRDT.REGIONS."""
    return {row[b"name"].decode() for row in map(pairs, reply) if row[b"link"] == b"open"}


def await_agreement(regions: Iterable[RegionProcess], deadline_s: float = DEADLINE_S) -> None:
    """Wait until these regions hold the same state."""
    chosen = list(regions)

    def differences() -> str:
        return "equal digests" + "".join(f"; {each} {each.digest()!r}{each.log_end()}" for each in chosen)

    until(lambda: len({region.digest() for region in chosen}) == 1, differences, deadline_s)


class Regions:
    """The regions of one test, or of one run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: list[RegionProcess] = []

    def make(self, *numbers: int, bulk: bool = False) -> list[RegionProcess]:
        made = [RegionProcess(number, self.directory, bulk=bulk) for number in numbers]
        self.running += made
        return made

    def logs(self) -> str:
        return "".join(f"\n  log of {region}:{region.log_end()}" for region in self.running)

    def await_agreement(self, *regions: RegionProcess) -> None:
        await_agreement(regions or self.running)


@contextmanager
def regions_in(directory: Path) -> Iterator[Regions]:
    regions = Regions(directory)
    try:
        yield regions
    finally:
        for region in regions.running:
            region.kill()
