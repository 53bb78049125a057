"""Consumer groups: their cursors, GetMessages through them, commits, heartbeats, and what a group looks like.

GetMessages keeps the order that OCI describes: rebalance, commit what the previous request returned, reply. What an
instance owns is decided at the home of the stream; messages are read in this region, from the partitions in turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import UUID

from crdtstream.oci.calls import NO_CONTENT, Call, GatewayReply, model_reply
from crdtstream.oci.cursors import GroupCursor
from crdtstream.oci.errors import invalid, missing, too_many
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.limits import GET_BYTES_MAX, GET_MESSAGES_MAX, GETS_PER_S
from crdtstream.oci.messages import get_partition, message_of, messages_reply, moved_headers, time_given
from crdtstream.oci.models import (
    CreateGroupCursorDetails,
    CursorValue,
    Group,
    PartitionReservation,
    UpdateGroupDetails,
)
from crdtstream.oci.times import rfc3339
from crdtstream.partitions.values import AT_TIME, LATEST, STARTS, Bookmark, Polled, Reservation

TIMEOUT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 300_000
NAME_BYTES_MAX: Final = 256
UUID_BYTES: Final = 16


async def create_group_cursor(gateway: Gateway, call: Call) -> GatewayReply:
    stream_id = gateway.registry.served(call.path["streamId"]).id
    details = call.parsed(CreateGroupCursorDetails)
    start, time_ms = start_given(gateway, details.type, details.time)
    group = name_given("groupName", details.group_name)
    instance = details.instance_name
    instance = str(UUID(bytes=gateway.random_bytes(UUID_BYTES), version=4)) if instance is None else instance
    name_given("instanceName", instance)
    timeout_ms = timeout_given(details.timeout_in_ms)
    bookmark = await gateway.engine.join_group(stream_id, group, start, time_ms, gateway.quotas.groups_max)
    commit_on_get = details.commit_on_get is not False
    cursor = GroupCursor(stream_id, group, instance, timeout_ms, commit_on_get, bookmark)
    return model_reply(CursorValue(value=await gateway.sealed(cursor)))


def start_given(gateway: Gateway, start: str, time: str | None) -> tuple[str, int]:
    """Where to begin, and the time that belongs to it: for LATEST it is now."""
    if start not in STARTS:
        raise invalid(f"type {start!r} must be one of {', '.join(STARTS)}")
    if start == AT_TIME:
        return start, time_given(time)
    return start, gateway.clock.now_ms() if start == LATEST else 0


def name_given(field: str, name: str) -> str:
    size = len(name.encode())
    if not 1 <= size <= NAME_BYTES_MAX:
        raise invalid(f"{field} must have 1 to {NAME_BYTES_MAX} bytes, not {size}")
    return name


def timeout_given(timeout_ms: int | None) -> int:
    if timeout_ms is None:
        return TIMEOUT_MS
    if not 1 <= timeout_ms <= TIMEOUT_MS_MAX:
        raise invalid(f"timeoutInMs {timeout_ms} must be from 1 to {TIMEOUT_MS_MAX}")
    return timeout_ms


# Get


async def get_messages(gateway: Gateway, call: Call) -> GatewayReply:
    record = gateway.registry.served(call.path["streamId"])
    cursor = gateway.opened(call.asked("cursor"))
    require_own(cursor.stream_id, record.id)
    limit = call.number("limit", GET_MESSAGES_MAX, GET_MESSAGES_MAX)
    if isinstance(cursor, GroupCursor):
        return await get_group_messages(gateway, cursor, record.name, limit)
    return await get_partition(gateway, cursor, record.name, limit)


def require_own(stream_id: str, wanted: str) -> None:
    if stream_id != wanted:
        raise invalid(f"the cursor belongs to the stream {stream_id}, not {wanted}: create one for this stream")


async def get_group_messages(gateway: Gateway, cursor: GroupCursor, name: str, limit: int) -> GatewayReply:
    commit = cursor.commit_on_get and cursor.commit_read
    polled = await gateway.engine.poll(
        cursor.stream_id, cursor.group, cursor.instance, cursor.timeout_ms, cursor.bookmark, commit
    )
    order = allowed(gateway, cursor, polled)
    if polled.positions and not order:
        raise too_many(f"more than {GETS_PER_S} GetMessages a second for the partitions of a group: repeat it later")
    read, bookmark = await gateway.engine.read_polled(
        cursor.stream_id, polled, cursor.bookmark, order, limit, GET_BYTES_MAX
    )
    turn = read[-1][0] + 1 if read else cursor.turn
    after = replace(cursor, bookmark=bookmark, turn=turn, commit_read=bool(bookmark.offsets))
    messages = [message_of(name, partition, message) for partition, message in read]
    headers = moved_headers(bookmark.epoch, moved_back(cursor.bookmark, bookmark, polled))
    return messages_reply(gateway, messages, await gateway.sealed(after), headers)


def moved_back(before: Bookmark, after: Bookmark, polled: Polled) -> dict[int, int]:
    """The partitions that are read again from these offsets on, because the home has changed since the last read."""
    if before.epoch == after.epoch:
        return {}
    return {
        at: polled.positions[at] for at, read in before.offsets.items() if polled.positions.get(at, read + 1) <= read
    }


def allowed(gateway: Gateway, cursor: GroupCursor, polled: Polled) -> list[int]:
    """The partitions to read, from the cursor's turn on and round; without those that were read too often."""
    now_ms, quotas = gateway.clock.now_ms(), gateway.quotas
    owned = sorted(polled.positions)
    turned = [at for at in owned if at >= cursor.turn] + [at for at in owned if at < cursor.turn]
    return [at for at in turned if quotas.allows_get(cursor.stream_id, at, cursor.group, now_ms)]


# Commits and heartbeats


async def consumer_commit(gateway: Gateway, call: Call) -> GatewayReply:
    cursor = group_cursor(gateway, call)
    bookmark = await gateway.engine.commit(
        cursor.stream_id, cursor.group, cursor.instance, cursor.timeout_ms, cursor.bookmark
    )
    return await updated(gateway, replace(cursor, bookmark=bookmark, commit_read=False))


async def consumer_heartbeat(gateway: Gateway, call: Call) -> GatewayReply:
    cursor = group_cursor(gateway, call)
    bookmark = await gateway.engine.heartbeat(
        cursor.stream_id, cursor.group, cursor.instance, cursor.timeout_ms, cursor.bookmark
    )
    return await updated(gateway, replace(cursor, bookmark=bookmark))


def group_cursor(gateway: Gateway, call: Call) -> GroupCursor:
    """Raises OciError."""
    record = gateway.registry.served(call.path["streamId"])
    cursor = gateway.opened(call.asked("cursor"))
    require_own(cursor.stream_id, record.id)
    if not isinstance(cursor, GroupCursor):
        raise invalid("the cursor reads a partition and belongs to no group: use one of CreateGroupCursor")
    return cursor


async def updated(gateway: Gateway, cursor: GroupCursor) -> GatewayReply:
    return model_reply(CursorValue(value=await gateway.sealed(cursor)))


# The group as a whole


async def get_group(gateway: Gateway, call: Call) -> GatewayReply:
    stream_id = gateway.registry.served(call.path["streamId"]).id
    group = call.path["groupName"]
    rows = [reservation(row) for row in await gateway.engine.group(stream_id, group)]
    return model_reply(Group(stream_id=stream_id, group_name=group, reservations=rows))


def reservation(row: Reservation) -> PartitionReservation:
    return PartitionReservation(
        partition=str(row.partition),
        committed_offset=row.committed,
        reserved_instance=row.instance or None,
        time_reserved_until=rfc3339(row.until_ms) if row.instance else None,
    )


async def update_group(gateway: Gateway, call: Call) -> GatewayReply:
    stream_id = gateway.registry.served(call.path["streamId"]).id
    details = call.parsed(UpdateGroupDetails)
    start, time_ms = start_given(gateway, type_meant(details), details.time)
    await gateway.engine.reset_group(stream_id, call.path["groupName"], start, time_ms)
    return GatewayReply(status=NO_CONTENT)


def type_meant(details: UpdateGroupDetails) -> str:
    """The service takes a time alone for AT_TIME."""
    if details.type is not None:
        return details.type
    if details.time is None:
        raise missing(f"type is required: one of {', '.join(STARTS)}; or a time")
    return AT_TIME
