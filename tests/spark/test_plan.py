"""Plans: shares of a limit, tasks of a plan, against what they promise."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.bulk.bulk_pb2 import Interval, SplitReply
from crdtstream.spark.heads import Head
from crdtstream.spark.losses import Loss
from crdtstream.spark.plan import CUTS_MAX, ReadTask, count_of, estimate, intervals, losses, packed, shares, tasks
from crdtstream.spark.sharded import ShardedClient

counts = st.lists(st.integers(0, 50), max_size=100)


@given(counts, st.integers(1, 200))
def test_shares_are_fair_and_use_up_the_limit(waiting: list[int], limit: int) -> None:
    given = shares(waiting, limit)
    assert all(0 <= share <= count for share, count in zip(given, waiting, strict=True))
    assert sum(given) <= limit
    short = [share for share, count in zip(given, waiting, strict=True) if share < count]
    if not short:
        assert given == waiting
    else:
        assert sum(given) == limit
    if 0 < len(short) <= CUTS_MAX and all(short):
        assert max(given) <= max(short) + 1
        assert max(short) - min(short) <= 1
    assert sum(0 < share < count for share, count in zip(given, waiting, strict=True)) <= CUTS_MAX + 1


def test_many_are_served_in_turns() -> None:
    given = shares([10 + number for number in range(1000)], 128)
    assert given[-CUTS_MAX:] == [2] * CUTS_MAX and sum(given) == 128
    # Many small ones are taken whole rather than cut.
    assert shares([20] * 10_000, 50_000).count(20) == 2_500


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.integers(1, 10))
def test_tasks_keep_the_order_and_are_even(weights: list[int], count: int) -> None:
    pieces = [ReadTask(Interval(stream=b"%d" % number), weight) for number, weight in enumerate(weights)]
    groups = packed(pieces, count)
    assert [each for group in groups for each in group] == [piece.interval for piece in pieces]
    assert 1 <= len(groups) <= count
    for group in groups:
        weight = sum(weights[int(each.stream)] for each in group)
        assert weight <= sum(weights) / count + max(weights)


class Counting:
    """A client whose region has so many entries in each stream, in the last seqs of each interval."""

    def __init__(self, counts: dict[bytes, int]) -> None:
        self.counts = counts
        self.asked = 0

    def split(self, wanted: list[Interval], size: int) -> list[SplitReply]:
        self.asked += len(wanted)
        return [self.one(each, size) for each in wanted]

    def one(self, each: Interval, size: int) -> SplitReply:
        count = self.counts[each.stream]
        sizes = [min(size, count - low) for low in range(0, count, size)] or [0]
        ends = [each.through - count + sum(sizes[: place + 1]) for place in range(len(sizes))]
        return SplitReply(through=ends, entries=sizes)


def planned(counts: dict[bytes, int], least: int = 0, most: int = 0) -> tuple[list[int], int]:
    """Entries of each task, and how many intervals were counted, where one origin wrote all these streams."""
    total = sum(counts.values())
    wanted = [Interval(stream=name, origin=1, through=total) for name in sorted(counts)]
    heads = {name.decode(): {1: Head(length=count)} for name, count in counts.items()}
    client = Counting(counts)
    groups = tasks(cast(ShardedClient, client), wanted, heads, least, most)
    sizes = []
    for group in groups:
        low = [max(each.after, total - counts[each.stream]) for each in group]
        sizes.append(sum(each.through - after for each, after in zip(group, low, strict=True)))
    assert sum(sizes) == total
    return sizes, client.asked


def test_many_small_streams_are_not_counted() -> None:
    sizes, asked = planned({b"%05d" % number: 20 for number in range(10_000)}, least=4)
    assert sizes == [50_000] * 4
    assert asked == 0


def test_one_large_stream_among_many_is_cut() -> None:
    counts = {b"%05d" % number: 20 for number in range(1_000)} | {b"00500": 1_000_000}
    sizes, asked = planned(counts, least=4)
    assert len(sizes) == 4 and max(sizes) < 1.2 * min(sizes)
    assert asked == 1


def test_few_streams_are_counted() -> None:
    sizes, asked = planned({b"a": 90_000, b"b": 10_000}, least=10)
    assert sizes == [10_000] * 10
    assert asked == 2
    assert len(planned({b"a": 90_000, b"b": 10_000}, most=1)[0]) == 1


def test_what_lies_between_two_positions() -> None:
    start, end = {"a": {1: 5, 2: 5}}, {"b": {1: 3}, "a": {1: 9, 2: 5, 3: 4}}
    assert intervals(start, end) == [
        Interval(stream=b"a", origin=1, after=5, through=9),
        Interval(stream=b"a", origin=3, through=4),
        Interval(stream=b"b", origin=1, through=3),
    ]


def test_an_origin_gives_each_seq_once() -> None:
    assert estimate([Interval(stream=b"%d" % number, origin=1, through=100) for number in range(50)]) == 100
    assert estimate([Interval(stream=b"a", origin=number, through=100) for number in range(5)]) == 500
    assert estimate([Interval(stream=b"a", origin=1, after=90, through=100), Interval(origin=1, through=5)]) == 15


def test_how_many_tasks() -> None:
    assert count_of(1, 0, 0) == 1
    assert count_of(1, 8, 0) == 8
    assert count_of(10**9, 0, 0) == 500
    assert count_of(10**9, 0, 3) == 3


def test_losses_are_named() -> None:
    wanted = [Interval(stream=b"a", origin=257, after=2, through=9), Interval(stream=b"b", origin=257, through=9)]
    heads = {"a": {257: Head(head=9, trimmed=4)}, "b": {257: Head(head=20, trimmed=20)}}
    assert losses(wanted, heads) == [Loss("a", 257, 2, 4), Loss("b", 257, 0, 9)]
    assert str(losses(wanted, heads)[0]) == "stream 'a', origin 1.1, seq 3 to 4"
    assert losses(wanted, {"a": {257: Head(head=9, trimmed=2)}}) == []
