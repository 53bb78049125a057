"""What every member has told about itself: a durable vector (fsynced) and an applied one, heard from it or relayed.

Vectors of one member form a chain, so of two that are heard the merge is the newer, in whatever order they come.

Two readings of a durable vector. That a member **holds** something is a fact when it is heard; WAIT asks for that. But
a vector **counts** for stability only once the own vector descends it (the second gate of progress): else a tombstone
that all members cover could be forgotten here while a create that it must kill, covered by the vector too, has not
arrived. Each member has one vector that waits at that gate. What is heard meanwhile does not replace it but follows it;
otherwise members that write all the time would keep it out of reach for ever.

Invariant: counted <= awaited <= heard, for each member. All vectors are inclusive.

Reference: Baquero, Almeida and Shoker, "Making operation-based CRDTs operation-based" (2014), causal stability.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from crdtstream.core.causality import VersionVector, incarnation_of, region_of

ProgressRow = tuple[int, VersionVector, VersionVector]

ROWS_MAX: Final = 1 << 62


class _Member:
    """One member's vectors; `awaited` is the durable one at the gate, None when all that was heard counts."""

    __slots__ = ("applied", "awaited", "counted", "heard")

    def __init__(self) -> None:
        self.heard = VersionVector()
        self.applied = VersionVector()
        self.counted = VersionVector()
        self.awaited: VersionVector | None = None

    def hear(self, durable: VersionVector, applied: VersionVector) -> None:
        self.applied.merge(applied)
        if not self.heard.descends(durable):
            self.heard.merge(durable)
            if self.awaited is None:
                self.awaited = self.heard.copy()

    def row_count(self) -> int:
        return self.heard.slot_count() + self.applied.slot_count()

    def new_rows(self, durable: VersionVector, applied: VersionVector) -> int:
        return durable.slots_beyond(self.heard) + applied.slots_beyond(self.applied)

    def settle(self, own: VersionVector) -> bool:
        """Let through what the own vector descends; True when something counts that did not."""
        settled = False
        while self.awaited is not None and own.descends(self.awaited):
            self.counted = self.awaited
            self.awaited = None if self.counted == self.heard else self.heard.copy()
            settled = True
        return settled


class ProgressTable:
    """Members by slot."""

    __slots__ = ("_members", "row_count")

    def __init__(self) -> None:
        self._members: dict[int, _Member] = {}
        # Of all vectors as heard: what they take of memory.
        self.row_count = 0

    def hear(self, slot: int, durable: VersionVector, applied: VersionVector, rows_max: int = ROWS_MAX) -> bool:
        """Both vectors are merged in, so the caller may go on using its own. False where all rows would be more than
        that, and nothing is heard.
        """
        member = self._members.get(slot)
        if member is None:
            member = _Member()
        row_count = self.row_count + member.new_rows(durable, applied)
        if row_count > rows_max:
            return False
        self._members[slot] = member
        member.hear(durable, applied)
        self.row_count = row_count
        return True

    def settle(self, own_vector: VersionVector) -> bool:
        """The own vector grew, or something was heard; True when a durable vector counts that did not."""
        settled = False
        for member in self._members.values():
            if member.awaited is not None and member.settle(own_vector):
                settled = True
        return settled

    def durable_of(self, slot: int) -> VersionVector:
        """The durable vector that counts; empty for a member not heard of."""
        member = self._members.get(slot)
        return VersionVector() if member is None else member.counted.copy()

    def applied_of(self, slot: int) -> VersionVector:
        """The newest applied vector heard; for show and for lag, so it passes no gate."""
        member = self._members.get(slot)
        return VersionVector() if member is None else member.applied.copy()

    def stable(self, members: Iterable[int]) -> VersionVector:
        """What every member holds durably; one not heard of counts as zero."""
        stable: VersionVector | None = None
        for slot in members:
            durable = self.durable_of(slot)
            stable = durable if stable is None else stable.meet(durable)
        return VersionVector() if stable is None else stable

    def holders(self, slot: int, counter: int) -> set[int]:
        """The regions that hold this origin's effects up to the counter on disk.

        A region's latest incarnation speaks for it: what an earlier one held may be lost.
        """
        holders: set[int] = set()
        for member_slot in self._latest():
            if self._members[member_slot].heard.contains(slot, counter):
                holders.add(region_of(member_slot))
        return holders

    def _latest(self) -> list[int]:
        """The slot of each region's latest incarnation."""
        latest: dict[int, int] = {}
        for slot in self._members:
            region = region_of(slot)
            if incarnation_of(slot) >= incarnation_of(latest.get(region, region)):
                latest[region] = slot
        return list(latest.values())

    def rows(self) -> list[ProgressRow]:
        """(slot, durable, applied) as heard, slots ascending: each receiver has a gate of its own. Who keeps a vector
        copies it, because it goes on growing here.
        """
        return [(slot, member.heard, member.applied) for slot, member in sorted(self._members.items())]

    def check(self) -> None:
        assert self.row_count == sum(member.row_count() for member in self._members.values()), "rows are miscounted"
        for slot, member in self._members.items():
            for vector in (member.heard, member.applied, member.counted):
                vector.check()
            assert member.heard.descends(member.counted), f"more counts of slot {slot} than was heard"
            if member.awaited is None:
                assert member.counted == member.heard, f"slot {slot}: what was heard waits at no gate"
            else:
                assert member.heard.descends(member.awaited), f"slot {slot} awaits more than was heard"
                assert member.awaited.descends(member.counted), f"slot {slot} awaits less than counts"
                assert member.awaited != member.counted, f"slot {slot} awaits what counts already"
