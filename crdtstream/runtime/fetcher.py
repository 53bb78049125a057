"""Reads on threads the spilled blocks that requests wait for (connections/blocks/reads.py).

The threads are its own: a disk that does not answer keeps those that wait for blocks, and neither the log nor a
checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from crdtstream.connections.blocks.reads import BlockRead, BlockReads

THREADS = 8


class Fetcher:
    """The reads of one region; `after` is called after each one that came back, `fail` if what goes on then fails."""

    def __init__(self, block_reads: BlockReads, after: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        self._block_reads = block_reads
        self._after = after
        self._fail = fail
        self._threads = ThreadPoolExecutor(THREADS, "spilled blocks")

    def start(self) -> None:
        """Begin to read what is wanted."""
        running = asyncio.get_running_loop()
        for block_read in self._block_reads.drain():
            running.run_in_executor(self._threads, block_read.read).add_done_callback(partial(self._finish, block_read))

    def _finish(self, block_read: BlockRead, read: asyncio.Future[list[bytes]]) -> None:
        if read.cancelled():
            return
        try:
            block_read.finish(read.result())
        except Exception as error:
            self._fail(error)
        self._after()

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
