"""Retention: what this region removes of streams that have limits, without a client (core/streams/retention.py).

A region removes what it wrote, so the clock that stamped an entry measures its age. What was written in a region that
has left the cluster, or that is silent for `retention_takeover_ms`, is removed by the lowest region of those that are
linked. A tick visits some of the streams in turn, and looks at a bounded number of entries.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from crdtstream.connections.context import Context
from crdtstream.core.effects import CounterRange, Key
from crdtstream.core.foreseeing import foresee_removal
from crdtstream.core.sizes import EFFECT_BYTES, RANGE_BYTES
from crdtstream.core.streams.properties import MAX_AGE
from crdtstream.core.streams.retention import (
    REASONS,
    OldestCounts,
    RetainedCut,
    exceeding,
    oldest_cut,
    settled_cut,
)
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import region_of
from crdtstream.core.values.entry_id import ID_MIN, EntryId
from crdtstream.region.hearing import Hearing
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.membership.membership import Membership
from crdtstream.status.availability import TICK_BYTES

# What one tick does at most: streams, entries looked at, and bytes of effects, which the reserve of a full disk takes.
KEYS_A_TICK: Final = 128
ENTRIES_A_TICK: Final = 20_000
EFFECT_BYTES_A_TICK: Final = TICK_BYTES // 4
# A stream whose turn has come gets so many, also where fewer are left: it would lose its turn.
ENTRIES_A_STREAM: Final = 1_000
RANGES_A_STREAM: Final = 256
# More places are not remembered: those streams are looked at from the beginning.
LOOKED_MAX: Final = 10_000
# What finding the place of a surplus costs, in entries.
PLACE_ENTRIES: Final = 100


class Retaining:
    """Removes what exceeds the limits of streams."""

    __slots__ = (
        "_context",
        "_effect_bytes",
        "_exchange",
        "_hearing",
        "_looked",
        "_membership",
        "_ready",
        "_region",
        "_replica",
        "_spent",
    )

    def __init__(self, context: Context, exchange: Exchange, membership: Membership, hearing: Hearing) -> None:
        self._context = context
        self._exchange = exchange
        self._membership = membership
        self._hearing = hearing
        self._replica = context.replica
        self._region = exchange.view.settings.config.region
        self._effect_bytes = 0
        self._spent = 0
        # Keys whose blocks were read.
        self._ready: list[Key] = []
        # Up to where the entries of an origin were looked at for those that no group needs.
        self._looked: dict[tuple[Key, int], EntryId] = {}

    def tick(self) -> None:
        retained = self._replica.keyspace.retained
        if not retained.keys:
            return
        if not self._membership.admitted:
            self._membership.want()
        elif self._may_remove():
            if len(self._looked) > LOOKED_MAX:
                self._looked.clear()
            self._visit_some(min(len(retained.keys), KEYS_A_TICK))
            self._context.notifications.publish_prepared()

    def _may_remove(self) -> bool:
        standing = self._context.standing
        return standing.may_remove() and not (standing.loading or standing.departing or standing.paused)

    def _visit_some(self, keys: int) -> None:
        self._effect_bytes = 0
        retained = self._replica.keyspace.retained
        they, left = self._regions_that_remove(), ENTRIES_A_TICK
        for _ in range(keys):
            key = self._ready.pop() if self._ready else retained.pop_next()
            stream = None if key is None else self._replica.keyspace.peek(key)
            if key is not None and stream is not None and stream.properties is not None:
                left -= self._visit(key, they, max(left, ENTRIES_A_STREAM))
            if left <= 0 or self._effect_bytes >= EFFECT_BYTES_A_TICK:
                return

    def _regions_that_remove(self) -> set[int] | None:
        """The regions that remove what they wrote themselves; None where another region than this one removes for those
        that do not.
        """
        linked = [region_of(origin) for origin in self._exchange.direct_origins()]
        if min([self._region, *linked]) < self._region:
            return None
        applied, birth = self._replica.applied, self._exchange.birth
        counted = {region_of(origin) for origin in applied.members.counted(applied.origin, birth.founders_left())}
        patience_ms = self._context.limits.retention_takeover_ms
        return {region for region in counted if self._hearing.silent_ms(region) < patience_ms}

    def _removes_here(self, origin: int, they: set[int] | None) -> bool:
        region = region_of(origin)
        return region == self._region or (they is not None and region not in they)

    def _visit(self, key: Key, they: set[int] | None, entries_max: int) -> int:
        """Remove what exceeds a limit; returns how many entries that was worth looking at. A stream of which spilled
        blocks are needed is visited again first of all once they were read.
        """
        self._spent = 1
        for reason in REASONS:
            work = partial(self._visit_for, key, reason, they, entries_max)
            done = self._context.deferred_work.run(("retention", key, reason), work, partial(self._ready.append, key))
            if not done or self._spent >= entries_max:
                break
        return self._spent

    def _visit_for(self, key: Key, reason: bytes, they: set[int] | None, entries_max: int) -> None:
        """Remove what exceeds one limit; raises NotAtOnce before anything changes."""
        stream = self._replica.keyspace.peek(key)
        if stream is None or stream.properties is None:
            return
        limits, now_ms = stream.properties.limits, self._replica.keyspace.now_ms
        counts = exceeding(stream, limits, reason, now_ms)
        spent = self._spent + (PLACE_ENTRIES if counts and reason != MAX_AGE else 0)
        counts = {origin: counts[origin] for origin in sorted(counts) if self._removes_here(origin, they)}
        if counts and limits.acked:
            spent += self._remove_settled(key, stream, reason, counts, entries_max)
        elif counts:
            spent += self._remove_oldest(key, stream, reason, counts, entries_max)
        self._spent = spent

    def _remove_oldest(self, key: Key, stream: Stream, reason: bytes, counts: OldestCounts, entries_max: int) -> int:
        ranges: dict[int, list[CounterRange]] = {}
        spent = 0
        for origin, count in counts.items():
            cut = oldest_cut(stream.trees[origin], min(count, entries_max - spent))
            if cut.count:
                ranges[origin] = cut.ranges
                spent += cut.count
        foresee_removal(self._replica, key, ranges)
        self._remove(key, stream, reason, ranges, True)
        return spent

    def _remove_settled(self, key: Key, stream: Stream, reason: bytes, counts: OldestCounts, entries_max: int) -> int:
        """The entries that some group needs stay, and are looked at again once the others were."""
        alone, spent = self._replica.is_alone(), 0
        cuts: dict[int, RetainedCut] = {}
        for origin, count in counts.items():
            if spent < entries_max:
                above, left = self._looked.get((key, origin), ID_MIN), entries_max - spent
                cuts[origin] = cut = settled_cut(stream, origin, count, above, left, RANGES_A_STREAM, alone)
                spent += left if cut.looked != ID_MIN else min(count, left)
        foresee_removal(self._replica, key, {origin: cut.ranges for origin, cut in cuts.items()})
        for origin in counts:
            self._looked.pop((key, origin), None)
        for origin, cut in cuts.items():
            self._record_looked(key, origin, cut)
            if cut.ranges:
                self._remove(key, stream, reason, {origin: cut.ranges}, cut.is_oldest)
        return spent

    def _record_looked(self, key: Key, origin: int, cut: RetainedCut) -> None:
        if cut.looked != ID_MIN:
            self._looked[(key, origin)] = cut.looked

    def _remove(
        self, key: Key, stream: Stream, reason: bytes, ranges: dict[int, list[CounterRange]], are_oldest: bool
    ) -> None:
        before = byte_count(stream)
        count = self._replica.remove_entries(key, ranges, are_oldest, None)
        self._replica.keyspace.retained.record(reason, count, before - byte_count(stream))
        pieces = sum([len(found) for found in ranges.values()])
        self._effect_bytes += EFFECT_BYTES + len(key[1]) + RANGE_BYTES * pieces


def byte_count(stream: Stream) -> int:
    return sum([tree.byte_count for tree in stream.trees.values()])
