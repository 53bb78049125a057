"""What may come twice, in groups that one region delivers at a time, and what must come again after a reset."""

from __future__ import annotations

from dataclasses import dataclass

from crdtstream.core.effects import Acknowledged, Batch
from crdtstream.core.groups.create import NEVER_RESET
from crdtstream.core.groups.properties import DELIVER
from crdtstream.core.values.causality import Dot, region_of
from crdtstream.core.values.entry_id import EntryId
from crdtstream.core.values.intervals import IntervalSet
from crdtstream.scenarios.reply import Value
from simulations.draining import drain
from simulations.group_commands import (
    Asked,
    Entry,
    Lay,
    WatchesGroups,
    deliverer_of,
    given,
    has_one_deliverer,
    lays_of,
    live_pending,
    record_of,
)
from simulations.history import GroupName, named_ids
from simulations.history_checkers import above_start, pending_in
from simulations.network import Network
from simulations.oracle import named_lays
from simulations.queue_checkers import group_of
from simulations.state_checkers import held_of
from simulations.workload import READ_GROUPS


@dataclass
class Given:
    """An entry was given to a consumer as a new one: where, by which process, by which group object of it, and after
    which resets.
    """

    number: int
    starts: int
    group: int
    order: int
    resets: frozenset[Lay]

    def is_by(self, other: Given) -> bool:
        """True if one process gave both, and no other reset came in between, as that of a concurrent create may."""
        mine = (self.number, self.starts, self.group, self.resets)
        return mine == (other.number, other.starts, other.group, other.resets)


@dataclass
class Moved:
    """A region that delivered has moved a group: which process, when, and what was still pending there."""

    number: int
    starts: int
    order: int
    left: set[Entry]


class Repeats(WatchesGroups):
    """No process gives an entry twice; nobody gives an entry that it knows to be acknowledged; and what was delivered
    before a move by the region that delivered comes again only if it was pending when the move was forced.
    """

    name = "repeats"

    def __init__(self) -> None:
        super().__init__()
        self._order = 0
        self._given: dict[GroupName, dict[Lay, dict[Entry, list[Given]]]] = {}
        self._acknowledged: dict[GroupName, dict[Dot, Acknowledged]] = {}
        self._moves: dict[tuple[GroupName, int, int], Moved] = {}

    def replied(self, world: Network, asked: Asked, value: Value) -> None:
        self._order += 1
        if asked.argv[:2] == [b"CRDT.GROUP", b"MOVE"]:
            if value == "OK":
                self._record_move(world, asked)
        elif asked.is_new:
            for entry in asked.gives(value):
                self._look(asked, entry)

    def about(self, world: Network, asked: Asked) -> None:
        self._order += 1
        asked.order = self._order

    def _record_move(self, world: Network, asked: Asked) -> None:
        """Find the records of a move: those that count now, unless a client has set something else. A region that does
        not deliver has forwarded it.
        """
        forced = b"FORCE" in asked.argv
        for number, machine in world.machines.items():
            group = group_of(world, number, asked.name)
            own = machine.node.replica.applied.origin
            here = number == asked.number
            if group is None or not machine.up or not holds(asked, machine.config.region) or (forced and not here):
                continue
            if group.properties.get(DELIVER) != asked.registers.get(DELIVER):
                continue
            left = set(live_pending(asked.stream, asked.group)) if here else set()
            moved = Moved(number, machine.starts, self._order if here else asked.order, left)
            for origin in asked.stream.trees:
                record = record_of(group.properties, origin)
                if record is not None and record[1] == own and record != record_of(asked.registers, origin):
                    self._moves.setdefault((asked.name, record[0], own), moved)

    def at_end(self, world: Network) -> None:
        """What is left comes now, perhaps once more."""
        drain_all(world)

    def turned(self, world: Network, number: int) -> None:
        """Take in the acknowledgements of this turn."""
        machine = world.machines[number]
        for batch in machine.logged:
            if isinstance(batch, Batch) and region_of(batch.origin) == machine.config.region:
                counter = batch.first
                for effect in batch.effects:
                    if isinstance(effect, Acknowledged):
                        name = (effect.key, effect.group)
                        self._acknowledged.setdefault(name, {})[(batch.origin, counter)] = effect
                    counter += effect.width

    def _look(self, asked: Asked, entry: Entry) -> None:
        resets = frozenset(lay for lay in asked.lays if lay[1] != NEVER_RESET)
        now = Given(asked.number, asked.starts, id(asked.group), self._order, resets)
        by_lay = self._given.setdefault(asked.name, {})
        record = record_of(asked.registers, entry[0]) if has_one_deliverer(asked.registers) else None
        moved = None if record is None else self._moves.get((asked.name, record[0], record[1]))
        for lay in asked.lays:
            known = by_lay.setdefault(lay, {}).setdefault(entry, [])
            for before in known:
                if now.is_by(before):
                    self.fail(f"region {now.number} gives {entry} to {asked.argv} a second time")
                if moved is not None and follows(moved, before) and entry not in moved.left:
                    self.fail(f"region {now.number} gives {entry} to {asked.argv}, as {before} did before {moved}")
            known.append(now)
        for dot, effect in self._acknowledged.get(asked.name, {}).items():
            if asked.seen.contains(*dot) and asked.lays.intersection(named_lays(effect)) and covers(effect, entry):
                self.fail(f"region {now.number} gives {entry} to {asked.argv}, and knows {dot} that acknowledges it")


def drain_all(world: Network) -> None:
    for key in world.keys:
        for name in READ_GROUPS:
            for number in world.served():
                drain(world, number, key, name)


def holds(asked: Asked, region: int) -> bool:
    """Return whether the region delivered some of the group's entries when this was asked."""
    origins = set(asked.stream.trees)
    return any(deliverer_of(asked.registers, origin) == region for origin in origins)


def follows(moved: Moved, before: Given) -> bool:
    """Return whether the process that made the move had given the entry, and knows of it."""
    return (moved.number, moved.starts) == (before.number, before.starts) and before.order < moved.order


def covers(effect: Acknowledged, entry: Entry) -> bool:
    origin, entry_id = entry
    return origin in effect.runs and IntervalSet.of(effect.runs[origin]).contains(entry_id)


class Resets(WatchesGroups):
    """The latest reset of each create counts, and everything above the start that it sets is delivered after it, or
    acknowledged: after it, or under a concurrent create that was never reset.
    """

    name = "reset"

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[GroupName, dict[Lay, set[EntryId]]] = {}

    def about(self, world: Network, asked: Asked) -> None:
        if asked.argv[0] in (b"XACK", b"XACKDEL"):
            self._record(asked, named_ids(asked.argv))

    def replied(self, world: Network, asked: Asked, value: Value) -> None:
        if asked.is_new:
            self._record(asked, given(asked.argv, value))

    def _record(self, asked: Asked, ids: list[EntryId]) -> None:
        for lay in asked.lays:
            self._told.setdefault(asked.name, {}).setdefault(lay, set()).update(ids)

    def at_end(self, world: Network) -> None:
        for key, expected in sorted(world.expected().items()):
            for number in world.machines:
                held = held_of(world, number, key).resets
                if held != expected.resets:
                    self.fail(f"region {number}, {key}: resets {held}, expected {expected.resets}")
        drain_all(world)
        for word in world.keys:
            for name in READ_GROUPS:
                self._compare(world, ((0, word), name))

    def _compare(self, world: Network, name: GroupName) -> None:
        stream = world.machines[1].node.replica.keyspace.find(name[0])
        group = None if stream is None else stream.groups.get(name[1])
        if stream is None or group is None or name in world.history.maybe_read:
            return
        lays = lays_of(group)
        starts = [create.start for create in group.creates.values() if create.reset != NEVER_RESET]
        kept = [create.runs for create in group.creates.values() if create.reset == NEVER_RESET]
        told: set[EntryId] = set().union(*(self._told.get(name, {}).get(lay, set()) for lay in lays))
        for number in world.machines:
            told |= pending_in(world, number, *name)
        for origin, ids in above_start(stream, group).items():
            left = {one for one in ids - told if any(one > start.get(origin) for start in starts)}
            left = {one for one in left if not any(origin in runs and runs[origin].contains(one) for runs in kept)}
            if left:
                self.fail(f"{name}: never delivered again {sorted(left)} of region {region_of(origin)}")
