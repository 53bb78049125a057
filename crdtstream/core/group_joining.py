"""Joining the consumer groups of one key from two states.

A group is its set of create dots (core/group.py). Whether a create dot is in the joined state, where the *holder* is a
side that has the dot and the *other* side does not:

    held by    the other's vector    tombstones of the other side that      result
               covers the dot        the holder's vector does not cover
    both       -                     -                                      survives
    one        yes                   -                                      removed: the other saw it destroyed
    one        no                    one or more                            removed: such a tombstone destroys it
    one        no                    none                                   survives: it is new to the other side

The third row holds because the context of a create lies within the vector of its holder: a tombstone that this vector
does not cover is not covered by the context either, and a create survives only if its context covers every tombstone.
(A tombstone that was dropped in favour of a later one is represented by the later one.)

The runs under a create are united. Local parts (consumers, pending entries, cursor) stay this region's; they are
dropped when none of the creates that they were made under survives. Pending entries inside newly joined runs leave.
"""

from __future__ import annotations

from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.effects import UNKNOWN_ENTRIES_READ
from crdtstream.core.group import Create, Group
from crdtstream.core.intervals import IntervalSet
from crdtstream.core.stream import Stream


def join_groups(mine: Stream, vector: VersionVector, theirs: Stream, their_vector: VersionVector) -> None:
    """Join the groups of `theirs` into `mine`; the tombstones may be joined before or after."""
    for name in sorted({*mine.groups, *theirs.groups}):
        group, other = mine.groups.get(name), theirs.groups.get(name)
        own = {} if group is None else group.creates
        foreign = {} if other is None else other.creates
        kept = surviving(own, foreign, their_vector, theirs.has_tombstones_within(vector, name))
        fresh = surviving(foreign, own, vector, mine.has_tombstones_within(their_vector, name))
        if group is not None and kept:
            group.creates = kept
            join_group(group, fresh)
        elif fresh:
            mine.groups[name] = group_of(fresh)
        else:
            mine.groups.pop(name, None)


def surviving(
    creates: dict[Dot, Create], others: dict[Dot, Create], other_vector: VersionVector, covers: bool
) -> dict[Dot, Create]:
    """The creates of one side that survive; `covers`: this side's vector covers all tombstones of the other side."""
    return {
        dot: create
        for dot, create in creates.items()
        if dot in others or (covers and not other_vector.contains(dot[0], dot[1]))
    }


def join_group(group: Group, creates: dict[Dot, Create]) -> None:
    """Add the creates of the other side, with their runs."""
    for dot, create in sorted(creates.items()):
        if dot not in group.creates:
            group.add_create(dot, create.start)
        runs = group.creates[dot].runs
        for slot, pieces in create.runs.items():
            runs.setdefault(slot, IntervalSet()).union(pieces)
    before = group.acked
    group.derive()
    for slot, acked in group.acked.items():
        group.drop_passed(slot, acked.minus(before.get(slot, IntervalSet())))


def group_of(creates: dict[Dot, Create]) -> Group:
    """A group that is new here; nothing was delivered here under any of these creates."""
    first = min(creates)
    group = Group(first, creates[first].start, UNKNOWN_ENTRIES_READ)
    join_group(group, creates)
    return group
