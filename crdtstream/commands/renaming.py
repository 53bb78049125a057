"""RENAME RENAMENX COPY MOVE SWAPDB: the content of a key, written again under another name.

RENAME is a DEL of the target, a copy, and a DEL of the source, all in one batch. The copy is written to the local
origin's tree and has no groups (see core/streams/stream_copy.py), while Redis keeps them; clients waiting in a group of
the source get an error that the group is gone. The cost is proportional to the number of entries, so streams of more
than `copy_entries_max` entries are rejected.

COPY, MOVE and SWAPDB take groups along, with what this region knows of their readers, and producer records
(core/group_copy.py). MOVE is a COPY into another database and a DEL of the source, and SWAPDB one of each key of both;
its limit is on all entries together.

Reference: `renameGenericCommand` and `copyCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.fitting import require_copy_fit, require_fit, swap_bytes
from crdtstream.commands.integers import integer
from crdtstream.connections.admission import await_admission, must_wait
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.connections.notifications import GENERIC
from crdtstream.core.effects import Key
from crdtstream.core.group_copy import GroupCopies, copy_whole, put
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.stream_copy import copy_stream
from crdtstream.protocols import replies

I32_MAX = 2**31 - 1
SYNTAX_ERROR = "ERR syntax error"
NO_SUCH_KEY = "ERR no such key"
SAME = "ERR source and destination objects are the same"
NO_DATABASE = "ERR DB index is out of range"
NO_INT = f"ERR value is out of range, value must between {-I32_MAX - 1} and {I32_MAX}"


def rename(context: Context, client: Client, argv: list[bytes]) -> Reply:
    source, target = (client.database, argv[1]), (client.database, argv[2])
    stream = renamed(context, source)
    if source != target:
        move(context, stream, source, target)
    return replies.OK


def renamenx(context: Context, client: Client, argv: list[bytes]) -> Reply:
    source, target = (client.database, argv[1]), (client.database, argv[2])
    stream = renamed(context, source)
    if source == target or context.replica.keyspace.find(target) is not None:
        return replies.ZERO
    move(context, stream, source, target)
    return replies.ONE


def renamed(context: Context, source: Key) -> Stream:
    stream = context.replica.keyspace.find(source)
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    return stream


def move(context: Context, stream: Stream, source: Key, target: Key) -> None:
    require_copyable(context, stream)
    require_copy_fit(context, stream, target)
    copy_stream(context.replica, stream, target)
    context.replica.delete_stream(source)
    context.notifications.publish_named(GENERIC, b"rename_from", source)
    context.notifications.publish_named(GENERIC, b"rename_to", target)


def require_copyable(context: Context, stream: Stream) -> None:
    entries_max = context.limits.copy_entries_max
    if stream.length > entries_max:
        raise CommandError(
            f"ERR the stream has {stream.length} entries; RENAME and COPY rewrite every entry and accept at most"
            f" copy_entries_max = {entries_max}: raise that limit, or trim the stream"
        )


def copy(context: Context, client: Client, argv: list[bytes]) -> Reply:
    database, replace = copy_options(context, client, argv)
    source, target = (client.database, argv[1]), (database, argv[2])
    if source == target:
        raise CommandError(SAME)
    stream = context.look_up(source)
    if stream is None or (not replace and context.replica.keyspace.find(target) is not None):
        return replies.ZERO
    require_copyable(context, stream)
    if stream.groups and must_wait(context):
        return await_admission(context, client, copy, argv)
    copy_with_groups(context, stream, target)
    context.notifications.publish_named(GENERIC, b"copy_to", target)
    return replies.ONE


def copy_with_groups(context: Context, stream: Stream, target: Key) -> None:
    """Copy the stream with its groups and producers, if that fits into a batch."""
    copies = GroupCopies(stream)
    require_copy_fit(context, stream, target, copies)
    copy_stream(context.replica, stream, target)
    put(context.replica, target, copies)


def move_to_database(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """MOVE key database."""
    if context.shards is not None:
        raise CommandError("ERR MOVE is not allowed in cluster mode")
    source, target = (client.database, argv[1]), (database_of(context, argv[2]), argv[1])
    if source == target:
        raise CommandError(SAME)
    stream = context.replica.keyspace.find(source)
    if stream is None or context.replica.keyspace.find(target) is not None:
        return replies.ZERO
    require_copyable(context, stream)
    if stream.groups and must_wait(context):
        return await_admission(context, client, move_to_database, argv)
    copy_with_groups(context, stream, target)
    context.replica.delete_stream(source)
    context.notifications.publish_named(GENERIC, b"move_from", source)
    context.notifications.publish_named(GENERIC, b"move_to", target)
    return replies.ONE


def swap_databases(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """SWAPDB index1 index2."""
    if context.shards is not None:
        raise CommandError("ERR SWAPDB is not allowed in cluster mode")
    one = integer(argv[1], "ERR invalid first DB index")
    other = integer(argv[2], "ERR invalid second DB index")
    if not (0 <= one < DATABASES and 0 <= other < DATABASES):
        raise CommandError(NO_DATABASE)
    if one != other:
        streams = swapped(context, one, other)
        if any(stream.groups for stream in streams) and must_wait(context):
            return await_admission(context, client, swap_databases, argv)
        require_fit(context, "the swap of the databases", swap_bytes(context, one, other), "trim the streams")
        keyspace = context.replica.keyspace
        for name in sorted({*keyspace.keys(one), *keyspace.keys(other)}):
            swap(context.replica, (one, name), (other, name))
        context.notifications.publish_prepared(quiet=True)
    return replies.OK


def swapped(context: Context, one: int, other: int) -> list[Stream]:
    """The streams of both databases, if they may be swapped."""
    keyspace, entries_max = context.replica.keyspace, context.limits.copy_entries_max
    found = [keyspace.peek((database, name)) for database in (one, other) for name in keyspace.keys(database)]
    streams = [stream for stream in found if stream is not None]
    entries = sum([stream.length for stream in streams])
    if entries > entries_max:
        raise CommandError(
            f"ERR the databases have {entries} entries; SWAPDB rewrites every entry and accepts at most"
            f" copy_entries_max = {entries_max}: raise that limit, or trim the streams"
        )
    return streams


def swap(replica: Replica, one: Key, other: Key) -> None:
    """Swap two keys, of which one may not exist; if both do, one goes by way of a third name."""
    first, second = replica.keyspace.find(one), replica.keyspace.find(other)
    if first is not None and second is not None:
        swap_streams(replica, one, first, other, second)
    elif first is not None:
        copy_whole(replica, first, other)
        replica.delete_stream(one)
    elif second is not None:
        copy_whole(replica, second, one)
        replica.delete_stream(other)


def swap_streams(replica: Replica, one: Key, first: Stream, other: Key, second: Stream) -> None:
    copies = (GroupCopies(first), GroupCopies(second))
    aside = free_name(replica, one)
    copy_stream(replica, first, aside)
    copy_stream(replica, second, one)
    put_aside = replica.keyspace.find(aside)
    assert put_aside is not None, "the copy does not exist"
    copy_stream(replica, put_aside, other)
    replica.delete_stream(aside)
    put(replica, other, copies[0])
    put(replica, one, copies[1])


def free_name(replica: Replica, key: Key) -> Key:
    name = key[1] + b":swap"
    while replica.keyspace.databases[key[0]].get(name) is not None:
        name += b"+"
    return (key[0], name)


def copy_options(context: Context, client: Client, argv: list[bytes]) -> tuple[int, bool]:
    """`[DB database] [REPLACE]`."""
    database, replace = client.database, False
    at = 3
    while at < len(argv):
        word = argv[at].upper()
        if word == b"REPLACE":
            replace = True
        elif word == b"DB" and at + 1 < len(argv):
            at += 1
            database = database_of(context, argv[at])
        else:
            raise CommandError(SYNTAX_ERROR)
        at += 1
    return database, replace


def database_of(context: Context, text: bytes) -> int:
    """The number of a database; with several shards there is only the first one."""
    database = integer(text)
    if not -I32_MAX - 1 <= database <= I32_MAX:
        raise CommandError(NO_INT)
    if not 0 <= database < (DATABASES if context.shards is None else 1):
        raise CommandError(NO_DATABASE)
    return database


COMMANDS: list[Command] = [
    Command(
        "rename",
        rename,
        arity=3,
        flags="write",
        keys=keys_at(1, "RW access delete", "OW update"),
        since="1.0.0",
        group="generic",
        summary="Renames a key and overwrites the destination.",
        syntax="key newkey",
    ),
    Command(
        "renamenx",
        renamenx,
        arity=3,
        flags="write fast",
        keys=keys_at(1, "RW access delete", "OW insert"),
        since="1.0.0",
        group="generic",
        summary="Renames a key only when the target key name doesn't exist.",
        syntax="key newkey",
    ),
    Command(
        "copy",
        copy,
        arity=-3,
        flags="write denyoom",
        keys=keys_at(1, "RO access", "OW update"),
        since="6.2.0",
        group="generic",
        summary="Copies a stream to a new key.",
        syntax="source destination [DB destination-db#] [REPLACE]",
    ),
    Command(
        "move",
        move_to_database,
        arity=3,
        flags="write denyoom fast",
        keys=keys_at(1, "RW access update"),
        since="1.0.0",
        group="generic",
        summary="Moves a key to another database.",
        syntax="key db#",
    ),
    Command(
        "swapdb",
        swap_databases,
        arity=3,
        flags="write denyoom fast",
        categories="keyspace dangerous",
        since="4.0.0",
        group="server",
        summary="Swaps two databases, key by key.",
        syntax="index1# index2#",
    ),
]
