"""The process of one shard: started, and started again when it ends by itself, after a wait that doubles each time.

A shard that ends with exit code 0 was asked to. If it left the cluster it stays down; after SHUTDOWN or SIGTERM it
does until the supervisor is told to start it again, which counts as soon as the shard has said that it stops. One that
moves to another machine ends for good: with exit code 0 once it has told its clients, or as one with wrong settings if
nothing is left to do here. If it is to run here again by then, it is started at once: it is refused until it takes
over, because what it left was handed over.
"""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from crdtstream.supervisor.reports import ShardReport

USAGE_ERROR = 2
BACKOFF_S_MIN = 0.25
BACKOFF_S_MAX = 30.0
# A process that has served for so long begins again with the shortest wait.
STEADY_S = 60.0
STARTING, LEFT = "it is starting", "it has left the cluster"

logger = structlog.get_logger()


class ShardProcess:
    """One shard; `environment` is called before each start, `changed` whenever it begins or ceases to serve."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        environment: Callable[[], Mapping[str, str]],
        changed: Callable[[], None],
    ) -> None:
        self.number = number
        self._command = command
        self._environment = environment
        self._changed = changed
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._again = asyncio.Event()
        self._backoff_s = BACKOFF_S_MIN
        # Why it does not serve; empty if it does.
        self.status = STARTING
        # Before its first report a process has no handlers, so SIGHUP would end it.
        self._listens = False
        self._must_reload = False
        # It has said that it stops.
        self._stops = False
        # Of the last process that ended.
        self.code = 0
        # It has ended as it was asked to.
        self.is_down = False
        self._has_left = False
        # It moves to another machine.
        self.moves = False
        # Its process has handed its directory over, and ends for that.
        self._has_moved = False

    @property
    def process_id(self) -> int:
        """0 while there is no process."""
        return 0 if self._process is None else self._process.pid

    @property
    def serves(self) -> bool:
        """A process that has moved only tells its clients where the shard is."""
        return not (self.status or self._has_moved)

    async def run(self) -> None:
        """Keep the shard running until `stop`."""
        while not self._stopping.is_set():
            began_s = asyncio.get_running_loop().time()
            await self._run_once()
            if self._stopping.is_set() or (self.moves and self.code in (0, USAGE_ERROR)):
                return
            if self._has_left:
                await self._stay_away()
            elif self.code == 0 and not self._has_moved:
                await self._await_restart()
            elif self.code != 0:
                lived_s = asyncio.get_running_loop().time() - began_s
                await self._rest(lived_s)

    async def _run_once(self) -> None:
        self._listens = self._must_reload = self._stops = self._has_left = self._has_moved = False
        self.status = STARTING
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=DEVNULL, env=self._environment(), start_new_session=True
        )
        # Set from here on only for a process that ends: its end is noticed later than others may see it.
        self._again.clear()
        logger.info("shard-started", shard=self.number, process=self._process.pid)
        if self._stopping.is_set():
            self._process.send_signal(signal.SIGTERM)
        self._report(STARTING)
        self.code = await self._process.wait()
        self._process = None

    async def _await_restart(self) -> None:
        logger.info("shard-stopped", shard=self.number)
        if self._again.is_set():
            # It is not down: the supervisor would end with the last one.
            return
        self.is_down = True
        self._report("it was stopped")
        await first_of(self._again.wait(), self._stopping.wait())
        self.is_down = False

    async def _stay_away(self) -> None:
        """Started again, it would join the cluster that it has left."""
        logger.info("shard-left", shard=self.number)
        self.is_down = True
        self._report(LEFT)
        await self._stopping.wait()

    async def _rest(self, lived_s: float) -> None:
        """Wait, before the next attempt, twice as long as before the last one."""
        if lived_s >= STEADY_S:
            self._backoff_s = BACKOFF_S_MIN
        logger.error("shard-failed", shard=self.number, reason=reason_of(self.code), restart_s=self._backoff_s)
        self._report(reason_of(self.code))
        await first_of(asyncio.sleep(self._backoff_s), self._again.wait(), self._stopping.wait())
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_S_MAX)

    def _report(self, status: str) -> None:
        self.status = status
        self._changed()

    def heard(self, report: ShardReport) -> None:
        """Its process says this of itself."""
        self._listens = True
        self._stops = self._stops or report.stops
        self._has_left = self._has_left or report.has_left
        self._has_moved = self._has_moved or report.has_moved
        if self._must_reload:
            self._must_reload = False
            self._signal(signal.SIGHUP)
        if report.serves or report.status:
            self._report("" if report.serves else report.status)

    def follow(self, is_here: bool) -> None:
        """The shard is to run here, or elsewhere; its process reads that in the map."""
        self.moves = not is_here

    def reload(self) -> None:
        """Have it read its settings again, as soon as it can, and start it if it was stopped, stops or has failed."""
        if self._process is None or self._process.returncode is not None or self._stops:
            self._again.set()
        if self._has_left:
            # It is ending, and in its last moments it has no handlers.
            return
        if self._listens:
            self._signal(signal.SIGHUP)
        else:
            self._must_reload = True

    def ended_well(self) -> bool:
        """Return whether its last process ended as it was asked to, which SIGTERM does before there is a handler."""
        return self.code in (0, -signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            # It may have ended a moment ago.
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def stop(self) -> None:
        """Ask for a clean stop, after which it is not started again; a second time, for a faster one."""
        self._stopping.set()
        self._signal(signal.SIGTERM)


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for one of them; the others are given up."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def reason_of(code: int) -> str:
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with exit code {code}: its log says why"
