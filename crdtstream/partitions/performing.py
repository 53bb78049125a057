"""What the home does for a call, once it may number messages and coordinate groups."""

from __future__ import annotations

from typing import Any, Final

from crdtstream.commands.room import excess
from crdtstream.core.copy_sizes import blocks_bytes
from crdtstream.core.values.room import BatchRoom
from crdtstream.partitions import calls
from crdtstream.partitions.coordinator import Coordinator
from crdtstream.partitions.partition import Partition
from crdtstream.partitions.specs import ID_BYTES_MAX
from crdtstream.partitions.state import StreamState
from crdtstream.partitions.values import INVALID, LIMIT, NewMessage, Refused
from crdtstream.protocols.call_rows import CallRow as Row
from crdtstream.protocols.call_rows import pack

# The longest name of a partition's stream; an entry besides key and value; a stamp in a reply.
PARTITION_NAME: Final = bytes(2 * ID_BYTES_MAX)
MESSAGE_BYTES: Final = 256
STAMP_BYTES: Final = 32


def require_batch_room(room: BatchRoom, messages: list[NewMessage]) -> None:
    """The messages of one call are numbered in one batch, which every region must take."""
    size = sum([len(message.value) + len(message.key or b"") + MESSAGE_BYTES for message in messages])
    partitions = len({message.partition for message in messages})
    size = blocks_bytes(len(messages), size, partitions, PARTITION_NAME)
    if not room.make_room(size):
        raise Refused(LIMIT, excess(room, "what is put", size, "send fewer or smaller messages at once"))


def require_answerable(row: Row, bytes_max: int) -> None:
    """A put is answered with a stamp for each message, so what cannot be answered is not carried out."""
    if row[0] == calls.PUT and STAMP_BYTES * len(row[2]) > bytes_max:
        raise Refused(LIMIT, f"{len(row[2])} messages cannot be answered in {bytes_max} bytes: send fewer at once")


def fitting(reply: bytes, bytes_max: int) -> bytes:
    """The reply, or that it is too large for the link."""
    if len(reply) <= bytes_max:
        return reply
    text = (
        f"the reply of the home region has {len(reply)} bytes, and the link takes {bytes_max}: raise message_bytes_max"
    )
    return pack([False, LIMIT, text])


def partitions_of(state: StreamState, row: Row) -> list[Partition]:
    """The partitions for which this call has messages."""
    partitions = state.partitions()
    return [partitions[at] for at in sorted({one[0] for one in row[2]}) if 0 <= at < len(partitions)]


def put(state: StreamState, messages: list[NewMessage]) -> list[Any]:
    """Number these messages; the stamps come in their order."""
    by_partition: dict[int, list[int]] = {}
    for index, message in enumerate(messages):
        by_partition.setdefault(message.partition, []).append(index)
    partitions = state.partitions()
    if any(not 0 <= number < len(partitions) for number in by_partition):
        raise Refused(INVALID, f"a message is for a partition that does not exist: use 0 to {len(partitions) - 1}")
    stamps: list[Any] = [None] * len(messages)
    for number, indexes in by_partition.items():
        for index, stamp in zip(indexes, partitions[number].append([messages[at] for at in indexes]), strict=True):
            stamps[index] = stamp
    return stamps


def coordinate(groups: Coordinator, operation: str, arguments: Row) -> Any:
    """Carry out the call of an instance, or of an operator of a group."""
    group = arguments[0]
    if operation == calls.JOIN:
        return calls.bookmark_row(groups.join(*arguments))
    if operation == calls.GROUP:
        return calls.reservation_rows(groups.reservations(group))
    if operation == calls.RESET:
        groups.reset(*arguments)
        return None
    instance, timeout_ms, bookmark = arguments[1], arguments[2], calls.bookmark_in(arguments[3])
    if operation == calls.POLL:
        return calls.polled_row(groups.poll(group, instance, timeout_ms, bookmark, arguments[4]))
    if operation == calls.COMMIT:
        return calls.bookmark_row(groups.commit(group, instance, timeout_ms, bookmark))
    if operation == calls.HEARTBEAT:
        return calls.bookmark_row(groups.heartbeat(group, instance, timeout_ms, bookmark))
    raise Refused(INVALID, f"the home region does not know the call {operation!r}: it runs another version")
