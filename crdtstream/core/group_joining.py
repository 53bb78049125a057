"""Joining two views of the consumer groups of one key.

A create dot that both sides hold lives. One that a single side holds is new to the other if the other's vector does
not cover it; otherwise the other has seen it killed. A new one may still be killed by a tombstone that only the other
side has: the create's context lies within its own side's vector, so what that vector does not cover it does not follow.
(A tombstone that was subsumed counts by the later one that subsumed it.)

Runs under a create are united. The locals (consumers, pending entries, cursor) stay the own ones, and go when none of
the create dots that they were made under lives. Pending entries inside runs that come with the join leave.
"""

from __future__ import annotations

from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.effects import UNKNOWN_ENTRIES_READ
from crdtstream.core.group import Create, Group
from crdtstream.core.intervals import IntervalSet
from crdtstream.core.stream import Stream


def join_groups(mine: Stream, vector: VersionVector, theirs: Stream, their_vector: VersionVector) -> None:
    """Before or after the tombstones of both are joined."""
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
    creates: dict[Dot, Create], others: dict[Dot, Create], other_vector: VersionVector, follows: bool
) -> dict[Dot, Create]:
    """Which of one side's creates live; `follows`: its vector covers all tombstones of the other side."""
    return {
        dot: create
        for dot, create in creates.items()
        if dot in others or (follows and not other_vector.contains(dot[0], dot[1]))
    }


def join_group(group: Group, creates: dict[Dot, Create]) -> None:
    """Take in the other side's creates with their runs."""
    for dot, create in sorted(creates.items()):
        if dot not in group.creates:
            group.join_create(dot, create.start)
        runs = group.creates[dot].runs
        for slot, pieces in create.runs.items():
            runs.setdefault(slot, IntervalSet()).union(pieces)
    before = group.acked
    group.derive()
    for slot, acked in group.acked.items():
        group.drop_passed(slot, acked.minus(before.get(slot, IntervalSet())))


def group_of(creates: dict[Dot, Create]) -> Group:
    """A group that is new here: nothing was delivered here under any of these creates."""
    first = min(creates)
    group = Group(first, creates[first].start, UNKNOWN_ENTRIES_READ)
    join_group(group, creates)
    return group
