"""Slices: work of other ports that runs between two commands of clients, on the region's event loop.

A slice that needs spilled blocks is run again from its start once they were read (`Slices.perform`): until its first
effect, it may wait.

A caller that changed something confirms it after `await_settled`, and returns what it read after `await_shown`: then it
is in the log, and durable if `fsync` is `always`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

from crdtstream.bulk.errors import BulkError
from crdtstream.connections.context import Context
from crdtstream.core.entries.spilled import BlockHandle, NotAtOnce
from crdtstream.partitions.values import Refused
from crdtstream.region.node import Node

Result = TypeVar("Result")


class SlicedLoop(Protocol):
    """The loop as ports see it that work in slices."""

    node: Node
    failed: bool

    def expect(self, arrived_bytes: int, held_bytes: int) -> None: ...

    def finish_input(self) -> None: ...

    async def await_settled(self) -> None: ...

    def fail(self, error: Exception) -> None: ...


@contextmanager
def waiting_for_blocks(context: Context, held: dict[BlockHandle, bytes]) -> Iterator[None]:
    """A slice may wait for spilled blocks until its first effect; `held` is what was read for it."""
    reads = context.replica.reads
    if not reads.on:
        yield
        return
    reads.begin(held)
    try:
        yield
    finally:
        reads.end()


def end(read: asyncio.Future[None]) -> None:
    if not read.done():
        read.set_result(None)


class Slices:
    """Runs code between two commands."""

    def __init__(self, loop: SlicedLoop, now_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._node = loop.node
        self._now_ms = now_ms

    @contextmanager
    def run(self, byte_count: int = 0) -> Iterator[Context]:
        """Run code between two commands; `byte_count` is roughly what it adds to the log. A refusal passes through; any
        other error after a change ends the region.
        """
        if byte_count:
            self._loop.expect(0, byte_count)
        prepared = self._begin()
        try:
            yield self._node.context
        except (BulkError, Refused):
            raise
        except Exception as error:
            if self._node.replica.prepared != prepared:
                # Memory may now differ from what a replay of the log would produce, so the region must end.
                self._loop.fail(error)
            raise
        finally:
            self._end()

    async def perform(self, work: Callable[[Context], Result], byte_count: int = 0) -> Result:
        """Run code that may need spilled blocks, which then runs again from its start."""
        held: dict[BlockHandle, bytes] = {}
        while True:
            try:
                with self.run(byte_count) as context, waiting_for_blocks(context, held):
                    return work(context)
            except NotAtOnce as missing:
                await self._read(missing, held)

    async def _read(self, missing: NotAtOnce, held: dict[BlockHandle, bytes]) -> None:
        read = asyncio.get_running_loop().create_future()
        self._node.context.block_reads.begin(missing, held, partial(end, read))
        # The read begins at the end of a turn.
        self._loop.finish_input()
        await read

    def _begin(self) -> int:
        try:
            self._node.begin_slice(self._now_ms())
        except Exception as error:
            self._loop.fail(error)
            raise
        return self._node.replica.prepared

    def _end(self) -> None:
        if self._loop.failed:
            return
        try:
            self._node.replica.budget.ease()
            self._node.end_slice()
        except Exception as error:
            self._loop.fail(error)
            raise
        self._loop.finish_input()

    async def await_settled(self) -> None:
        """Wait until changes made so far may be confirmed."""
        await self._loop.await_settled()

    async def await_shown(self) -> None:
        """Wait until data read so far may be returned."""
        if self._node.outputs.holds:
            await self._loop.await_settled()
        else:
            await asyncio.sleep(0)
