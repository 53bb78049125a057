"""Clients that use the properties of consumer groups, and consumers that acknowledge in another region than the one
that delivered to them.

They change what other clients of their world send, and draw that from a source of their own.
"""

from __future__ import annotations

from random import Random

from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, format_id

Argv = list[bytes]

CREATE_ODDS = 0.8
SET_ODDS = 0.05
MOVED_ODDS = 0.3
NEWEST_ODDS = 0.4
MOVED_MAX = 3
# Mostly exact: only then an acknowledgement promises something in other regions. TAKEOVER alone selects nothing.
EXACT = (b"ACKNOWLEDGE", b"EXACT")
OTHERS = ((b"ACKNOWLEDGE", b"CONTIGUOUS"), (b"TAKEOVER", b"1000"), (b"TAKEOVER", b"2000", *EXACT))
PROPERTIES = (EXACT, EXACT, EXACT, EXACT, *OTHERS)


def with_properties(rng: Random, argv: Argv, replica: Replica) -> list[Argv]:
    """Return what a client sends instead of this command: one that may set properties, or acknowledge what a consumer
    got elsewhere.
    """
    if argv[:2] == [b"XGROUP", b"CREATE"]:
        return [[*argv, b"CRDT", *rng.choice(PROPERTIES)] if rng.random() < CREATE_ODDS else argv]
    if argv[0] == b"XACK":
        return [acknowledged(rng, argv, replica)]
    if argv[0] == b"XREADGROUP" and rng.random() < SET_ODDS:
        return [argv, [b"CRDT.GROUP", b"SET", argv[-2], argv[2], *rng.choice(PROPERTIES)]]
    return [argv]


def acknowledged(rng: Random, argv: Argv, replica: Replica) -> Argv:
    """Return an XACK of what this or another region delivered, or of the newest entry that somebody here holds."""
    chance = rng.random()
    if chance < MOVED_ODDS:
        return acknowledged_elsewhere(rng, argv, replica)
    stream = replica.keyspace.find((0, argv[1]))
    group = None if stream is None else stream.groups.get(argv[2])
    if chance > MOVED_ODDS + NEWEST_ODDS or group is None or not group.pending.count:
        return argv
    rows = group.pending.rows(ID_MIN, ID_MAX, -1, None)
    return [*argv[:3], format_id(rows[-1].entry_id)]


def acknowledged_elsewhere(rng: Random, argv: Argv, replica: Replica) -> Argv:
    """Return an XACK of entries that nobody got in this region, beside the first one that was named."""
    stream = replica.keyspace.find((0, argv[1]))
    unread = [] if stream is None else unread_ids(stream, argv[2])
    chosen = rng.sample(unread, min(len(unread), rng.randrange(1, MOVED_MAX + 1)))
    named = argv[3:4] if rng.random() < 0.5 or not chosen else []
    return [*argv[:3], *named, *map(format_id, chosen)]


def unread_ids(stream: Stream, name: bytes) -> list[EntryId]:
    """Return the IDs of the entries that a reader of this region would get, in order."""
    group = stream.groups.get(name)
    if group is None:
        return []
    parts = [(tree.origin, part) for tree in stream.trees.values() for part in tree.slices(ID_MIN, ID_MAX, -1, False)]
    return sorted({one for origin, part in parts for one in part.ids() if group.wants(origin, one)})
