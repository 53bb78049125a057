"""Three regions on loopback, with one link between each two, in a temporary directory.

Each pair has exactly one path: the region with the lower number dials the link, which forwards to the other region.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from types import TracebackType

from crdtstream.demo.link import Link
from crdtstream.demo.region import Region
from crdtstream.demo.waiting import wait_until

NAMES = ("east", "west", "north")
AGREE_TIMEOUT_S = 30.0


class Cluster:
    """A context manager: the regions run inside it, and everything is removed afterwards."""

    def __init__(self, port_base: int = 0, bulk: bool = False) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="crdtstream-demo-"))
        self.regions = {name: Region(name, number, self.directory, bulk) for number, name in enumerate(NAMES, 1)}
        self.links = {pair: Link() for pair in combinations(NAMES, 2)}
        self._port_base = port_base

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
        for name, region in self.regions.items():
            port = self._port_base + region.number if self._port_base else 0
            region.start(port, self._dialled_by(name))
        for region in self.regions.values():
            region.await_serving()
        for (_, dialled), link in self.links.items():
            link.lead_to(self.regions[dialled].replication_port)
            link.open()
        wait_until(self._is_linked, self._missing_links, AGREE_TIMEOUT_S)
        wait_until(self._is_admitted, lambda: f"not every region is admitted{self.log_ends()}", AGREE_TIMEOUT_S)
        self.await_agreement(NAMES)

    def restart(self, region: Region) -> None:
        """Restart a region that ended, with its data and ports, and wait until it serves."""
        region.start(region.port, self._dialled_by(region.name))
        region.await_serving()

    def _dialled_by(self, name: str) -> list[str]:
        return [link.address for (dialler, _), link in self.links.items() if dialler == name]

    def _is_linked(self) -> bool:
        return all(region.open_links() == len(NAMES) - 1 for region in self.regions.values())

    def _is_admitted(self) -> bool:
        return all(region.is_admitted() for region in self.regions.values())

    def _missing_links(self) -> str:
        counts = [f"{name} has {region.open_links()}" for name, region in self.regions.items()]
        return f"each region should have {len(NAMES) - 1} open links: {', '.join(counts)}{self.log_ends()}"

    def _stop(self) -> None:
        for region in self.regions.values():
            region.terminate()
        for region in self.regions.values():
            region.await_end()
        for link in self.links.values():
            link.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def check_alive(self) -> None:
        for region in self.regions.values():
            region.check_alive()

    def log_ends(self) -> str:
        return "".join(f"\n  log of {name}:{region.log_end()}" for name, region in self.regions.items())

    # Links

    def link(self, one: str, other: str) -> Link:
        return self.links[(one, other) if (one, other) in self.links else (other, one)]

    def hold_links(self) -> None:
        for link in self.links.values():
            link.hold()

    def open_links(self, names: Iterable[str]) -> None:
        """Open the links between these regions."""
        for one, other in combinations(names, 2):
            self.link(one, other).open()

    # Agreement

    def await_agreement(self, names: tuple[str, ...]) -> None:
        """Wait until these regions have applied the same effects and hold the same state.

        It must hold twice in a row, because applying effects may make a region prepare an effect of its own.
        """
        wait_until(lambda: self._agree(names) and self._agree(names), lambda: self._differences(names), AGREE_TIMEOUT_S)

    def _agree(self, names: tuple[str, ...]) -> bool:
        states = [(region.vector(), region.digest()) for region in (self.regions[name] for name in names)]
        return all(state == states[0] for state in states)

    def _differences(self, names: tuple[str, ...]) -> str:
        shown = [f"{name} {self.regions[name].vector()} {self.regions[name].digest()}" for name in names]
        return f"{' and '.join(names)} do not agree: {'; '.join(shown)}{self.log_ends()}"
