"""What an instance reads in a region that knows less than the home, or more."""

from __future__ import annotations

from crdtstream.core.values.entry_id import STRICT
from crdtstream.partitions.calls import (
    Answer,
    BookmarkReply,
    HomeCall,
    JoinCall,
    PollCall,
    PollReply,
    PutCall,
    PutReply,
    expect,
)
from crdtstream.partitions.coordinator import no_bookmark
from crdtstream.partitions.reading import read_polled
from crdtstream.partitions.values import TRIM_HORIZON, Bookmark, NewMessage, PartitionMessage, Polled, StreamSpec
from simulations.cluster import Cluster

COUNT_MAX, BYTES_MAX = 100, 1 << 20


def cluster_of_two() -> Cluster:
    """Region 1 is the home of one partition with four messages, and region 2 has them."""
    cluster = Cluster(2, STRICT)
    cluster.node(1).partitions.create(StreamSpec("s", 1, 1 << 40))
    call(cluster, PutCall("s", [NewMessage(0, None, b"%d" % value) for value in range(4)]), PutReply)
    call(cluster, JoinCall("s", "g", TRIM_HORIZON, 0, 50), BookmarkReply)
    cluster.sync()
    return cluster


def call(cluster: Cluster, asked: HomeCall, kind: type[Answer]) -> Answer:
    number = cluster.node(1).partitions.submit(asked)
    cluster.turn(1)
    return expect(dict(cluster.node(1).partitions.drain_replies())[number], kind)


def poll(cluster: Cluster, bookmark: Bookmark) -> Polled:
    return call(cluster, PollCall("s", "g", "i", 1_000, bookmark, True), PollReply).polled


def read(cluster: Cluster, number: int, polled: Polled, before: Bookmark) -> tuple[list[bytes], Bookmark]:
    streams = cluster.node(number).partitions
    found, after = read_polled(streams, "s", polled, before, sorted(polled.positions), COUNT_MAX, BYTES_MAX)
    return [message.value for _, message in found], after


def remove(cluster: Cluster, number: int, offset: int) -> PartitionMessage:
    """Remove one message in this region, as a former home does that numbers it again."""
    state = cluster.node(number).partitions.state("s")
    message = state.partitions()[0].read(offset, 1, BYTES_MAX)[0]
    key, origin = state.partitions()[0]._key, state.epochs.current()
    stream = cluster.node(number).replica.keyspace.find(key)
    assert stream is not None
    counter = stream.trees[origin[1]].counter_of((origin[0], offset))
    cluster.node(number).replica.remove_entries(key, {origin[1]: [(counter, counter)]}, False, None)
    cluster.turn(number)
    return message


def test_a_region_reads_what_the_home_has_numbered() -> None:
    cluster = cluster_of_two()
    polled = poll(cluster, no_bookmark())
    values, after = read(cluster, 2, polled, no_bookmark())
    assert values == [b"0", b"1", b"2", b"3"] and after.offsets == {0: 3}


def test_reading_ends_where_a_message_is_missing_that_the_home_still_has() -> None:
    """Region 2 may lose what it knows, and then the message would lie below the commit for ever."""
    cluster = cluster_of_two()
    remove(cluster, 2, 1)
    before = poll(cluster, no_bookmark())
    values, after = read(cluster, 2, before, no_bookmark())
    assert values == [b"0"] and after.offsets == {0: 0}
    again = poll(cluster, after)
    assert read(cluster, 2, again, after)[0] == []
    cluster.sync()
    last = poll(cluster, after)
    assert last.positions == {0: 2}
    assert read(cluster, 2, last, after)[0] == [b"2", b"3"]


def test_a_region_that_does_not_know_the_epoch_of_the_home_reads_nothing() -> None:
    cluster = cluster_of_two()
    cluster.cut(1, 2)
    cluster.node(1).partitions.take_over("s")
    cluster.turn(1)
    polled = poll(cluster, no_bookmark())
    values, after = read(cluster, 2, polled, Bookmark(0, (1, 1), (0, 0), {0: 2}))
    assert (values, after.offsets, after.epoch) == ([], {}, polled.epoch)
