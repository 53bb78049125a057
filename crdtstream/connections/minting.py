"""New entry IDs: the last ID of a key, the ID that this region mints above it, and the texts that refuse an entry.

For all that adds entries: commands, and the calls of the bulk port. The arithmetic is in core/values/entry_id.py.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.context import CommandError, Context
from crdtstream.core.effects import Key
from crdtstream.core.values.entry_id import ID_MIN, LIBERAL, EntryId, mint, mint_plain

ZERO_ID: Final = "ERR The ID specified in XADD must be greater than 0-0"
NOT_ABOVE: Final = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
EXHAUSTED: Final = "ERR The stream has exhausted the last possible ID, unable to add more items"
TOO_LARGE: Final = "ERR Elements are too large to be stored"
STRICT_ID: Final = (
    "ERR The ID specified in XADD is a full ID, which the ID mode 'strict' refuses:"
    " use '*' or only the milliseconds part"
)


def top_of(context: Context, key: Key) -> EntryId:
    """The last ID of the key, even of one that is only remembered; 0-0 for a hidden key, which is deleted first."""
    keyspace = context.replica.keyspace
    stream = keyspace.databases[key[0]].get(key[1])
    return ID_MIN if stream is None or stream.is_hidden(keyspace.now_ms) else stream.top


def minted(context: Context, top: EntryId) -> EntryId:
    """The ID for `*`."""
    now_ms = context.replica.keyspace.now_ms
    if context.settings.config.id_mode == LIBERAL:
        entry_id = mint_plain(now_ms, top)
    else:
        entry_id = mint(now_ms, top, context.replica.residue)
    if entry_id is None:
        raise CommandError(EXHAUSTED)
    return entry_id
