"""Consumer groups: their cursors, GetMessages through them, commits, heartbeats, and what a group looks like.

GetMessages keeps the order that OCI describes: rebalance, commit what the previous request returned, reply. What an
instance owns is decided at the home of the stream; messages are read in this region, from the partitions in turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import UUID

from crdtstream.oci.calls import NO_CONTENT, Call, Reply, model_reply
from crdtstream.oci.cursors import GroupCursor
from crdtstream.oci.errors import invalid, missing, too_many
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.limits import GET_BYTES_MAX, GET_MESSAGES_MAX, GETS_PER_S
from crdtstream.oci.messages import get_partition, message_of, messages_reply, time_given
from crdtstream.oci.models import (
    CreateGroupCursorDetails,
    CursorValue,
    Group,
    Message,
    PartitionReservation,
    UpdateGroupDetails,
)
from crdtstream.oci.times import rfc3339
from crdtstream.partitions.values import AT_TIME, LATEST, STARTS, Bookmark, Polled, Reservation

TIMEOUT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 300_000
NAME_BYTES_MAX: Final = 256
UUID_BYTES: Final = 16


async def create_group_cursor(gateway: Gateway, call: Call) -> Reply:
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


async def get_messages(gateway: Gateway, call: Call) -> Reply:
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


async def get_group_messages(gateway: Gateway, cursor: GroupCursor, name: str, limit: int) -> Reply:
    commit = cursor.commit_on_get and cursor.commit_read
    polled = await gateway.engine.poll(
        cursor.stream_id, cursor.group, cursor.instance, cursor.timeout_ms, cursor.bookmark, commit
    )
    reading = GroupRead(gateway, cursor, polled, name, limit)
    await reading.run()
    if polled.positions and not reading.tried:
        raise too_many(f"more than {GETS_PER_S} GetMessages a second for the partitions of a group: repeat it later")
    offsets = {**({} if commit else kept(cursor.bookmark, polled)), **reading.last}
    bookmark = Bookmark(polled.generation, polled.epoch, offsets)
    after = replace(cursor, bookmark=bookmark, turn=reading.turn, commit_read=bool(offsets))
    return messages_reply(reading.messages, await gateway.sealed(after))


def kept(bookmark: Bookmark, polled: Polled) -> dict[int, int]:
    """What was read before and is not committed, of the partitions that the instance still owns."""
    return {
        partition: polled.positions[partition] - 1
        for partition in sorted(bookmark.offsets)
        if polled.positions.get(partition, 0) > 0
    }


class GroupRead:
    """Reads owned partitions in turn, until there are enough messages: `last` is the last offset of each. The next
    read begins at `turn`, behind the partition at which this one ended.
    """

    def __init__(self, gateway: Gateway, cursor: GroupCursor, polled: Polled, name: str, limit: int) -> None:
        self._gateway = gateway
        self._cursor = cursor
        self._polled = polled
        self._name = name
        self._limit = limit
        self._bytes = GET_BYTES_MAX
        self.messages: list[Message] = []
        self.last: dict[int, int] = {}
        self.turn = cursor.turn
        self.tried = 0

    async def run(self) -> None:
        owned = sorted(self._polled.positions)
        for partition in [p for p in owned if p >= self._cursor.turn] + [p for p in owned if p < self._cursor.turn]:
            if self._limit <= 0 or self._bytes <= 0:
                break
            if self._allowed(partition):
                self.tried += 1
                await self._read(partition)

    def _allowed(self, partition: int) -> bool:
        now_ms = self._gateway.clock.now_ms()
        return self._gateway.quotas.allows_get(self._cursor.stream_id, partition, self._cursor.group, now_ms)

    async def _read(self, partition: int) -> None:
        first = self._polled.positions[partition]
        # The bookmark keeps the epoch of the poll: it is not above the one that these are read under.
        read, _ = await self._gateway.engine.read(
            self._cursor.stream_id, partition, first, self._polled.epoch, self._limit, self._bytes
        )
        if not read:
            return
        self.messages += [message_of(self._name, partition, message) for message in read]
        self.last[partition] = read[-1].offset
        self.turn = partition + 1
        self._limit -= len(read)
        self._bytes -= sum(len(message.key or b"") + len(message.value) for message in read)


# Commits and heartbeats


async def consumer_commit(gateway: Gateway, call: Call) -> Reply:
    cursor = group_cursor(gateway, call)
    bookmark = await gateway.engine.commit(
        cursor.stream_id, cursor.group, cursor.instance, cursor.timeout_ms, cursor.bookmark
    )
    return await updated(gateway, replace(cursor, bookmark=bookmark, commit_read=False))


async def consumer_heartbeat(gateway: Gateway, call: Call) -> Reply:
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


async def updated(gateway: Gateway, cursor: GroupCursor) -> Reply:
    return model_reply(CursorValue(value=await gateway.sealed(cursor)))


# The group as a whole


async def get_group(gateway: Gateway, call: Call) -> Reply:
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


async def update_group(gateway: Gateway, call: Call) -> Reply:
    stream_id = gateway.registry.served(call.path["streamId"]).id
    details = call.parsed(UpdateGroupDetails)
    start, time_ms = start_given(gateway, type_meant(details), details.time)
    await gateway.engine.reset_group(stream_id, call.path["groupName"], start, time_ms)
    return Reply(status=NO_CONTENT)


def type_meant(details: UpdateGroupDetails) -> str:
    """The service takes a time alone for AT_TIME."""
    if details.type is not None:
        return details.type
    if details.time is None:
        raise missing(f"type is required: one of {', '.join(STARTS)}; or a time")
    return AT_TIME
