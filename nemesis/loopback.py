"""For machines without namespaces: regions on loopback, with a relay of the demo for each direction of dialling.

A relay can only be open or cut, and a cut is visible to both ends. Faults of packets, of one direction alone, and
delays need namespaces.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from crdtstream.demo.link import Link


class Loopback:
    """A relay for each ordered pair of region numbers, used when the first dials the second."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._links = {pair: Link() for pair in itertools.permutations(numbers, 2)}

    def lead(self, number: int, port: int) -> None:
        """Set the port on which this region listens, and open the relays to it."""
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
