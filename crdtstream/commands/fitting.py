"""Refuses what the other regions could never take, before anything is written.

Every batch must fit into the smallest `batch_bytes_max` of the cluster, and into `write_bytes_max`
(core/values/batch_budget.py). What one command writes as one piece is measured here by an upper bound: an entry, a
stream that is copied, a transaction. The errors name what is too large, the limit and the region that has it, and what
to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crdtstream.commands.adding import TrimOptions, parse_add, parse_trim
from crdtstream.commands.arguments import ACKED, DELREF
from crdtstream.commands.removing import surplus_of
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context
from crdtstream.core.effects import Key
from crdtstream.core.group_copy import GroupCopies
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.sizes import (
    EFFECT_BYTES,
    INTERVAL_BYTES,
    START_BYTES,
    entry_bytes,
)
from crdtstream.core.streams.copy_sizes import blocks_bytes, copy_bytes, deletion_bytes, groups_bytes
from crdtstream.core.streams.removal_parts import PIECE_BYTES
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.batch_budget import excess, name_excess
from crdtstream.protocols.stream_dump import StreamDump

# For each argument of a command besides its bytes: a range and an interval, or an effect that is deleted or created.
ARGUMENT_BYTES: Final = 64
# How often a name, or another argument, may be in the effects of one command.
REPEATS: Final = 4

Request = tuple[Command, list[bytes]]
SizeMeasure = Callable[[Context, int, list[bytes]], int]


def require_fit(context: Context, what: str, byte_count: int, advice: str) -> None:
    budget = context.replica.budget
    if not budget.allow(byte_count):
        raise CommandError(f"ERR {excess(budget, what, byte_count, advice)}")


def require_entry_fit(context: Context, key: Key, fields: list[bytes]) -> None:
    """Raise if an entry of these fields cannot be added to the key in one batch."""
    require_name(context, "key", key[1])
    require_fit(context, "the entry", entry_bytes(key[1], fields), "send a smaller entry")


def require_name(context: Context, what: str, name: bytes) -> None:
    """Raise if a key or a group of this name must not be created, because each of its effects carries the name."""
    fault = name_excess(context.replica.budget, what, name)
    if fault:
        raise CommandError(f"ERR {fault}")


# Copies


def require_copy_fit(context: Context, stream: Stream, target: Key, copies: GroupCopies | None = None) -> None:
    """Raise if the stream, and the groups that are copied, cannot be written to another key in one batch."""
    require_name(context, "key", target[1])
    size = copy_bytes(stream, target[1]) + (groups_bytes(copies, target[1]) if copies is not None else 0)
    require_fit(context, "the copy of the stream", size, "trim the stream")


def require_restore_fit(context: Context, key: Key, entries: int, byte_count: int, dump: StreamDump) -> None:
    """Raise if what RESTORE writes for this payload, with so many encoded entries, does not fit into one batch."""
    require_name(context, "key", key[1])
    size = blocks_bytes(entries, byte_count, 1, key[1])
    for group in dump.groups:
        require_name(context, "group", group.name)
        size += EFFECT_BYTES + len(key[1]) + len(group.name) + START_BYTES
    require_fit(context, "what the payload restores", size, "trim the stream before DUMP")


def swap_bytes(context: Context, one: int, other: int) -> int:
    """What SWAPDB writes: where both databases have a key, one of the two goes by way of a third name."""
    size = 0
    keyspace = context.replica.keyspace
    for database in (one, other):
        for name in keyspace.keys(database):
            stream = keyspace.peek((database, name))
            if stream is not None:
                longer = name + b":swap+"
                size += 2 * copy_bytes(stream, longer) + groups_bytes(GroupCopies(stream), longer)
    return size


# Transactions


def require_transaction_fit(context: Context, client: Client, requests: list[Request]) -> int:
    """Raise if what a transaction writes does not fit into one batch, which then holds nothing else; returns how much
    that may be.
    """
    # What was acknowledged before belongs to earlier batches.
    context.replica.acknowledge_all()
    budget = context.replica.budget
    size = transaction_bytes(context, client.database, requests, MEASURES)
    if not budget.allow(size):
        text = excess(budget, "the transaction", size, "split it")
        raise CommandError(f"EXECABORT Transaction discarded because {text}")
    return size


def transaction_bytes(
    context: Context, database: int, requests: list[Request], measures: dict[str, SizeMeasure]
) -> int:
    size = 0
    for command, argv in requests:
        if command.name == "select" and argv[1].isdigit():
            database = min(int(argv[1]), DATABASES - 1)
        if command.writes:
            size += command_bytes(context, database, command, argv, measures)
    return size


def required_share(context: Context, client: Client, command: Command, argv: list[bytes]) -> int:
    """What a command of a transaction may write at most, measured when its turn comes; raise if that does not fit."""
    budget = context.replica.budget
    size = command_bytes(context, client.database, command, argv, MEASURES)
    if not budget.allow(size):
        text = excess(budget, "the transaction with this command", budget.promised + size, "split it")
        raise CommandError(f"ERR {text}")
    return size


def command_bytes(
    context: Context, database: int, command: Command, argv: list[bytes], measures: dict[str, SizeMeasure]
) -> int:
    try:
        return measures.get(command.name, written_bytes)(context, database, argv)
    except CommandError:
        # Its arguments are wrong, so it writes nothing.
        return 0


def written_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    return argument_bytes(context, argv)


def argument_bytes(context: Context, argv: list[bytes]) -> int:
    """What a command writes that only names keys, groups and IDs: each may be in several effects."""
    origins = context.replica.applied.vector.origin_count()
    return REPEATS * (sum(map(len, argv)) + EFFECT_BYTES) + (ARGUMENT_BYTES + START_BYTES * origins) * len(argv)


def added_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    size = entry_bytes(argv[1], argv[2:])
    if argv[2] == b"*":
        return size
    options = parse_add(argv)
    # The surplus counts the entry, too.
    return size + trim_bytes(context, (database, argv[1]), options.trim, 1) if options.trim.given() else size


def imported_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    return entry_bytes(argv[1], argv[2:])


def restored_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    """Less than a payload may expand to: what it restores asks whether it fits when it is read."""
    return argument_bytes(context, argv[:3]) + len(argv[3])


def copied_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    """COPY, RENAME, RENAMENX and MOVE."""
    stream = context.replica.keyspace.peek((database, argv[1]))
    if stream is None:
        return argument_bytes(context, argv)
    return copy_bytes(stream, argv[2]) + groups_bytes(GroupCopies(stream), argv[2]) + argument_bytes(context, argv)


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
    return argument_bytes(context, argv) + trim_bytes(context, (database, argv[1]), parse_trim(argv), 0)


def trim_bytes(context: Context, key: Key, options: TrimOptions, added: int) -> int:
    """A trim names a range of each origin; one that looks at groups may name each entry for itself, and what is pending
    of it, in as many effects as there are parts.
    """
    stream = context.replica.keyspace.peek(key)
    if stream is None:
        return EFFECT_BYTES + len(key[1])
    apart = options.given() and options.references in (ACKED, DELREF)
    surplus = max(0, surplus_of(stream, options) + added) if apart else 0
    parts = 1 + len(stream.trees) + 2 * surplus // (context.replica.budget.cut_bytes // PIECE_BYTES)
    size = INTERVAL_BYTES * (2 * surplus + len(stream.trees)) + parts * (EFFECT_BYTES + len(key[1]))
    return size + settled_bytes(stream, key[1], surplus) if options.references == DELREF else size


def settled_bytes(stream: Stream, name: bytes, entries: int) -> int:
    """Acknowledgements of so many entries in each group."""
    names = sum([EFFECT_BYTES + len(name) + len(group) for group in stream.groups])
    return names + INTERVAL_BYTES * len(stream.groups) * entries


def unreferenced_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    """XDELEX and XACKDEL: with DELREF, each ID may become an acknowledgement of each group."""
    size = argument_bytes(context, argv)
    stream = context.replica.keyspace.peek((database, argv[1]))
    if stream is None or not any(word.upper() == b"DELREF" for word in argv):
        return size
    return size + settled_bytes(stream, argv[1], len(argv))


def left_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    """XGROUP DELCONSUMER: what was pending for the consumer is acknowledged, each entry for itself where another
    consumer has those beside it.
    """
    size = argument_bytes(context, argv)
    stream = context.replica.keyspace.peek((database, argv[2]))
    group = None if stream is None else stream.groups.get(argv[3])
    return size if group is None else size + INTERVAL_BYTES * group.pending.count_of(argv[4])


# Commands whose size is another one than that of their arguments.
MEASURES: Final[dict[str, SizeMeasure]] = {
    "xadd": added_bytes,
    "crdt.import": imported_bytes,
    "restore": restored_bytes,
    "copy": copied_bytes,
    "rename": copied_bytes,
    "renamenx": copied_bytes,
    "move": moved_bytes,
    "swapdb": swapped_bytes,
    "flushall": flushed_bytes,
    "flushdb": flushed_bytes,
    "xtrim": trimmed_bytes,
    "xdelex": unreferenced_bytes,
    "xackdel": unreferenced_bytes,
    "xgroup|delconsumer": left_bytes,
}
