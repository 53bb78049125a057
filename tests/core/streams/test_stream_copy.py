"""A copy has what this region sees of the source, and other regions get it whole."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core import effects as fx
from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Batch, Key
from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.entries.merging import merge
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.stream_copy import copy_stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN
from crdtstream.protocols.codec import decode_batch, encode_batch

SOURCE: Key = (0, b"s")
TARGET: Key = (3, b"t")


def found(replica: Replica, key: Key) -> Stream:
    stream = replica.keyspace.find(key)
    assert stream is not None
    return stream


def taken(replica: Replica) -> Batch:
    batch = replica.drain().batch
    assert batch is not None
    batch.check()
    return decode_batch(encode_batch(batch))


def entries_of(stream: Stream) -> list[bytes]:
    """In merged order, one by one."""
    chain_ranges = stream.chain_ranges(ID_MIN, ID_MAX, -1, False)
    return [run.block.entry(index) for run in merge(chain_ranges, -1) for index in range(run.low, run.high)]


def copied_everywhere(replica: Replica, others: list[Replica]) -> Stream:
    """Copy in one region, apply in the others; all must agree."""
    copy_stream(replica, found(replica, SOURCE), TARGET)
    batch = taken(replica)
    for other in others:
        other.apply_batch(batch)
        other.check()
    replica.check()
    assert len({digest_replica(one) for one in [replica, *others]}) == 1
    return found(replica, TARGET)


def regions_with(rows: list[tuple[int, int]]) -> list[Replica]:
    """Three regions that all hold the entries (ID, origin), added concurrently."""
    replicas = [Replica(origin) for origin in (1, 2, 3)]
    for number, origin in sorted(set(rows)):
        replicas[origin - 1].add_entry(SOURCE, (number, 0), [b"f", b"%d of %d" % (number, origin)])
    batches = [(replica, taken(replica)) for replica in replicas if replica.applied.counter()]
    for sender, batch in batches:
        for replica in replicas:
            if replica is not sender:
                replica.apply_batch(batch)
    return replicas


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 3)), min_size=1, max_size=30), st.integers(1, 3))
def test_one_entry_for_each_id(rows: list[tuple[int, int]], copier: int) -> None:
    replicas = regions_with(rows)
    replica = replicas[copier - 1]
    copy = copied_everywhere(replica, [other for other in replicas if other is not replica])
    lowest: dict[int, int] = {}
    for number, origin in rows:
        lowest[number] = min(origin, lowest.get(number, origin))
    fields = [entry_fields(entry)[1] for entry in entries_of(copy)]
    assert fields == [b"%d of %d" % (number, lowest[number]) for number in sorted(lowest)]
    assert [origin for origin, tree in copy.trees.items() if tree.count] == [copier]
    source = found(replica, SOURCE)
    assert (copy.top, copy.entries_added()) == (source.top, source.entries_added())


def test_many_entries_keep_their_bytes() -> None:
    replica, other = Replica(1), Replica(2)
    for number in range(3 * BLOCK_ENTRIES + 5):
        replica.add_entry(SOURCE, (number + 1, 0), [b"f", b"v" * (number % 300)])
    replica.remove_entries(SOURCE, {1: [(1, 3), (300, 310)]}, True, None)
    other.apply_batch(taken(replica))
    copy = copied_everywhere(replica, [other])
    assert entries_of(copy) == entries_of(found(replica, SOURCE))
    replica.add_entry(TARGET, (10_000, 0), [b"f", b"later"])
    other.apply_batch(taken(replica))
    assert digest_replica(replica) == digest_replica(other)


def test_metadata_is_kept_and_groups_are_not() -> None:
    replica, other = Replica(1), Replica(2)
    for number in (1, 2, 3):
        replica.add_entry(SOURCE, (number, 0), [b"f", b"v"])
    replica.remove_entries(SOURCE, {1: [(2, 2)]}, False, (2, 0))
    replica.set_id(SOURCE, (9, 9), 20, None)
    replica.create_group(SOURCE, b"g", fx.Position(), 0)
    replica.set_expiry(SOURCE, 700)
    other.apply_batch(taken(replica))
    copy = copied_everywhere(replica, [other])
    assert (copy.length, copy.top, copy.entries_added(), copy.max_deleted()) == (2, (9, 9), 20, (2, 0))
    assert copy.expires_ms == 700
    assert copy.groups == {}


def test_the_target_is_replaced() -> None:
    replica, other = Replica(1), Replica(2)
    for number in (5, 6, 7):
        replica.add_entry(TARGET, (number, 0), [b"f", b"old"])
    replica.create_group(TARGET, b"g", fx.Position(), 0)
    replica.set_expiry(TARGET, 700)
    replica.add_entry(SOURCE, (1, 0), [b"f", b"new"])
    other.apply_batch(taken(replica))
    copy = copied_everywhere(replica, [other])
    assert (copy.length, copy.top, copy.entries_added()) == (1, (1, 0), 1)
    assert copy.expires_ms == NO_EXPIRY
    assert copy.groups == {}


def test_an_empty_stream_is_copied() -> None:
    """One that only a group keeps alive, and one whose entries left."""
    for emptied in (True, False):
        replica, other = Replica(1), Replica(2)
        if emptied:
            replica.add_entry(SOURCE, (4, 0), [b"f", b"v"])
            replica.remove_entries(SOURCE, {1: [(1, 1)]}, False, (4, 0))
        else:
            replica.create_group(SOURCE, b"g", fx.Position(), 0)
        other.apply_batch(taken(replica))
        copy = copied_everywhere(replica, [other])
        source = found(replica, SOURCE)
        assert (copy.length, copy.top, copy.entries_added()) == (0, source.top, source.entries_added())
        assert found(other, TARGET).exists()
        replica.delete_stream(TARGET)
        assert replica.keyspace.find(TARGET) is None
        replica.add_entry(TARGET, (1, 0), [b"f", b"v"])
        assert found(replica, TARGET).entries_added() == 1
        replica.check()


def test_a_hidden_target_is_deleted_first() -> None:
    replica, other = Replica(1), Replica(2)
    replica.add_entry(TARGET, (5, 0), [b"f", b"old"])
    replica.set_expiry(TARGET, 10)
    replica.add_entry(SOURCE, (1, 0), [b"f", b"new"])
    other.apply_batch(taken(replica))
    replica.keyspace.now_ms = 11
    copy = copied_everywhere(replica, [other])
    assert (copy.length, copy.expires_ms) == (1, NO_EXPIRY)


def test_a_copy_does_not_lower_what_a_delete_left_of_its_target() -> None:
    """R1's XSETID of a key that R3 deleted without having seen it outlives the key, and its ID the copy."""
    first, second, third = Replica(1), Replica(2), Replica(3)
    second.create_group(SOURCE, b"g", fx.Position(), 0)
    second.create_group(TARGET, b"g", fx.Position(), 0)
    first.apply_batch(taken(second))
    first.set_id(TARGET, (2, 1), None, None)
    first.drain()
    third.add_entry(TARGET, (1, 3), [b"f", b"v"])
    third.delete_stream(TARGET)
    first.apply_batch(taken(third))
    assert first.keyspace.find(TARGET) is None
    target = copied_everywhere(first, [])
    assert target.top == (2, 1)
