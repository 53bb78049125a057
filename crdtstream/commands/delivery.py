"""Groups that one region delivers at a time, and one consumer at a time, as commands that read and claim see them."""

from __future__ import annotations

from typing import Final

from crdtstream.connections.context import CommandError, Context
from crdtstream.core.effects import Key
from crdtstream.core.groups.delivery import Delivery
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import DEADLETTER, MAXDELIVERIES
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import region_of
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN
from crdtstream.core.values.origin_intervals import NOTHING
from crdtstream.protocols import replies

NO_DELIVERY: Final = Delivery(0, [], NOTHING, [])


def look(context: Context, key: Key, name: bytes, stream: Stream, group: Group, for_new: bool) -> None:
    """Withhold what another region delivers; `for_new`: a consumer asks for new entries."""
    delivery = context.cluster.delivery
    if delivery is None or (group.rules.is_everywhere and not group.withheld and not group.rules.ordered):
        return
    if for_new:
        delivery.read(key, name, stream, group)
    else:
        delivery.look(stream, group)


def may_read(context: Context, key: Key, name: bytes, stream: Stream, group: Group, consumer: bytes) -> bool:
    """True if this consumer may get new entries: the group does not move, and in order nobody else holds any."""
    delivery = context.cluster.delivery
    if delivery is not None and delivery.is_moving(key, name):
        return False
    return not (group.rules.ordered and is_held_by_others(stream, group, consumer))


def is_held_by_others(stream: Stream, group: Group, consumer: bytes) -> bool:
    """True if an entry that lives, and comes from nowhere else, is pending at another consumer."""
    others = [name for name, count in group.pending.consumers_with_counts() if count and name != consumer]
    rows = [row for name in others for row in group.pending.rows(ID_MIN, ID_MAX, -1, name)]
    return any(stream.holds(row.origin, row.entry_id) for row in rows if not group.withholds(row.origin))


def claimable(stream: Stream, group: Group) -> int:
    """How many entries that live are pending here, and are delivered by no other region now."""
    rows = [row for row in group.pending.rows(ID_MIN, ID_MAX, -1, None) if not group.withholds(row.origin)]
    stream.demand([row.entry_id for row in rows])
    return sum([stream.holds(row.origin, row.entry_id) for row in rows])


def live_pending(stream: Stream, group: Group) -> int:
    """How many entries that live are pending here."""
    rows = group.pending.rows(ID_MIN, ID_MAX, -1, None)
    return sum([stream.holds(row.origin, row.entry_id) for row in rows])


def require_delivered_here(context: Context, stream: Stream, group: Group) -> None:
    """Raise if a position that only this region knows would be of no use, because another one delivers."""
    delivery = context.cluster.delivery
    if delivery is None or group.rules.is_everywhere:
        return
    delivery.look(stream, group)
    if group.withheld:
        raise CommandError(
            "ERR another region delivers this group (CRDT.GROUP GET shows which): send the command there, or CRDT.GROUP"
            " MOVE the group here first"
        )


def limits_of(group: Group) -> list[tuple[bytes, bytes]]:
    """How often an entry is delivered, and where it goes then, if that is set."""
    rules = group.rules
    if not rules.dead_letters:
        return []
    return [(MAXDELIVERIES, replies.integer(rules.deliveries_max)), (DEADLETTER, replies.bulk(rules.dead_letters))]


def delivery_of(context: Context, stream: Stream, group: Group) -> list[tuple[bytes, bytes]]:
    """Which region delivers what each one wrote, and why a reader here waits."""
    delivery = context.cluster.delivery
    if delivery is None or group.rules.is_everywhere:
        return []
    delivery.look(stream, group)
    writers = sorted({region_of(origin) for origin in stream.trees})
    pairs = [replies.integer(number) for writer in writers for number in (writer, group.rules.deliverer(writer))]
    awaited = [replies.integer(region) for region in delivery.awaited(group)]
    return [(b"delivers", replies.array(pairs)), (b"awaits", replies.array(awaited))]
