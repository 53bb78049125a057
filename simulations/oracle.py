"""The specification: the meaning of a set of effects, defined without any of the core's structures.

The oracle receives every batch at its origin and determines, for the effects that a vector covers, which entries live,
which creates of which groups survive, and which runs are acknowledged. It follows the definitions, not the order of
arrival:

    an entry lives        unless an EntriesRemoved names it, or a StreamDeleted of its key has seen it
    a create survives     if its context covers every GroupDestroyed of its group and every StreamDeleted of its key,
                          and neither it nor the Join that admits its origin is beyond a MemberEvicted; if all members
                          had to hold that Join, no operator's eviction is concurrent with it and its admission, and
                          no other origin admitted in that way evicted the same origin to take its place
    reset of a create     of the GroupReset that name it the one with the highest (number, origin), with its start
    runs of a create      the union of the Acknowledged that name it with that reset, above its start, or without one if
                          there is none
    its properties        of each name what the GroupPropertiesSet says that names the create and that no other one has
                          seen; of several the one with the highest (number, origin)
    references            are local: what an EntriesRemoved drops of them (DELREF) is in no replicated state
    a key expires         at the longest ExpirySet that neither a later one of its key nor a StreamDeleted has seen
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crdtstream.core import effects as fx
from crdtstream.core.effects import Batch, Effect, Key, Position, ResetName
from crdtstream.core.groups.create import NEVER_RESET
from crdtstream.core.groups.properties import PropertyRegisters
from crdtstream.core.members import ADMITTED, ADMITTED_BY_ALL, JOINED, PAST, MemberRow
from crdtstream.core.streams.expiry import NO_EXPIRY, VOID_EXPIRY
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import ID_MIN, EntryId
from crdtstream.core.values.intervals import Interval, IntervalSet

EVERYTHING = Position(ID_MIN, {})
Entry = tuple[EntryId, int, int]
Row = tuple[Dot, VersionVector, Effect]


@dataclass
class Expected:
    """What one key must hold: entries as (ID, origin, counter), the creates of each group, the runs, properties, reset
    and start of each create, and its expiry.
    """

    entries: set[Entry] = field(default_factory=set)
    groups: dict[bytes, set[Dot]] = field(default_factory=dict)
    runs: dict[Dot, dict[int, IntervalSet]] = field(default_factory=dict)
    properties: dict[Dot, PropertyRegisters] = field(default_factory=dict)
    resets: dict[Dot, tuple[ResetName, Position]] = field(default_factory=dict)
    expires_ms: int = NO_EXPIRY


class Oracle:
    """Every batch of every origin, by its first counter, with the origin's clock when it was made."""

    def __init__(self) -> None:
        self._batches: dict[int, dict[int, Batch]] = {}
        self._contexts: dict[int, VersionVector] = {}
        self._made_ms: dict[Dot, int] = {}

    def record(self, batch: Batch, now_ms: int = 0) -> None:
        """Record a batch, unless it is known: a region may receive its own earlier batches from peers."""
        batches = self._batches.setdefault(batch.origin, {})
        if batch.first not in batches:
            batches[batch.first] = self._whole(batch)
            self._made_ms[(batch.origin, batch.first)] = now_ms

    def _whole(self, batch: Batch) -> Batch:
        """Return the batch with its full context."""
        context = self._contexts.get(batch.origin, VersionVector()).copy()
        context.merge(batch.context)
        context.advance(batch.origin, batch.first - 1)
        self._contexts[batch.origin] = context
        return Batch(batch.origin, batch.first, batch.last, context, batch.effects)

    def expected(self, vector: VersionVector) -> dict[Key, Expected]:
        """Return for each key the meaning of the effects that the vector covers."""
        known = self.effects(vector)
        ends = ends_of(known)
        by_key: dict[Key, list[Row]] = {}
        for dot, context, effect in known:
            void = isinstance(effect, fx.GroupCreated) and dot[1] > ends.get(dot[0], dot[1])
            if not void and not isinstance(effect, fx.MemberEffect):
                by_key.setdefault(effect.key, []).append((dot, context, effect))
        return {key: evaluate(rows) for key, rows in by_key.items()}

    def members(self, vector: VersionVector) -> list[MemberRow]:
        """Return the final rows of every table of members: which origins belong, and where the admitted ones ended."""
        known = self.effects(vector)
        ends = ends_of(known)
        rows: list[MemberRow] = []
        for dot, _, effect in known:
            if isinstance(effect, fx.MemberJoined) and effect.origin not in ends:
                rows.append((JOINED, effect.origin, *dot, 0))
            elif isinstance(effect, fx.MemberAdmitted):
                kind = ADMITTED_BY_ALL if effect.by_all else ADMITTED
                rows.append((kind, dot[0], effect.origin, effect.counter, dot[1]))
        return sorted(rows + [(PAST, origin, 0, 0, end) for origin, end in ends.items()])

    def late_effects(self, vector: VersionVector) -> list[Row]:
        """Return the effects under the vector on keys that had expired by the clock of their origin."""
        expiring: dict[Key, list[Row]] = {}
        known = [row for row in self.effects(vector) if not isinstance(row[2], fx.MemberEffect)]
        for row in known:
            if isinstance(row[2], fx.ExpirySet | fx.StreamDeleted):
                expiring.setdefault(row[2].key, []).append(row)
        return [row for row in known if self._is_late(row, expiring.get(row[2].key, []))]

    def _is_late(self, row: Row, expiring: list[Row]) -> bool:
        dot, context, _ = row
        return bool(expiring) and expiry_of([one for one in expiring if context.contains(*one[0])]) < self.clock_of(dot)

    def clock_of(self, dot: Dot) -> int:
        origin, counter = dot
        return self._made_ms[(origin, max(first for first in self._batches[origin] if first <= counter))]

    def vector(self) -> VersionVector:
        """Everything that any region has made."""
        vector = VersionVector()
        for origin, batches in self._batches.items():
            vector.advance(origin, max(batch.last for batch in batches.values()))
        return vector

    def effects(self, vector: VersionVector) -> list[Row]:
        """Return the effects that the vector covers."""
        rows: list[Row] = []
        for origin in sorted(self._batches):
            for first in sorted(self._batches[origin]):
                batch = self._batches[origin][first]
                if vector.contains(origin, batch.last):
                    rows += unfold(batch)
        return rows


def ends_of(rows: list[Row]) -> dict[int, int]:
    """Return for each ended origin the last counter at which its creates count; 0 if its admission is void."""
    ends: dict[int, int] = {}
    admissions = [row for row in rows if isinstance(row[2], fx.MemberAdmitted)]
    for _, _, effect in rows:
        if isinstance(effect, fx.MemberEvicted):
            ends[effect.origin] = min(effect.through, ends.get(effect.origin, effect.through))
    ends.update({row[0][0]: 0 for row in admissions if is_unaware(row, rows) or is_rival(row, rows)})
    for _ in admissions:
        for dot, _, effect in admissions:
            assert isinstance(effect, fx.MemberAdmitted)
            if not effect.by_all and effect.counter > ends.get(effect.origin, effect.counter):
                ends[dot[0]] = 0
    return ends


def is_unaware(admission: Row, rows: list[Row]) -> bool:
    """Return whether an admission by all and an operator's eviction did not know of each other's beginnings."""
    (origin, _), context, effect = admission
    assert isinstance(effect, fx.MemberAdmitted)
    joins = [dot for dot, _, one in rows if isinstance(one, fx.MemberJoined) and one.origin == origin]
    evictions = [row for row in rows if isinstance(row[2], fx.MemberEvicted) and not row[2].successor]
    unknown = [seen for dot, seen, _ in evictions if not context.contains(*dot)]
    return effect.by_all and any(not any(seen.contains(*join) for join in joins) for seen in unknown)


def is_rival(admission: Row, rows: list[Row]) -> bool:
    """Return whether this origin and another one, both admitted by all, evicted the same origin in favour of
    themselves.
    """
    (origin, _), _, _ = admission
    by_all = {dot[0]: dot[1] for dot, _, effect in rows if isinstance(effect, fx.MemberAdmitted) and effect.by_all}
    taken: dict[int, set[int]] = {}
    for (at, counter), _, effect in rows:
        if isinstance(effect, fx.MemberEvicted) and effect.successor == at and by_all.get(at, counter) < counter:
            taken.setdefault(effect.origin, set()).add(at)
    return any(origin in rivals and len(rivals) > 1 for rivals in taken.values())


def unfold(batch: Batch) -> list[Row]:
    """Return each effect with its first dot and its own context."""
    rows: list[Row] = []
    counter = batch.first
    for effect in batch.effects:
        context = batch.context.copy()
        context.advance(batch.origin, counter - 1)
        rows.append(((batch.origin, counter), context, effect))
        counter += effect.width
    return rows


def evaluate(rows: list[Row]) -> Expected:
    """Evaluate the effects of one key."""
    expected = Expected()
    removed: set[Dot] = set()
    deletes: list[tuple[Dot, VersionVector]] = []
    for dot, context, effect in rows:
        if isinstance(effect, fx.EntriesRemoved):
            for origin, pieces in effect.ranges.items():
                removed.update((origin, counter) for low, high in pieces for counter in range(low, high + 1))
        elif isinstance(effect, fx.StreamDeleted):
            deletes.append((dot, context))
    for dot, _, effect in rows:
        if isinstance(effect, fx.EntriesAdded):
            for index in range(effect.low, effect.high):
                origin, counter = dot[0], dot[1] + index - effect.low
                if (origin, counter) not in removed and not any(seen.contains(origin, counter) for _, seen in deletes):
                    expected.entries.add((effect.block.id_at(index), origin, counter))
    _evaluate_groups(rows, [dot for dot, _ in deletes], expected)
    expected.expires_ms = expiry_of(rows)
    return expected


def expiry_of(rows: list[Row]) -> int:
    """Return the longest expiry that was not replaced; `VOID_EXPIRY` only replaces others."""
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
                expected.resets[dot] = reset_of(rows, dot, effect.start)
    for _, _, effect in rows:
        if isinstance(effect, fx.Acknowledged):
            for create, reset in named_lays(effect):
                if create in expected.runs and expected.resets[create][0] == reset:
                    start = EVERYTHING if reset == NEVER_RESET else expected.resets[create][1]
                    _join_runs(expected.runs[create], effect.runs, start)
    expected.properties = {create: properties_of(rows, create) for create in expected.runs}


def reset_of(rows: list[Row], create: Dot, start: Position) -> tuple[ResetName, Position]:
    """Return the reset that counts under a create, and where the group begins by it."""
    named = [(dot, row) for dot, _, row in rows if isinstance(row, fx.GroupReset) and create in row.creates]
    found = [((row.number, dot[0]), row.start) for dot, row in named]
    return max(found, key=lambda one: one[0], default=(NEVER_RESET, start))


def named_lays(effect: fx.Acknowledged) -> list[tuple[Dot, ResetName]]:
    """Return the creates that an acknowledgement names, each with its reset."""
    resets = effect.resets or [NEVER_RESET] * len(effect.creates)
    return list(zip(effect.creates, resets, strict=True))


def properties_of(rows: list[Row], create: Dot) -> PropertyRegisters:
    """Return the registers of one create: of each name the highest of those that no later SET has seen."""
    chosen: PropertyRegisters = {}
    settings = [(dot, context, row) for dot, context, row in rows if isinstance(row, fx.GroupPropertiesSet)]
    settings = [one for one in settings if create in one[2].creates]
    for dot, _, effect in settings:
        for name, value in effect.values.items():
            later = [seen for _, seen, other in settings if name in other.values]
            if not any(seen.contains(*dot) for seen in later):
                mine = (effect.number, dot[0], value)
                chosen[name] = max(mine, chosen.get(name, mine))
    return chosen


def _join_runs(runs: dict[int, IntervalSet], fresh: dict[int, list[Interval]], start: Position) -> None:
    for origin, pieces in fresh.items():
        known = runs.get(origin, IntervalSet())
        for low, high in pieces:
            known.add(max(low, start.get(origin)), high)
        if known:
            runs[origin] = known


def actual(stream: Stream) -> Expected:
    """Return what a replica holds of a key, in the oracle's terms."""
    held = Expected(expires_ms=stream.expires_ms)
    for origin, tree in stream.trees.items():
        for low, high in tree.counter_ranges():
            for counter in range(low, high + 1):
                entry_id = tree.id_of(counter)
                assert entry_id is not None
                held.entries.add((entry_id, origin, counter))
    for name, group in stream.groups.items():
        held.groups[name] = set(group.creates)
        for dot, create in group.creates.items():
            held.runs[dot] = {origin: runs for origin, runs in create.runs.items() if runs}
            held.properties[dot] = dict(create.properties)
            held.resets[dot] = (create.reset, create.start)
    return held
