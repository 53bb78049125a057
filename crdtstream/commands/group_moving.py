"""CRDT.GROUP MOVE: another region delivers a group from now on.

The region that delivers stops, waits until nothing is pending, and tells in one batch what was acknowledged and which
region comes next. So a planned move with both ends up repeats nothing. With FORCE what is pending is left behind, and
comes again in the other region.
"""

from __future__ import annotations

from crdtstream.commands.delivery import live_pending
from crdtstream.commands.groups import existing_group
from crdtstream.commands.integers import integer
from crdtstream.commands.properties import known_region, require_properties_readable
from crdtstream.connections.client import Client
from crdtstream.connections.cluster import DeliveryPort
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, Waiter
from crdtstream.core.effects import Key
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import region_of
from crdtstream.protocols import replies

# How often it is looked whether the last entry was acknowledged, in milliseconds.
LOOK_AGAIN_MS = 20
SYNTAX = "ERR syntax error: CRDT.GROUP MOVE key group region [WAIT ms] [FORCE]"


class MoveOptions:
    """`[WAIT ms] [FORCE]`, in any order."""

    __slots__ = ("forced", "wait_ms")

    def __init__(self, argv: list[bytes]) -> None:
        self.wait_ms = 0
        self.forced = False
        at = 5
        while at < len(argv):
            word = argv[at].upper()
            if word == b"WAIT" and at + 1 < len(argv):
                self.wait_ms = integer(argv[at + 1], "ERR WAIT takes milliseconds, from 0")
                if self.wait_ms < 0:
                    raise CommandError("ERR WAIT takes milliseconds, from 0")
                at += 2
            elif word == b"FORCE":
                self.forced = True
                at += 1
            else:
                raise CommandError(SYNTAX)


class Move(Waiter):
    """A move that waits until nothing is pending. It is no wait for the key, whose readers come first."""

    def __init__(self, client: Client, key: Key, name: bytes, target: int, forced: bool, deadline_ms: int) -> None:
        super().__init__(client, [], deadline_ms)
        self.key = key
        self.name = name
        self.target = target
        self.forced = forced

    def serve(self, context: Context) -> bytes | None:
        delivery = port(context)
        stream = context.replica.keyspace.find(self.key)
        group = None if stream is None else stream.groups.get(self.name)
        if stream is None or group is None:
            delivery.moving.pop((self.key, self.name), None)
            raise CommandError("NOGROUP the group is gone: nothing was moved")
        if live_pending(stream, group):
            return None
        return self.finish(context, stream, group)

    def finish(self, context: Context, stream: Stream, group: Group) -> bytes:
        delivery = port(context)
        delivery.moving.pop((self.key, self.name), None)
        writers = delivery.writers_here(stream, group)
        context.replica.acknowledge_delivered(self.key, self.name)
        delivery.give(self.key, self.name, writers, self.target)
        return replies.OK

    def retry_ms(self, context: Context) -> int:
        return min(context.now_ms + LOOK_AGAIN_MS, self.end_ms)

    def expired(self, context: Context) -> bytes:
        port(context).moving.pop((self.key, self.name), None)
        stream = context.replica.keyspace.find(self.key)
        group = None if stream is None else stream.groups.get(self.name)
        if stream is None or group is None:
            return replies.error(b"NOGROUP the group is gone: nothing was moved")
        if self.forced:
            return self.finish(context, stream, group)
        return replies.error(still_pending(stream, group).encode())


def still_pending(stream: Stream, group: Group) -> str:
    count = live_pending(stream, group)
    entries = "entry is" if count == 1 else "entries are"
    return (
        f"ERR {count} {entries} pending, so the group was not moved: let consumers acknowledge, give WAIT"
        " milliseconds, or add FORCE, after which they come again in the other region"
    )


def port(context: Context) -> DeliveryPort:
    delivery = context.cluster.delivery
    assert delivery is not None, "a region has its port"
    return delivery


def move(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key, name = (client.database, argv[2]), argv[3]
    stream, group = existing_group(context, key, name)
    target, options = known_region(context, argv[4]), MoveOptions(argv)
    require_properties_readable(context)
    if group.rules.is_everywhere:
        raise CommandError("ERR every region delivers this group: choose one by CRDT.GROUP SET ... DELIVER OWNER")
    if not port(context).writers_here(stream, group):
        return moved_from_elsewhere(context, key, name, stream, group, target, options)
    waiting = port(context).awaited(group)
    if waiting and not options.forced:
        names = regions_shown(context, waiting)
        raise CommandError(f"ERR this region waits until it knows what region {names} did: try again, or add FORCE")
    if target == context.settings.config.region:
        return replies.OK
    moving = Move(client, key, name, target, options.forced, context.now_ms + options.wait_ms)
    return begin(context, moving, stream, group)


def begin(context: Context, moving: Move, stream: Stream, group: Group) -> Reply:
    if not live_pending(stream, group):
        return moving.finish(context, stream, group)
    if moving.end_ms > context.now_ms:
        port(context).moving[(moving.key, moving.name)] = moving
        moving.deadline_ms = moving.retry_ms(context)
        context.park(moving)
        return None
    if moving.forced:
        return moving.finish(context, stream, group)
    raise CommandError(still_pending(stream, group))


def moved_from_elsewhere(
    context: Context, key: Key, name: bytes, stream: Stream, group: Group, target: int, options: MoveOptions
) -> Reply:
    """Another region delivers. It alone can move the group without a repeat."""
    writers = sorted({0, *[region_of(origin) for origin in stream.trees]})
    holders = sorted({group.rules.deliverer(writer) for writer in writers} - {0})
    if not options.forced:
        names = regions_shown(context, holders)
        raise CommandError(
            f"ERR region {names} delivers this group: send the command there, or, if it cannot be reached, add FORCE,"
            " after which what it delivered and this region does not know to be acknowledged comes again"
        )
    port(context).give(key, name, writers, target)
    return replies.OK


def regions_shown(context: Context, regions: list[int]) -> str:
    neighbours = context.cluster.neighbours
    return " and ".join([f"{neighbours.name_of(region)} ({region})".lstrip() for region in regions])


COMMAND: Command = Command(
    "crdt.group|move",
    move,
    arity=-5,
    flags="write blocking",
    keys=keys_at(2, "RW update"),
    since="0.2.0",
    summary="Lets another region deliver a consumer group.",
    syntax="key group region [WAIT milliseconds#] [FORCE]",
    help=("MOVE <key> <groupname> <region> [WAIT <ms>] [FORCE]", "    Let another region deliver the group."),
)
