"""What the home does for a call, once it may number messages and coordinate groups."""

from __future__ import annotations

from typing import Final

from crdtstream.core.streams.copy_sizes import blocks_bytes
from crdtstream.core.values.batch_budget import BatchBudget, excess
from crdtstream.partitions.calls import (
    BookmarkReply,
    CommitCall,
    GroupCall,
    GroupReply,
    GroupsCall,
    HomeCall,
    HomeReply,
    JoinCall,
    PollCall,
    PollReply,
    PutCall,
    RefusalReply,
    ResetCall,
    ResetReply,
    pack_reply,
)
from crdtstream.partitions.coordinator import Coordinator
from crdtstream.partitions.partition import Partition
from crdtstream.partitions.specs import ID_BYTES_MAX
from crdtstream.partitions.state import StreamState
from crdtstream.partitions.values import INVALID, LIMIT, NewMessage, Refused, Stamp

# The longest name of a partition's stream; an entry besides key and value; a stamp in a reply.
PARTITION_NAME: Final = bytes(2 * ID_BYTES_MAX)
MESSAGE_BYTES: Final = 256
STAMP_BYTES: Final = 32


def require_batch_fit(budget: BatchBudget, messages: list[NewMessage]) -> None:
    """The messages of one call are numbered in one batch, which every region must take."""
    size = sum([len(message.value) + len(message.key or b"") + MESSAGE_BYTES for message in messages])
    partitions = len({message.partition for message in messages})
    size = blocks_bytes(len(messages), size, partitions, PARTITION_NAME)
    if not budget.allow(size):
        raise Refused(LIMIT, excess(budget, "what is put", size, "send fewer or smaller messages at once"))


def require_answerable(call: HomeCall, bytes_max: int) -> None:
    """A put is answered with a stamp for each message, so what cannot be answered is not carried out."""
    if isinstance(call, PutCall) and STAMP_BYTES * len(call.messages) > bytes_max:
        count = len(call.messages)
        raise Refused(LIMIT, f"{count} messages cannot be answered in {bytes_max} bytes: send fewer at once")


def fitting(reply: bytes, bytes_max: int) -> bytes:
    """The reply, or that it is too large for the link."""
    if len(reply) <= bytes_max:
        return reply
    text = (
        f"the reply of the home region has {len(reply)} bytes, and the link takes {bytes_max}: raise message_bytes_max"
    )
    return pack_reply(RefusalReply(LIMIT, text))


def partitions_of(state: StreamState, messages: list[NewMessage]) -> list[Partition]:
    """The partitions that these messages are for."""
    partitions = state.partitions()
    return [partitions[at] for at in sorted({one.partition for one in messages}) if 0 <= at < len(partitions)]


def put(state: StreamState, messages: list[NewMessage]) -> list[Stamp]:
    """Number these messages; the stamps come in their order."""
    by_partition: dict[int, list[int]] = {}
    for index, message in enumerate(messages):
        by_partition.setdefault(message.partition, []).append(index)
    partitions = state.partitions()
    if any(not 0 <= number < len(partitions) for number in by_partition):
        raise Refused(INVALID, f"a message is for a partition that does not exist: use 0 to {len(partitions) - 1}")
    stamps: dict[int, Stamp] = {}
    for number, indexes in by_partition.items():
        given = partitions[number].append([messages[at] for at in indexes])
        stamps.update(zip(indexes, given, strict=True))
    return [stamps[index] for index in range(len(messages))]


def coordinate(groups: Coordinator, call: GroupsCall) -> HomeReply:
    """Carry out the call of an instance, or of an operator of a group."""
    if isinstance(call, JoinCall):
        return BookmarkReply(groups.join(call.group, call.start, call.time_ms, call.groups_max))
    if isinstance(call, GroupCall):
        return GroupReply(groups.reservations(call.group))
    if isinstance(call, ResetCall):
        groups.reset(call.group, call.start, call.time_ms)
        return ResetReply(None)
    if isinstance(call, PollCall):
        return PollReply(groups.poll(call.group, call.instance, call.timeout_ms, call.bookmark, call.commits))
    if isinstance(call, CommitCall):
        return BookmarkReply(groups.commit(call.group, call.instance, call.timeout_ms, call.bookmark))
    return BookmarkReply(groups.heartbeat(call.group, call.instance, call.timeout_ms, call.bookmark))
