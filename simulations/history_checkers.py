"""Checkers that compare what regions hold with what their clients were told."""

from __future__ import annotations

from itertools import chain

from crdtstream.core.effects import Acknowledged, Batch, Key, MemberEvicted
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, region_of
from crdtstream.core.values.entry_id import ID_MAX, STRICT, EntryId, next_id
from simulations.checking import Checker, Sampled
from simulations.draining import delivers, drain
from simulations.history import GroupName
from simulations.letter_oracle import acknowledged_by_store
from simulations.name_oracle import acknowledged_by_name, ids_by_name, rivals, strangers_add, survivors_by_dot
from simulations.network import Network
from simulations.oracle import ends_of
from simulations.retention_checkers import removed_by_retention
from simulations.workload import READ_GROUPS


class NoLostWrite(Checker):
    """The entry of an answered XADD exists, unless a delete saw it, its key expired, retention removed it, or its
    machine lost it before any other region had it. Another add of its name may stay for it, or be removed for both.
    """

    name = "lost write"

    def at_end(self, world: Network) -> None:
        held: dict[Key, set[Dot]] = {}
        for key, expected in world.expected().items():
            held[key] = {(origin, counter) for _, origin, counter in expected.entries}
        retained, losses, others = removed_by_retention(world), survivors_by_dot(world), rivals(world)
        forgotten = strangers_add(world)
        for added in world.history.added:
            dot = losses.get(added.dot, added.dot)
            dots = [dot, *others.get(dot, [])]
            if dot in retained or any(one in held.get(added.key, set()) for one in dots):
                continue
            seen = any(was_removed(world, added.key, one) for one in (dots if forgotten else [dot]))
            if not seen and not may_be_lost(world, dot):
                self.fail(f"{added.key} {added.entry_id} {added.dot} of region {added.region}: answered and gone")


def was_removed(world: Network, key: Key, dot: Dot) -> bool:
    """Return whether a client that removed something of the key had this, or the key had it when it expired."""
    vectors = [vector for known, vector in world.history.removals if known == key]
    return any(vector.contains(*dot) for vector in [*vectors, *world.expired(key)])


def may_be_lost(world: Network, dot: Dot) -> bool:
    """Return whether a loss is permitted: with a disk, or with power if the policy was not `always`."""
    if world.vector().contains(*dot):
        return False
    losses = [lost for lost in world.history.lost if lost.origin == dot[0] and lost.counter < dot[1]]
    return any(
        lost.fault in ("disk-loss", "put-back") or (lost.loses_unsynced and lost.policy != "always") for lost in losses
    )


class NoLostGroup(Checker):
    """An answered XGROUP CREATE counts although another origin took its origin's place, unless the machine lost it, an
    operator evicted its origin, or two processes had the number of its region.
    """

    name = "lost group"

    def at_end(self, world: Network) -> None:
        if world.settings.twin or world.injected["put-back"]:
            return
        known = world.oracle.effects(world.vector())
        ends = ends_of(known)
        evicted = {row.origin for _, _, row in known if isinstance(row, MemberEvicted) and not row.successor}
        for created in world.history.created:
            origin, counter = created.dot
            # An end at 0 voids an admission, which only an operator's eviction can do.
            replaced = 0 < ends.get(origin, 0) < counter and origin not in evicted
            if replaced and not any(lost.origin == origin and lost.counter < counter for lost in world.history.lost):
                self.fail(f"{created.group} {created.dot}: answered, and void behind {ends[origin]}")


class UniqueIds(Checker):
    """In strict mode no ID is returned twice for a key between two DELs or expiries, whatever the incarnation."""

    name = "unique IDs"

    def at_end(self, world: Network) -> None:
        if world.settings.id_mode != STRICT or world.settings.twin or world.injected["put-back"]:
            return  # two histories of one directory share a residue until they receive each other's effects
        answered: dict[tuple[Key, EntryId], Dot] = {}
        for added in world.history.added:
            other = answered.setdefault((added.key, added.entry_id), added.dot)
            if other != added.dot and not self._deleted(world, added.key, [other, added.dot]):
                self.fail(f"{added.key} {added.entry_id} names {other} and {added.dot}")

    def _deleted(self, world: Network, key: Key, dots: list[Dot]) -> bool:
        vectors = [*world.history.deletes.get(key, []), *world.expired(key)]
        return any(vector.contains(*dot) for vector in vectors for dot in dots)


class UniqueDots(Checker):
    """No dot names two answered writes, whatever was lost in between."""

    name = "unique dots"

    def at_end(self, world: Network) -> None:
        named: dict[Dot, tuple[Key, EntryId]] = {}
        for added in world.history.added:
            what = (added.key, added.entry_id)
            if named.setdefault(added.dot, what) != what:
                self.fail(f"{added.dot} names {named[added.dot]} and {what}")


class AcknowledgedOnly(Sampled):
    """No run covers a live entry without an acknowledgement, under this create or one that shared its group."""

    name = "ack frontier"

    def __init__(self) -> None:
        super().__init__()
        self._lived: dict[tuple[int, GroupName], tuple[Group, list[Dot]]] = {}

    def started(self, world: Network, number: int, fault: str) -> None:
        self._record_joined(world, number)

    def turned(self, world: Network, number: int) -> None:
        if world.machines[number].logged:
            self._record_joined(world, number)
        for batch in world.machines[number].logged:
            for effect in batch.effects if isinstance(batch, Batch) else []:
                if isinstance(effect, Acknowledged):
                    world.history.record_together((effect.key, effect.group), effect.creates)
        super().turned(world, number)

    def _record_joined(self, world: Network, number: int) -> None:
        """Record creates of one group: it continues while creates come and are voided, and keeps its acknowledgements
        here.
        """
        for name, stream in world.machines[number].node.replica.keyspace.databases[0].items():
            for group_name, group in stream.groups.items():
                known, creates = ((0, name), group_name), sorted(group.creates)
                lived, before = self._lived.get((number, known), (group, creates))
                if lived is group and before != creates:
                    world.history.record_together(known, sorted({*before, *creates}))
                self._lived[(number, known)] = (group, creates)

    def look(self, world: Network, number: int) -> None:
        if world.machines[number].unanswered:
            return  # acknowledgements are known only once they are answered
        for name, stream in world.machines[number].node.replica.keyspace.databases[0].items():
            for group_name, group in stream.groups.items():
                if ((0, name), group_name) in world.history.maybe_read:
                    continue  # a NOACK read whose reply was lost
                acknowledged = self._acknowledged(world, ((0, name), group_name), group)
                for origin, runs in group.acked.items():
                    for low, high in runs.pairs() if origin in stream.trees else []:
                        stray = set(ids_between(stream.trees[origin], low, high)) - acknowledged
                        stray = stray and stray - ids_by_name(world, (0, name), acknowledged)
                        stray = stray and stray - acknowledged_by_store(world, name, group_name)
                        if stray:
                            self.fail(f"region {number}, {name!r} {group_name!r}: runs cover {sorted(stray)}")

    def _acknowledged(self, world: Network, name: GroupName, group: Group) -> set[EntryId]:
        by_create = world.history.acknowledged.get(name, {})
        joined = world.history.joined_with(name, group.creates)
        return set(chain.from_iterable(by_create.get(dot, set()) for dot in joined))


class DeliveredAtLeastOnce(Checker):
    """Each group that is only read has delivered every entry above its start in some region, and a region that has read
    everything omits only entries that were acknowledged, or that another region delivers.
    """

    name = "delivery"

    def at_end(self, world: Network) -> None:
        for key in world.keys:
            for group in READ_GROUPS:
                for number in world.served():
                    drain(world, number, key, group)
                    self._look(world, number, key, group)
                self._compare(world, key, group)

    def _look(self, world: Network, number: int, key: bytes, name: bytes) -> None:
        stream = world.machines[number].node.replica.keyspace.find((0, key))
        if stream is None or name not in stream.groups:
            return
        group = stream.groups[name]  # nothing expires when a world is quiet
        for origin, ids in above_start(stream, group).items():
            left = {entry_id for entry_id in ids if not passes(group, origin, entry_id)}
            if left and delivers(group, origin, world.machines[number].config.region):
                self.fail(f"region {number} {key!r} {name!r}: leaves out {sorted(left)} of region {region_of(origin)}")

    def _compare(self, world: Network, key: bytes, name: bytes) -> None:
        stream = world.machines[1].node.replica.keyspace.find((0, key))
        if stream is None or name not in stream.groups or ((0, key), name) in world.history.maybe_read:
            return
        group = stream.groups[name]
        delivered: set[EntryId] = set()
        for told in (world.history.delivered, world.history.acknowledged):
            by_create = told.get(((0, key), name), {})
            delivered.update(*(by_create.get(dot, set()) for dot in group.creates))
        acknowledged = world.history.acknowledged.get(((0, key), name), {})
        delivered |= carried_over(group, acknowledged)
        delivered |= acknowledged_by_store(world, key, name)
        delivered |= acknowledged_by_name(world, (0, key), set().union(*acknowledged.values()))
        for number in world.machines:
            delivered |= pending_in(world, number, (0, key), name)
        for origin, ids in above_start(stream, group).items():
            if ids - delivered:
                self.fail(f"{key!r} {name!r}: never delivered {sorted(ids - delivered)} of region {region_of(origin)}")


def carried_over(group: Group, acknowledged: dict[Dot, set[EntryId]]) -> set[EntryId]:
    """What was acknowledged under a create that is void now, and counts under one that the region had beside it."""
    told = set().union(*acknowledged.values())
    return {entry_id for entry_id in told if any(known.contains(entry_id) for known in group.acked.values())}


def above_start(stream: Stream, group: Group) -> dict[int, set[EntryId]]:
    """Return for each origin the live entries that the group must deliver."""
    start = group.start()
    wanted: dict[int, set[EntryId]] = {}
    for origin, tree in stream.trees.items():
        last = tree.last_id()
        floor = next_id(start.get(origin))
        if last is not None and floor is not None:
            wanted[origin] = {entry_id for part in tree.slices(floor, last, -1, False) for entry_id in part.ids()}
    return wanted


def passes(group: Group, origin: int, entry_id: EntryId) -> bool:
    """Return whether the entry was delivered to a consumer of this region, or acknowledged anywhere."""
    passed = (group.delivered.get(origin), group.acked.get(origin))
    return any(known is not None and known.contains(entry_id) for known in passed)


def pending_in(world: Network, number: int, key: Key, name: bytes) -> set[EntryId]:
    """Return the entries that a consumer of the region still holds because its reply was lost."""
    stream = world.machines[number].node.replica.keyspace.find(key)
    group = None if stream is None else stream.groups.get(name)
    if stream is None or group is None:
        return set()
    return {entry_id for origin in stream.trees for entry_id in group.pending.ids(origin, None)}


def ids_between(tree: EntryTree, low: EntryId, high: EntryId) -> list[EntryId]:
    """The live IDs in (low, high], ascending."""
    ids: list[EntryId] = []
    for part in tree.slices(next_id(low) or ID_MAX, high, -1, False):
        ids += part.ids()
    return ids
