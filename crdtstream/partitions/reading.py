"""What an instance reads after its poll, in any region: the home says from where, the region has the messages."""

from __future__ import annotations

from crdtstream.partitions.partition import size_of
from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.partitions.values import Bookmark, Message, Polled


def read_polled(
    streams: PartitionedStreams,
    stream_id: str,
    polled: Polled,
    before: Bookmark,
    order: list[int],
    count_max: int,
    bytes_max: int,
) -> tuple[list[tuple[int, Message]], Bookmark]:
    """The messages of the instance's partitions, those in `order` alone and in that order, and where it stands behind
    them; `before` is where it stood when it polled. A region that does not know the epoch of the home yet has nothing
    to say.
    """
    epoch = streams.epoch(stream_id)
    found: list[tuple[int, Message]] = []
    offsets: dict[int, int] = {}
    if not streams.knows(stream_id, polled.epoch):
        return found, Bookmark(polled.generation, polled.epoch, offsets)
    firsts = {at: streams.settle(stream_id, at, polled.positions[at], polled.epoch) for at in sorted(polled.positions)}
    for partition in order:
        if bytes_max > 0:
            read = streams.partition(stream_id, partition).read(firsts[partition], count_max - len(found), bytes_max)
            found += [(partition, message) for message in read]
            bytes_max -= sum([size_of(message) for message in read])
            if read:
                offsets[partition] = read[-1].offset
    for partition, first in firsts.items():
        if partition in before.offsets and partition not in offsets:
            offsets[partition] = first - 1
    return found, Bookmark(polled.generation, epoch, offsets)
