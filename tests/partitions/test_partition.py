"""One partition: dense offsets, times that never fall, reading by offset and by time, trimming, stale messages."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.replica import Replica
from crdtstream.partitions.epochs import NO_EPOCH, EpochRow, Epochs
from crdtstream.partitions.partition import Partition, gaps_between
from crdtstream.partitions.values import Ahead, NewMessage

KEY = (0, b"p")


def partition(replica: Replica, *rows: EpochRow) -> Partition:
    return Partition(replica, KEY, 0, Epochs(rows or [EpochRow((1, replica.applied.origin), [0], NO_EPOCH)]), Ahead())


def replica_at(now_ms: int = 1_000, origin: int = 1) -> Replica:
    replica = Replica(origin)
    replica.keyspace.now_ms = now_ms
    return replica


def put(one: Partition, *values: bytes) -> list[int]:
    return [stamp.offset for stamp in one.append([NewMessage(0, None, value) for value in values])]


def test_a_new_partition_is_empty() -> None:
    one = partition(replica_at())
    assert (one.oldest_offset(), one.next_offset(), one.last_ms()) == (0, 0, 0)
    assert one.read(0, 10, 1 << 20) == []
    assert one.offset_at(5) == 0
    assert not one.has_stale()


def test_offsets_are_dense_and_times_never_fall() -> None:
    replica = replica_at(1_000)
    one = partition(replica)
    assert put(one, b"a", b"b") == [0, 1]
    replica.keyspace.now_ms = 900
    assert put(one, b"c") == [2]
    assert [(m.offset, m.time_ms, m.key, m.value) for m in one.read(0, 10, 1 << 20)] == [
        (0, 1_000, None, b"a"),
        (1, 1_000, None, b"b"),
        (2, 1_000, None, b"c"),
    ]


def test_reading_is_bounded_but_gives_at_least_one() -> None:
    one = partition(replica_at())
    put(one, b"x" * 100, b"y" * 100, b"z" * 100)
    assert [m.offset for m in one.read(1, 1, 1 << 20)] == [1]
    assert [m.offset for m in one.read(0, 10, 1)] == [0]
    assert [m.offset for m in one.read(0, 10, 330)] == [0, 1]


def test_keys_and_values_are_bytes() -> None:
    one = partition(replica_at())
    one.append([NewMessage(0, b"\x00\r\n", b"\xff" * 70_000), NewMessage(0, b"", b"")])
    assert [(m.key, len(m.value)) for m in one.read(0, 10, 1 << 20)] == [(b"\x00\r\n", 70_000), (b"", 0)]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30),
    st.integers(0, 40),
    st.integers(0, 8),
)
def test_a_time_is_found_as_by_looking_at_every_message(steps: list[tuple[int, int]], at_ms: int, trimmed: int) -> None:
    replica = replica_at(1)
    one = partition(replica)
    for step_ms, count in steps:
        replica.keyspace.now_ms += step_ms
        put(one, *[b"v"] * count)
    one.trim(min(trimmed, one.next_offset()))
    every = one.read(0, 1_000, 1 << 30)
    late = [m.offset for m in every if m.time_ms >= at_ms]
    assert one.offset_at(at_ms) == (late[0] if late else one.next_offset())
    assert one.oldest_offset() == (every[0].offset if every else one.next_offset())


def test_trimming_keeps_the_next_offset() -> None:
    replica = replica_at(1_000)
    one = partition(replica)
    put(one, b"a", b"b")
    replica.keyspace.now_ms = 2_000
    put(one, b"c")
    assert one.trim_older(1_500) == 2
    assert one.trim_older(1_500) == 0
    assert (one.oldest_offset(), one.next_offset()) == (2, 3)
    assert one.trim_older(9_000) == 1
    assert (one.oldest_offset(), one.next_offset()) == (3, 3)
    assert put(one, b"d") == [3]


def test_a_takeover_makes_the_tail_of_the_old_home_stale() -> None:
    replica = replica_at(1_000)
    put(partition(replica), b"a", b"b", b"c")
    replica.drain()
    replica.become(2, 2)
    both = partition(replica, EpochRow((1, 1), [0], NO_EPOCH), EpochRow((2, 2), [1], (1, 1)))
    assert (both.next_offset(), both.has_stale()) == (1, True)
    assert put(both, b"new") == [1]
    assert [m.value for m in both.read(0, 10, 1 << 20)] == [b"a", b"new"]
    assert both.renumber(1, 1_000) == (1, 65, False)
    assert both.has_unplaced()
    assert both.renumber(100, 1_000) == (1, 65, True)
    assert both.renumber(100, 1_000) == (0, 0, True)
    assert not both.has_stale() and not both.has_unplaced()
    assert [(m.offset, m.value) for m in both.read(0, 10, 1 << 20)] == [(0, b"a"), (1, b"new"), (2, b"b"), (3, b"c")]
    replica.keyspace.check()


def test_what_a_redis_client_added_is_numbered_if_it_has_a_value() -> None:
    replica = replica_at(1_000)
    one = partition(replica)
    put(one, b"a")
    replica.add_entry(KEY, (5_000, 1), [b"value", b"by hand", b"key", b"k"])
    replica.add_entry(KEY, (5_000, 2), [b"name", b"no message"])
    assert one.has_stale()
    assert one.top_number() == 5_000
    later = partition(replica, EpochRow((1, 1), [0], NO_EPOCH), EpochRow((5_001, 1), [1], (1, 1)))
    assert later.has_stale() and not later.has_unplaced(), "no home has numbered it"
    assert later.renumber(100, 1_000)[0] == 1
    assert [(m.offset, m.key, m.value) for m in later.read(0, 10, 1 << 20)] == [(0, None, b"a"), (1, b"k", b"by hand")]
    assert later.renumber(100, 1_000) == (0, 0, True)
    stream = replica.keyspace.find(KEY)
    assert stream is not None
    assert stream.length == 3


def test_gaps_between_intervals() -> None:
    top = (2**64 - 1, 2**64 - 1)
    assert gaps_between([]) == [((0, 0), top)]
    assert gaps_between([((1, 0), (1, 5)), ((1, 6), (1, 9)), ((3, 0), (3, 1))]) == [
        ((0, 0), (0, 2**64 - 1)),
        ((1, 10), (2, 2**64 - 1)),
        ((3, 2), top),
    ]


def test_stale_messages_are_numbered_in_the_order_of_epochs_whatever_their_origins() -> None:
    """Origin 9 numbered first, then the process that came after it, whose number is lower."""
    replica = replica_at(origin=9)
    nine = EpochRow((1, 9), [0], NO_EPOCH)
    put(partition(replica, nine), b"a", b"b")
    replica.drain()
    replica.become(4, 4)
    four = EpochRow((2, 4), [2], (1, 9))
    put(partition(replica, nine, four), b"c", b"d")
    replica.drain()
    replica.become(2, 2)
    home = partition(replica, nine, four, EpochRow((3, 2), [1], (1, 9)))
    assert home.renumber(2, 1_000)[0] == 2
    assert home.renumber(10, 1)[0] == 1, "one at least, however large it is"
    assert [m.value for m in home.read(0, 10, 1 << 20)] == [b"a", b"b", b"c", b"d"]
