"""What a command that frees room takes from the reserve of a full disk: as much as it may write, measured just before
it runs.

The request says little of that: a few bytes may name every key, or every entry of a stream. So the measure is an upper
bound of the effects, and what comes with them (the headers of a record and of a batch, an acknowledgement at the end of
the turn). What the reserve does not take is refused as a whole, because a turn that outgrows its share would use up
what checkpoints and evictions need, and nothing would free room any more.

A transaction takes the sum of its commands, at EXEC; a request that is queued, or stopped by a pause, takes nothing.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.adding import TrimOptions, parse_trim
from crdtstream.commands.arguments import ACKED, DELREF
from crdtstream.commands.fitting import (
    REPEATS,
    Request,
    SizeMeasure,
    argument_bytes,
    flushed_bytes,
    left_bytes,
    transaction_bytes,
    unreferenced_bytes,
)
from crdtstream.commands.removing import surplus_to_remove
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.transaction import Transaction
from crdtstream.core.sizes import INTERVAL_BYTES, RANGE_BYTES
from crdtstream.core.streams.copy_sizes import deletion_bytes
from crdtstream.core.streams.references import ids_of
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.trimming import trimmable
from crdtstream.status.availability import DISK_FULL

EXEC: Final = "exec"
# What comes with the effects of a command.
OVERHEAD_BYTES: Final = 1 << 12
# A range, and its share of the batches that a long removal is cut into.
TRIMMED_BYTES: Final = RANGE_BYTES + 8
# How much more the same trim takes with another threshold.
LONGER_BYTES: Final = 64 * REPEATS
FREE_SPACE: Final = "free space on the volume"
REMEDIES: Final = {
    "del": "name fewer keys",
    "unlink": "name fewer keys",
    "xdel": "name fewer IDs",
    "xdelex": "name fewer IDs",
    "xackdel": "name fewer IDs",
    "flushdb": "use DEL first",
    "flushall": "use DEL first",
    EXEC: "split the transaction",
}


def frees_room(transaction: Transaction | None, command: Command) -> bool:
    """True if a command, or a transaction as a whole, does nothing on the disk but free room."""
    return transaction.frees if transaction is not None and command.name == EXEC else command.frees


def spend_reserve(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    """Take from the reserve what an admitted command may write now; raise if there is not so much."""
    requests = writing(client.transaction, command, argv)
    if not requests:
        return
    standing = context.standing
    size = OVERHEAD_BYTES + transaction_bytes(context, client.database, requests, FREEING)
    of_members = "admin" in command.flags
    left = standing.member_bytes if of_members else standing.removal_bytes
    if standing.spend_members(size) if of_members else standing.spend_removal(size):
        return
    if left < OVERHEAD_BYTES:
        raise CommandError(DISK_FULL)
    advice = REMEDIES.get(command.name, FREE_SPACE)
    if command.name == "xtrim":
        advice = smaller_steps(context, client.database, argv, size - left)
    what = command.name.upper()
    raise CommandError(f"{DISK_FULL}. {what} may write {size} bytes, and the reserve takes {left} now: {advice}")


def writing(transaction: Transaction | None, command: Command, argv: list[bytes]) -> list[Request]:
    """The requests that run now, if one of them writes."""
    if transaction is None:
        return [(command, argv)] if command.writes else []
    return transaction.requests if command.name == EXEC and transaction.writes else []


# Measures


def deleted_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    size = 0
    for name in argv[1:]:
        stream = context.replica.keyspace.known((database, name))
        if stream is not None:
            size += deletion_bytes(stream, name)
    return size


def expired_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    """A time in the past deletes the key."""
    return argument_bytes(context, argv) + deleted_bytes(context, database, argv[:2])


def trimmed_bytes(context: Context, database: int, argv: list[bytes]) -> int:
    return argument_bytes(context, argv) + apart_bytes(context, database, argv)[1]


def apart_bytes(context: Context, database: int, argv: list[bytes]) -> tuple[int, int]:
    """How many entries a trim removes at most, and what those take that it names one by one, because groups need what
    lies between them.
    """
    stream = context.replica.keyspace.find((database, argv[1]))
    options = options_of(argv)
    if stream is None or options is None:
        return 0, 0
    surplus = surplus_to_remove(context, stream, options)
    if surplus <= 0 or not stream.groups:
        return 0, 0
    if options.references == ACKED:
        return surplus, TRIMMED_BYTES * surplus
    return surplus, INTERVAL_BYTES * pending_count(stream, surplus) if options.references == DELREF else 0


def options_of(argv: list[bytes]) -> TrimOptions | None:
    """The options of XTRIM; None if they are wrong, which the command itself says."""
    try:
        return parse_trim(argv)
    except CommandError:
        return None


def pending_count(stream: Stream, surplus: int) -> int:
    """How often the oldest entries are pending: each may become an acknowledgement of its own."""
    named = ids_of(stream, trimmable(stream, stream.length - surplus))
    return sum(
        len(group.pending.columns_within(origin, low, high)[0])
        for group in stream.groups.values()
        for origin, intervals in named.items()
        for low, high in intervals
    )


def smaller_steps(context: Context, database: int, argv: list[bytes], missing: int) -> str:
    """How to trim when so many bytes are missing; the threshold may then be a longer argument."""
    surplus, apart = apart_bytes(context, database, argv)
    count = surplus * (apart - missing - LONGER_BYTES) // apart if apart else 0
    return f"trim in smaller steps, of {count} entries or fewer" if count > 0 else FREE_SPACE


FREEING: Final[dict[str, SizeMeasure]] = {
    "del": deleted_bytes,
    "unlink": deleted_bytes,
    "expire": expired_bytes,
    "expireat": expired_bytes,
    "pexpire": expired_bytes,
    "pexpireat": expired_bytes,
    "flushall": flushed_bytes,
    "flushdb": flushed_bytes,
    "xackdel": unreferenced_bytes,
    "xdelex": unreferenced_bytes,
    "xgroup|delconsumer": left_bytes,
    "xtrim": trimmed_bytes,
}
