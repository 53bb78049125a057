"""CRDT.CONFLICTS: what met in a key without having seen each other, as this region saw it (core/conflicts.py).

A cursor names the last conflict that its caller has seen, and the origin of the region that said so: conflicts are
numbered by each process for itself. To a cursor of another region or process, or behind which conflicts are no longer
kept, the reply begins with a gap.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.arguments import SYNTAX
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.core.conflicts import (
    ADDED_TWICE,
    ADDS_SURVIVED,
    CREATED_TWICE,
    CREATION_LOST,
    CREATION_VOID,
    EXPIRIES_SET,
    GAP,
    IDS_SET,
    NO_DOT,
    Conflict,
)
from crdtstream.core.tokens import OTHER_CLUSTER, SEEN, Unreadable, decode, encode
from crdtstream.core.values.causality import Dot, origin_name, region_of
from crdtstream.protocols import replies

OUTCOMES: Final = {
    ADDS_SURVIVED: "the delete had not seen these entries, so they stay",
    CREATION_LOST: "the group is gone: the delete wins over a creation that it had not seen",
    CREATED_TWICE: "one group, which begins at the lower of both starts",
    CREATION_VOID: "the group is gone: the region that created it had been evicted",
    IDS_SET: "the higher last ID counts",
    EXPIRIES_SET: "the longer expiry counts",
    ADDED_TWICE: "one entry for one name: the one with the lower ID stays",
    GAP: "conflicts before this one may be missing",
}
INVALID_CURSOR: Final = (
    "ERR invalid cursor: it was changed, or CRDT.CONFLICTS did not reply it; leave SINCE out to get all that is kept"
)
CURSOR_OF_ANOTHER: Final = (
    "ERR the cursor is of another cluster: leave SINCE out to get all that this region keeps, and a new cursor"
)


def conflicts(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.CONFLICTS key [SINCE cursor]."""
    kept, protocol = context.replica.applied.conflicts, client.protocol
    origin, cluster = context.replica.applied.origin, context.settings.config.cluster
    since, whole = 0, True
    if len(argv) > 2:
        seen = parse_since(argv, cluster)
        # Numbers in cursors are one higher, because a row of 0 would be none.
        since = seen[1] - 1 if seen[0] == origin else 0
        whole = seen[0] == origin and since >= kept.dropped
    rows = [conflict_row(one, protocol) for one in kept.since((client.database, argv[1]), since)]
    if not whole:
        rows.insert(0, replies.mapping([*pair("kind", GAP), *pair("outcome", OUTCOMES[GAP])], protocol))
    cursor = encode(SEEN, cluster, [(origin, kept.last + 1)] if origin else [])
    items = [replies.bulk(b"cursor"), replies.bulk(cursor), replies.bulk(b"conflicts"), replies.array(rows)]
    return replies.mapping(items, protocol)


def parse_since(argv: list[bytes], cluster: str) -> Dot:
    if len(argv) != 4 or argv[2].upper() != b"SINCE":
        raise CommandError(SYNTAX)
    try:
        rows = list(decode(SEEN, argv[3], cluster).items())
    except Unreadable as error:
        reason = CURSOR_OF_ANOTHER if error.reason == OTHER_CLUSTER else INVALID_CURSOR
        raise CommandError(reason) from error
    return rows[0] if rows else NO_DOT


def conflict_row(conflict: Conflict, protocol: int) -> bytes:
    items = [*pair("kind", conflict.kind), *pair("outcome", OUTCOMES[conflict.kind])]
    items += [replies.bulk(b"time-ms"), replies.integer(conflict.time_ms)]
    if conflict.kind == GAP:
        return replies.mapping(items, protocol)
    items += [replies.bulk(b"count"), replies.integer(conflict.count)]
    if conflict.group:
        items += [replies.bulk(b"group"), replies.bulk(conflict.group)]
    for name, dot in (("effect", conflict.effect), ("other", conflict.other)):
        if dot != NO_DOT:
            items += [replies.bulk(f"{name}-region".encode()), replies.integer(region_of(dot[0]))]
            items += pair(name, f"{origin_name(dot[0])}={dot[1]}")
    return replies.mapping(items, protocol)


def pair(name: str, text: str) -> list[bytes]:
    return [replies.bulk(name.encode()), replies.bulk(text.encode())]


COMMANDS: list[Command] = [
    Command(
        "crdt.conflicts",
        conflicts,
        arity=-2,
        flags="readonly",
        keys=keys_at(1, "RO access"),
        since="0.2.0",
        group="stream",
        summary="Returns what met in a key without having seen each other, as this region saw it, and the outcome.",
        syntax="key [SINCE cursor]",
    ),
]
