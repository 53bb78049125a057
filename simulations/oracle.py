"""The specification: what a set of effects means, said without any of the core's structures.

The oracle hears every batch at its origin and answers, for the effects that a vector covers, which entries live, which
creates of which groups survive, and which runs are acknowledged. It follows the definitions, not the order of arrival:

    an entry lives        unless an EntriesRemoved names it, or a StreamDeleted of its key has seen it
    a create survives     when its context covers every GroupDestroyed of its group and every StreamDeleted of its key,
                          and neither it nor the Join that its origin follows lies beyond a MemberEvicted
    runs of a create      the union of the Acknowledged that name it
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crdtstream.core import effects as fx
from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.effects import Batch, Effect, Key
from crdtstream.core.entry_id import EntryId
from crdtstream.core.intervals import IntervalSet
from crdtstream.core.members import EVICTED, FOLLOWED, MemberRow
from crdtstream.core.stream import Stream

Entry = tuple[EntryId, int, int]
Row = tuple[Dot, VersionVector, Effect]


@dataclass
class Expected:
    """What one key must hold: entries as (ID, slot, counter), creates of each group, and the runs of each create."""

    entries: set[Entry] = field(default_factory=set)
    groups: dict[bytes, set[Dot]] = field(default_factory=dict)
    runs: dict[Dot, dict[int, IntervalSet]] = field(default_factory=dict)


class Oracle:
    """Every batch of every origin, by its first counter."""

    def __init__(self) -> None:
        self._batches: dict[int, dict[int, Batch]] = {}

    def note(self, batch: Batch) -> None:
        self._batches.setdefault(batch.slot, {})[batch.first] = batch

    def forget_above(self, slot: int, counter: int) -> None:
        """The origin lost these and will use their counters again."""
        kept = {first: batch for first, batch in self._batches.get(slot, {}).items() if first <= counter}
        self._batches[slot] = kept

    def expected(self, vector: VersionVector) -> dict[Key, Expected]:
        """For each key what the effects that the vector covers mean."""
        known = self._effects(vector)
        ends = ends_of(known)
        by_key: dict[Key, list[Row]] = {}
        for dot, context, effect in known:
            void = isinstance(effect, fx.GroupCreated) and dot[1] > ends.get(dot[0], dot[1])
            if not void and not isinstance(effect, fx.MemberEffect):
                by_key.setdefault(effect.key, []).append((dot, context, effect))
        return {key: evaluate(rows) for key, rows in by_key.items()}

    def members(self, vector: VersionVector) -> set[MemberRow]:
        """What the table of members says: every Join, whom each follows, and where evictions end."""
        known = self._effects(vector)
        rows = {(effect.slot, *dot) for dot, _, effect in known if isinstance(effect, fx.MemberJoined)}
        evicted = [effect for _, _, effect in known if isinstance(effect, fx.MemberEvicted)]
        rows |= {(one.slot, EVICTED, min(e.through for e in evicted if e.slot == one.slot)) for one in evicted}
        for dot, _, effect in known:
            if isinstance(effect, fx.MemberAdmitted):
                rows |= {(dot[0], FOLLOWED + effect.slot, effect.counter), (dot[0], FOLLOWED, dot[1])}
        return rows

    def _effects(self, vector: VersionVector) -> list[Row]:
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
    return expected


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
    held = Expected()
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
