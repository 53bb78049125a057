"""Who belongs to the cluster: a replicated table of origins that joined and origins that were evicted.

**Joined.** A region that meets an origin prepares `MemberJoined`, as its sponsor; several may, and every one counts.
An origin prepares nothing before it has applied one of them, unless it founds the cluster. So whatever its sponsor had
applied lies in the context of all that it ever prepares. Whoever has not applied the Join yet, and so does not count
the joiner, counts the sponsor, whose vector, as far as it is known, ends before the Join: what that vector covers, the
joiner has seen before its first effect.

**Evicted.** `MemberEvicted(slot, through)` ends an origin's membership for ever; `through` is what the evictor held of
it. Group creates of that origin above `through` are void everywhere, whether they were applied before or come later;
of concurrent evictions the minimum of `through` counts. Those up to `through` are in the context of the eviction, so
whoever stops counting the origin has them. Entries, removals, destroys and acknowledgements count as before.

**Sponsors that are gone.** A region that was evicted and does not know may admit others, and what it has is not what
others had when they forgot. So an origin says which Join it follows, `MemberAdmitted`, before it creates a group. If
that Join lies above its sponsor's end, the origin's own end is 0, as if it had been evicted before it did anything, and
it comes back. A sponsor that had not been admitted itself stands for its region's origin before it, whose state it has:
if that one was evicted, its Join is worth nothing either.

**Older incarnations.** The newest incarnation that joined speaks for its region. An older one may have left effects
that only some regions hold, and its last messages may still be on their way; a region takes none from it directly any
more once it has applied the newer one's Join. So the older one is counted, at what it held when last heard, until one
Join of a newer incarnation is covered by all that count: by then each of them has all of the old tail that it will ever
get first hand, and by the second gate of progress this region has it too.

Invariant: a table is a function of the set of Joins and Evicts applied, not of their order; `join` is their union.

Reference: grow-only sets and minima; Baquero, Almeida and Shoker (2014) for stability.
"""

from __future__ import annotations

from collections.abc import Callable

from crdtstream.core.causality import SLOTS, Dot, VersionVector, region_of

# A row is (slot, sponsor's slot, counter of the Join), or (slot, EVICTED, through). An origin that follows a Join has
# two more: that Join, its sponsor's slot raised by FOLLOWED, and (slot, FOLLOWED, counter of its effect that says so).
MemberRow = tuple[int, int, int]
EVICTED = 0
FOLLOWED = SLOTS

# Beyond every counter.
NEVER = 1 << 64


class Members:
    """The table; `changes` grows with every change, so that who follows it need not compare."""

    __slots__ = ("_admitted", "_ends", "_evicted", "_followed", "_joins", "changes")

    def __init__(self) -> None:
        self._joins: dict[int, dict[Dot, None]] = {}
        self._evicted: dict[int, int] = {}
        self._followed: dict[int, Dot] = {}
        self._admitted: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self.changes = 0

    # Changing

    def apply_joined(self, dot: Dot, slot: int) -> None:
        joins = self._joins.setdefault(slot, {})
        if dot not in joins:
            joins[dot] = None
            self._changed()

    def apply_admitted(self, dot: Dot, join: Dot) -> None:
        """The origin of this dot follows that Join; it says so once."""
        slot, counter = dot
        if (counter, join) < (self._admitted.get(slot, NEVER), self._followed.get(slot, join)):
            self._admitted[slot] = counter
            self._followed[slot] = join
            self._changed()

    def apply_evicted(self, slot: int, through: int) -> None:
        if through < self._evicted.get(slot, NEVER):
            self._evicted[slot] = through
            self._changed()

    def join(self, other: Members) -> None:
        """Another table's rows as well."""
        for slot, joins in sorted(other._joins.items()):
            for dot in sorted(joins):
                self.apply_joined(dot, slot)
        for slot, followed in sorted(other._followed.items()):
            self.apply_admitted((slot, other._admitted[slot]), followed)
        for slot, through in sorted(other._evicted.items()):
            self.apply_evicted(slot, through)

    def _changed(self) -> None:
        """Find all ends anew; each round reaches those who follow a sponsor of the round before."""
        self.changes += 1
        self._ends = dict(self._evicted)
        found = bool(self._ends)
        while found:
            lost = [slot for slot, join in self._followed.items() if self._is_worthless(join)]
            found = any(self._ends.get(slot) != 0 for slot in lost)
            self._ends.update(dict.fromkeys(lost, 0))

    def _is_worthless(self, join: Dot) -> bool:
        """Its sponsor had left, or did not belong, or stood for an origin that has left."""
        sponsor, counter = join
        if counter > self._evicted.get(sponsor, NEVER):
            return True
        if counter > self._admitted.get(sponsor, NEVER):
            return self._ends.get(sponsor) == 0
        older = [slot for slot in self.slots() if region_of(slot) == region_of(sponsor) and slot < sponsor]
        return bool(older) and older[-1] in self._ends

    # Asking

    def is_joined(self, slot: int) -> bool:
        return slot in self._joins

    def sponsor_of(self, slot: int) -> Dot | None:
        """A Join of that origin that counts."""
        return next((join for join in sorted(self._joins.get(slot, {})) if not self._is_worthless(join)), None)

    def has_sponsored(self, sponsor: int, slot: int) -> bool:
        """That sponsor has joined that origin, since it was admitted itself if it was."""
        since = self._admitted.get(sponsor, 0)
        return any(dot[0] == sponsor and dot[1] > since for dot in self._joins.get(slot, {}))

    def follows(self, slot: int) -> bool:
        """The origin has said which Join it follows."""
        return slot in self._followed

    def is_evicted(self, slot: int) -> bool:
        return slot in self._ends

    def end_of(self, slot: int) -> int:
        """The last counter at which a create of a group counts; `NEVER` while the origin was not evicted."""
        return self._ends.get(slot, NEVER)

    def ends(self) -> dict[int, int]:
        """Every origin whose membership has ended, and where."""
        return dict(sorted(self._ends.items()))

    def voids(self, slot: int, counter: int) -> bool:
        """Whether a create of a group with this dot is void."""
        return counter > self._ends.get(slot, NEVER)

    def joined(self) -> list[int]:
        """Every origin that joined and was not evicted, ascending."""
        return [slot for slot in sorted(self._joins) if not self.is_evicted(slot)]

    def left_after(self, ends: dict[int, int], own_slot: int) -> list[int]:
        """Who would speak for a region after evictions through these counters; the own origin does for its own."""
        after = Members.of_rows(self.rows())
        for slot, through in sorted(ends.items()):
            after.apply_evicted(slot, through)
        newest = {region_of(slot): slot for slot in sorted(after._joins)}
        newest[region_of(own_slot)] = own_slot
        return [slot for slot in sorted(newest.values()) if not after.is_evicted(slot)]

    def slots(self) -> list[int]:
        """Every origin that is named, ascending."""
        return sorted({*self._joins, *self._evicted})

    def is_followed(self, slot: int) -> bool:
        """A newer incarnation of this origin's region has joined."""
        return any(region_of(other) == region_of(slot) and other > slot for other in self._joins)

    # Stability

    def stable(
        self, own_slot: int, own_durable: VersionVector, born: list[int], durable_of: Callable[[int], VersionVector]
    ) -> VersionVector:
        """What everyone who counts holds durably. `born` are origins that are known by their birth alone, a region's
        newest each; they count as well. `durable_of` gives a vector that passed the second gate.
        """
        newest = {region_of(slot): slot for slot in sorted({*born, *self.joined()}) if not self.is_evicted(slot)}
        newest[region_of(own_slot)] = own_slot
        speaking = sorted(newest.values())
        stable = own_durable.copy()
        for slot in speaking:
            if slot != own_slot:
                stable = stable.meet(durable_of(slot))
        for slot in self.joined():
            if slot not in speaking and not self._is_settled(slot, stable):
                stable = stable.meet(durable_of(slot))
        return stable

    def _is_settled(self, slot: int, stable: VersionVector) -> bool:
        """All that speak for a region hold a Join of a newer incarnation of this origin's region."""
        newer = [other for other in self._joins if region_of(other) == region_of(slot) and other > slot]
        return any(stable.contains(dot[0], dot[1]) for other in newer for dot in self._joins[other])

    # Rows

    def rows(self) -> list[MemberRow]:
        """All there is to know, in order."""
        rows = [(slot, sponsor, counter) for slot, joins in self._joins.items() for sponsor, counter in joins]
        rows += [(slot, FOLLOWED + sponsor, counter) for slot, (sponsor, counter) in self._followed.items()]
        rows += [(slot, FOLLOWED, counter) for slot, counter in self._admitted.items()]
        return sorted(rows + [(slot, EVICTED, through) for slot, through in self._evicted.items()])

    @staticmethod
    def of_rows(rows: list[MemberRow]) -> Members:
        members = Members()
        admitted = {slot: counter for slot, sponsor, counter in rows if sponsor == FOLLOWED}
        for slot, sponsor, counter in rows:
            if sponsor == EVICTED:
                members.apply_evicted(slot, counter)
            elif sponsor > FOLLOWED:
                members.apply_admitted((slot, admitted.get(slot, 1)), (sponsor - FOLLOWED, counter))
            elif sponsor != FOLLOWED:
                members.apply_joined((sponsor, counter), slot)
        return members

    def check(self) -> None:
        for slot, joins in self._joins.items():
            assert 0 < slot < SLOTS and region_of(slot), f"slot {slot} out of range"
            assert joins, f"slot {slot} joined without a sponsor"
            for sponsor, counter in joins:
                assert 0 < sponsor < SLOTS and counter > 0, f"slot {slot} joined by {(sponsor, counter)}"
                assert sponsor != slot, f"slot {slot} sponsors itself"
        for slot, through in self._evicted.items():
            assert 0 < slot < SLOTS and through >= 0, f"slot {slot} evicted through {through}"
        for slot, (sponsor, counter) in self._followed.items():
            known = (sponsor, counter) in self._joins.get(slot, {})
            assert known, f"slot {slot} follows {(sponsor, counter)}, which is no Join of it"
            assert self._admitted[slot] > 0, f"slot {slot} follows a Join without saying so"
