"""Calls to a partitioned stream in scenarios, which has one name and is created by the first of them.

    stream create 2         two partitions, with this region as the home
    stream put 0 a b        two messages for partition 0: their offsets
    stream read 0           what the region holds of partition 0: offset=value
    stream poll g i         instance i of group g, which begins at the first message, commits what it has read, and
                            reads on: partition/offset=value
    stream home             the region of the highest epoch that this region knows, and the number of that epoch
    stream take-over        this region becomes the home

A call that has to be forwarded is carried over the link to the home and back at once, if there is one. Time passes if
it has to wait for the home.
"""

from __future__ import annotations

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
from crdtstream.partitions.reading import read_polled
from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.partitions.values import TRIM_HORIZON, Bookmark, NewMessage, Refused, StreamSpec
from simulations.cluster import Cluster
from simulations.partitioned import FOREVER_MS
from simulations.stream_clients import STREAM

BYTES_MAX = 1 << 20
GROUPS_MAX = 50
TIMEOUT_MS = 30_000
BEAT_MS = 100
BEATS_MAX = 20


class StreamCalls:
    """The clients of one scenario: they remember the bookmarks of their instances."""

    def __init__(self) -> None:
        self._bookmarks: dict[tuple[str, str], Bookmark] = {}

    def execute(self, cluster: Cluster, number: int, words: list[str]) -> str:
        name, arguments = words[0], words[1:]
        streams = cluster.node(number).partitions
        cluster.node(number).begin_slice(cluster.clock_ms(number))
        try:
            return self._execute(cluster, number, streams, name, arguments)
        except Refused as refused:
            return f"! {refused.code}"
        finally:
            cluster.node(number).end_slice()
            cluster.turn(number)

    def _execute(
        self, cluster: Cluster, number: int, streams: PartitionedStreams, name: str, arguments: list[str]
    ) -> str:
        if name == "create":
            streams.create(StreamSpec(STREAM, int(arguments[0]), FOREVER_MS))
            return "created"
        if name == "take-over":
            streams.take_over(STREAM)
            return "taken over"
        if name == "home":
            return f"region {streams.home(STREAM)}, epoch {streams.epoch(STREAM)[0]}"
        if name == "read":
            found = streams.partition(STREAM, int(arguments[0])).read(0, BYTES_MAX, BYTES_MAX)
            return " ".join([f"{one.offset}={one.value.decode()}" for one in found]) or "nothing"
        if name == "put":
            messages = [NewMessage(int(arguments[0]), None, word.encode()) for word in arguments[1:]]
            stamps = self._call(cluster, number, PutCall(STREAM, messages), PutReply).stamps
            return " ".join([str(stamp.offset) for stamp in stamps])
        return self._poll(cluster, number, arguments[0], arguments[1])

    def _poll(self, cluster: Cluster, number: int, group: str, instance: str) -> str:
        before = self._bookmarks.get((group, instance))
        if before is None:
            joining = JoinCall(STREAM, group, TRIM_HORIZON, 0, GROUPS_MAX)
            before = self._call(cluster, number, joining, BookmarkReply).bookmark
        polling = PollCall(STREAM, group, instance, TIMEOUT_MS, before, True)
        polled = self._call(cluster, number, polling, PollReply).polled
        streams = cluster.node(number).partitions
        found, after = read_polled(streams, STREAM, polled, before, sorted(polled.positions), BYTES_MAX, BYTES_MAX)
        self._bookmarks[(group, instance)] = after
        return " ".join([f"{at}/{one.offset}={one.value.decode()}" for at, one in found]) or "nothing"

    def _call(self, cluster: Cluster, number: int, asked: HomeCall, kind: type[Answer]) -> Answer:
        streams = cluster.node(number).partitions
        call = streams.submit(asked)
        cluster.turn(number)
        replies = dict(streams.drain_replies())
        for _ in range(BEATS_MAX):
            if call not in replies:
                cluster.sync(number, streams.home(STREAM))
                replies = dict(streams.drain_replies())
            if call not in replies:
                # It waits for what the home is still to say: see partitions/order.py.
                cluster.tick(BEAT_MS)
        return expect(replies[call], kind)
