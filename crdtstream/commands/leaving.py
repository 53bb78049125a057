"""CRDT.LEAVE: this region leaves the cluster, and its process stops.

The reply says how far that is, at once: `state` (see docs/states.md), and `lacking`, the regions that do not have
everything on disk yet, each with the number of effects that it lacks. A repetition changes nothing and says how far it
is, as STATUS does without beginning. ABORT takes writes again, until a peer has been asked to end the membership.

Clients that wait for something to write, as in XREADGROUP, are unblocked with an error.
"""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.connections.cluster import LeavingPort
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.protocols import replies

SYNTAX = "ERR syntax error: CRDT.LEAVE [STATUS | ABORT]"


def leave(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.LEAVE [STATUS | ABORT]."""
    leaving = context.cluster.leaving
    if leaving is None:
        raise CommandError("ERR this region belongs to no cluster, so there is nothing to leave")
    word = argv[1].upper() if len(argv) == 2 else b""
    if len(argv) > 2 or (len(argv) == 2 and word not in (b"STATUS", b"ABORT")):
        raise CommandError(SYNTAX)
    reason = ""
    if word == b"ABORT":
        reason = leaving.abort()
    elif not word:
        reason = leaving.begin()
    if reason:
        raise CommandError(f"ERR {reason}")
    if not word:
        unblock_writers(context)
    return status(leaving, client.protocol)


def unblock_writers(context: Context) -> None:
    # The requests that it stopped are answered as any write is from now on.
    context.pause.end()
    for waiter in context.parking.all():
        if waiter.client.command is not None and waiter.client.command.writes:
            context.unpark(waiter.client)
            text = f"READONLY {context.standing.departing}"
            context.outbox.append((waiter.client, replies.error(text.encode())))


def status(leaving: LeavingPort, protocol: int) -> bytes:
    rows: list[bytes] = []
    for name, region, effects in leaving.lack():
        row = [
            replies.bulk(b"region"),
            replies.integer(region),
            replies.bulk(b"name"),
            replies.bulk(name.encode()),
            replies.bulk(b"effects"),
            replies.integer(effects),
        ]
        rows.append(replies.mapping(row, protocol))
    items = [
        replies.bulk(b"state"),
        replies.bulk(leaving.step.encode()),
        replies.bulk(b"lacking"),
        replies.array(rows),
    ]
    return replies.mapping(items, protocol)


COMMANDS: list[Command] = [
    Command(
        "crdt.leave",
        leave,
        arity=-1,
        flags="admin no_multi",
        since="0.1.0",
        group="server",
        summary="Hands over what this region has, ends its membership of the cluster, and stops it.",
        syntax="[action:<STATUS | ABORT>]",
    ),
]
