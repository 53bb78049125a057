"""The specification: what a set of effects means, said without any of the core's structures.

The oracle hears every batch at its origin and answers, for the effects that a vector covers, which entries live, which
creates of which groups survive, and which runs are acknowledged. It follows the definitions, not the order of arrival:

    an entry lives        unless an EntriesRemoved names it, or a StreamDeleted of its key has seen it
    a create survives     when its context covers every GroupDestroyed of its group and every StreamDeleted of its key,
                          and neither it nor the Join that its origin follows lies beyond a MemberEvicted
    runs of a create      the union of the Acknowledged that name it
    a key expires         at the longest ExpirySet that neither a later one of its key nor a StreamDeleted has seen
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crdtstream.core import effects as fx
from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.effects import Batch, Effect, Key
from crdtstream.core.entry_id import EntryId
from crdtstream.core.expiry import NO_EXPIRY, VOID_EXPIRY
from crdtstream.core.intervals import IntervalSet
from crdtstream.core.members import EVICTED, FOLLOWED, MemberRow
from crdtstream.core.stream import Stream

Entry = tuple[EntryId, int, int]
Row = tuple[Dot, VersionVector, Effect]


@dataclass
class Expected:
    """What one key must hold: entries as (ID, slot, counter), creates of each group, the runs of each create, and when
    it expires.
    """

    entries: set[Entry] = field(default_factory=set)
    groups: dict[bytes, set[Dot]] = field(default_factory=dict)
    runs: dict[Dot, dict[int, IntervalSet]] = field(default_factory=dict)
    expires_ms: int = NO_EXPIRY


class Oracle:
    """Every batch of every origin, by its first counter, and the origin's clock when it was made."""

    def __init__(self) -> None:
        self._batches: dict[int, dict[int, Batch]] = {}
        self._made_ms: dict[Dot, int] = {}

    def note(self, batch: Batch, now_ms: int = 0) -> None:
        """What comes back from peers to the region that made it was made before."""
        batches = self._batches.setdefault(batch.slot, {})
        if batch.first not in batches:
            batches[batch.first] = batch
            self._made_ms[(batch.slot, batch.first)] = now_ms

    def forget_above(self, slot: int, counter: int) -> None:
        """The origin lost these and will use their counters again."""
        kept = {first: batch for first, batch in self._batches.get(slot, {}).items() if first <= counter}
        self._batches[slot] = kept

    def expected(self, vector: VersionVector) -> dict[Key, Expected]:
        """For each key what the effects that the vector covers mean."""
        known = self.effects(vector)
        ends = ends_of(known)
        by_key: dict[Key, list[Row]] = {}
        for dot, context, effect in known:
            void = isinstance(effect, fx.GroupCreated) and dot[1] > ends.get(dot[0], dot[1])
            if not void and not isinstance(effect, fx.MemberEffect):
                by_key.setdefault(effect.key, []).append((dot, context, effect))
        return {key: evaluate(rows) for key, rows in by_key.items()}

    def members(self, vector: VersionVector) -> set[MemberRow]:
        """What the table of members says: every Join, whom each follows, and where evictions end."""
        known = self.effects(vector)
        rows = {(effect.slot, *dot) for dot, _, effect in known if isinstance(effect, fx.MemberJoined)}
        evicted = [effect for _, _, effect in known if isinstance(effect, fx.MemberEvicted)]
        rows |= {(one.slot, EVICTED, min(e.through for e in evicted if e.slot == one.slot)) for one in evicted}
        for dot, _, effect in known:
            if isinstance(effect, fx.MemberAdmitted):
                rows |= {(dot[0], FOLLOWED + effect.slot, effect.counter), (dot[0], FOLLOWED, dot[1])}
        return rows

    def late_effects(self, vector: VersionVector) -> list[Row]:
        """Of the effects that the vector covers: those on keys that had expired by the clock of who made them."""
        expiring: dict[Key, list[Row]] = {}
        known = [row for row in self.effects(vector) if not isinstance(row[2], fx.MemberEffect)]
        for row in known:
            if isinstance(row[2], fx.ExpirySet | fx.StreamDeleted):
                expiring.setdefault(row[2].key, []).append(row)
        return [row for row in known if self._is_late(row, expiring.get(row[2].key, []))]

    def _is_late(self, row: Row, expiring: list[Row]) -> bool:
        dot, context, _ = row
        return bool(expiring) and expiry_of([one for one in expiring if context.contains(*one[0])]) < self._clock_of(
            dot
        )

    def _clock_of(self, dot: Dot) -> int:
        slot, counter = dot
        return self._made_ms[(slot, max(first for first in self._batches[slot] if first <= counter))]

    def effects(self, vector: VersionVector) -> list[Row]:
        """Those that the vector covers."""
        rows: list[Row] = []
        for slot in sorted(self._batches):
            for first in sorted(self._batches[slot]):
                batch = self._batches[slot][first]
                if vector.contains(slot, batch.last):
                    rows += unfold(batch)
        return rows


def ends_of(rows: list[Row]) -> dict[int, int]:
    """For each evicted origin the last counter at which its creates count; 0 for who follows a Join that is worthless:
    made beyond the sponsor's end, or by a sponsor that was nobody, or that stood for an evicted origin of its region.
    """
    ends: dict[int, int] = {}
    names: set[int] = set()
    admitted: dict[int, tuple[int, Dot]] = {}
    for dot, _, effect in rows:
        if isinstance(effect, fx.MemberEvicted):
            ends[effect.slot] = min(effect.through, ends.get(effect.slot, effect.through))
        if isinstance(effect, fx.MemberAdmitted):
            admitted.setdefault(dot[0], (dot[1], (effect.slot, effect.counter)))
        elif isinstance(effect, fx.MemberEffect):
            names.add(effect.slot)
    evicted = ends.copy()
    for _ in admitted:
        for slot, (_, (sponsor, counter)) in admitted.items():
            older = max((name for name in names if name % 256 == sponsor % 256 and name < sponsor), default=0)
            was_member = sponsor in admitted and admitted[sponsor][0] < counter
            nobody = ends.get(sponsor) == 0 if was_member else older in ends
            if nobody or counter > evicted.get(sponsor, counter):
                ends[slot] = 0
    return ends


def unfold(batch: Batch) -> list[Row]:
    """Each effect with its first dot and its own context."""
    rows: list[Row] = []
    counter = batch.first
    for effect in batch.effects:
        context = batch.context.copy()
        context.advance(batch.slot, counter - 1)
        rows.append(((batch.slot, counter), context, effect))
        counter += effect.width()
    return rows


def evaluate(rows: list[Row]) -> Expected:
    """The meaning of one key's effects."""
    expected = Expected()
    removed: set[Dot] = set()
    deletes: list[tuple[Dot, VersionVector]] = []
    for dot, context, effect in rows:
        if isinstance(effect, fx.EntriesRemoved):
            for slot, pieces in effect.ranges.items():
                removed.update((slot, counter) for low, high in pieces for counter in range(low, high + 1))
        elif isinstance(effect, fx.StreamDeleted):
            deletes.append((dot, context))
    for dot, _, effect in rows:
        if isinstance(effect, fx.EntriesAdded):
            for index in range(effect.low, effect.high):
                slot, counter = dot[0], dot[1] + index - effect.low
                if (slot, counter) not in removed and not any(seen.contains(slot, counter) for _, seen in deletes):
                    expected.entries.add((effect.block.id_at(index), slot, counter))
    _evaluate_groups(rows, [dot for dot, _ in deletes], expected)
    expected.expires_ms = expiry_of(rows)
    return expected


def expiry_of(rows: list[Row]) -> int:
    """The longest that was not replaced; `VOID_EXPIRY` only replaces."""
    replacing = [context for _, context, effect in rows if isinstance(effect, fx.ExpirySet | fx.StreamDeleted)]
    longest = VOID_EXPIRY
    for dot, _, effect in rows:
        if isinstance(effect, fx.ExpirySet) and not any(context.contains(*dot) for context in replacing):
            longest = max(longest, effect.expires_ms)
    return longest if longest != VOID_EXPIRY else NO_EXPIRY


def _evaluate_groups(rows: list[Row], deletes: list[Dot], expected: Expected) -> None:
    destroys: dict[bytes, list[Dot]] = {}
    for dot, _, effect in rows:
        if isinstance(effect, fx.GroupDestroyed):
            destroys.setdefault(effect.group, []).append(dot)
    for dot, context, effect in rows:
        if isinstance(effect, fx.GroupCreated):
            tombstones = deletes + destroys.get(effect.group, [])
            if all(context.contains(*tombstone) for tombstone in tombstones):
                expected.groups.setdefault(effect.group, set()).add(dot)
                expected.runs[dot] = {}
    for _, _, effect in rows:
        if isinstance(effect, fx.Acknowledged):
            for create in effect.creates:
                runs = expected.runs.get(create)
                if runs is not None:
                    _join_runs(runs, effect.runs)


def _join_runs(runs: dict[int, IntervalSet], fresh: dict[int, list[fx.Interval]]) -> None:
    for slot, pieces in fresh.items():
        known = runs.setdefault(slot, IntervalSet())
        for low, high in pieces:
            known.add(low, high)


def actual(stream: Stream) -> Expected:
    """What a replica holds of a key, in the oracle's terms."""
    held = Expected(expires_ms=stream.expires_ms)
    for slot, tree in stream.trees.items():
        for low, high in tree.counter_ranges():
            for counter in range(low, high + 1):
                entry_id = tree.id_of(counter)
                assert entry_id is not None
                held.entries.add((entry_id, slot, counter))
    for name, group in stream.groups.items():
        held.groups[name] = set(group.creates)
        for dot, create in group.creates.items():
            held.runs[dot] = {slot: runs for slot, runs in create.runs.items() if runs}
    return held
