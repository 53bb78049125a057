"""Errors of the bulk port: a gRPC code, and a text that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.shards import ShardMap
from crdtstream.core.keyspace import DATABASES
from crdtstream.protocols.hash_slots import hash_slot_of
from crdtstream.status.availability import DISK_FULL, OOM

ABORTED: Final = "ABORTED"
INVALID_ARGUMENT: Final = "INVALID_ARGUMENT"
FAILED_PRECONDITION: Final = "FAILED_PRECONDITION"
NOT_FOUND: Final = "NOT_FOUND"
RESOURCE_EXHAUSTED: Final = "RESOURCE_EXHAUSTED"
UNAVAILABLE: Final = "UNAVAILABLE"


class BulkError(Exception):
    """A rejected call; `code` is the name of a gRPC status."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def refused_as(code: str, error: CommandError, where: str = "") -> BulkError:
    """Convert the error of a command, without the code that begins a Redis error reply."""
    return BulkError(code, where + error.text.partition(" ")[2])


def require_serving(context: Context) -> None:
    if context.standing.loading:
        raise BulkError(UNAVAILABLE, f"this region does not serve yet: {context.standing.loading}")


def require_writable(context: Context) -> None:
    """Apply the checks for commands with the flags `write` and `denyoom`; called before each slice that changes
    something.
    """
    require_serving(context)
    if context.standing.memory_short:
        raise refused_as(RESOURCE_EXHAUSTED, CommandError(OOM))
    if context.standing.paused:
        raise BulkError(UNAVAILABLE, "clients are paused (CLIENT PAUSE): try again once they are resumed")
    if context.standing.departing:
        raise BulkError(UNAVAILABLE, context.standing.departing)
    if not context.standing.writable:
        raise refused_as(UNAVAILABLE, CommandError(DISK_FULL))


def require_database(database: int) -> int:
    if database >= DATABASES:
        raise BulkError(INVALID_ARGUMENT, f"database {database} is out of range: use 0 to {DATABASES - 1}")
    return database


def require_own_streams(shards: ShardMap, database: int, names: Iterable[bytes]) -> None:
    """Raise unless this shard of its region serves all these streams."""
    if database:
        raise BulkError(INVALID_ARGUMENT, f"database {database} is out of range: a region of several shards has only 0")
    for name in names:
        if not shards.serves(name):
            number = shards.shard_of(hash_slot_of(name)).number
            text = f"shard {number} of this region serves the stream {name!r}: ask its bulk port, which is the"
            raise BulkError(FAILED_PRECONDITION, f"{text} region's first one plus {number}")
