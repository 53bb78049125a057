"""Three regions on loopback, with one link between each two, in a temporary directory.

Each pair has exactly one path: the region with the lower number dials a relay, which forwards to the other region.
Where regions have several shards, each shard has a relay of its own, and all relays of a path are switched together.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from types import TracebackType

from crdtstream.demo.region import Region
from crdtstream.processes.ports import free_ports
from crdtstream.processes.relay import Relay
from crdtstream.processes.waiting import ProcessError, until

NAMES = ("east", "west", "north")


class DemoError(ProcessError):
    """Why the demo cannot begin, or cannot continue."""


class LinkSwitch:
    """The path between two regions: a relay for each shard, at ports that follow each other."""

    def __init__(self, shards: int) -> None:
        first = free_ports(shards)
        self._relays = [Relay(port=first + shard) for shard in range(shards)]
        self.address = self._relays[0].address

    @property
    def is_cut(self) -> bool:
        return self._relays[0].is_cut

    def lead_to(self, region: Region) -> None:
        for shard, relay in enumerate(self._relays):
            relay.lead_to(region.replication_port + shard)

    def heal(self) -> None:
        for relay in self._relays:
            relay.heal()

    def hold(self) -> None:
        for relay in self._relays:
            relay.hold()

    def cut(self) -> None:
        for relay in self._relays:
            relay.cut()

    def close(self) -> None:
        for relay in self._relays:
            relay.close()


class Cluster:
    """A context manager: the regions run inside it, and everything is removed afterwards."""

    def __init__(self, port_base: int = 0, bulk: bool = False, shards: int = 1) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="crdtstream-demo-"))
        self.shards = shards
        self.regions: dict[str, Region] = {}
        for number, name in enumerate(NAMES, 1):
            port = port_base + 1 + (number - 1) * shards if port_base else 0
            self.regions[name] = Region(name, number, self.directory, port, bulk, shards)
        self.links = {pair: LinkSwitch(shards) for pair in combinations(NAMES, 2)}

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def _start(self) -> None:
        for (_, dialled), link in self.links.items():
            link.lead_to(self.regions[dialled])
        for region in self.regions.values():
            region.begin(self._dialled_by(region))
        for region in self.regions.values():
            region.await_serving()
        for name, region in self.regions.items():
            region.await_links(*(other for other in NAMES if other != name))
        for region in self.regions.values():
            region.await_admitted()
        self.await_agreement(NAMES)

    def restart(self, region: Region) -> None:
        """Restart a region that ended, with its data and ports, and wait until it serves."""
        region.begin(self._dialled_by(region))
        region.await_serving()

    def _dialled_by(self, region: Region) -> list[str]:
        return [link.address for (dialler, _), link in self.links.items() if dialler == region.name]

    def _stop(self) -> None:
        for region in self.regions.values():
            region.request_stop()
        for region in self.regions.values():
            region.stop()
        for link in self.links.values():
            link.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def check_alive(self) -> None:
        for region in self.regions.values():
            region.check_alive()

    def log_ends(self) -> str:
        return "".join(f"\n  log of {name}:{region.log_end()}" for name, region in self.regions.items())

    # Links

    def link(self, one: str, other: str) -> LinkSwitch:
        return self.links[(one, other) if (one, other) in self.links else (other, one)]

    def reset_links(self) -> None:
        """Hold every link, also those that were cut."""
        for link in self.links.values():
            link.hold()

    def hold_links(self) -> None:
        for link in self.links.values():
            if not link.is_cut:
                link.hold()

    def open_links(self, names: Iterable[str]) -> None:
        """Open the links between these regions that are not cut."""
        for link in [self.link(one, other) for one, other in combinations(names, 2)]:
            if not link.is_cut:
                link.heal()

    # Agreement

    def await_agreement(self, names: tuple[str, ...]) -> None:
        """Wait until these regions have applied the same effects and hold the same state.

        It must hold twice in a row, because applying effects may make a region prepare an effect of its own.
        """
        until(lambda: self._agree(names) and self._agree(names), lambda: self._differences(names))

    def _agree(self, names: tuple[str, ...]) -> bool:
        states = [(region.vectors(), region.digests()) for region in (self.regions[name] for name in names)]
        return all(state == states[0] for state in states)

    def _differences(self, names: tuple[str, ...]) -> str:
        shown = [f"{name} {self.regions[name].vectors()} {self.regions[name].text_digests()}" for name in names]
        return f"{' and '.join(names)} agree: {'; '.join(shown)}{self.log_ends()}"
