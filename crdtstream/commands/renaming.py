"""RENAME RENAMENX COPY: the content of a key, written again under another name.

RENAME is a DEL of the target, a copy, and a DEL of the source, all in one batch. The copy is written to the local
origin's tree and has no groups (see core/copying.py), while Redis keeps them; clients waiting in a group of the source
get an error that the group is gone. The cost is proportional to the number of entries, so streams of more than
`copy_entries_max` entries are rejected.

Reference: `renameGenericCommand` and `copyCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command, keys_at
from crdtstream.clients.context import CommandError, Context, Reply
from crdtstream.clients.notifications import GENERIC
from crdtstream.commands.integers import integer
from crdtstream.core.copying import copy_stream
from crdtstream.core.effects import Key
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.stream import Stream
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
    copy_stream(context.replica, stream, target)
    context.replica.delete_stream(source)
    context.notifications.note(GENERIC, b"rename_from", source)
    context.notifications.note(GENERIC, b"rename_to", target)


def require_copyable(context: Context, stream: Stream) -> None:
    entries_max = context.limits.copy_entries_max
    if stream.length > entries_max:
        raise CommandError(
            f"ERR the stream has {stream.length} entries; RENAME and COPY rewrite every entry and accept at most"
            f" copy_entries_max = {entries_max}: raise that limit, or trim the stream"
        )


def copy(context: Context, client: Client, argv: list[bytes]) -> Reply:
    database, replace = copy_options(client, argv)
    source, target = (client.database, argv[1]), (database, argv[2])
    if source == target:
        raise CommandError(SAME)
    stream = context.replica.keyspace.find(source)
    if stream is None or (not replace and context.replica.keyspace.find(target) is not None):
        return replies.ZERO
    require_copyable(context, stream)
    copy_stream(context.replica, stream, target)
    context.notifications.note(GENERIC, b"copy_to", target)
    return replies.ONE


def copy_options(client: Client, argv: list[bytes]) -> tuple[int, bool]:
    """`[DB database] [REPLACE]`."""
    database, replace = client.database, False
    at = 3
    while at < len(argv):
        word = argv[at].upper()
        if word == b"REPLACE":
            replace = True
        elif word == b"DB" and at + 1 < len(argv):
            at += 1
            database = database_of(argv[at])
        else:
            raise CommandError(SYNTAX_ERROR)
        at += 1
    return database, replace


def database_of(text: bytes) -> int:
    database = integer(text)
    if not -I32_MAX - 1 <= database <= I32_MAX:
        raise CommandError(NO_INT)
    if not 0 <= database < DATABASES:
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
]
