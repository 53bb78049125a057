"""Partitioned streams on simulated regions: calls as a server makes them, carried out when the test says so."""

from __future__ import annotations

from crdtstream.partitions.calls import (
    Answer,
    BookmarkReply,
    CommitCall,
    GroupCall,
    GroupReply,
    HeartbeatCall,
    HomeCall,
    HomeReply,
    JoinCall,
    PollCall,
    PollReply,
    PutCall,
    PutReply,
    RefusalReply,
    expect,
)
from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.partitions.values import Bookmark, NewMessage, PartitionMessage, Polled, Reservation, Stamp, StreamSpec
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

    def submit(self, number: int, call: HomeCall) -> int:
        """Make a call in that region; its reply comes later."""
        asked = self.streams(number).submit(call)
        self.turn(number)
        return asked

    def replies(self, number: int) -> dict[int, HomeReply]:
        return dict(self.node(number).partitions.drain_replies())

    def reply_to(self, number: int, call: HomeCall, kind: type[Answer]) -> Answer:
        """Make a call, deliver what it causes, and return its reply; raises Refused."""
        asked = self.submit(number, call)
        self.sync()
        return expect(self.replies(number)[asked], kind)

    def put(self, number: int, *values: bytes, partition: int = 0) -> list[Stamp]:
        messages = [NewMessage(partition, None, value) for value in values]
        return self.reply_to(number, PutCall(STREAM, messages), PutReply).stamps

    def read(self, number: int, first: int = 0, partition: int = 0) -> list[PartitionMessage]:
        return self.streams(number).partition(STREAM, partition).read(first, 1_000, 1 << 20)

    def values(self, number: int, partition: int = 0) -> list[tuple[int, bytes]]:
        return [(one.offset, one.value) for one in self.read(number, 0, partition)]

    def join(self, number: int, group: str = "g", start: str = "TRIM_HORIZON", time_ms: int = 0) -> Bookmark:
        return self.reply_to(number, JoinCall(STREAM, group, start, time_ms, 0), BookmarkReply).bookmark

    def poll(
        self, number: int, instance: str, bookmark: Bookmark = NOTHING_READ, commits: bool = True, group: str = "g"
    ) -> Polled:
        call = PollCall(STREAM, group, instance, TIMEOUT_MS, bookmark, commits)
        return self.reply_to(number, call, PollReply).polled

    def commit(self, number: int, instance: str, bookmark: Bookmark) -> Bookmark:
        return self.reply_to(number, CommitCall(STREAM, "g", instance, TIMEOUT_MS, bookmark), BookmarkReply).bookmark

    def heartbeat(self, number: int, instance: str, bookmark: Bookmark) -> Bookmark:
        return self.reply_to(number, HeartbeatCall(STREAM, "g", instance, TIMEOUT_MS, bookmark), BookmarkReply).bookmark

    def reservations(self, number: int, group: str = "g") -> list[Reservation]:
        return self.reply_to(number, GroupCall(STREAM, group), GroupReply).reservations

    def committed(self, number: int, group: str = "g") -> list[int]:
        return [one.committed for one in self.reservations(number, group)]

    def owners(self, number: int, group: str = "g") -> list[str]:
        return [one.instance for one in self.reservations(number, group)]


def code_of(reply: HomeReply) -> str:
    """Why the call was refused."""
    assert isinstance(reply, RefusalReply)
    return reply.code


def read_to(polled: Polled, offsets: dict[int, int]) -> Bookmark:
    """The bookmark of an instance that read up to these offsets, both inclusive."""
    return Bookmark(polled.generation, polled.epoch, polled.start, offsets)
