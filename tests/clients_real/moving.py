"""The scenario that every client plays: a consumer works in the east, the east crashes, and it goes on in the west.

60 orders are added in the east and 40 in the west. The consumer is in the east. When it has acknowledged most of them,
it has some in hand that it has handled and not acknowledged, the west has heard of every acknowledgement, and the
east is killed. 50 more orders are added in the west, where the consumer goes on. None may be missed; those that it had
in hand come again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crdtstream.processes.region import RegionProcess, await_agreement, regions_in
from tests.clients_real.recorder import Recorder
from tests.region_processes import linked

STREAM, GROUP, CONSUMER = "orders", "billing", "alice"
EAST = [f"east-{number}" for number in range(60)]
WEST = [f"west-{number}" for number in range(40)]
LATER = [f"later-{number}" for number in range(50)]
ALL = sorted([*EAST, *WEST, *LATER])
BATCH = 10
# The batch, or the single order, that the consumer has in hand when the east crashes.
BATCHES_BEFORE = 7
ORDERS_BEFORE = 70
BLOCK_MS = 100


class Handled:
    """What the consumer's handler was called with."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()

    def __call__(self, order: str) -> int:
        """Handle an order; returns how many calls there were."""
        self.times[order] += 1
        return self.times.total()

    def has_all(self) -> bool:
        return len(self.times) == len(ALL)

    @property
    def repeats(self) -> int:
        return self.times.total() - len(self.times)

    def check(self, repeats: int) -> None:
        """Assert that every order was handled, and how many of them twice."""
        assert sorted(self.times) == ALL
        assert max(self.times.values()) <= 2
        assert self.repeats == repeats


class Pair:
    """Two linked regions, behind doors that record what clients send."""

    def __init__(self, east: RegionProcess, west: RegionProcess) -> None:
        self.east = east
        self.west = west
        self.doors = [Recorder(region.port) for region in (east, west)]

    @property
    def ports(self) -> tuple[int, int]:
        return self.doors[0].port, self.doors[1].port

    def settle(self) -> None:
        """Wait until each region has what the other has, acknowledgements too."""
        await_agreement((self.east, self.west))

    def crash(self) -> None:
        """The east crashes, once the west has everything."""
        self.settle()
        self.east.kill()

    @property
    def known(self) -> set[str]:
        return self.doors[0].known | self.doors[1].known

    @property
    def unknown(self) -> set[str]:
        return self.doors[0].unknown | self.doors[1].unknown


@contextmanager
def pair_in(directory: Path) -> Iterator[Pair]:
    with regions_in(directory) as regions:
        east, west = regions.make(1, 2)
        linked(east, west)
        for region, other in ((east, west), (west, east)):
            region.await_links(other.name)
            region.await_admitted()
        pair = Pair(east, west)
        try:
            yield pair
        finally:
            for door in pair.doors:
                door.close()
