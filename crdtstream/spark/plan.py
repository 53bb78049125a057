"""Plans tasks from positions; pure except for the calls that split intervals.

A task is a list of intervals, read in order: over the tasks, shards, then streams, then origins, then seqs ascend, so
the entries of each origin in a stream stay in order within a task and from one task to the next. A batch that is
planned again after a crash has the same tasks: the plan depends only on the positions and the entries between them.

The number of entries between two positions is estimated from seqs, which other streams share, until `Split` counts it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.bulk import bulk_pb2
from crdtstream.spark.heads import Head, Heads
from crdtstream.spark.losses import Loss
from crdtstream.spark.offsets import Positions, stream_bytes, stream_text
from crdtstream.spark.sharded import ShardedClient

# A task costs Spark 28 ms, the time to read 50,000 entries; repeating a task should not cost many seconds.
ENTRIES_MIN: Final = 50_000
ENTRIES_MAX: Final = 2_000_000
CUTS_MAX: Final = 64
COUNTED_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A part of an interval, and roughly how many entries it has."""

    interval: bulk_pb2.Interval
    weight: int


def intervals(start: Positions, end: Positions) -> list[bulk_pb2.Interval]:
    """Return the intervals between the positions; an origin without a row is before its first entry."""
    return [
        bulk_pb2.Interval(
            stream=stream_bytes(stream), origin=origin, after=start.get(stream, {}).get(origin, 0), through=through
        )
        for stream, position in sorted(end.items())
        for origin, through in sorted(position.items())
        if through > start.get(stream, {}).get(origin, 0)
    ]


def losses(wanted: Iterable[bulk_pb2.Interval], heads: Heads, seen: Positions | None = None) -> list[Loss]:
    """Return the parts of these intervals that were trimmed or deleted with their stream. `seen` is up to where nothing
    was unread when the query looked last.
    """
    found = []
    for each in wanted:
        stream = stream_text(each.stream)
        head = heads.get(stream, {}).get(each.origin)
        if head is None:
            continue
        if head.trimmed > each.after:
            found.append(Loss(stream, each.origin, each.after, min(head.trimmed, each.through)))
            continue
        looked = max(each.after, (seen or {}).get(stream, {}).get(each.origin, 0))
        # A position of 0 is before the first entry: nothing of the stream was ever read, or left unread.
        if each.after and head.since > looked and head.unsure > looked:
            found.append(Loss(stream, each.origin, each.after, head.since - 1, unsure=True))
    return found


def tasks(
    client: ShardedClient, wanted: Sequence[bulk_pb2.Interval], heads: Heads, least: int, most: int
) -> list[list[bulk_pb2.Interval]]:
    """Distribute the intervals over tasks, of which there are never more than entries; `least` and `most` bound their
    number, 0 for no bound.
    """
    # The estimate decides the size of pieces; their true weights then decide the number of tasks.
    total = estimate(wanted)
    pieces = cut(client, wanted, heads, -(-total // count_of(total, least, most)))
    total = sum(piece.weight for piece in pieces)
    count = count_of(total, least, most)
    if least and len(pieces) < count:
        pieces = cut(client, wanted, heads, -(-total // count))
    return packed(pieces, count)


def estimate(wanted: Iterable[bulk_pb2.Interval]) -> int:
    """Return an upper bound of the entries: an origin gives each seq to one stream only."""
    spans: dict[int, tuple[int, int]] = {}
    widths = 0
    for each in wanted:
        low, high = spans.get(each.origin, (each.after, each.through))
        spans[each.origin] = (min(low, each.after), max(high, each.through))
        widths += each.through - each.after
    return max(1, min(widths, sum(high - low for low, high in spans.values())))


def count_of(total: int, least: int, most: int) -> int:
    """Return the number of tasks for this many entries: enough for all cores where that pays, but not too many."""
    by_cores = min(os.cpu_count() or 1, -(-total // ENTRIES_MIN))
    wanted = max(by_cores, -(-total // ENTRIES_MAX), least or 0, 1)
    return min(wanted, most) if most else wanted


def cut(client: ShardedClient, wanted: Sequence[bulk_pb2.Interval], heads: Heads, size: int) -> list[ReadTask]:
    """Cut pieces of at most `size` entries. Intervals that are not counted share the rest of the estimate by width."""
    counted = [index for index, each in enumerate(wanted) if worth_counting(each, heads, size, len(wanted))]
    replies = client.split([wanted[index] for index in counted], size)
    split = {index: parts(wanted[index], reply) for index, reply in zip(counted, replies, strict=True)}
    rest = sum(each.through - each.after for index, each in enumerate(wanted) if index not in split)
    left = max(0, estimate(wanted) - sum(piece.weight for pieces in split.values() for piece in pieces))
    result: list[ReadTask] = []
    for index, each in enumerate(wanted):
        share = min(each.through - each.after, -(-(each.through - each.after) * left // rest)) if rest else 0
        result += split.get(index) or ([] if index in split else [ReadTask(each, max(1, share))])
    return [piece for piece in result if piece.weight]


def worth_counting(interval: bulk_pb2.Interval, heads: Heads, size: int, intervals: int) -> bool:
    """Count all but small intervals if there are few; of many, count only those with many entries: each takes a call.

    The number of entries in a stream may change before the batch is planned again, but it rarely crosses this
    threshold.
    """
    width = interval.through - interval.after
    if intervals <= COUNTED_MAX:
        return width > size // 8
    head = heads.get(stream_text(interval.stream), {}).get(interval.origin)
    return width > size and (head is None or head.length > size // 8)


def parts(whole: bulk_pb2.Interval, reply: bulk_pb2.SplitReply) -> list[ReadTask]:
    ends = reply.through[:-1]
    return [
        ReadTask(bulk_pb2.Interval(stream=whole.stream, origin=whole.origin, after=after, through=through), weight)
        for after, through, weight in zip(
            [whole.after, *ends], [*ends, whole.through], reply.entries or [0], strict=True
        )
    ]


def packed(pieces: Sequence[ReadTask], count: int) -> list[list[bulk_pb2.Interval]]:
    """Pack the pieces into at most `count` tasks of similar weight, in order; a piece goes to the task of
    its middle.
    """
    total = sum(piece.weight for piece in pieces)
    groups: dict[int, list[bulk_pb2.Interval]] = {}
    passed = 0
    for piece in pieces:
        middle = passed + piece.weight / 2
        groups.setdefault(min(count - 1, int(middle * count / total)) if total else 0, []).append(piece.interval)
        passed += piece.weight
    return list(groups.values())


def limited(client: ShardedClient, start: Positions, end: Positions, heads: Heads, limit: int) -> Positions:
    """Return the position that `limit` entries reach from `start` towards `end`, shared fairly by streams and origins.

    An interval with fewer entries than a fair share is taken whole; the others share the rest. At most about `CUTS_MAX`
    intervals are cut at a time, so that no trigger makes more calls.
    """
    wanted = intervals(start, end)
    counts = [min(waiting(heads, start, each), each.through - each.after) for each in wanted]
    if sum(counts) <= limit:
        return end
    given = shares(counts, limit)
    short = [index for index in range(len(wanted)) if 0 < given[index] < counts[index]]
    cuts = dict(zip(short, (first_cut(client, wanted[index], given[index]) for index in short), strict=True))
    result = {stream: dict(position) for stream, position in end.items()}
    for index, each in enumerate(wanted):
        reached = each.through if given[index] >= counts[index] else cuts.get(index, each.after)
        stream = stream_text(each.stream)
        if reached == 0:
            del result[stream][each.origin]
        else:
            result[stream][each.origin] = reached
    return result


def waiting(heads: Heads, start: Positions, interval: bulk_pb2.Interval) -> int:
    """Count the entries after the position; a stream without a position was not asked about one, so all its entries
    count.
    """
    stream = stream_text(interval.stream)
    head = heads.get(stream, {}).get(interval.origin, Head())
    return head.waiting if stream in start else head.length


def shares(counts: Sequence[int], limit: int) -> list[int]:
    """Return how many entries each interval may take: all of small ones, equal shares of large ones, at most `limit` in
    total.

    If more than `CUTS_MAX` intervals would have to be cut, the largest are served first, each with at most that
    fraction of the rest.
    """
    given = [0] * len(counts)
    order = sorted((index for index in range(len(counts)) if counts[index]), key=lambda index: (counts[index], index))
    left, served = limit, 0
    while served < len(order) and counts[order[served]] <= left // (len(order) - served):
        given[order[served]] = counts[order[served]]
        left -= counts[order[served]]
        served += 1
    many = order[served:][::-1]
    if len(many) <= CUTS_MAX:
        return even(given, many, left)
    share = -(-left // CUTS_MAX)
    for index in many:
        given[index] = min(counts[index], share, left)
        left -= given[index]
    return given


def even(given: list[int], many: Sequence[int], left: int) -> list[int]:
    """Divide the rest evenly; the first ones receive the remainder."""
    for place, index in enumerate(many):
        given[index] = left // len(many) + (place < left % len(many))
    return given


def first_cut(client: ShardedClient, interval: bulk_pb2.Interval, entries: int) -> int:
    """Return the seq that this many entries of the interval reach; `pieces_max` 2 keeps the reply short."""
    return client.split([interval], entries, 2)[0].through[0]
