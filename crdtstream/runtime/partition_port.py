"""Partitioned streams for servers on the region's event loop: calls as coroutines, carried out here or at the home.

Every coroutine raises Refused. What it returns is in the log, and durable if `fsync` is `always`; what another region
carried out is in that region's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

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
    LocateCall,
    LocateReply,
    PollCall,
    PollReply,
    PutCall,
    PutReply,
    RefusalReply,
    ResetCall,
    ResetReply,
    expect,
)
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.reading import read_polled
from crdtstream.partitions.values import (
    UNKNOWN_STREAM,
    UNWRITABLE,
    Bookmark,
    NewMessage,
    PartitionMessage,
    Polled,
    Refused,
    Reservation,
    Stamp,
    StreamSpec,
)
from crdtstream.runtime.slices import SlicedLoop, Slices

# What a change adds to the log besides keys and values, about.
CHANGE_BYTES: Final = 1 << 10
MESSAGE_BYTES: Final = 128
STOPPED: Final = "this region is shutting down: call another one"


class PartitionPort:
    """The calls of one region's servers."""

    def __init__(self, loop: SlicedLoop, now_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._slices = Slices(loop, now_ms)
        self._streams = loop.node.partitions
        self._waiting: dict[int, asyncio.Future[HomeReply]] = {}
        self.now_ms = now_ms

    def move_clock(self, ahead_ms: int) -> None:
        """Let timeouts of instances, the retention and the times of messages be so far ahead, in this region."""
        self._streams.ahead.ms = ahead_ms

    def turn_ended(self) -> None:
        """Hand the replies that came since the last turn to those that wait for them."""
        for number, reply in self._streams.drain_replies():
            waiting = self._waiting.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply)

    def stop(self) -> None:
        """Refuse what still waits for another region."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(RefusalReply(UNWRITABLE, STOPPED))
        self._waiting.clear()

    # Documents

    async def write_document(self, kind: str, name: str, document: bytes | None) -> None:
        await self._change(lambda: self._streams.documents.write(kind, name, document), len(document or b""))

    def documents(self, kind: str) -> dict[str, bytes]:
        return self._streams.documents.by_name(kind)

    # Streams

    async def create_stream(self, spec: StreamSpec) -> None:
        await self._change(lambda: self._streams.create(spec))

    async def delete_stream(self, stream_id: str) -> None:
        await self._change(lambda: self._streams.delete(stream_id))

    async def take_over(self, stream_id: str) -> None:
        await self._change(lambda: self._streams.take_over(stream_id))

    def spec(self, stream_id: str) -> StreamSpec | None:
        return self._streams.spec(stream_id)

    # Reading here

    def epoch(self, stream_id: str) -> Epoch:
        return self._streams.epoch(stream_id)

    def bounds(self, stream_id: str, partition: int) -> tuple[int, int]:
        """The oldest offset, and the next one to be numbered."""
        found = self._streams.partition(stream_id, partition)
        return found.oldest_offset(), found.next_offset()

    async def offset_at(self, stream_id: str, partition: int, time_ms: int) -> int:
        return await self._slices.perform(lambda _: self._streams.partition(stream_id, partition).offset_at(time_ms))

    def clamp_offset(self, stream_id: str, partition: int, next_offset: int, epoch: Epoch) -> int:
        return self._streams.clamp_offset(stream_id, partition, next_offset, epoch)

    async def read(
        self, stream_id: str, partition: int, first: int, epoch: Epoch, count_max: int, bytes_max: int
    ) -> tuple[list[PartitionMessage], Epoch]:
        """The messages from a next offset on that was reached under `epoch`, and the epoch they were read under."""
        found = await self._slices.perform(
            lambda _: self._streams.read(stream_id, partition, first, epoch, count_max, bytes_max)
        )
        await self._slices.await_shown()
        return found

    async def read_polled(
        self, stream_id: str, polled: Polled, before: Bookmark, order: list[int], count_max: int, bytes_max: int
    ) -> tuple[list[tuple[int, PartitionMessage]], Bookmark]:
        """What an instance reads after its poll: see partitions/reading.py."""
        found = await self._slices.perform(
            lambda _: read_polled(self._streams, stream_id, polled, before, order, count_max, bytes_max)
        )
        await self._slices.await_shown()
        return found

    def misses_regions(self) -> bool:
        """True if a region is a member and not linked: it may have what is not known here."""
        return self._streams.misses_regions()

    async def locate(self, stream_id: str, partition: int, offset: int) -> Epoch | None:
        """Under which epoch an offset holds that is not here; None if nobody has it."""
        try:
            return (await self._call(LocateCall(stream_id, partition, offset), LocateReply)).epoch
        except Refused as refused:
            if refused.code == UNKNOWN_STREAM:
                raise
            # The home cannot be reached, or is of an earlier release: under the epoch that is known here.
            return self._streams.epoch(stream_id)

    # At the home

    async def put(self, stream_id: str, messages: list[NewMessage]) -> list[Stamp]:
        size = sum([len(one.value) + len(one.key or b"") + MESSAGE_BYTES for one in messages])
        return (await self._call(PutCall(stream_id, messages), PutReply, size)).stamps

    async def join_group(self, stream_id: str, group: str, start: str, time_ms: int, groups_max: int) -> Bookmark:
        return (await self._call(JoinCall(stream_id, group, start, time_ms, groups_max), BookmarkReply)).bookmark

    async def poll(
        self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark, commits: bool
    ) -> Polled:
        call = PollCall(stream_id, group, instance, timeout_ms, bookmark, commits)
        return (await self._call(call, PollReply)).polled

    async def commit(self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark) -> Bookmark:
        call = CommitCall(stream_id, group, instance, timeout_ms, bookmark)
        return (await self._call(call, BookmarkReply)).bookmark

    async def heartbeat(
        self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark
    ) -> Bookmark:
        call = HeartbeatCall(stream_id, group, instance, timeout_ms, bookmark)
        return (await self._call(call, BookmarkReply)).bookmark

    async def group(self, stream_id: str, group: str) -> list[Reservation]:
        return (await self._call(GroupCall(stream_id, group), GroupReply)).reservations

    async def reset_group(self, stream_id: str, group: str, start: str, time_ms: int) -> None:
        await self._call(ResetCall(stream_id, group, start, time_ms), ResetReply)

    # Parts

    async def _change(self, change: Callable[[], None], size: int = 0) -> None:
        self._require_running()
        with self._slices.run(CHANGE_BYTES + size):
            change()
        await self._slices.await_settled()

    async def _call(self, call: HomeCall, kind: type[Answer], size: int = 0) -> Answer:
        self._require_running()
        waiting: asyncio.Future[HomeReply] = asyncio.get_running_loop().create_future()
        with self._slices.run(CHANGE_BYTES + size):
            number = self._streams.submit(call)
            self._waiting[number] = waiting
        try:
            result = expect(await waiting, kind)
        finally:
            self._waiting.pop(number, None)
        await self._slices.await_shown()
        return result

    def _require_running(self) -> None:
        if self._loop.failed:
            raise Refused(UNWRITABLE, STOPPED)
