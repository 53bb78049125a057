"""CRDT.IMPORT: an entry keeps the ID that it has in another store, whatever the ID mode.

XADD in strict mode refuses a given ID, because two regions could use it for two entries. An import writes an ID once:
an entry that the stream has under this ID, from any region, is not added again, so an interrupted import may be
repeated.

Entries of one origin ascend, so an import has to run in ID order, and in a region whose clients do not write to the key
meanwhile. Clients of other regions may.
"""

from __future__ import annotations

from crdtstream.commands.streams import add
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.connections.minting import ZERO_ID
from crdtstream.core.effects import Key
from crdtstream.core.values.entry_id import ID_MIN, EntryId, format_id, parse_id
from crdtstream.protocols import replies

FIELDS_AT = 3
WRONG_ARITY = "ERR wrong number of arguments for 'crdt.import' command"


def import_entry(context: Context, client: Client, argv: list[bytes]) -> Reply:
    entry_id = imported_id(argv[2])
    if len(argv) % 2 == 0:
        raise CommandError(WRONG_ARITY)
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is not None and stream.chain_ranges(entry_id, entry_id, 1, False):
        return replies.ZERO
    require_above(entry_id, last_written(context, key))
    add(context, key, entry_id, argv[FIELDS_AT:])
    return replies.ONE


def imported_id(text: bytes) -> EntryId:
    entry_id = parse_id(text, 0) if b"-" in text else None
    if entry_id is None:
        raise CommandError(f"ERR the ID {shown(text)} of an imported entry must be complete: milliseconds-sequence")
    if entry_id == ID_MIN:
        raise CommandError(ZERO_ID)
    return entry_id


def last_written(context: Context, key: Key) -> EntryId:
    """The last ID that this region's current origin has in the key."""
    stream = context.replica.keyspace.find(key)
    tree = None if stream is None else stream.trees.get(context.replica.applied.origin)
    return (tree.last_id() if tree is not None else None) or ID_MIN


def require_above(entry_id: EntryId, last: EntryId) -> None:
    if entry_id <= last:
        raise CommandError(
            f"ERR the ID {format_id(entry_id).decode()} is not above {format_id(last).decode()}, the last that it has"
            " from this region: import in ID order, into a key to which no client of this region writes"
        )


COMMANDS: list[Command] = [
    Command(
        "crdt.import",
        import_entry,
        arity=-5,
        flags="write denyoom fast",
        keys=keys_at(1, "RW insert"),
        since="0.1.0",
        group="stream",
        summary="Adds an entry with the ID that it has elsewhere, in every ID mode; 0 if the stream has the ID.",
        syntax="key id data:(field value)...",
    ),
]
