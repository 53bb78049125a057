"""Where namespaces cannot be made: regions on loopback, a relay of the demo on each way between them.

A relay can only be open or cut, and says so to both ends; packets, one direction alone, and delays are for namespaces.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from crdtstream.demo.link import Link


class Loopback:
    """A relay for each ordered pair of region numbers: for what the first one dials."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._links = {pair: Link() for pair in itertools.permutations(numbers, 2)}

    def lead(self, number: int, port: int) -> None:
        """Where the region with that number listens; its relays open."""
        for (_, sink), link in self._links.items():
            if sink == number:
                link.lead_to(port)
                link.open()

    def address(self, source: int, sink: int) -> str:
        return self._links[source, sink].address

    def cut(self, source: int, sink: int) -> None:
        self._links[source, sink].cut()

    def heal(self) -> None:
        for link in self._links.values():
            link.open()

    def close(self) -> None:
        for link in self._links.values():
            link.close()
