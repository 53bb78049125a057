"""Adding under a name: the one way in which an entry gets a name, for producers and for the store itself.

For what the store adds by itself, such as dead letters: the producer is `STORE`, which no client can be, and the name
says all that makes the effect one (for a letter its group, with the create and the reset under which it was poison, and
the source's own name or dot). In the turn that adds it:

    if not is_known(replica, target, STORE, name):      # whatever the duration
        add_named(replica, target, entry_id, fields, (STORE, name))

and in the same turn, so in the same batch, what makes a second one pointless: the exact acknowledgement of the source.
Regions that do this at the same time keep the entry with the lowest (ID, origin); the others are removed by
core/names/duplicates.py, and an acknowledgement of one of these counts for the one that stays. Names of the store are
known until they are causally stable: then every member has the entry, and with it the acknowledgement. They are in no
count and no limit of producers (`stream_idmp_entries_max`, `names` of XINFO), only in `names_max`.

The caller asks first whether all members can read names (`NAMES_FORMAT`), and whether the entry fits into the batch.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.effects import EntryNamed, Key
from crdtstream.core.names.duplicates import remove_lost
from crdtstream.core.names.register import AddName
from crdtstream.core.replica import Replica
from crdtstream.core.values.entry_id import EntryId

# The producer of what the store adds by itself; clients cannot give an empty one.
STORE: Final = b""


def add_named(
    replica: Replica, key: Key, entry_id: EntryId, fields: list[bytes], name: AddName, other: AddName | None = None
) -> bytes:
    """Append an entry under this name, and perhaps under a second one, whether they are known or not; returns the ID
    encoded by `id_reply`.
    """
    if key in replica.keyspace.named.met:
        # What met is decided before this add, which has seen all of it.
        remove_lost(replica, key)
    reply = replica.add_entry(key, entry_id, fields)
    lag_ms = max(entry_id[0] - replica.keyspace.now_ms, 0)
    replica.name_entry(EntryNamed(key, name[0], name[1], lag_ms))
    if other is not None:
        replica.name_entry(EntryNamed(key, other[0], other[1], lag_ms))
    return reply


def is_known(replica: Replica, key: Key, producer: bytes, name: bytes) -> bool:
    """True if an add under this name is known here, whether its entry or its key still exists or not."""
    stream = replica.keyspace.databases[key[0]].get(key[1])
    if stream is None or stream.producers is None:
        return False
    register = stream.producers.register
    known = register is not None and bool(register.adds_of((producer, name)))
    return known or stream.producers.made_ms(producer, name) >= 0
