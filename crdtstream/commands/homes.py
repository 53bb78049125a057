"""CRDT.HOMES and CRDT.TAKEOVER: which region numbers the messages of each partitioned stream, and moving that here.

A home is moved away from a region that is gone for good or for long. If that region still serves, it goes on numbering
until it hears of the takeover; what it numbered meanwhile is numbered again here, so consumers may see it twice.
"""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.connections.cluster import Home
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.protocols import replies


def homes(context: Context, client: Client, argv: list[bytes]) -> Reply:
    port = context.cluster.homes
    return replies.array([home_row(row, client.protocol) for row in ([] if port is None else port.rows())])


def home_row(row: Home, protocol: int) -> bytes:
    items = [
        replies.bulk(b"stream"),
        replies.bulk(row.stream.encode()),
        replies.bulk(b"partitions"),
        replies.integer(row.partitions),
        replies.bulk(b"home"),
        replies.integer(row.region),
        replies.bulk(b"epoch"),
        replies.integer(row.epoch),
    ]
    return replies.mapping(items, protocol)


def take_over(context: Context, client: Client, argv: list[bytes]) -> Reply:
    port = context.cluster.homes
    reason = "this region has no partitioned streams" if port is None else port.move_here(argv[1])
    if reason:
        raise CommandError(f"ERR {reason}")
    return replies.OK


COMMANDS: list[Command] = [
    Command(
        "crdt.homes",
        homes,
        arity=1,
        flags="readonly loading",
        since="0.1.0",
        group="server",
        summary="Returns the partitioned streams, and the region that is the home of each.",
    ),
    Command(
        "crdt.takeover",
        take_over,
        arity=2,
        flags="write admin no_multi",
        since="0.1.0",
        group="server",
        summary="Makes this region the home of a partitioned stream.",
        syntax="stream",
    ),
]
