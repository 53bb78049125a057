"""CRDT.TOKEN and CRDT.AWAIT: a client that moves to another region finds there what it has seen and written here.

A token stands for everything that its region had applied when it was asked for (core/tokens.py), acknowledgements of
the same turn included. CRDT.AWAIT blocks as WAIT does, a timeout of 0 for ever, until its region has applied all that
the token stands for. In a region of several shards a token stands for one shard, and several are joined into one
text, of which a shard awaits its own. A text without one says nothing of this shard, where its client has then seen
nothing, so the reply is OK. Keys say which shard is meant, so that clients of a cluster find it.

What a token names may be lost: a region that loses power under `everysec` forgets what it wrote last. Its origin has
then ended below the counter in the token. That alone proves nothing, because an end only says what one other region
had, and the rest may still be on its way. So CRDT.AWAIT answers LOST once every member has applied that end, and none
of them has the effect.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.integers import deadline
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_from
from crdtstream.connections.context import CommandError, Context, Reply, Waiter
from crdtstream.core.tokens import (
    GARBLED,
    NEWER,
    OTHER_CLUSTER,
    OTHER_SUBJECT,
    Unreadable,
    decode_of_shard,
    encode_of_shard,
    session_rows,
)
from crdtstream.core.values.causality import Dot, VersionVector, origin_name, region_of
from crdtstream.protocols import replies

UNREADABLE: Final = {
    GARBLED: "ERR invalid token: it was changed, or CRDT.TOKEN did not reply it; get a new one from CRDT.TOKEN",
    NEWER: "ERR the token is of a newer release: update this region, or use the token in regions that were updated",
    OTHER_CLUSTER: "ERR the token is of another cluster: get one from CRDT.TOKEN in a region of this cluster",
    OTHER_SUBJECT: "ERR the token was changed, or is of a cluster with another number of shards: get one from"
    " CRDT.TOKEN in a region of this cluster",
}


class TokenWaiter(Waiter):
    """A client that waits until this region has applied what a token stands for."""

    def __init__(self, client: Client, wanted: VersionVector, deadline_ms: int) -> None:
        super().__init__(client, [], deadline_ms)
        self.wanted = wanted

    def serve(self, context: Context) -> bytes | None:
        if context.replica.applied.vector.descends(self.wanted):
            return replies.OK
        lost = lost_dot(context, self.wanted)
        if lost is None:
            return None
        origin, counter = lost
        raise CommandError(
            f"LOST no member has the write {origin_name(origin)}={counter} of region {region_of(origin)} that the token"
            " names: read what is there, and write again what is missing"
        )

    def expired(self, context: Context) -> bytes:
        return replies.null_bulk(self.client.protocol)


def lost_dot(context: Context, wanted: VersionVector) -> Dot | None:
    """The first dot among these that was lost."""
    vector, members = context.replica.applied.vector, context.replica.applied.members
    for origin, counter in wanted.items():
        if counter <= members.end_of(origin) or vector.contains(origin, counter):
            continue
        if all_lack(context, (origin, counter), members.evictions_of(origin)):
            return (origin, counter)
    return None


def all_lack(context: Context, dot: Dot, ends: list[Dot]) -> bool:
    """True if every other member has applied these ends, and none has the dot."""
    progress = context.cluster.progress
    for member in context.cluster.neighbours.counted():
        seen = progress.applied_of(member)
        if seen.contains(*dot) or progress.told_of(member).contains(*dot):
            return False
        for end in ends:
            if not seen.contains(*end):
                return False
    return True


def token(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.TOKEN [key ...]."""
    replica = context.replica
    # Acknowledgements become effects at the end of the turn; the token stands for them too.
    replica.acknowledge_all()
    rows = session_rows(replica.applied)
    return replies.bulk(encode_of_shard(context.settings.config.cluster, rows.items(), *place_of(context)))


def place_of(context: Context) -> tuple[int, int]:
    """Which shard this is, and of how many."""
    return (0, 1) if context.shards is None else (context.shards.own, len(context.shards.shards))


def await_token(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.AWAIT token ms [key ...]."""
    try:
        wanted = decode_of_shard(argv[1], context.settings.config.cluster, *place_of(context))
    except Unreadable as error:
        raise CommandError(UNREADABLE.get(error.reason, UNREADABLE[GARBLED])) from error
    waiter = TokenWaiter(client, wanted, deadline(argv[2], context.now_ms))
    reply = waiter.serve(context)
    if reply is None:
        context.park(waiter)
    return reply


COMMANDS: list[Command] = [
    Command(
        "crdt.token",
        token,
        arity=-1,
        flags="fast",
        keys=keys_from(1, "RO"),
        categories="connection",
        since="0.2.0",
        group="generic",
        summary="Returns a token of everything that this region has applied, for CRDT.AWAIT in another region.",
        syntax="[key...]",
    ),
    Command(
        "crdt.await",
        await_token,
        arity=-3,
        flags="blocking",
        keys=keys_from(3, "RO"),
        categories="connection",
        since="0.2.0",
        group="generic",
        summary="Blocks until this region has applied what a token stands for.",
        syntax="token timeout# [key...]",
    ),
]
