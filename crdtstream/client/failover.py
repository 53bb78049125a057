"""Which region a client uses, and what it does when that fails: without connections of its own, clock or event loop.

A client stays in its region until that fails, and then takes the nearest one that can be used. A region that failed is
left alone for a pause, which doubles from failure to failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from crdtstream.client.errors import (
    CLIENT_ERRORS,
    AfterError,
    Behind,
    NoRegion,
    OutcomeUnknown,
    WritesLost,
    after_error,
)
from crdtstream.client.session import SessionTokens
from crdtstream.client.steps import Step, Steps

PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """`patience_s` bounds the search of one call; `pause_s_max` the pause of a region that fails again and again."""

    patience_s: float = 30.0
    pause_s_max: float = 5.0
    await_ms: int = 5_000
    go_on_behind: bool = False


class Region:
    """One region: its client of redis-py, which `connect` may replace, and how it fared.

    `connect` is a step that raises if no command can be sent.
    """

    def __init__(self, address: str, client: Any, connect: Callable[[Region], Any]) -> None:
        self.address = address
        self.client = client
        self.connect: Step = partial(connect, self)
        self.number = 0
        self.error: Exception | None = None
        self.usable_at_s = 0.0
        self._pause_s = PAUSE_S

    def fail(self, error: Exception, now_s: float, pause_s_max: float) -> None:
        self.error = error
        self.usable_at_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, pause_s_max)

    def succeed(self) -> None:
        self.error = None
        self._pause_s = PAUSE_S


def asking(*words: Any) -> Callable[[Any], Any]:
    """Return a function that executes one command with a client."""
    return lambda client: client.execute_command(*words)


class Failover:
    """The regions of a client in order of distance, and its session, if it has one."""

    def __init__(
        self,
        regions: Sequence[Region],
        options: FailoverOptions,
        session: SessionTokens | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Any],
    ) -> None:
        self.regions = regions
        self.options = options
        self.session = session
        self.clock = clock
        self.sleep = sleep
        # The region in use; None from its failure until another one has what the session has seen.
        self.current: Region | None = None
        self.repeats_elsewhere = 0

    def call(self, function: Callable[[Any], Any], repeat: bool, stay_s: float = 0.0) -> Steps[Any]:
        """Return the reply of `answer`."""
        _, reply = yield from self.answer(function, repeat, stay_s)
        return reply

    def answer(self, function: Callable[[Any], Any], repeat: bool, stay_s: float = 0.0) -> Steps[tuple[Region, Any]]:
        """Call the function with the client of a region, and again with others; see `Regions.call`.

        Returns the region that replied, and its reply. With `repeat`, what may have been executed is repeated in the
        same region for `stay_s` seconds, then elsewhere.
        """
        end_s = self.clock() + self.options.patience_s
        doubtful: Region | None = None
        stay_until_s = 0.0
        while True:
            stays = self.clock() < stay_until_s
            region = yield from self._choose(end_s, doubtful if stays else None)
            if not (yield from self._arrive(region)):
                continue
            try:
                reply = yield partial(function, region.client)
            except CLIENT_ERRORS as error:
                outcome = self._leave(region, error)
                if outcome is AfterError.UNKNOWN:
                    if not repeat:
                        raise OutcomeUnknown(region.address, error) from error
                    stay_until_s = stay_until_s or self.clock() + stay_s
                    doubtful = doubtful or region
                continue
            region.succeed()
            self.repeats_elsewhere += doubtful not in (None, region)
            yield from self._remember(region, reply)
            return region, reply

    def move(self, region: Region) -> Steps[bool]:
        """Use this region from now on; False, and nothing changes, if it cannot be used or the session is ahead."""
        try:
            yield region.connect
            lost = yield from self._catch_up(region, go_on_behind=False)
        except CLIENT_ERRORS as error:
            if after_error(error) is AfterError.FAILED:
                raise
            region.fail(error, self.clock(), self.options.pause_s_max)
            return False
        self._use(region, lost)
        return True

    def go_home(self) -> Steps[bool]:
        """Move to the nearest region that can be used; False if the client stays where it is."""
        for region in self.regions:
            if region is self.current:
                return False
            if (yield from self.move(region)):
                return True
        return False

    def _choose(self, end_s: float, only: Region | None) -> Steps[Region]:
        """Return the region to try next, after a pause if need be. Raises NoRegion or Behind when the time is over."""
        candidates = self.regions if only is None else [only]
        while True:
            now_s = self.clock()
            # Read once: another thread may leave the region meanwhile.
            current = self.current
            if current is not None and only in (None, current):
                return current
            for region in candidates:
                if region.usable_at_s <= now_s:
                    return region
            wake_s = min(region.usable_at_s for region in candidates)
            if wake_s > end_s:
                raise self._failure()
            yield partial(self.sleep, wake_s - now_s)

    def _failure(self) -> redis.RedisError:
        for region in self.regions:
            if isinstance(region.error, Behind):
                return region.error
        return NoRegion({region.address: region.error for region in self.regions})

    def _arrive(self, region: Region) -> Steps[bool]:
        """Return whether a command can be sent to this region, which has what the session has seen."""
        try:
            yield region.connect
            if region is self.current:
                return True
            lost = yield from self._catch_up(region, self.options.go_on_behind)
        except CLIENT_ERRORS as error:
            self._leave(region, error)
            return False
        self._use(region, lost)
        return True

    def _catch_up(self, region: Region, go_on_behind: bool) -> Steps[str]:
        if self.session is None:
            return ""
        return (yield from self.session.catch_up(region.client, region.address, self.options.await_ms, go_on_behind))

    def _use(self, region: Region, lost: str) -> None:
        self.current = region
        if lost:
            raise WritesLost(region.address, lost)

    def _leave(self, region: Region, error: Exception) -> AfterError:
        """Leave a region that failed; an error that says nothing about the region is raised again."""
        outcome = after_error(error)
        if outcome is AfterError.FAILED:
            raise error
        region.fail(error, self.clock(), self.options.pause_s_max)
        if self.current is region:
            self.current = None
        return outcome

    def _remember(self, region: Region, reply: object) -> Steps[None]:
        if self.session is None:
            return
        try:
            yield from self.session.renew(region.client)
        except CLIENT_ERRORS as error:
            self._leave(region, error)
            if not self.options.go_on_behind:
                raise Behind(region.address, "was lost before it gave a token of this call", reply) from error
