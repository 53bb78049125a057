"""What an instance reads after its poll, in any region: the home says from where, the region has the messages."""

from __future__ import annotations

from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.partitions.values import Bookmark, Message, Polled


def read_polled(
    streams: PartitionedStreams, stream_id: str, polled: Polled, before: Bookmark, count_max: int, bytes_max: int
) -> tuple[list[tuple[int, Message]], Bookmark]:
    """The messages of the instance's partitions, and where it stands behind them; `before` is where it stood when it
    polled. A region that does not know the epoch of the home yet has nothing to say.
    """
    epoch = streams.epoch(stream_id)
    found: list[tuple[int, Message]] = []
    offsets: dict[int, int] = {}
    if not streams.knows(stream_id, polled.epoch):
        return found, Bookmark(polled.generation, polled.epoch, offsets)
    for partition, position in sorted(polled.positions.items()):
        first = streams.settle(stream_id, partition, position, polled.epoch)
        messages = streams.partition(stream_id, partition).read(first, count_max - len(found), bytes_max)
        found += [(partition, message) for message in messages]
        bytes_max -= sum([len(message.value) for message in messages])
        if messages:
            offsets[partition] = messages[-1].offset
        elif partition in before.offsets:
            offsets[partition] = first - 1
    return found, Bookmark(polled.generation, epoch, offsets)
