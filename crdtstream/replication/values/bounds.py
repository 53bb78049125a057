"""Limits that must fit between regions: what each tells the others, and the smallest of them.

The bounds of one link come with its Hello: no message, batch or window of the sender is larger than what the receiver
takes. The bound of a batch concerns every region, because batches are relayed: it travels with the births of origins,
and each region writes no batch that is larger than the smallest one of the cluster, or than its own `write_bytes_max`.

A region of the release before tells nothing; it counts with the defaults that it has. Of several origins of one region
the newest counts: limits change at a start only.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.replica import Replica
from crdtstream.core.values.batch_budget import BATCH_LIMIT, WRITE_LIMIT
from crdtstream.core.values.causality import region_of
from crdtstream.replication import wire_pb2 as wire
from crdtstream.settings.config import Limits

# What the release before takes by default.
MESSAGE_BYTES_MAX: Final = 4 << 20
WINDOW_BYTES: Final = 32 << 20
BATCH_BYTES_MAX: Final = 2 << 30
# A message holds batches or a piece of a state, a call, an answer, and progress besides.
MESSAGE_PARTS: Final = 4
# Origins of which nobody has told yet may be in a context too.
ORIGINS_MORE: Final = 64


class PeerBounds:
    """What one peer takes over its link."""

    __slots__ = ("batch_bytes_max", "message_bytes", "message_bytes_max", "window_bytes")

    def __init__(self, told: wire.Bounds | None = None) -> None:
        told = told or wire.Bounds()
        self.message_bytes_max: int = told.message_bytes_max or MESSAGE_BYTES_MAX
        self.window_bytes: int = told.window_bytes or WINDOW_BYTES
        self.batch_bytes_max: int = told.batch_bytes_max or BATCH_BYTES_MAX
        # At what size messages to it aim at most.
        self.message_bytes = self.message_bytes_max // MESSAGE_PARTS


def own_bounds(limits: Limits) -> wire.Bounds:
    return wire.Bounds(
        message_bytes_max=limits.message_bytes_max,
        window_bytes=limits.window_bytes,
        batch_bytes_max=limits.batch_bytes_max,
    )


class BatchBounds:
    """The `batch_bytes_max` of each origin that told it."""

    __slots__ = ("_own", "_region", "_replica", "_write", "told")

    def __init__(self, region: int, limits: Limits, replica: Replica) -> None:
        self._region = region
        self._own = limits.batch_bytes_max
        self._write = limits.write_bytes_max
        self._replica = replica
        self.told: dict[int, int] = {}

    def of(self, origin: int) -> int:
        """What that origin takes; 0 if it has not told."""
        return self._own if origin == self._replica.applied.origin else self.told.get(origin, 0)

    def record(self, origin: int, batch_bytes_max: int) -> bool:
        """Note what an origin takes; true if that is news."""
        if not batch_bytes_max or self.told.get(origin) == batch_bytes_max:
            return False
        self.told[origin] = batch_bytes_max
        return True

    def fit(self, counts: dict[int, int]) -> None:
        """Bound the batches of this region by the smallest limit of those origins, given with their counts."""
        self.told = {origin: limit for origin, limit in self.told.items() if origin in counts}
        limit, region = self.smallest(counts)
        name = BATCH_LIMIT if limit <= self._write else WRITE_LIMIT
        if name == WRITE_LIMIT:
            limit, region = self._write, self._region
        self._replica.budget.fit(limit, region, self._replica.applied.vector.origin_count() + ORIGINS_MORE, name)

    def smallest(self, counts: dict[int, int]) -> tuple[int, int]:
        """The smallest limit, and the region that has it."""
        newest: dict[int, tuple[int, int]] = {}
        ended = self._replica.applied.members.is_evicted
        for origin, limit in self.told.items():
            region = region_of(origin)
            if region != self._region and not ended(origin):
                # The highest count, and of these the smallest limit.
                newest[region] = max(newest.get(region, (-1, 0)), (counts[origin], -limit))
        limits = [(-limit, region) for region, (_, limit) in newest.items()]
        return min([(self._own, self._region), *limits])
