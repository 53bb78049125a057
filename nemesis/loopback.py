"""For machines without namespaces: regions on loopback, with a relay for each direction of dialling.

A cut is visible to both ends, unlike that of a network; one direction alone is held, and what was sent meanwhile comes
late. Lost packets and delays need namespaces.
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

    def cut(self, one: int, other: int) -> None:
        for pair in ((one, other), (other, one)):
            self._relays[pair].cut()

    def cut_one_way(self, source: int, sink: int) -> None:
        """Hold what the source sends, on the connections that it dialled and on those that it accepted."""
        self._relays[source, sink].hold_one_way(to_target=True)
        self._relays[sink, source].hold_one_way(to_target=False)

    def heal(self) -> None:
        for relay in self._relays.values():
            relay.heal()

    def close(self) -> None:
        for relay in self._relays.values():
            relay.close()
