"""Reads on threads the spilled blocks that requests wait for (connections/fetching.py).

The threads are its own: a disk that does not answer keeps those that wait for blocks, and neither the log nor a
checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from crdtstream.connections.fetching import Fetch, Fetching

THREADS = 8


class Fetcher:
    """The reads of one region; `after` is called after each one that came back."""

    def __init__(self, fetching: Fetching, after: Callable[[], None]) -> None:
        self._fetching = fetching
        self._after = after
        self._threads = ThreadPoolExecutor(THREADS, "spilled blocks")

    def start(self) -> None:
        """Begin to read what is wanted."""
        running = asyncio.get_running_loop()
        for fetch in self._fetching.drain():
            running.run_in_executor(self._threads, fetch.read).add_done_callback(partial(self._finish, fetch))

    def _finish(self, fetch: Fetch, read: asyncio.Future[list[bytes]]) -> None:
        if not read.cancelled():
            fetch.finish(read.result())
            self._after()

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
