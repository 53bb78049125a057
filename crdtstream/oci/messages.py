"""PutMessages, CreateCursor, and GetMessages with a cursor of one partition.

The same key always leads to the same partition; a message without a key gets a random one for that purpose alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Final

from crdtstream.core.values.causality import origin_name
from crdtstream.oci.calls import Call, GatewayReply, model_reply
from crdtstream.oci.cursors import PartitionCursor
from crdtstream.oci.errors import (
    TOO_MANY_CODE,
    UNAVAILABLE_CODE,
    OciError,
    invalid,
    missing,
    too_many,
    unknown,
)
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.limits import (
    GET_BYTES_MAX,
    GETS_PER_S,
    KEY_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    REQUEST_BYTES_MAX,
    WRITE_BYTES_PER_S,
)
from crdtstream.oci.models import (
    MESSAGES,
    CreateCursorDetails,
    CursorValue,
    Message,
    NewEntry,
    PutEntry,
    PutMessagesDetails,
    PutMessagesResult,
)
from crdtstream.oci.times import milliseconds, rfc3339
from crdtstream.partitions import values
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.values import NewMessage, Refused, Stamp

NULL_KEY_BYTES: Final = 16
NEXT_CURSOR: Final = "opc-next-cursor"
# Not of the service's: no SDK needs them.
EPOCH: Final = "crdtstream-epoch"
MOVED_BACK: Final = "crdtstream-moved-back"
AT_OFFSET: Final = "AT_OFFSET"
AFTER_OFFSET: Final = "AFTER_OFFSET"
CURSOR_TYPES: Final = (AFTER_OFFSET, AT_OFFSET, values.AT_TIME, values.LATEST, values.TRIM_HORIZON)
THROTTLED: Final = f"the partition takes {WRITE_BYTES_PER_S} bytes a second: send the message again later"


# Put


async def put_messages(gateway: Gateway, call: Call) -> GatewayReply:
    stream_id = gateway.registry.served(call.path["streamId"]).id
    entries = call.parsed(PutMessagesDetails).messages
    if not entries:
        raise invalid("messages is empty: send at least one message")
    spec = gateway.engine.spec(stream_id)
    if spec is None:
        raise unknown("stream", stream_id)
    messages = [decoded(gateway, at, entry, spec.partitions) for at, entry in enumerate(entries)]
    results = refused_by_limits(gateway, stream_id, messages)
    accepted = [at for at in range(len(messages)) if at not in results]
    if accepted:
        stored = await put(gateway, stream_id, [messages[at] for at in accepted])
        results.update(zip(accepted, stored, strict=True))
    ordered = [results[at] for at in range(len(messages))]
    gateway.usage.record_put(one.error for one in ordered)
    result = PutMessagesResult(failures=sum(1 for one in ordered if one.error), entries=ordered)
    return model_reply(result, **epoch_headers(gateway, stream_id))


def decoded(gateway: Gateway, at: int, entry: NewEntry, partitions: int) -> NewMessage:
    key = None if entry.key is None else from_base64(entry.key, f"messages.{at}.key")
    value = from_base64(entry.value, f"messages.{at}.value")
    # Drawn, not dealt in turn: OCI hashes a random key too.
    hashed = gateway.random_bytes(NULL_KEY_BYTES) if key is None else key
    return NewMessage(partition_of(hashed, partitions), key, value)


def partition_of(key: bytes, partitions: int) -> int:
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % partitions


def from_base64(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{name} is not base64: encode it in the standard alphabet, with padding") from error


def refused_by_limits(gateway: Gateway, stream_id: str, messages: list[NewMessage]) -> dict[int, PutEntry]:
    """Failed messages by their place; raises OciError if the request itself is too large."""
    if not gateway.quotas.real:
        return {}
    found = {at: complaint for at, message in enumerate(messages) if (complaint := oversize(message))}
    total = sum(size_of(message) for at, message in enumerate(messages) if at not in found)
    if total > REQUEST_BYTES_MAX:
        raise invalid(
            f"keys and values have {total} bytes together, more than {REQUEST_BYTES_MAX}: send fewer messages"
        )
    now_ms = gateway.clock.now_ms()
    for at, message in enumerate(messages):
        if at not in found and not gateway.quotas.allows_write(stream_id, message.partition, size_of(message), now_ms):
            found[at] = PutEntry(error=TOO_MANY_CODE, error_message=THROTTLED)
    return found


def oversize(message: NewMessage) -> PutEntry | None:
    for name, data, most in (("key", message.key or b"", KEY_BYTES_MAX), ("value", message.value, MESSAGE_BYTES_MAX)):
        if len(data) > most:
            text = f"the {name} has {len(data)} bytes, more than {most}: make it shorter"
            return PutEntry(error="InvalidParameter", error_message=text)
    return None


def size_of(message: NewMessage) -> int:
    return len(message.key or b"") + len(message.value)


async def put(gateway: Gateway, stream_id: str, messages: list[NewMessage]) -> list[PutEntry]:
    """One entry for each message; while the home of the stream cannot take them, all fail and may be sent again."""
    try:
        return [stored(stamp) for stamp in await gateway.engine.put(stream_id, messages)]
    except Refused as refusal:
        if refusal.code not in values.RETRYABLE:
            raise
        return [PutEntry(error=UNAVAILABLE_CODE, error_message=refusal.text)] * len(messages)


def stored(stamp: Stamp) -> PutEntry:
    return PutEntry(partition=str(stamp.partition), offset=stamp.offset, timestamp=rfc3339(stamp.time_ms))


# Cursors


async def create_cursor(gateway: Gateway, call: Call) -> GatewayReply:
    stream_id = gateway.registry.served(call.path["streamId"]).id
    details = call.parsed(CreateCursorDetails)
    partition = partition_named(gateway, stream_id, details.partition)
    cursor = await cursor_at(gateway, stream_id, partition, details)
    headers = epoch_headers(gateway, stream_id)
    return model_reply(CursorValue(value=await gateway.sealed(cursor)), **headers)


def partition_named(gateway: Gateway, stream_id: str, name: str) -> int:
    spec = gateway.engine.spec(stream_id)
    partitions = spec.partitions if spec else 0
    if not (name.isascii() and name.isdigit() and len(name) < 10 and int(name) < partitions):
        raise invalid(f'partition {name!r} is not one of this stream: it has "0" to "{partitions - 1}"')
    return int(name)


async def cursor_at(gateway: Gateway, stream_id: str, partition: int, details: CreateCursorDetails) -> PartitionCursor:
    engine = gateway.engine
    epoch = engine.epoch(stream_id)
    oldest, following = engine.bounds(stream_id, partition)
    if details.type == values.TRIM_HORIZON:
        return PartitionCursor(stream_id, partition, oldest, epoch)
    if details.type == values.LATEST:
        return PartitionCursor(stream_id, partition, following, epoch)
    if details.type == values.AT_TIME:
        return PartitionCursor(stream_id, partition, None, epoch, time_given(details.time))
    if details.type not in CURSOR_TYPES:
        raise invalid(f"type {details.type!r} must be one of {', '.join(CURSOR_TYPES)}")
    offset = offset_given(details, oldest)
    found = epoch if offset < following else await engine.locate(stream_id, partition, offset)
    if found is None:
        raise no_such_offset(details, offset, oldest, following)
    return PartitionCursor(stream_id, partition, offset + (details.type == AFTER_OFFSET), found)


def time_given(time: str | None) -> int:
    if time is None:
        raise missing("time is required where the type is AT_TIME")
    return milliseconds(time, "time")


def offset_given(details: CreateCursorDetails, oldest: int) -> int:
    if details.offset is None:
        raise missing(f"offset is required where the type is {details.type}")
    if details.offset < oldest:
        raise invalid(f"offset {details.offset} is gone: partition {details.partition} begins at {oldest}")
    return details.offset


def no_such_offset(details: CreateCursorDetails, offset: int, oldest: int, following: int) -> OciError:
    present = f"from {oldest} to {following - 1}" if oldest < following else "none: it is empty"
    return invalid(f"offset {offset} is not in partition {details.partition}, whose offsets are {present}")


# Epochs


def epoch_headers(gateway: Gateway, stream_id: str) -> dict[str, str]:
    """Names the epoch under which this region reads: a different epoch means that the home has changed."""
    return {EPOCH: epoch_name(gateway.engine.epoch(stream_id))}


def epoch_name(epoch: Epoch) -> str:
    number, origin = epoch
    return f"{number}-{origin_name(origin)}"


def moved_headers(epoch: Epoch, moved: dict[int, int]) -> dict[str, str]:
    """The epoch that these messages were read under, and the offsets at which partitions are read once more, because
    a change of the home has taken the client back.
    """
    back = ",".join(f"{partition}:{moved[partition]}" for partition in sorted(moved))
    return {EPOCH: epoch_name(epoch), **({MOVED_BACK: back} if moved else {})}


# Get


async def get_partition(gateway: Gateway, cursor: PartitionCursor, name: str, limit: int) -> GatewayReply:
    if not gateway.quotas.allows_get(cursor.stream_id, cursor.partition, "", gateway.clock.now_ms()):
        raise too_many(f"more than {GETS_PER_S} GetMessages a second for partition {cursor.partition}: repeat it later")
    first, epoch = await standing(gateway, cursor)
    read, read_under = await gateway.engine.read(cursor.stream_id, cursor.partition, first, epoch, limit, GET_BYTES_MAX)
    # Without messages nothing moves: the cursor's time, or its epoch, may still be to come.
    after = PartitionCursor(cursor.stream_id, cursor.partition, read[-1].offset + 1, read_under) if read else cursor
    shown = [message_of(name, cursor.partition, message) for message in read]
    moved = {cursor.partition: read[0].offset} if read and read[0].offset < first else {}
    return messages_reply(gateway, shown, await gateway.sealed(after), moved_headers(read_under, moved))


async def standing(gateway: Gateway, cursor: PartitionCursor) -> tuple[int, Epoch]:
    """The next offset, and the epoch that it was reached under."""
    if cursor.next_offset is not None:
        return cursor.next_offset, cursor.epoch
    engine = gateway.engine
    offset = await engine.offset_at(cursor.stream_id, cursor.partition, cursor.time_ms)
    return offset, engine.epoch(cursor.stream_id)


def message_of(name: str, partition: int, message: values.PartitionMessage) -> Message:
    return Message.model_construct(
        stream=name,
        partition=str(partition),
        key=None if message.key is None else base64.b64encode(message.key).decode(),
        value=base64.b64encode(message.value).decode(),
        offset=message.offset,
        timestamp=rfc3339(message.time_ms),
    )


def messages_reply(
    gateway: Gateway, messages: list[Message], next_cursor: str, headers: Mapping[str, str]
) -> GatewayReply:
    """A message without a key shows a null one, unlike other absent fields: the field is required."""
    gateway.usage.messages_read += len(messages)
    return GatewayReply(MESSAGES.dump_json(messages, by_alias=True), headers={NEXT_CURSOR: next_cursor, **headers})
