"""CRDT.GROUP MOVE: another region delivers a group from now on.

The region that delivers stops, waits until nothing is pending, and tells in one batch what was acknowledged and which
region comes next. So a planned move with both ends up repeats nothing. With FORCE what is pending is left behind, and
comes again in the other region. Sent to another region, the move is forwarded to the one that delivers.
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
from crdtstream.connections.moves import MOVED, REFUSED, UNANSWERED, UNREAD, MoveAnswer, MoveOrder
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import region_of
from crdtstream.protocols import replies

# How often it is looked whether the last entry was acknowledged, in milliseconds.
LOOK_AGAIN_MS = 20
SYNTAX = "ERR syntax error: CRDT.GROUP MOVE key group region [WAIT ms] [FORCE]"
GONE = "NOGROUP the group is gone: nothing was moved"
AFTER_FORCE = "add FORCE, after which what it delivered and this region does not know to be acknowledged comes again"


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


# At the region that delivers


def start_move(context: Context, order: MoveOrder) -> bool:
    """Make the move, if nothing is pending or it may not wait; false if it is to wait. Raises if it is refused."""
    stream, group = existing_group(context, order.key, order.group)
    require_properties_readable(context)
    require_movable(context, group)
    delivery = port(context)
    if not delivery.writers_here(stream, group):
        raise CommandError("ERR another region has delivered this group since: send the command again")
    if not order.forced:
        require_heard(context, group)
    if delivery.is_moving(order.key, order.group):
        raise CommandError("ERR another move of this group waits: try again when it has ended")
    if order.target == context.settings.config.region:
        return True
    if live_pending(stream, group) and order.wait_ms:
        return False
    end_move(context, order)
    return True


def try_move(context: Context, order: MoveOrder) -> bool:
    """Make the move that has waited, if nothing is pending any more."""
    stream, group = moved_group(context, order)
    if live_pending(stream, group) or context.standing.refusal(True, False):
        return False
    if not order.forced and port(context).awaited(group):
        return False
    hand_over(context, order, stream, group)
    return True


def end_move(context: Context, order: MoveOrder) -> None:
    """Make the move, or raise: its time is over."""
    stream, group = moved_group(context, order)
    refused = context.standing.refusal(True, False)
    if refused:
        raise CommandError(refused)
    if not order.forced:
        require_heard(context, group)
        if live_pending(stream, group):
            raise CommandError(still_pending(stream, group))
    hand_over(context, order, stream, group)


def moved_group(context: Context, order: MoveOrder) -> tuple[Stream, Group]:
    stream = context.replica.keyspace.find(order.key)
    group = None if stream is None else stream.groups.get(order.group)
    if stream is None or group is None:
        raise CommandError(GONE)
    require_movable(context, group)
    if not port(context).writers_here(stream, group):
        raise CommandError("ERR another region has taken the group over meanwhile: nothing was moved")
    return stream, group


def hand_over(context: Context, order: MoveOrder, stream: Stream, group: Group) -> None:
    writers = port(context).writers_here(stream, group)
    context.replica.acknowledge_delivered(order.key, order.group)
    port(context).give(order.key, order.group, writers, order.target)


def still_pending(stream: Stream, group: Group) -> str:
    count = live_pending(stream, group)
    entries = "entry is" if count == 1 else "entries are"
    return (
        f"ERR {count} {entries} pending, so the group was not moved: let consumers acknowledge, give WAIT"
        " milliseconds, or add FORCE, after which they come again in the other region"
    )


class Move(Waiter):
    """A move that waits until nothing is pending. It is no wait for the key, whose readers come first."""

    def __init__(self, client: Client, order: MoveOrder, deadline_ms: int) -> None:
        super().__init__(client, [], deadline_ms)
        self.order = order

    def serve(self, context: Context) -> bytes | None:
        try:
            if not try_move(context, self.order):
                return None
        except CommandError:
            port(context).stop_moving(self.order)
            raise
        port(context).stop_moving(self.order)
        return replies.OK

    def retry_ms(self, context: Context) -> int:
        return min(context.now_ms + LOOK_AGAIN_MS, self.end_ms)

    def expired(self, context: Context) -> bytes:
        reply = replies.OK
        try:
            end_move(context, self.order)
        except CommandError as error:
            reply = replies.error(error.text.encode())
        # At last: blocks may have to be read first, and this is done again.
        port(context).stop_moving(self.order)
        return reply


# Elsewhere


class ForwardedMove(Waiter):
    """A move that the region that delivers was asked for. This region waits longer for the answer than that one waits
    until nothing is pending.
    """

    def __init__(self, client: Client, order: MoveOrder, holder: int, deadline_ms: int) -> None:
        super().__init__(client, [], deadline_ms)
        self.order = order
        self.holder = holder
        self.number = 0

    def serve(self, context: Context) -> bytes | None:
        answer = port(context).answer_to(self.number)
        return None if answer is None else self.reply_of(context, answer)

    def expired(self, context: Context) -> bytes:
        try:
            return self.reply_of(context, MoveAnswer(UNANSWERED))
        except CommandError as error:
            return replies.error(error.text.encode())

    def reply_of(self, context: Context, answer: MoveAnswer) -> bytes:
        if answer.kind == MOVED:
            return replies.OK
        if answer.kind == REFUSED:
            raise CommandError(answer.text)
        name = regions_shown(context, [self.holder])
        if answer.kind == UNREAD:
            raise CommandError(
                f"ERR region {name} delivers this group and makes no move for another region ({answer.text}): send the"
                " command there"
            )
        if self.order.forced:
            give_from_elsewhere(context, self.order)
            return replies.OK
        raise CommandError(
            f"ERR region {name} delivers this group and did not answer: nobody here knows whether it was moved; see"
            f" CRDT.GROUP GET, and try again, or {AFTER_FORCE}"
        )


def move_from_elsewhere(
    context: Context, client: Client, order: MoveOrder, stream: Stream, group: Group
) -> bytes | None:
    """Another region delivers. It alone can move the group without a repeat, so it is asked to."""
    holders = holders_of(stream, group)
    names = regions_shown(context, holders)
    if len(holders) == 1 and port(context).can_ask(holders[0], order):
        if context.replica.budget.whole:
            raise CommandError(f"ERR region {names} delivers this group: send the command there, or outside of MULTI")
        end_ms = context.now_ms + order.wait_ms + context.limits.forward_timeout_ms
        waiter = ForwardedMove(client, order, holders[0], end_ms)
        context.park(waiter)
        waiter.number = port(context).ask(holders[0], order, waiter)
        return None
    if order.forced:
        give_from_elsewhere(context, order)
        return replies.OK
    if len(holders) > 1:
        raise CommandError(
            f"ERR regions {names} deliver this group: send the command to each of them, or {AFTER_FORCE}"
        )
    raise CommandError(
        f"ERR region {names} delivers this group and cannot be reached: try again when it is linked, or {AFTER_FORCE}"
    )


def holders_of(stream: Stream, group: Group) -> list[int]:
    """The regions that deliver."""
    return sorted({group.rules.deliverer(writer) for writer in writers_of(stream)} - {0})


def writers_of(stream: Stream) -> list[int]:
    return sorted({0, *[region_of(origin) for origin in stream.trees]})


def give_from_elsewhere(context: Context, order: MoveOrder) -> None:
    """Write the records, whatever the region that delivers does meanwhile."""
    stream, _ = existing_group(context, order.key, order.group)
    refused = context.standing.refusal(True, False)
    if refused:
        raise CommandError(refused)
    port(context).give(order.key, order.group, writers_of(stream), order.target)


# The command


def port(context: Context) -> DeliveryPort:
    delivery = context.cluster.delivery
    assert delivery is not None, "a region has its port"
    return delivery


def require_movable(context: Context, group: Group) -> None:
    if group.rules.is_everywhere:
        raise CommandError("ERR every region delivers this group: choose one by CRDT.GROUP SET ... DELIVER OWNER")


def require_heard(context: Context, group: Group) -> None:
    """Raise if this region does not know yet what others did: after a pause, one of them may have taken over."""
    waiting = port(context).awaited(group)
    if waiting:
        names = regions_shown(context, waiting)
        raise CommandError(
            f"ERR the region that delivers waits until it knows what region {names} did: try again, or add FORCE"
        )


def move(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key, name = (client.database, argv[2]), argv[3]
    stream, group = existing_group(context, key, name)
    target, options = known_region(context, argv[4]), MoveOptions(argv)
    require_properties_readable(context)
    require_movable(context, group)
    order = MoveOrder(key, name, target, options.wait_ms, options.forced)
    if not port(context).writers_here(stream, group):
        return move_from_elsewhere(context, client, order, stream, group)
    if start_move(context, order):
        return replies.OK
    waiter = Move(client, order, context.now_ms + order.wait_ms)
    waiter.deadline_ms = waiter.retry_ms(context)
    context.park(waiter)
    port(context).start_moving(order, waiter)
    return None


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
