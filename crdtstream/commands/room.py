"""Refuses what the other regions could never take, before anything is written.

Every batch must fit into the smallest `batch_bytes_max` of the cluster, and into `write_bytes_max` (core/room.py). What
one command writes as one piece is measured here by an upper bound: an entry, a stream that is copied, a transaction.
The errors name what is too large, the limit and the region that has it, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command
from crdtstream.clients.context import CommandError, Context
from crdtstream.core.carrying import Carried
from crdtstream.core.copy_sizes import blocks_bytes, copy_bytes, deletion_bytes, groups_bytes
from crdtstream.core.effects import Key
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.room import Room
from crdtstream.core.sizes import (
    EFFECT_BYTES,
    INTERVAL_BYTES,
    START_BYTES,
    entry_bytes,
)
from crdtstream.core.stream import Stream
from crdtstream.protocols.stream_dump import StreamDump

# For each argument of a command besides its bytes: a range and an interval, or an effect that is deleted or created.
ARGUMENT_BYTES: Final = 64
# How often a name, or another argument, may be in the effects of one command.
REPEATS: Final = 4

Request = tuple[Command, list[bytes]]
Measure = Callable[[Context, int, list[bytes]], int]


def excess(room: Room, what: str, byte_count: int, advice: str) -> str:
    """The text of an error about something that takes too many bytes of a batch."""
    return f"{what} takes {byte_count} bytes, and no batch may have more than {room.bound()}: {advice}, {raising(room)}"


def raising(room: Room) -> str:
    return f"or raise {room.name} there and restart that region"


def require_room(context: Context, what: str, byte_count: int, advice: str) -> None:
    room = context.replica.room
    if not room.make_room(byte_count):
        raise CommandError(f"ERR {excess(room, what, byte_count, advice)}")


def require_entry_room(context: Context, key: Key, fields: list[bytes]) -> None:
    """Raise if an entry of these fields cannot be added to the key in one batch."""
    require_name(context, "key", key[1])
    require_room(context, "the entry", entry_bytes(key[1], fields), "send a smaller entry")


def require_name(context: Context, what: str, name: bytes) -> None:
    """Raise if a key or a group of this name must not be created, because each of its effects carries the name."""
    room = context.replica.room
    if len(name) > room.name_bytes_max:
        raise CommandError(
            f"ERR the name of the {what} has {len(name)} bytes, more than {room.name_bytes_max}, a share of"
            f" {room.bound()}: use a shorter name, {raising(room)}"
        )


# Copies


def require_copy_room(context: Context, stream: Stream, target: Key, carried: Carried | None = None) -> None:
    """Raise if the stream, and the groups that are carried, cannot be written to another key in one batch."""
    require_name(context, "key", target[1])
    size = copy_bytes(stream, target[1]) + (groups_bytes(carried, target[1]) if carried is not None else 0)
    require_room(context, "the copy of the stream", size, "trim the stream")


def require_restore_room(context: Context, key: Key, entries: int, byte_count: int, dump: StreamDump) -> None:
    """Raise if what RESTORE writes for this payload, with so many encoded entries, does not fit into one batch."""
    require_name(context, "key", key[1])
    size = blocks_bytes(entries, byte_count, 1, key[1])
    for group in dump.groups:
        require_name(context, "group", group.name)
        size += EFFECT_BYTES + len(key[1]) + len(group.name) + START_BYTES
    require_room(context, "what the payload restores", size, "trim the stream before DUMP")


def swap_bytes(context: Context, one: int, other: int) -> int:
    """What SWAPDB writes: where both databases have a key, one of the two goes by way of a third name."""
    size = 0
    keyspace = context.replica.keyspace
    for database in (one, other):
        for name in keyspace.keys(database):
            stream = keyspace.peek((database, name))
            if stream is not None:
                longer = name + b":swap+"
                size += 2 * copy_bytes(stream, longer) + groups_bytes(Carried(stream), longer)
    return size


# Transactions


def require_transaction_room(context: Context, client: Client, requests: list[Request], byte_count: int) -> None:
    """Raise if what a transaction writes does not fit into one batch, which then holds nothing else."""
    room = context.replica.room
    if REPEATS * byte_count <= room.small_bytes and not any(command.name in MEASURES for command, _ in requests):
        room.ease()
        return
    size = transaction_bytes(context, client.database, requests, MEASURES)
    if not room.make_room(size):
        text = excess(room, "the transaction", size, "split it")
        raise CommandError(f"EXECABORT Transaction discarded because {text}")


def transaction_bytes(context: Context, database: int, requests: list[Request], measures: dict[str, Measure]) -> int:
    size = 0
    for command, argv in requests:
        if command.name == "select" and argv[1].isdigit():
            database = min(int(argv[1]), DATABASES - 1)
        measure = measures.get(command.name)
        if measure is not None:
            size += measure(context, database, argv)
        elif command.writes:
            size += argument_bytes(context, argv)
    return size


def argument_bytes(context: Context, argv: list[bytes]) -> int:
    """What a command writes that only names keys, groups and IDs: each may be in several effects."""
    origins = context.replica.applied.vector.slot_count()
    return REPEATS * (sum(map(len, argv)) + EFFECT_BYTES) + (ARGUMENT_BYTES + START_BYTES * origins) * len(argv)


def added_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    size = entry_bytes(argv[1], argv[2:])
    stream = context.replica.keyspace.peek((database, argv[1]))
    # A trim names the entries that it removes, and with DELREF the pending ones.
    return size if stream is None else size + EFFECT_BYTES + INTERVAL_BYTES * len(stream.trees)


def copied_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    """COPY, RENAME, RENAMENX and MOVE."""
    stream = context.replica.keyspace.peek((database, argv[1]))
    if stream is None:
        return argument_bytes(context, argv)
    return copy_bytes(stream, argv[2]) + groups_bytes(Carried(stream), argv[2]) + argument_bytes(context, argv)


def moved_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    return copied_bytes(context, database, [argv[0], argv[1], argv[1]])


def swapped_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    if not (argv[1].isdigit() and argv[2].isdigit() and max(int(argv[1]), int(argv[2])) < DATABASES):
        return 0
    return swap_bytes(context, int(argv[1]), int(argv[2])) if argv[1] != argv[2] else 0


def flushed_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    size = 0
    keyspace = context.replica.keyspace
    for number in range(DATABASES) if argv[0].upper() == b"FLUSHALL" else (database,):
        for name in keyspace.known_keys(number):
            stream = keyspace.known((number, name))
            if stream is not None:
                size += deletion_bytes(stream, name)
    return size


def trimmed_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    """A trim that looks at groups may name each entry for itself."""
    stream = context.replica.keyspace.peek((database, argv[1]))
    if stream is None:
        return 0
    apart = any(word.upper() in (b"ACKED", b"DELREF") for word in argv[4:])
    return argument_bytes(context, argv) + (2 * INTERVAL_BYTES * stream.length if apart else 0)


# Commands whose size is another one than that of their arguments.
MEASURES: Final[dict[str, Measure]] = {
    "xadd": added_bytes,
    "crdt.import": added_bytes,
    "copy": copied_bytes,
    "rename": copied_bytes,
    "renamenx": copied_bytes,
    "move": moved_bytes,
    "swapdb": swapped_bytes,
    "flushall": flushed_bytes,
    "flushdb": flushed_bytes,
    "xtrim": trimmed_bytes,
}
