"""Checkers of the properties of streams, and of what retention removes (docs/queues.md).

Where clients set limits of streams they remove nothing themselves (`retention_clients`), so every removal there is one
of retention.
"""

from __future__ import annotations

from dataclasses import dataclass

from crdtstream.core import effects as fx
from crdtstream.core.effects import Batch, Key
from crdtstream.core.streams.properties import (
    VOID_VALUE,
    RetentionLimits,
    StreamRegisterRow,
    property_rows,
)
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, region_of
from crdtstream.core.values.entry_id import EntryId
from simulations.checking import Checker
from simulations.network import Network
from simulations.oracle import Oracle, Row, unfold

# Partitioned streams are trimmed by their own rules.
# Key, ID, and bytes as a reply.
KnownEntry = tuple[Key, EntryId, int]
# ID, origin, counter, bytes.
HeldEntry = tuple[EntryId, int, int, int]


def registers_of(rows: list[Row]) -> list[StreamRegisterRow]:
    """Return the registers of one key by these effects: those that no later SET of the name and no DEL has seen."""
    found: list[StreamRegisterRow] = []
    for (origin, counter), _, effect in rows:
        if not isinstance(effect, fx.StreamPropertiesSet):
            continue
        for name, value in effect.values.items():
            voiding = [seen for _, seen, other in rows if replaces(other, name)]
            if value != VOID_VALUE and not any(seen.contains(origin, counter) for seen in voiding):
                found.append((name, origin, counter, effect.number, value))
    return sorted(found)


def replaces(effect: fx.Effect, name: bytes) -> bool:
    is_set = isinstance(effect, fx.StreamPropertiesSet) and name in effect.values
    return is_set or isinstance(effect, fx.StreamDeleted)


def limits_of(registers: list[StreamRegisterRow]) -> RetentionLimits:
    """Return what these select: of each name the value with the highest number and origin."""
    chosen: dict[bytes, tuple[int, int, bytes]] = {}
    for name, origin, _, number, value in registers:
        chosen[name] = max(chosen.get(name, (0, 0, b"")), (number, origin, value))
    return RetentionLimits({name: value for name, (_, _, value) in chosen.items()})


def by_key(world: Network) -> dict[Key, list[Row]]:
    """Return what is in force of the streams of clients."""
    found: dict[Key, list[Row]] = {}
    for row in world.oracle.effects(world.vector()):
        if is_of_clients(world, row[2].key):
            found.setdefault(row[2].key, []).append(row)
    return found


def batches_of(world: Network, number: int) -> list[Batch]:
    """Return what a region has logged in this turn, without whole states."""
    return [one for one in world.machines[number].logged if isinstance(one, Batch)]


class OneLimit(Checker):
    """Each region holds of each property the values that no later SET and no DEL has seen, and chooses the same."""

    name = "stream properties"

    def at_end(self, world: Network) -> None:
        if not world.settings.has_limits:
            return
        for key, rows in sorted(by_key(world).items()):
            expected = registers_of(rows)
            for number in world.machines:
                stream = world.machines[number].node.replica.keyspace.databases[key[0]].get(key[1])
                held = None if stream is None else stream.properties
                if property_rows(held) != expected:
                    self.fail(f"region {number}, {key}: properties {property_rows(held)}, expected {expected}")
                if held is not None and held.limits.fields() != limits_of(expected).fields():
                    self.fail(f"region {number}, {key}: limits {held.limits.fields()} by {expected}")


def is_of_clients(world: Network, key: Key) -> bool:
    return key[0] == 0 and key[1] in world.keys


def is_by_retention(world: Network, effect: fx.EntriesRemoved) -> bool:
    """Return whether retention made this, where clients trim nothing. What else removes entries names the highest."""
    return is_of_clients(world, effect.key) and effect.max_deleted is None


def removed_by_retention(world: Network) -> set[Dot]:
    """Return the entries that retention removed, in worlds where only it removes single ones."""
    found: set[Dot] = set()
    for _, _, effect in world.oracle.effects(world.vector()) if world.settings.has_limits else ():
        if isinstance(effect, fx.EntriesRemoved) and is_by_retention(world, effect):
            for origin, pieces in effect.ranges.items():
                found.update((origin, counter) for low, high in pieces for counter in range(low, high + 1))
    return found


@dataclass
class Removed:
    """Entries that a region removed in one effect."""

    number: int
    dot: Dot
    key: Key
    entries: list[tuple[Dot, EntryId]]


class RemovesWithinLimits(Checker):
    """Each region removes only entries that exceed a limit that it knew, and only those that it wrote itself, unless
    their region has left or is silent; with ACKED only what no group needs that it knew.
    """

    name = "stream limits"

    def __init__(self) -> None:
        self._known: dict[Dot, KnownEntry] = {}

    def turned(self, world: Network, number: int) -> None:
        if not world.settings.has_limits:
            return
        machine = world.machines[number]
        for batch in batches_of(world, number):
            for (origin, counter), _, effect in unfold(batch):
                if isinstance(effect, fx.EntriesAdded):
                    self._record_added(origin, counter, effect)
                own = origin == machine.node.replica.applied.origin
                if own and isinstance(effect, fx.EntriesRemoved) and is_by_retention(world, effect):
                    self._look(world, self._removed(number, (origin, counter), effect))

    def _record_added(self, origin: int, counter: int, effect: fx.EntriesAdded) -> None:
        for at, index in enumerate(range(effect.low, effect.high)):
            size = len(effect.block.entry(index))
            self._known[(origin, counter + at)] = (effect.key, effect.block.id_at(index), size)

    def _removed(self, number: int, dot: Dot, effect: fx.EntriesRemoved) -> Removed:
        entries: list[tuple[Dot, EntryId]] = []
        for origin, pieces in sorted(effect.ranges.items()):
            for low, high in pieces:
                dots = [(origin, counter) for counter in range(low, high + 1)]
                found = [(one, self._known[one]) for one in dots if one in self._known]
                entries += [(one, entry_id) for one, (key, entry_id, _) in found if key == effect.key]
        return Removed(number, dot, effect.key, entries)

    def _look(self, world: Network, removed: Removed) -> None:
        """Compare with what the region knows right after that turn."""
        node = world.machines[removed.number].node
        applied = node.replica.applied
        counted = applied.members.counted(applied.origin, node.birth.founders_left())
        for writer in sorted({region_of(origin) for (origin, _), _ in removed.entries}):
            is_own = writer == region_of(applied.origin)
            has_left = writer not in {region_of(origin) for origin in counted}
            silent_ms = node.delivering.hearing.silent_ms(writer)
            if not (is_own or has_left) and silent_ms < node.limits.retention_takeover_ms:
                self.fail(
                    f"region {removed.number} removes what region {writer} wrote, silent for {silent_ms}: {removed}"
                )

    def at_end(self, world: Network) -> None:
        if world.settings.has_limits:
            for rows in by_key(world).values():
                for row in rows:
                    if isinstance(row[2], fx.EntriesRemoved) and is_by_retention(world, row[2]):
                        self._judge(world.oracle, row, row[2], rows)

    def _judge(self, oracle: Oracle, row: Row, effect: fx.EntriesRemoved, rows: list[Row]) -> None:
        """Each entry that an effect removed exceeded a limit by what its origin knew."""
        dot, context, _ = row
        seen = [one for one in rows if context.contains(*one[0])]
        limits, gone = limits_of(registers_of(seen)), self._removed(0, dot, effect)
        held = self._held(seen)
        for one, _ in gone.entries:
            if one in {(origin, counter) for _, origin, counter, _ in held}:
                excess = exceeds(limits, held, one, oracle.clock_of(dot))
                if not excess:
                    self.fail(f"{dot} of {effect.key} removed {one} within the limits {limits.fields()}: {held}")
        groups = [other for other in seen if isinstance(other[2], fx.GroupCreated)]
        if limits.acked and gone.entries and not groups:
            self.fail(f"{dot} of {effect.key} removed {gone.entries} although there was no group")

    def _held(self, rows: list[Row]) -> list[HeldEntry]:
        """Return the entries that live by these effects, in order."""
        removed: set[Dot] = set()
        deletes = [context for _, context, effect in rows if isinstance(effect, fx.StreamDeleted)]
        added: list[HeldEntry] = []
        for (origin, counter), _, effect in rows:
            if isinstance(effect, fx.EntriesAdded):
                for one in range(counter, counter + effect.width):
                    _, entry_id, size = self._known[(origin, one)]
                    added.append((entry_id, origin, one, size))
            elif isinstance(effect, fx.EntriesRemoved):
                for holder, pieces in effect.ranges.items():
                    removed.update((holder, one) for low, high in pieces for one in range(low, high + 1))
        lives = [one for one in added if (one[1], one[2]) not in removed]
        return sorted(one for one in lives if not any(seen.contains(one[1], one[2]) for seen in deletes))


def exceeds(limits: RetentionLimits, held: list[HeldEntry], dot: Dot, now_ms: int) -> bool:
    """Return whether one of the entries of a stream, which come in order, exceeds a limit."""
    at = next(index for index, one in enumerate(held) if (one[1], one[2]) == dot)
    if limits.max_age_ms and now_ms - held[at][0][0] > limits.max_age_ms:
        return True
    if limits.entries_max and len(held) - at > limits.entries_max:
        return True
    if limits.max_bytes and sum(size for _, _, _, size in held[at:]) > limits.max_bytes:
        return True
    return limits.acked and not limits.has_limit()


class KeepsWhatIsNeeded(Checker):
    """With ACKED no group of the region that removes an entry has it pending, or still wants it."""

    name = "needed entries"

    def __init__(self) -> None:
        # Of each stream with ACKED what was pending after the last turn.
        self._needed: dict[int, dict[Key, dict[Dot, EntryId]]] = {}

    def _needed_of(self, world: Network, number: int, key: Key) -> dict[Dot, EntryId]:
        stream = world.machines[number].node.replica.keyspace.known(key)
        if stream is None or stream.properties is None or not stream.properties.limits.acked:
            return {}
        rows = [row for row in rows_of(stream) if is_held(stream, row[1], row[0])]
        return {(origin, counter): entry_id for entry_id, origin, counter in rows}

    def turned(self, world: Network, number: int) -> None:
        if not world.settings.has_limits:
            return
        replica = world.machines[number].node.replica
        for batch in batches_of(world, number) if self._needed.get(number) else []:
            for effect in batch.effects if batch.origin == replica.applied.origin else []:
                if isinstance(effect, fx.EntriesRemoved):
                    self._compare(number, effect, replica.keyspace.known(effect.key))
        self._needed[number] = {key: self._needed_of(world, number, key) for key in replica.keyspace.retained.keys}

    def stopped(self, world: Network, number: int, fault: str) -> None:
        self._needed.pop(number, None)

    def _compare(self, number: int, effect: fx.EntriesRemoved, stream: Stream | None) -> None:
        """What was pending before the turn and is after it was so when the entry was removed."""
        for (origin, counter), entry_id in sorted(self._needed[number].get(effect.key, {}).items()):
            removed = any(low <= counter <= high for low, high in effect.ranges.get(origin, ()))
            if removed and stream is not None and is_held(stream, origin, entry_id):
                self.fail(f"region {number} removes {(origin, counter)} of {effect.key}, which a group needs")


def rows_of(stream: Stream) -> list[tuple[EntryId, int, int]]:
    """Return ID, origin and counter of all entries."""
    found: list[tuple[EntryId, int, int]] = []
    for origin, tree in stream.trees.items():
        for low, high in tree.counter_ranges():
            ids = [(tree.id_of(counter), counter) for counter in range(low, high + 1)]
            found += [(entry_id, origin, counter) for entry_id, counter in ids if entry_id is not None]
    return found


def is_held(stream: Stream, origin: int, entry_id: EntryId) -> bool:
    """Return whether the entry is pending in a group; what it only wants may be skipped by the next command."""
    return any(origin in group.pending.origins_of(entry_id) for group in stream.groups.values())


class RemovesInTime(Checker):
    """What exceeds a limit and was written here is gone within two ticks, while the region may remove anything, and no
    deferred task waits for spilled blocks.
    """

    name = "limits in time"

    def __init__(self) -> None:
        self._late: dict[int, tuple[int, set[tuple[Key, Dot]]]] = {}

    def ticked(self, world: Network, number: int) -> None:
        node = world.machines[number].node
        if not world.settings.has_limits or not node.replica.keyspace.retained.keys:
            self._late.pop(number, None)
            return
        standing, starts = node.standing, world.machines[number].starts
        may = standing.may_remove() and node.membership.admitted and not len(node.context.deferred_work)
        late = self._exceeding(world, number) if may and not (standing.loading or standing.departing) else set()
        starts_before, before = self._late.get(number, (starts, set()))
        if starts_before == starts and before & late:
            self.fail(f"region {number} keeps beyond their limits: {sorted(before & late)}")
        self._late[number] = (starts, late)

    def _exceeding(self, world: Network, number: int) -> set[tuple[Key, Dot]]:
        keyspace = world.machines[number].node.replica.keyspace
        found: set[tuple[Key, Dot]] = set()
        for key in keyspace.retained.keys:
            stream = keyspace.peek(key)
            if stream is None or stream.properties is None or stream.properties.limits.acked:
                continue
            held = held_entries(stream)
            own = [(origin, counter) for _, origin, counter, _ in held if region_of(origin) == number]
            late = [dot for dot in own if exceeds(stream.properties.limits, held, dot, keyspace.now_ms)]
            found.update((key, dot) for dot in late)
        return found


def held_entries(stream: Stream) -> list[HeldEntry]:
    entries = [(row, stream.trees[row[1]].find(row[0])) for row in rows_of(stream)]
    return sorted((*row, len(entry)) for row, entry in entries if entry is not None)
