"""What an instance reads after its poll, in any region: the home says from where, the region has the messages."""

from __future__ import annotations

from crdtstream.partitions.partition import size_of
from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.partitions.values import Bookmark, PartitionMessage, Polled


def read_polled(
    streams: PartitionedStreams,
    stream_id: str,
    polled: Polled,
    before: Bookmark,
    order: list[int],
    count_max: int,
    bytes_max: int,
) -> tuple[list[tuple[int, PartitionMessage]], Bookmark]:
    """The messages of the instance's partitions, those in `order` alone and in that order, and where it stands behind
    them; `before` is where it stood when it polled. A region that does not know the epoch of the home yet has nothing
    to say.

    Reading ends where a message is missing. The home may still have it: it was numbered again by another home, or
    removed for its age, and this region may forget that. Once the home knows, it gives a position behind it.
    """
    epoch = streams.epoch(stream_id)
    found: list[tuple[int, PartitionMessage]] = []
    offsets: dict[int, int] = {}
    if not streams.knows(stream_id, polled.epoch):
        return found, Bookmark(polled.generation, polled.epoch, polled.start, offsets)
    firsts = {
        at: streams.clamp_offset(stream_id, at, polled.positions[at], polled.epoch) for at in sorted(polled.positions)
    }
    for partition in order:
        if bytes_max > 0:
            first = firsts[partition]
            read = unbroken(
                streams.partition(stream_id, partition).read(first, count_max - len(found), bytes_max), first
            )
            found += [(partition, message) for message in read]
            bytes_max -= sum([size_of(message) for message in read])
            if read:
                offsets[partition] = read[-1].offset
    for partition, position in firsts.items():
        if partition in before.offsets and partition not in offsets:
            offsets[partition] = position - 1
    return found, Bookmark(polled.generation, epoch, polled.start, offsets)


def unbroken(messages: list[PartitionMessage], first: int) -> list[PartitionMessage]:
    """Those that follow each other from this offset on."""
    count = 0
    while count < len(messages) and messages[count].offset == first + count:
        count += 1
    return messages[:count]
