"""References: what consumer groups hold or need of a stream's entries, for removals that ask (DELREF, ACKED).

A group *refers* to an entry that is pending in it. It *needs* an entry that it refers to, or that its readers may still
get. So an entry is *settled* for a group if it is not pending here, and

    lies at or below the group's floor, so that the group never wanted it, or
    was delivered here: it was acknowledged here, or read with NOACK, or
    lies in an acknowledged run of any region, unless SETID backwards asked for it again, or
    was skipped here (SETID forwards, XCLAIM LASTID, DELCONSUMER) in a region that is alone. Otherwise only this
    region's readers skip it: those of other regions may still want it.

What another region's readers hold is not known here, only the runs that it has sent. An entry that only they have is
therefore needed until such a run arrives: the error is on the side of keeping entries. An entry that was delivered and
acknowledged here is settled, even if another region's readers have received it as well.

Intervals are `(from, to]`. IDs of one origin ascend with its counters, so an interval that names removed entries never
holds an entry that arrives later.
"""

from __future__ import annotations

from crdtstream.core.effects import CounterRange
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import ChainRange, TreeRange, merge
from crdtstream.core.entries.slices import Slice
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, next_id, previous_id
from crdtstream.core.values.intervals import Interval, IntervalSet


def is_needed(stream: Stream, origin: int, entry_id: EntryId, alone: bool) -> bool:
    """True if any group needs this entry; `alone`: no other region exists."""
    return any(group_needs(group, origin, entry_id, alone) for group in stream.groups.values())


def group_needs(group: Group, origin: int, entry_id: EntryId, alone: bool) -> bool:
    if group.pending.get(origin, entry_id) is not None:
        return True
    if entry_id <= group.floor.get(origin):
        return False
    passed, skipped, acked = group.passed.get(origin), group.skipped.get(origin), group.acked.get(origin)
    if passed is None or not passed.contains(entry_id):
        return True
    if alone or skipped is None or not skipped.contains(entry_id):
        return False
    return acked is None or not acked.contains(entry_id)


def origins_referring(stream: Stream, entry_id: EntryId) -> list[int]:
    """The origins in which any group holds this ID as pending, whether or not the entry lives."""
    return sorted({origin for group in stream.groups.values() for origin in group.pending.origins_of(entry_id)})


# DELREF


def ids_of(stream: Stream, ranges: dict[int, list[CounterRange]]) -> dict[int, list[Interval]]:
    """The IDs of the live entries with these counters, as one interval for each range."""
    named: dict[int, list[Interval]] = {}
    for origin, pieces in ranges.items():
        intervals = [
            interval for piece in pieces if (interval := _ids_between(stream.trees[origin], piece)) is not None
        ]
        if intervals:
            named[origin] = intervals
    return named


def _ids_between(tree: EntryTree, piece: CounterRange) -> Interval | None:
    found = tree.slices_between(piece[0], piece[1], tree.count)
    if not found:
        return None
    first, last = found[0], found[-1]
    return previous_id(first.block.id_at(first.low)) or ID_MIN, last.block.id_at(last.high - 1)


# ACKED


def oldest_settled(stream: Stream, end: EntryId, count: int, alone: bool) -> tuple[dict[int, list[CounterRange]], int]:
    """The counters of the `count` oldest entries up to the ID `end`, inclusive, that no group needs; and how many these
    are.
    """
    chain_ranges: list[ChainRange] = []
    for origin in sorted(stream.trees):
        slices = _settled_slices(stream, origin, end, count, alone)
        if slices:
            chain_ranges.append([TreeRange(origin, slices)])
    ranges: dict[int, list[CounterRange]] = {}
    found = 0
    for run in merge(chain_ranges, count):
        found += run.high - run.low
        # Between two entries that follow each other in a block lies no other live entry of this stream.
        piece = (run.block.counter_at(run.low), run.block.counter_at(run.high - 1))
        ranges.setdefault(run.origin, []).append(piece)
    return {origin: ranges[origin] for origin in sorted(ranges)}, found


def _settled_slices(stream: Stream, origin: int, end: EntryId, count: int, alone: bool) -> list[Slice]:
    """The first `count` settled entries of one origin."""
    settled: list[Slice] = []
    groups = list(stream.groups.values())
    for low, high in _passed_by_all(groups, origin, ID_MIN, end, alone):
        for part in stream.trees[origin].slices(next_id(low) or ID_MAX, high, -1, False):
            for piece in _unpending(part, groups, origin):
                settled.append(Slice(piece.block, piece.low, min(piece.high, piece.low + count)))
                count -= settled[-1].count()
                if count == 0:
                    return settled
    return settled


def settled_slices(
    stream: Stream, origin: int, above: EntryId, end: EntryId, entries_max: int, alone: bool
) -> tuple[list[Slice], EntryId]:
    """The settled entries of one origin in (above, end], as far as looking at `entries_max` entries finds them; and the
    ID up to which was looked, `ID_MIN` if to the end.
    """
    settled: list[Slice] = []
    groups = list(stream.groups.values())
    if not groups or above >= end:
        return settled, ID_MIN
    for low, high in _passed_by_all(groups, origin, above, end, alone):
        for part in stream.trees[origin].slices(next_id(low) or ID_MAX, high, entries_max, False):
            settled += _unpending(part, groups, origin)
            entries_max -= part.count()
            if entries_max <= 0:
                return settled, part.block.id_at(part.high - 1)
    return settled, ID_MIN


def _passed_by_all(groups: list[Group], origin: int, above: EntryId, end: EntryId, alone: bool) -> list[Interval]:
    """The intervals in (above, end] that hold only what no group will deliver any more."""
    passed = IntervalSet.of([(above, end)])
    for group in groups:
        passed = passed.intersection(_passed_by(group, origin, alone))
    return passed.pairs()


def _passed_by(group: Group, origin: int, alone: bool) -> IntervalSet:
    passed = IntervalSet.of([(ID_MIN, group.floor.get(origin))])
    known, skipped, acked = group.passed.get(origin), group.skipped.get(origin), group.acked.get(origin)
    if known is not None:
        if skipped is not None and not alone:
            known = known.minus(skipped if acked is None else skipped.minus(acked))
        passed.union(known)
    return passed


def _unpending(part: Slice, groups: list[Group], origin: int) -> list[Slice]:
    """What of a slice is pending in no group. That a group which has fallen behind holds all of it, as is usual, shows
    without a look at any entry.
    """
    block = part.block
    first, last = block.id_at(part.low), block.id_at(part.high - 1)
    columns = block.id_columns(part.low, part.high)
    held: set[EntryId] = set()
    for group in groups:
        ms, seq = group.pending.columns_within(origin, first, last)
        if (ms, seq) == columns:
            return []
        held.update(zip(ms, seq, strict=True))
    if not held:
        return [part]
    pieces: list[Slice] = []
    low = part.low
    for index, entry_id in enumerate(block.ids(part.low, part.high), part.low):
        if entry_id in held:
            if low < index:
                pieces.append(Slice(block, low, index))
            low = index + 1
    if low < part.high:
        pieces.append(Slice(block, low, part.high))
    return pieces
