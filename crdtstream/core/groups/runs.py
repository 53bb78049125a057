"""Runs: what a region tells the others of what was delivered in it and acknowledged.

A contiguous run ends below the first live pending entry. Groups that acknowledge exactly also tell what was
acknowledged above it, at once. Such a run reaches down to the live entry before its first one, so that runs of
neighbours merge: an entry never arrives inside such an interval.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.pending import PendingEntries
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, id_below, next_id, previous_id
from crdtstream.core.values.intervals import Interval, IntervalSet

EXACT_INTERVALS_MAX: Final = 1_000
UNLIMITED: Final = 1 << 62
NONE_GONE: Final[frozenset[EntryId]] = frozenset()


def contiguous_runs(
    tree: EntryTree, delivered: IntervalSet, acked: IntervalSet | None, pending: PendingEntries
) -> list[Interval]:
    """The runs below the first live pending entry that no known run covers."""
    return runs_below(tree, delivered, acked, acknowledged_limit(tree, pending))


def runs_below(tree: EntryTree, delivered: IntervalSet, acked: IntervalSet | None, limit: EntryId) -> list[Interval]:
    """The runs up to this ID, inclusive, that no known run covers."""
    pieces: list[Interval] = []
    for low, high in delivered.pairs():
        if low >= limit:
            break
        if acked is not None and acked.covers(low, min(high, limit)):
            continue
        end = tree.last_id_between(low, min(high, limit))
        if end is None:
            continue
        if acked is None:
            pieces.append((low, end))
        else:
            pieces.extend(acked.gaps(low, end))
    return pieces


def acknowledged_limit(tree: EntryTree, pending: PendingEntries) -> EntryId:
    """The highest ID that a contiguous run may include: just below the first pending entry that is still in the
    tree.
    """
    first = pending.first(tree.origin)
    if first is None:
        return ID_MAX
    if tree.counter_of(first):
        return previous_id(first) or ID_MIN
    for entry_id in pending.ids(tree.origin, None):
        if tree.counter_of(entry_id):
            return previous_id(entry_id) or ID_MIN
    return ID_MAX


def limit_without(tree: EntryTree, pending: PendingEntries, gone: AbstractSet[EntryId]) -> EntryId:
    """What `acknowledged_limit` is once these are no longer pending."""
    for entry_id in pending.ids(tree.origin, None):
        if entry_id not in gone and tree.counter_of(entry_id):
            return previous_id(entry_id) or ID_MIN
    return ID_MAX


def exact_runs(
    tree: EntryTree,
    delivered: IntervalSet,
    acknowledged: IntervalSet,
    acked: IntervalSet | None,
    pending: PendingEntries,
    gone: AbstractSet[EntryId] = NONE_GONE,
) -> list[Interval]:
    """The runs above the first live pending entry that no known run covers, of the live entries among what was
    acknowledged, once those that are gone are no longer pending.
    """
    fresh = without_pending(tree, acknowledged, pending, gone).intersection(delivered)
    if acked is not None:
        fresh = fresh.minus(acked)
    found: list[Interval] = []
    limit = limit_without(tree, pending, gone) if gone else acknowledged_limit(tree, pending)
    for low, high in fresh.pieces(limit, ID_MAX):
        if tree.last_id_between(low, high) is None:
            continue
        start = delivered.start_from(high)
        last = tree.last_id_between(start, low)
        found.append((start if last is None else last, high))
    return found


def is_full(acked: IntervalSet | None, pieces: list[Interval], intervals_max: int) -> bool:
    """True if the known runs of an origin are so many intervals, even with these pieces, which may close gaps."""
    if acked is None or len(acked) < intervals_max:
        return False
    joined = acked.copy()
    joined.union(IntervalSet.of(pieces))
    return len(joined) >= intervals_max


def waiting(
    acknowledged: dict[int, IntervalSet],
    acked: dict[int, IntervalSet],
    runs: dict[int, list[Interval]],
    intervals_max: int,
) -> dict[int, IntervalSet]:
    """What of the acknowledged waits until gaps close, once these runs are told."""
    kept = [origin for origin in acknowledged if is_full(acked.get(origin), runs.get(origin, []), intervals_max)]
    return {origin: acknowledged[origin] for origin in kept}


def passed_of(delivered: IntervalSet | None, skipped: IntervalSet | None, acked: IntervalSet) -> IntervalSet:
    """What readers of this region pass over."""
    passed = acked.copy()
    for known in (delivered, skipped):
        if known is not None:
            passed.union(known)
    return passed


def without_pending(
    tree: EntryTree, acknowledged: IntervalSet, pending: PendingEntries, gone: AbstractSet[EntryId]
) -> IntervalSet:
    """The same without the entries that live and are pending (again), but for those that are gone."""
    left = acknowledged.copy()
    for low, high in acknowledged.pairs():
        for entry_id in zip(*pending.columns_within(tree.origin, next_id(low) or ID_MAX, high), strict=True):
            if entry_id not in gone and tree.counter_of(entry_id):
                left.remove(id_below(entry_id), entry_id)
    return left
