"""Reads of spilled blocks on threads: a disk that does not answer keeps nobody but those that wait for it."""

from __future__ import annotations

import asyncio
import threading
from zlib import crc32

from crdtstream.connections.blocks.reads import UNREADABLE, BlockReads
from crdtstream.core.entries.spilled import BlockHandle, NotAtOnce
from crdtstream.runtime.fetcher import THREADS, Fetcher
from tests.core.spilled_blocks import SlowFile

DEADLINE_S = 60.0


class Stalled(SlowFile):
    """A file that answers once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.data += b"packed"
        self.may_answer = threading.Event()

    def read(self, offset: int, length: int) -> bytes:
        self.may_answer.wait(DEADLINE_S)
        return super().read(offset, length)

    def handle(self) -> BlockHandle:
        return BlockHandle(self, 0, 6, crc32(b"packed"), False)


def raised(error: Exception) -> None:
    raise error


def test_a_disk_that_stalls_keeps_only_those_that_wait_for_it() -> None:
    async def run() -> None:
        stalled, quick = Stalled(), Stalled()
        quick.may_answer.set()
        reads, ended, turns = BlockReads(), [], []
        fetcher = Fetcher(reads, lambda: turns.append(1), raised)
        slow = [
            reads.begin(NotAtOnce([stalled.handle()]), {}, lambda: ended.append("slow")) for _ in range(THREADS - 1)
        ]
        reads.begin(NotAtOnce([quick.handle()]), {}, lambda: ended.append("quick"))
        fetcher.start()
        async with asyncio.timeout(DEADLINE_S):
            while not ended:
                await asyncio.sleep(0.001)
            assert ended == ["quick"] and turns == [1] and not any(one.done for one in slow)
            # What needs no block of that disk goes on: this loop, and the threads of everything else.
            assert await asyncio.get_running_loop().run_in_executor(None, lambda: 7) == 7
            stalled.may_answer.set()
            while len(ended) < THREADS:
                await asyncio.sleep(0.001)
        assert all(list(one.held.values()) == [b"packed"] for one in slow)
        fetcher.stop()

    asyncio.run(run())


def test_what_cannot_be_read_is_told_to_who_opens_it() -> None:
    async def run() -> None:
        file = SlowFile()
        file.fails = True
        reads, ended = BlockReads(), []
        fetcher = Fetcher(reads, lambda: ended.append(1), raised)
        handle = BlockHandle(file, 0, 6, 0, False)
        read = reads.begin(NotAtOnce([handle]), {}, lambda: None)
        fetcher.start()
        async with asyncio.timeout(DEADLINE_S):
            while not ended:
                await asyncio.sleep(0.001)
        assert read.held == {handle: UNREADABLE} and not handle.is_whole(UNREADABLE)
        fetcher.stop()

    asyncio.run(run())
