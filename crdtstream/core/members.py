"""The table of members: which origins belong to the cluster, how each was admitted, and where each ended; replicated.

Every start of a process is a new origin, so origins come and go. The danger is an origin that creates a group without
having seen a destroy whose tombstone the others have forgotten by then (core/collection.py). Hence three steps:

**Joined.** A region that meets an origin prepares `MemberJoined`, a *Join*, as its sponsor; an origin may have several
sponsors. Every region that has applied a Join waits for that origin before it forgets anything.

**Admitted.** An origin creates groups, sponsors others and forgets tombstones only once it is admitted, and says so
with `MemberAdmitted` before it first creates or sponsors. It is admitted in one of three ways:

    by a sponsor   It has applied a Join of itself made by an admitted origin, so everything it does is causally after
                   what its sponsor had seen. A region that has not applied that Join does not count the new origin, but
                   it counts the sponsor, whose vector, as far as that region knows it, ends before the Join. The new
                   origin has seen everything that vector covers.
    by all         If no admitted origin is left (all regions restarted at once), an origin joins itself, and is
                   admitted once every counted origin has that Join on disk. It has seen what each of them had seen by
                   then, and each of them counts it from then on.
    as a founder   It is one of the origins that started the cluster together. Every region counts it from its birth.

**Ended.** `MemberEvicted(origin, through)` ends an origin's membership for ever; `through` is the evictor's counter of
that origin. Group creates and Joins of the origin above `through` are void, whether they were applied before or arrive
later; of several evictions the lowest `through` applies. Creates and Joins up to `through` are in the context of the
eviction, so every region that stops counting the origin has them. Entries, removals, destroys and acknowledgements stay
valid. When a region comes back as a new origin, its sponsor evicts the previous one in favour of this **successor**; an
operator's eviction has no successor.

**Void admissions.**

    admitted       the admission is void if
    by a sponsor   its Join lies above the sponsor's end
    by all         an operator's eviction did not know the origin's Join, and the admission did not know the eviction:
                   each side went on without the other
    by all         another origin was admitted by all too, and both evicted the same origin to take its place: two
                   processes run copies of one directory and cannot reach each other (both admissions are void)
    as a founder   never

In each case the origin, or one of the two, may have forgotten destroys that are not in the context of the other's
creates. The end of an origin whose admission is void is 0. It still counts for stability until its region has come back
as a new origin that took its place, as after a restart: before it learns that its admission is void it goes on
forgetting, and an origin admitted in the meantime would not have seen what it forgot.

**The end** of an origin is the lowest of these. Above it, its `GroupCreated` and `MemberJoined` effects are void; all
its other effects are valid:

    a PAST row            its `through`
    EVICTED rows          the lowest `through`
    a void admission      0
    none of these         NEVER

Invariant: a table is a function of the set of Joins, admissions and evictions applied, not of their order; `join` of
two tables is their union. Once all evictions of an origin in favour of successors are causally stable, only their
minimum is kept as its **past** end. The exception is an eviction by a successor that was admitted by all: a second such
eviction may still arrive and void both admissions. Joins of ended origins, and which origin evicted them, are not part
of any compared state.

Reference: grow-only sets and minima; Baquero, Almeida and Shoker (2014) for stability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crdtstream.core.values.causality import Dot, VersionVector, is_origin, region_of

# (kind, origin, another origin, a counter of that other origin, value):
#     (JOINED, origin, sponsor, counter of the Join, 0)
#     (ADMITTED, origin, sponsor, counter of the Join, own counter), zeros for the sponsor of a founder
#     (ADMITTED_BY_ALL, origin, sponsor, counter of the Join, own counter)
#     (VOID, origin, 0, 0, 0)
#     (EVICTED, origin, evictor, counter of the eviction, through)
#     (SUCCEEDED, origin, evictor, counter of the eviction, successor)
#     (KNEW, origin whose Join the eviction knew, evictor, counter of the eviction, 0)
#     (PAST, origin, 0, 0, through)
MemberRow = tuple[int, int, int, int, int]
ROW_WIDTH = 5
JOINED, ADMITTED, ADMITTED_BY_ALL, VOID, EVICTED, SUCCEEDED, KNEW, PAST = range(1, 9)

FOUNDER: Dot = (0, 0)

# The end of an origin that has not ended: higher than every counter.
NEVER = 1 << 64


class Admission:
    """What an origin stated when it was admitted: the Join that admitted it, and its own counter at that point."""

    __slots__ = ("by_all", "counter", "join")

    def __init__(self, join: Dot, counter: int, by_all: bool) -> None:
        self.join = join
        self.counter = counter
        self.by_all = by_all


class Eviction:
    """One eviction: the end it sets, the successor it was made for (0: none), and the origins whose Joins it knew."""

    __slots__ = ("knew", "successor", "through")

    def __init__(self, through: int, successor: int) -> None:
        self.through = through
        self.successor = successor
        self.knew: dict[int, None] = {}


class Members:
    """The table of members; `changes` grows with every change, so a reader need not compare tables."""

    __slots__ = (
        "_admissions",
        "_admitted_by",
        "_ends",
        "_evictions",
        "_joined",
        "_joined_at",
        "_joins",
        "_past",
        "_void",
        "changes",
    )

    def __init__(self) -> None:
        self._joins: dict[int, dict[Dot, None]] = {}
        self._admissions: dict[int, Admission] = {}
        # Sponsor -> the origins admitted by one of its Joins.
        self._admitted_by: dict[int, list[int]] = {}
        self._evictions: dict[int, dict[Dot, Eviction]] = {}
        self._past: dict[int, int] = {}
        self._void: dict[int, None] = {}
        self._ends: dict[int, int] = {}
        # Cached result of `joined`, which is read at every tick, and the value of `changes` for which it was computed.
        self._joined: list[int] = []
        self._joined_at = 0
        self.changes = 0

    # Changing: each method returns the origins that it ends, or whose end it lowers.

    def apply_joined(self, dot: Dot, origin: int) -> list[int]:
        joins = self._joins.setdefault(origin, {})
        if dot not in joins:
            joins[dot] = None
            self.changes += 1
        return []

    def apply_admitted(self, dot: Dot, join: Dot, by_all: bool, context: VersionVector) -> list[int]:
        """Record that the origin of this dot was admitted; an origin is admitted only once."""
        origin, counter = dot
        if origin in self._admissions:
            return []
        self.changes += 1
        self._admissions[origin] = Admission(join, counter, by_all)
        if not by_all:
            self._admitted_by.setdefault(join[0], []).append(origin)
            return [] if self.counts(join) else self._end(origin, 0)
        evictions = [one for known in self._evictions.values() for one in known.items()]
        unknown = [made for at, made in evictions if not context.contains(at[0], at[1])]
        return self._void_if_unaware(origin, unknown)

    def apply_evicted(self, dot: Dot, origin: int, through: int, successor: int, context: VersionVector) -> list[int]:
        evictions = self._evictions.setdefault(origin, {})
        if dot in evictions:
            return []
        self.changes += 1
        made = evictions[dot] = Eviction(through, successor)
        ended = self._end(origin, through)
        if not successor:
            known = [one for one, joins in self._joins.items() if any(context.contains(at, n) for at, n in joins)]
            made.knew = dict.fromkeys(known)
            # An eviction applied after an admission was unknown to it, or causal delivery would have brought it first.
            for one in [one for one, admission in self._admissions.items() if admission.by_all]:
                ended += self._void_if_unaware(one, [made])
        for one in self._rivals(origin):
            ended += self._make_void(one)
        return ended

    def _void_if_unaware(self, origin: int, evictions: Iterable[Eviction]) -> list[int]:
        """Void an admission by all if one of these evictions, which it did not know, did not know its Join either."""
        if not any(not made.successor and origin not in made.knew for made in evictions):
            return []
        return self._make_void(origin)

    def _rivals(self, origin: int) -> list[int]:
        """The origins admitted by all that took this origin's place, if there are at least two."""
        known = self._evictions.get(origin, {})
        rivals = {dot[0] for dot, made in known.items() if self._takes_place_by_all(dot, made)}
        return sorted(rivals) if len(rivals) > 1 else []

    def _takes_place_by_all(self, dot: Dot, made: Eviction) -> bool:
        admission = self._admissions.get(dot[0])
        return made.successor == dot[0] and admission is not None and admission.by_all and admission.counter < dot[1]

    def _make_void(self, origin: int) -> list[int]:
        self._void[origin] = None
        return self._end(origin, 0)

    def _end(self, origin: int, through: int) -> list[int]:
        """End an origin, or lower its end; this also ends the origins that its Joins above `through` admitted."""
        if through >= self._ends.get(origin, NEVER):
            return []
        self._ends[origin] = through
        ended = [origin]
        for one in self._admitted_by.get(origin, []):
            if self._admissions[one].join[1] > through:
                ended += self._end(one, 0)
        return ended

    def join(self, other: Members, vector: VersionVector, other_vector: VersionVector) -> list[int]:
        """Add the rows of another table; each table was captured at the vector given."""
        before, ends = self.rows(), self._ends.copy()
        self._void_across(other, other_vector)
        other._void_across(self, vector)
        for origin, joins in sorted(other._joins.items()):
            self._joins.setdefault(origin, {}).update(joins)
        for origin, admission in sorted(other._admissions.items()):
            self._admissions.setdefault(origin, admission)
        for origin, evictions in sorted(other._evictions.items()):
            for dot, made in sorted(evictions.items()):
                self._evictions.setdefault(origin, {}).setdefault(dot, made)
        for origin, through in sorted(other._past.items()):
            self._past[origin] = min(through, self._past.get(origin, through))
        self._void.update(other._void)
        for origin in self._evictions:
            self._void.update(dict.fromkeys(self._rivals(origin)))
        if self.rows() == before:
            return []
        self.changes += 1
        self._find_ends()
        return [origin for origin, end in sorted(self._ends.items()) if end < ends.get(origin, NEVER)]

    def _void_across(self, other: Members, other_vector: VersionVector) -> None:
        """Void admissions by all in this table that neither knew nor were known to an eviction in the other table."""
        own = {dot for evictions in self._evictions.values() for dot in evictions}
        theirs = [one for evictions in other._evictions.values() for one in evictions.items()]
        fresh = [made for dot, made in theirs if dot not in own]
        for origin, admission in self._admissions.items():
            if admission.by_all and not other_vector.contains(origin, admission.counter):
                self._void_if_unaware(origin, fresh)

    def _find_ends(self) -> None:
        """Recompute all ends from the rows."""
        self._admitted_by = {}
        for origin, admission in self._admissions.items():
            if not admission.by_all:
                self._admitted_by.setdefault(admission.join[0], []).append(origin)
        self._ends = {}
        for origin, through in self._past.items():
            self._end(origin, through)
        for origin, evictions in self._evictions.items():
            self._end(origin, min([made.through for made in evictions.values()]))
        for origin in self._void:
            self._end(origin, 0)

    def forget(self, stable: VersionVector) -> None:
        """Reduce stable evictions to the past end of their origin, and forget its evictors."""
        for origin in [origin for origin, known in self._evictions.items() if self._is_over(known, stable)]:
            through = min([made.through for made in self._evictions.pop(origin).values()])
            self._past[origin] = min(through, self._past.get(origin, through))

    def _is_over(self, evictions: dict[Dot, Eviction], stable: VersionVector) -> bool:
        return all(
            made.successor and not self._takes_place_by_all(dot, made) and stable.contains(*dot)
            for dot, made in evictions.items()
        )

    # Asking

    def counts(self, join: Dot) -> bool:
        """True if a Join counts: its sponsor had not ended when it was made."""
        return join[1] <= self._ends.get(join[0], NEVER)

    def is_joined(self, origin: int) -> bool:
        return origin in self._joins

    def joins_of(self, origin: int) -> list[Dot]:
        """The Joins of that origin that count, from any sponsor."""
        return [join for join in sorted(self._joins.get(origin, {})) if self.counts(join)]

    def sponsor_of(self, origin: int) -> Dot | None:
        """The lowest Join of that origin that counts and was made by an admitted origin; None if there is none."""
        return next((join for join in self.joins_of(origin) if self._is_sponsored(join)), None)

    def _is_sponsored(self, join: Dot) -> bool:
        admission = self._admissions.get(join[0])
        return admission is not None and admission.counter < join[1]

    def was_admitted(self, origin: int) -> bool:
        """True if the origin was admitted, be it that it has ended or that the admission is void by now."""
        return origin in self._admissions or any(map(self._is_sponsored, self._joins.get(origin, {})))

    def own_joins(self, origin: int) -> int:
        """How many Joins the origin has made of itself."""
        return sum([sponsor == origin for sponsor, _ in self._joins.get(origin, {})])

    def has_sponsored(self, sponsor: int, origin: int) -> bool:
        """True if that sponsor joined that origin; if the sponsor was admitted, the Join must be later than that."""
        admission = self._admissions.get(sponsor)
        since = 0 if admission is None else admission.counter
        return any(dot[0] == sponsor and dot[1] > since for dot in self._joins.get(origin, {}))

    def is_admitted(self, origin: int) -> bool:
        """True if the origin has stated its admission and has not ended."""
        return origin in self._admissions and origin not in self._ends

    def is_evicted(self, origin: int) -> bool:
        """True if the origin no longer counts: another one took its place, or an operator evicted it."""
        return origin in self._evictions or origin in self._past

    def has_ended(self, origin: int) -> bool:
        """True if its later group creates are void: it was evicted, or its admission is void."""
        return origin in self._ends

    def is_succeeded(self, origin: int) -> bool:
        """True if the origin ended because its region came back as another origin."""
        return origin in self._past or any(made.successor for made in self._evictions.get(origin, {}).values())

    def evictors_of(self, origin: int) -> list[int]:
        """The origins whose operators evicted that origin."""
        return sorted({at for (at, _), made in self._evictions.get(origin, {}).items() if not made.successor})

    def evictions_of(self, origin: int) -> list[Dot]:
        """The evictions of that origin that are not stable everywhere."""
        return sorted(self._evictions.get(origin, {}))

    def end_of(self, origin: int) -> int:
        """The last counter at which a group create of this origin is valid; `NEVER` while it has not ended."""
        return self._ends.get(origin, NEVER)

    def ends(self) -> dict[int, int]:
        """Origin -> end, for every origin that has ended."""
        return dict(sorted(self._ends.items()))

    def evicted(self) -> list[int]:
        """The origins that were evicted, ascending."""
        return sorted({*self._evictions, *self._past})

    def voids(self, origin: int, counter: int) -> bool:
        """True if a group create with this dot is void."""
        return counter > self._ends.get(origin, NEVER)

    def joined(self) -> list[int]:
        """All current members, ascending: origins with a Join that counts, or admitted, that were not evicted."""
        if self._joined_at != self.changes:
            joined = [origin for origin, joins in self._joins.items() if any(self.counts(join) for join in joins)]
            self._joined = [origin for origin in sorted({*joined, *self._admissions}) if not self.is_evicted(origin)]
            self._joined_at = self.changes
        return self._joined[:]

    def origins(self) -> list[int]:
        """Every origin that the table names, ascending."""
        return sorted({*self._joins, *self._admissions, *self._evictions, *self._past})

    # Stability

    def stable(
        self,
        own_origin: int,
        own_durable: VersionVector,
        founders: list[int],
        durable_of: Callable[[int], VersionVector],
    ) -> VersionVector:
        """The meet of what every counted origin holds durably. `founders`, known by their births, count too.
        It is stable if `durable_of` gives vectors that passed the second gate of progress.
        """
        stable = own_durable.copy()
        for origin in self.counted(own_origin, founders):
            stable = stable.meet(durable_of(origin))
        return stable

    def counted(self, own_origin: int, founders: list[int]) -> list[int]:
        """The other origins that count for stability."""
        born = [origin for origin in founders if not self.is_evicted(origin)]
        return [origin for origin in sorted({*self.joined(), *born}) if origin != own_origin]

    # Rows

    def rows(self) -> list[MemberRow]:
        """The whole table as sorted rows."""
        rows: list[MemberRow] = [(JOINED, origin, *dot, 0) for origin, joins in self._joins.items() for dot in joins]
        rows += [_admission_row(origin, admission) for origin, admission in self._admissions.items()]
        rows += [(VOID, origin, 0, 0, 0) for origin in self._void]
        rows += [(PAST, origin, 0, 0, through) for origin, through in self._past.items()]
        for origin, evictions in self._evictions.items():
            for dot, made in evictions.items():
                rows.append((EVICTED, origin, *dot, made.through))
                if made.successor:
                    rows.append((SUCCEEDED, origin, *dot, made.successor))
                rows += [(KNEW, known, *dot, 0) for known in made.knew]
        return sorted(rows)

    def lasting_rows(self) -> list[MemberRow]:
        """The rows that no region forgets before another: members, how each was admitted, and where ended ones
        ended.
        """
        rows: list[MemberRow] = [
            (JOINED, origin, *dot, 0)
            for origin, joins in self._joins.items()
            for dot in joins
            if origin not in self._ends
        ]
        rows += [_admission_row(origin, admission) for origin, admission in self._admissions.items()]
        rows += [(PAST, origin, 0, 0, end) for origin, end in self._ends.items()]
        return sorted(rows)

    @staticmethod
    def of_rows(rows: list[MemberRow]) -> Members:
        members = Members()
        made: dict[Dot, Eviction] = {}
        for kind, origin, other, counter, value in sorted(rows):
            dot = (other, counter)
            if kind == JOINED:
                members._joins.setdefault(origin, {})[dot] = None
            elif kind in (ADMITTED, ADMITTED_BY_ALL):
                members._admissions[origin] = Admission(dot, value, kind == ADMITTED_BY_ALL)
            elif kind == VOID:
                members._void[origin] = None
            elif kind == PAST:
                members._past[origin] = value
            elif kind == EVICTED:
                made[dot] = members._evictions.setdefault(origin, {})[dot] = Eviction(value, 0)
            elif kind == SUCCEEDED and dot in made:
                made[dot].successor = value
            elif kind == KNEW and dot in made:
                made[dot].knew[origin] = None
        members.changes += 1
        members._find_ends()
        return members

    def check(self) -> None:
        for origin, joins in self._joins.items():
            assert is_origin(origin), f"{origin} joined and is not an origin"
            assert joins, f"origin {origin} joined without a sponsor"
            for sponsor, counter in joins:
                assert is_origin(sponsor) and counter > 0, f"origin {origin} joined by {(sponsor, counter)}"
        for origin, evictions in self._evictions.items():
            assert is_origin(origin) and evictions, f"origin {origin} has an empty list of evictions"
            for made in evictions.values():
                assert made.through >= 0, f"origin {origin} evicted through {made.through}"
                assert not made.successor or region_of(made.successor) == region_of(origin), "a foreign successor"
        for origin, admission in self._admissions.items():
            assert admission.counter > 0, f"origin {origin} was admitted at counter {admission.counter}"


def _admission_row(origin: int, admission: Admission) -> MemberRow:
    kind = ADMITTED_BY_ALL if admission.by_all else ADMITTED
    return (kind, origin, admission.join[0], admission.join[1], admission.counter)
