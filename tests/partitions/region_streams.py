"""Partitioned streams on simulated regions: calls as a server makes them, carried out when the test says so."""

from __future__ import annotations

from typing import Any

from crdtstream.partitions import calls
from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.partitions.values import Bookmark, NewMessage, PartitionMessage, Polled, Stamp, StreamSpec
from crdtstream.protocols.call_rows import CallRow as Row
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster

STREAM = "s"
HOUR_MS = 3_600_000
TIMEOUT_MS = 30_000
NOTHING_READ = Bookmark(0, (0, 0), (0, 0), {})


class Regions(Cluster):
    """Linked regions with one partitioned stream, whose home is region 1."""

    def __init__(self, regions: int = 1, partitions: int = 2, limits: Limits | None = None, fsync: str = "no") -> None:
        super().__init__(regions, "strict", fsync, limits=limits or Limits(segment_bytes_max=1 << 16))
        self.live(2_000)
        self.streams(1).create(StreamSpec(STREAM, partitions, 24 * HOUR_MS))
        self.turn(1)
        self.sync()

    def streams(self, number: int) -> PartitionedStreams:
        self.node(number).begin_slice(self.clock_ms(number))
        return self.node(number).partitions

    def submit(self, number: int, *row: Any) -> int:
        """Make a call in that region; its reply comes later."""
        call = self.streams(number).submit([row[0], STREAM, *row[1:]])
        self.turn(number)
        return call

    def replies(self, number: int) -> dict[int, Row]:
        return dict(self.node(number).partitions.take_replies())

    def ask(self, number: int, *row: Any) -> Any:
        """Make a call, deliver what it causes, and return its result; raises Refused."""
        call = self.submit(number, *row)
        self.sync()
        return calls.result_of(self.replies(number)[call])

    def put(self, number: int, *values: bytes, partition: int = 0) -> list[Stamp]:
        messages = [NewMessage(partition, None, value) for value in values]
        return calls.stamps_in(self.ask(number, calls.PUT, calls.message_rows(messages)))

    def read(self, number: int, first: int = 0, partition: int = 0) -> list[PartitionMessage]:
        return self.streams(number).partition(STREAM, partition).read(first, 1_000, 1 << 20)

    def values(self, number: int, partition: int = 0) -> list[tuple[int, bytes]]:
        return [(one.offset, one.value) for one in self.read(number, 0, partition)]

    def join(self, number: int, group: str = "g", start: str = "TRIM_HORIZON", time_ms: int = 0) -> Bookmark:
        return calls.bookmark_in(self.ask(number, calls.JOIN, group, start, time_ms, 0))

    def poll(
        self, number: int, instance: str, bookmark: Bookmark = NOTHING_READ, commits: bool = True, group: str = "g"
    ) -> Polled:
        row = calls.bookmark_row(bookmark)
        return calls.polled_in(self.ask(number, calls.POLL, group, instance, TIMEOUT_MS, row, commits))

    def instance_call(self, operation: str, number: int, instance: str, bookmark: Bookmark) -> Bookmark:
        row = calls.bookmark_row(bookmark)
        return calls.bookmark_in(self.ask(number, operation, "g", instance, TIMEOUT_MS, row))

    def committed(self, number: int, group: str = "g") -> list[int]:
        return [one.committed for one in calls.reservations_in(self.ask(number, calls.GROUP, group))]

    def owners(self, number: int, group: str = "g") -> list[str]:
        return [one.instance for one in calls.reservations_in(self.ask(number, calls.GROUP, group))]


def read_to(polled: Polled, offsets: dict[int, int]) -> Bookmark:
    """The bookmark of an instance that read up to these offsets, both inclusive."""
    return Bookmark(polled.generation, polled.epoch, polled.start, offsets)
