"""What a keyspace holds, without the streams of which it only remembers up to where they were deleted."""

from __future__ import annotations

from crdtstream.core.effects import Key
from crdtstream.core.keyspace import Keyspace
from crdtstream.core.streams.deleted_streams import FORGOTTEN
from crdtstream.core.streams.stream import Stream


def remaining(keyspace: Keyspace) -> dict[Key, Stream]:
    deleted = keyspace.collection.deleted
    return {
        key: stream
        for key, stream in keyspace.streams()
        if stream.exists() or (key not in deleted and key[1] != FORGOTTEN)
    }


def names_of(keyspace: Keyspace) -> list[bytes]:
    return [name for _, name in remaining(keyspace)]
