"""Takes checkpoints beside the turns: when one is due, in slices, with disk work on a thread.

A slice runs on the event loop between two turns, for about `SLICE_S`; then the loop is free for a while. The output of
a slice is written on a thread, and the next slice waits for that. So a checkpoint never holds more than a section in
memory, and a slow disk slows only the checkpoint.

Where blocks take more memory than is allowed, only a checkpoint lets them be spilled. Its thread would get the
interpreter too rarely from a loop whose clients never pause. So a slice takes longer then, and the loop stands still
for as long while its output is written: clients wait, and memory grows no further.

In a region that spills, the thread of the writer also works out the sums of entries, so that digests need not read
blocks. The loop waits for the interpreter meanwhile, so blocks that are written while the log grows fast get no sums.

A checkpoint is due when a client asks for one, when the log behind the last one is long, or when the disk lacks room
(storage/disk_room.py). A failed checkpoint is retried after `RETRY_MS`, or when a client asks; for lack of room one
follows the last after `SHORT_RETRY_S`, and twice that each time that room stayed tight. While room is low, the log is
also shortened between checkpoints, as soon as peers no longer need it. A failure of the log itself ends the region;
any other failure has no further effect.

Backups follow a checkpoint (backups.py), and no other checkpoint begins before they are done.

Before a stop it does not rest between slices: other work still runs between them, but nothing waits on purpose.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar

import structlog

from crdtstream.connections.saving import RETRY_MS
from crdtstream.region.node import Node
from crdtstream.runtime.backups import Backups
from crdtstream.runtime.blocked_turn import Unsettled
from crdtstream.runtime.metrics.meters import Meters
from crdtstream.storage.checkpoint import Capture, Checkpointer
from crdtstream.storage.disk import DiskError
from crdtstream.storage.disk_room import DiskRoom
from crdtstream.storage.log import Log

LOOK_S = 0.05
SLICE_S = 0.001
REST_S = 0.002
SLICE_UNITS = 16
SHORT_RETRY_S = 0.5
SHORT_RETRY_S_MAX = 10.0
# Up to this rate of the log, over a second or two, the sums of small entries take one or two hundredths of a core.
SUMMED_BYTES_A_S = 1 << 20
RATE_S = 1.0

logger = structlog.get_logger()

Result = TypeVar("Result")


class Saver:
    """The checkpoints of one region; `flush` runs a turn and returns why not everything is in the log, or "". Each is
    taken within a context that `around` makes.
    """

    def __init__(
        self,
        node: Node,
        log: Log,
        checkpointer: Checkpointer,
        room: DiskRoom,
        flush: Callable[[], str],
        now_ms: Callable[[], int],
        meters: Meters,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._node = node
        self._log = log
        self._checkpointer = checkpointer
        self._room = room
        self._flush = flush
        self._now_ms = now_ms
        self._meters = meters
        self._around = around
        self._retry_s = 0.0
        self._short_retry_s = 0.0
        self._short_wait_s = SHORT_RETRY_S
        # At the last checkpoint: one that was taken before the disk was full does not delay the one that ends that.
        self._was_full = False
        self._rest_s = REST_S
        self._rate = WriteRate(log)
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._backups = Backups(node, log, checkpointer, self._flush_or_fail, on_thread, now_ms)

    async def run(self) -> None:
        """Run until cancelled; raises errors that end the region."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._rate.look()
            if self._is_due():
                await self._save()
            elif self._room.is_low():
                await self._shorten_log()

    async def _shorten_log(self) -> None:
        """Drop the log that peers no longer need, and on a full disk what only absent peers need."""
        segments = self._checkpointer.release()
        if not segments and self._room.full:
            segments = self._checkpointer.release(yields=True)
            if segments:
                logger.warning("log-yielded", log_from=self._log.first_position)
        await self._delete(segments)

    def _is_due(self) -> bool:
        return self._can_save() and (self._node.saving.requested or self._is_long() or self._is_short())

    def _is_long(self) -> bool:
        limit = self._node.limits.checkpoint_log_bytes
        return 0 < limit <= self._checkpointer.log_bytes() and time.monotonic() >= self._retry_s

    def _is_short(self) -> bool:
        waited = time.monotonic() >= self._short_retry_s or (self._room.full and not self._was_full)
        return waited and self._room.is_short()

    def _can_save(self) -> bool:
        # A region that does not serve yet may wait for batches which only room lets in.
        return (self._room.full or self._node.is_serving()) and self._node.can_describe()

    def lacks(self, log_bytes: int) -> bool:
        """Return whether a checkpoint would spare the next start at least this much of the log."""
        return self._can_save() and self._checkpointer.log_bytes() >= log_bytes

    async def save_soon(self) -> None:
        """Wait for the running checkpoint, or one that starts now, while `run` continues; the checkpoint may fail."""
        self._rest_s = 0.0
        saving = self._node.saving
        number = saving.next()
        while not saving.completed(number):
            await asyncio.sleep(LOOK_S)

    async def _save(self) -> None:
        began_s = time.monotonic()
        saving = self._node.saving
        saving.begin()
        backups = saving.drain_backups()
        try:
            with self._around():
                await self._write_checkpoint()
        except (DiskError, Unsettled) as error:
            self._checkpointer.abort()
            self._meters.checkpoint_failures += 1
            self._retry_s = time.monotonic() + RETRY_MS / 1000
            logger.error("checkpoint-failed", reason=str(error))
            self._node.checkpoint_ended(self._now_ms(), f"the checkpoint failed: {error}")
            for backup in backups:
                self._node.backup_ended(backup, f"the backup failed: its checkpoint failed: {error}")
        else:
            seconds = round(time.monotonic() - began_s, 3)
            self._meters.checkpoint.observe(seconds)
            logger.info("checkpoint-taken", seconds=seconds, log_from=self._log.first_position)
            for backup in backups:
                self._flush()
                await self._backups.make(backup)
        self._room.restore()
        self._space_out()
        self._flush()

    def _space_out(self) -> None:
        """Checkpoints for lack of room never follow each other at once; while room is tight the distances grow."""
        tight = self._room.is_tight()
        self._was_full = self._room.full
        if not tight:
            self._short_wait_s = SHORT_RETRY_S
        self._short_retry_s = time.monotonic() + self._short_wait_s
        if tight:
            self._short_wait_s = min(2 * self._short_wait_s, SHORT_RETRY_S_MAX)

    async def _write_checkpoint(self) -> None:
        checkpointer = self._checkpointer
        self._flush_or_fail()
        self._room.prepare()
        capture = checkpointer.begin()
        while not capture.done:
            self._flush_or_fail()
            await self._slice(capture)
        saved_ms = self._now_ms()
        await on_thread(partial(checkpointer.commit, saved_ms))
        self._node.synced(self._log.synced_position)
        segments = checkpointer.conclude()
        while checkpointer.lay():
            await asyncio.sleep(0)
        await self._delete(segments)
        await on_thread(checkpointer.clean)
        self._node.checkpoint_ended(saved_ms, "")

    async def _delete(self, segments: list[str]) -> None:
        if segments:
            await on_thread(partial(self._log.delete, segments))

    def _flush_or_fail(self) -> None:
        lack = self._flush()
        if lack:
            raise Unsettled(lack)

    async def _slice(self, capture: Capture) -> None:
        """Capture for a moment, and write what was captured."""
        urgency = self._node.context.spilling.urgency()
        self._rate.look()
        write = partial(self._checkpointer.write, sums=self._rate.bytes_a_s() <= SUMMED_BYTES_A_S)
        end_s = time.perf_counter() + SLICE_S * urgency
        while not capture.done and time.perf_counter() < end_s:
            if capture.step(SLICE_UNITS):
                continue
            sections = capture.drain_output()
            if not sections:
                break
            writing = self._writer.submit(write, sections)
            wait((writing,), SLICE_S * (urgency - 1.0))
            if not writing.done():
                await undisturbed(asyncio.wrap_future(writing))
                return
            writing.result()
        await asyncio.sleep(self._rest_s)


class WriteRate:
    """How fast the log grows, over the last one or two times `RATE_S`."""

    __slots__ = ("_bytes", "_last", "_log", "_s")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._bytes, self._s = self._last = log.appended_bytes, time.monotonic()

    def look(self) -> None:
        """To be called more often than once in `RATE_S`; after a pause the rate begins again."""
        now = self._log.appended_bytes, time.monotonic()
        passed_s = now[1] - self._last[1]
        if passed_s >= RATE_S:
            self._bytes, self._s = self._last if passed_s < 2 * RATE_S else now
            self._last = now

    def bytes_a_s(self) -> float:
        return (self._log.appended_bytes - self._bytes) / max(time.monotonic() - self._s, RATE_S)


async def on_thread(work: Callable[[], Result]) -> Result:
    return await undisturbed(asyncio.get_running_loop().run_in_executor(None, work))


async def undisturbed(future: asyncio.Future[Result]) -> Result:
    """Wait for work on a thread. A cancelled caller still waits for it, because it is using the files."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
