"""What follows where concurrent adds under one name met: the lost ones are removed, and what was acknowledged of them
is acknowledged of the survivor.

Every region that holds both prepares the removal, as an effect: so all agree, although some may have forgotten a name
(`names_max`). References stay, as with KEEPREF: what is pending of a lost entry stays pending until it is acknowledged,
and does not stop the delivery of the survivor. A DEL that had not seen the lost entry does not keep it from leaving.

Call it after batches and joins, at a start, and before a producer adds again under a name that met.
"""

from __future__ import annotations

from functools import partial

from crdtstream.core.conflicts import ADDED_TWICE
from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.effects import CounterRange, Key
from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.foreseeing import foresee_dropped
from crdtstream.core.groups.group import Group
from crdtstream.core.local_facts import PendingDropped
from crdtstream.core.names.acknowledging import is_acknowledged
from crdtstream.core.names.register import NamedAdd, NameRegister
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import EntryId, id_below
from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import OriginIntervals


def remove_all_lost(replica: Replica, deferred_work: DeferredWork) -> None:
    """The same for all keys; those that need spilled blocks follow in a later tick."""
    for key in list(replica.keyspace.named.met):
        deferred_work.run(("lost", key), partial(remove_lost, replica, key))


def remove_lost(replica: Replica, key: Key) -> None:
    """Prepare what follows from the adds that met in this key; raises NotAtOnce before anything changes."""
    named = replica.keyspace.named
    stream = replica.keyspace.databases[key[0]].get(key[1])
    if stream is not None and replica.reads.may_wait:
        _foresee(stream)
    named.met.pop(key, None)
    register = None if stream is None or stream.producers is None else stream.producers.register
    if stream is None or register is None:
        return
    lost = _lost_of(replica, key, stream, register)
    ranges: dict[int, list[CounterRange]] = {}
    for add in sorted(lost, key=lambda one: one.dot):
        ranges.setdefault(add.dot[0], []).append((add.dot[1], add.dot[1]))
    named.removed += replica.remove_entries(key, ranges, False, max([add.entry_id for add in lost], default=None))


def _foresee(stream: Stream) -> None:
    """Have the spilled blocks read that hold adds which met, and those that removing the lost ones opens."""
    register = None if stream.producers is None else stream.producers.register
    losses = [] if register is None else [pair for name in register.met for pair in register.losses(name)]
    ids = {add.entry_id for pair in losses for add in pair}
    blocks: list[Block] = []
    for origin, tree in stream.trees.items():
        counters = sorted({lost.dot[1] for lost, _ in losses if lost.dot[0] == origin})
        blocks += tree.spilled_with(sorted(ids)) + tree.spilled_at_ends([(counter, counter) for counter in counters])
    demand_blocks(blocks)
    for name, group in stream.groups.items():
        passed = {survivor.entry_id for lost, survivor in losses if is_acknowledged(stream, name, group, lost)}
        if passed:
            # The runs of what is acknowledged come before what is removed.
            foresee_dropped(stream, group, passed)


def _lost_of(replica: Replica, key: Key, stream: Stream, register: NameRegister) -> list[NamedAdd]:
    """The lost entries that live here; what was acknowledged of lost ones is passed on first, while they do."""
    living: list[NamedAdd] = []
    losses = [pair for name in register.met for pair in register.losses(name)]
    register.met.clear()
    for group_name, group in sorted(stream.groups.items()):
        passed = [survivor for lost, survivor in losses if is_acknowledged(stream, group_name, group, lost)]
        acknowledge_survivors(replica, key, group_name, passed)
    for lost, survivor in losses:
        if not lost.is_lost:
            lost.is_lost = True
            replica.applied.conflicts.record(ADDED_TWICE, key, survivor.dot, lost.dot)
        if stream.holds(lost.dot[0], lost.entry_id):
            living.append(lost)
    return living


def acknowledge_survivors(replica: Replica, key: Key, name: bytes, survivors: list[NamedAdd]) -> bool:
    """Acknowledge these entries for the group in all regions; false if that is done, or they are gone. All leave the
    pending entries before the one effect: its runs are those that were foreseen.
    """
    stream = replica.keyspace.databases[key[0]][key[1]]
    group, is_held = stream.groups[name], False
    runs: dict[int, list[Interval]] = {}
    for origin, entry_id in sorted({(one.dot[0], one.entry_id) for one in survivors}):
        interval = (id_below(entry_id), entry_id)
        if group.pending.get(origin, entry_id) is not None:
            is_held = True
            replica.record(PendingDropped(key, name, OriginIntervals(origin, *interval)))
        acked = group.acked.get(origin)
        if stream.holds(origin, entry_id) and not (acked is not None and acked.contains(entry_id)):
            runs.setdefault(origin, []).append(interval)
    if runs:
        replica.acknowledge_unread(key, name, runs)
    return is_held or bool(runs)


def acknowledge_lost(replica: Replica, key: Key, name: bytes, ids: list[EntryId]) -> list[EntryId]:
    """Consumers acknowledge these IDs: acknowledge the survivors of those that are lost. Call it before the pending
    entries leave. Returns the IDs that are not pending here, and whose survivor was not acknowledged before.
    """
    stream = replica.keyspace.databases[key[0]][key[1]]
    register = None if stream.producers is None else stream.producers.register
    found: list[EntryId] = []
    for entry_id in [] if register is None else ids:
        is_held = bool(stream.groups[name].pending.origins_of(entry_id))
        for survivor in register.survivors_of(entry_id) if register is not None else []:
            if _counts(stream.groups[name], is_held, survivor):
                done = acknowledge_survivors(replica, key, name, [survivor])
                if done and not is_held:
                    found.append(entry_id)
    return found


def _counts(group: Group, is_held: bool, survivor: NamedAdd) -> bool:
    """True if an XACK of a lost entry says something here: of what no consumer here holds only if acknowledgements are
    exact.
    """
    return is_held or group.rules.exact or group.pending.get(survivor.dot[0], survivor.entry_id) is not None
