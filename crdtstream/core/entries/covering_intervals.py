"""Covering intervals: some of a tree's entries as intervals of IDs, as few as hold no other live entry.

An interval `(from, to]` may hold removed entries, which nobody can get any more.
"""

from __future__ import annotations

from bisect import bisect_left

from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, next_id, previous_id
from crdtstream.core.values.intervals import Interval, IntervalSet

# Below this share of the live entries, looking between two of the IDs is cheaper than visiting what lies there.
SPARSE_SHARE = 8


def covering_intervals(tree: EntryTree | None, ids: list[EntryId]) -> IntervalSet:
    """These ascending IDs as intervals."""
    if tree is None or not ids:
        return IntervalSet.of([(previous_id(ids[0]) or ID_MIN, ids[-1])] if ids else [])
    if tree.count_in(ids[0], ids[-1]) > SPARSE_SHARE * len(ids):
        return IntervalSet.of(_looked_between(tree, ids))
    return IntervalSet.of(_visited(tree, ids))


def _looked_between(tree: EntryTree, ids: list[EntryId]) -> list[Interval]:
    found: list[Interval] = []
    for entry_id in ids:
        below = previous_id(entry_id) or ID_MIN
        if found and tree.count_in(next_id(found[-1][1]) or ID_MAX, below) == 0:
            found[-1] = (found[-1][0], entry_id)
        else:
            found.append((below, entry_id))
    return found


def _visited(tree: EntryTree, ids: list[EntryId]) -> list[Interval]:
    """Visit the live entries; those of a block that are all among the IDs, as a whole."""
    found: list[Interval] = []
    held = set(ids)
    adjacent = False
    for part in tree.slices(ids[0], ids[-1], -1, False):
        live = part.ids()
        at = bisect_left(ids, live[0])
        if ids[at : at + len(live)] == live:
            _extend(found, live[0], live[-1], adjacent)
            adjacent = True
            continue
        for entry_id in live:
            if entry_id in held:
                _extend(found, entry_id, entry_id, adjacent)
            adjacent = entry_id in held
    return found


def _extend(found: list[Interval], first: EntryId, last: EntryId, adjacent: bool) -> None:
    if adjacent:
        found[-1] = (found[-1][0], last)
    else:
        found.append((previous_id(first) or ID_MIN, last))
