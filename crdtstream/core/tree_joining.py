"""Joining two entry trees of one origin, block by block.

Let `c` be an entry's counter, `known` the origin's counter in my vector and `their_known` in theirs. An entry is in the
joined tree as follows:

    mine     theirs   test                in the result
    holds    holds    -                   yes
    holds    lacks    c <= their_known    no: it was removed there
    holds    lacks    c > their_known     yes: it is new to them
    lacks    holds    c <= known          no: it was removed here
    lacks    holds    c > known           yes: it is new here

So my tree loses what the other side knows and lacks, and gains what the other tree holds above `known`.

Where the trees agree, no entry is visited: columns of counters are compared as a whole, however blocks divide them.
"""

from __future__ import annotations

from array import array

from crdtstream.core.effects import CounterRange
from crdtstream.core.entry_id import ID_MAX, ID_MIN, EntryId
from crdtstream.core.entry_tree import EntryTree


def join_tree(mine: EntryTree, known: int, theirs: EntryTree, their_known: int) -> None:
    """Join `theirs` into `mine`, adopting its blocks; `known` and `their_known` are as in the table above."""
    for low, high in lacking(mine, theirs, their_known):
        mine.remove_counters(low, high)
    first = theirs.first_above(known)
    if first is not None:
        for part in theirs.slices(first, ID_MAX, -1, False):
            mine.link(part.block, part.low, part.high)


def can_join(mine: EntryTree | None, known: int, theirs: EntryTree) -> bool:
    """True if the entries of `theirs` above `known` ascend from the last entry that both trees hold, as the entries of
    a sound origin do.
    """
    first = theirs.first_above(known)
    if first is None:
        return True
    last = None if mine is None else last_held(mine, theirs)
    for part in theirs.slices(first, ID_MAX, -1, False):
        low = (part.block.id_at(part.low), part.block.counter_at(part.low))
        if last is not None and (low[0] <= last[0] or low[1] <= last[1]):
            return False
        last = (part.block.id_at(part.high - 1), part.block.counter_at(part.high - 1))
    return True


def last_held(mine: EntryTree, theirs: EntryTree) -> tuple[EntryId, int] | None:
    """ID and counter of the last entry of `mine` that `theirs` holds too."""
    for part in mine.slices(ID_MIN, ID_MAX, -1, True):
        counters = part.block.counters(part.low, part.high)
        held = set(theirs.counters_between(counters[0], counters[-1]))
        for index in range(len(counters) - 1, -1, -1):
            if counters[index] in held:
                return (part.block.id_at(part.low + index), counters[index])
    return None


def last_of(tree: EntryTree) -> tuple[EntryId, int] | None:
    for part in tree.slices(ID_MIN, ID_MAX, 1, True):
        return (part.block.id_at(part.high - 1), part.block.counter_at(part.high - 1))
    return None


def lacking(mine: EntryTree, theirs: EntryTree, through: int) -> list[CounterRange]:
    """Ranges that contain exactly those entries of `mine` up to counter `through`, inclusive, that `theirs` lacks."""
    ranges: list[CounterRange] = []
    adjacent = False
    for part in mine.slices(ID_MIN, ID_MAX, -1, False):
        high = min(part.high, part.block.lower_bound_counter(through + 1))
        if high <= part.low:
            break
        counters = array("Q", part.block.counters(part.low, high))
        held = theirs.counters_between(counters[0], counters[-1])
        if held == counters:
            adjacent = False
        elif held:
            adjacent = add_absent(ranges, counters, held, adjacent)
        else:
            extend(ranges, counters[0], counters[-1], adjacent)
            adjacent = True
    return ranges


def add_absent(ranges: list[CounterRange], counters: array[int], held: array[int], adjacent: bool) -> bool:
    """Add the counters that are not in `held`. `adjacent` and the result say whether the previous entry was absent."""
    kept = set(held)
    for counter in counters:
        absent = counter not in kept
        if absent:
            extend(ranges, counter, counter, adjacent)
        adjacent = absent
    return adjacent


def extend(ranges: list[CounterRange], low: int, high: int, adjacent: bool) -> None:
    if adjacent:
        ranges[-1] = (ranges[-1][0], high)
    else:
        ranges.append((low, high))
