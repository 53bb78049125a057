"""XACK, and what acknowledges an entry that another region delivered.

One ID may be pending in several origins (in ID modes that allow duplicates): XACK acts on all of them and counts the ID
once.

Reference: `xackCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands import arguments
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import Context, Reply
from crdtstream.core.effects import Key
from crdtstream.core.foreseeing import foresee_dropped
from crdtstream.core.groups.group import Group
from crdtstream.core.local_facts import PendingDropped
from crdtstream.core.names.duplicates import acknowledge_lost
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import EntryId, id_below
from crdtstream.core.values.intervals import Interval
from crdtstream.protocols import replies


def xack(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[1])
    stream = context.look_up(key)
    group = None if stream is None else stream.groups.get(argv[2])
    if stream is None or group is None:
        return replies.ZERO
    ids = arguments.parse_entry_ids(argv, 3)
    if context.replica.reads.may_wait:
        demand_acknowledged(stream, group, ids)
    dropped, acknowledged = group.pending.find(ids)
    if group.rules.exact and acknowledged < len(ids):
        acknowledged += len(acknowledge_unread(context, key, argv[2], ids))
    if stream.producers is not None:
        # What is lost to another add of its name is acknowledged with that one.
        acknowledged += len(acknowledge_lost(context.replica, key, argv[2], ids))
    if acknowledged:
        context.replica.record_for(stream, group, PendingDropped(key, argv[2], dropped))
    return replies.integer(acknowledged)


def demand_acknowledged(stream: Stream, group: Group, ids: list[EntryId]) -> None:
    """Have the blocks read of these entries, where an XACK looks at them: acknowledgements are exact, or entries have
    names.
    """
    if group.rules.exact or stream.producers is not None:
        register = None if stream.producers is None else stream.producers.register
        survivors = [] if register is None else [add.entry_id for one in ids for add in register.survivors_of(one)]
        stream.demand(sorted({*ids, *survivors}))
        if survivors:
            # Their runs come before what else is acknowledged.
            foresee_dropped(stream, group, {*survivors})


def acknowledge_unread(context: Context, key: Key, name: bytes, ids: list[EntryId]) -> list[EntryId]:
    """Acknowledge what another region delivered: of these ascending IDs those that live, that a reader here would get,
    and that are not pending, as they are when the group was reset since. Returns those that are pending nowhere here.
    """
    stream = context.replica.keyspace.databases[key[0]][key[1]]
    group = stream.groups[name]
    runs: dict[int, list[Interval]] = {}
    unread: list[EntryId] = []
    for entry_id in ids:
        pending = group.pending.origins_of(entry_id)
        origins = [
            origin
            for origin in stream.origins_holding(entry_id)
            if origin not in pending and group.wants(origin, entry_id)
        ]
        for origin in origins:
            runs.setdefault(origin, []).append((id_below(entry_id), entry_id))
        if origins and not pending:
            unread.append(entry_id)
    if runs:
        context.replica.acknowledge_unread(key, name, dict(sorted(runs.items())))
    return unread


COMMANDS: list[Command] = [
    Command(
        "xack",
        xack,
        arity=-4,
        flags="write fast",
        keys=keys_at(1, "RW update"),
        since="5.0.0",
        group="stream",
        summary="Acknowledges messages that were delivered to a consumer group.",
        syntax="key group id...",
    ),
]
