"""For machines without namespaces: regions on loopback, with a relay for each direction of dialling.

A relay can only be open or cut, and a cut is visible to both ends. Faults of packets, of one direction alone, and
delays need namespaces.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from crdtstream.processes.relay import Relay


class Loopback:
    """A relay for each ordered pair of region numbers, used when the first dials the second."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._relays = {pair: Relay() for pair in itertools.permutations(numbers, 2)}

    def lead(self, number: int, port: int) -> None:
        """Let the relays to this region lead to the port on which it listens."""
        for (_, sink), relay in self._relays.items():
            if sink == number:
                relay.lead_to(port)

    def address(self, source: int, sink: int) -> str:
        return self._relays[source, sink].address

    def cut(self, source: int, sink: int) -> None:
        self._relays[source, sink].cut()

    def heal(self) -> None:
        for relay in self._relays.values():
            relay.heal()

    def close(self) -> None:
        for relay in self._relays.values():
            relay.close()
