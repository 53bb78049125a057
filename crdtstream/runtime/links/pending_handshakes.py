"""Streams from peers that have not greeted: each for a limited time, and only a few at once.

Anything that reaches the port can open streams and stay silent. Such a stream costs little, because it receives nothing
before it greets (link.py), and it is closed after `greeting_timeout_ms`. Beyond `ungreeted_links_max` the oldest one is
closed: a correct peer greets at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from crdtstream.runtime.links.handshake import HandshakeRefused
from crdtstream.runtime.links.link import Link
from crdtstream.settings.config import Limits

Result = TypeVar("Result")


class Newcomer:
    """One stream; `link` is set when the peer is authorised, `timer` limits its time."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._reason = ""
        self._clock: asyncio.Timeout | None = None

    @property
    def has_greeted(self) -> bool:
        return self.link is not None and self.link.region != 0

    async def in_time(self, work: Coroutine[None, None, Result]) -> Result:
        """Return the result of the work, unless the newcomer is expelled first; then raise Refused."""
        try:
            async with asyncio.timeout(None) as self._clock:
                return await work
        except TimeoutError:
            raise HandshakeRefused(self._reason) from None

    def expel(self, reason: str) -> None:
        if self.has_greeted:
            return
        self._reason = reason
        if self.link is not None:
            self.link.close(reason)
        elif self._clock is not None:
            self._clock.reschedule(asyncio.get_running_loop().time())


class Newcomers:
    """The newcomers of one transport, oldest first."""

    def __init__(self, limits: Limits) -> None:
        self._timeout_ms = limits.greeting_timeout_ms
        self._count_max = limits.ungreeted_links_max
        self._all: dict[Newcomer, None] = {}

    def enter(self) -> Newcomer:
        self._all = {one: None for one in self._all if not one.has_greeted}
        while len(self._all) >= self._count_max:
            oldest = next(iter(self._all))
            oldest.expel(f"more than ungreeted_links_max = {self._count_max} streams of peers that have not greeted")
            self.leave(oldest)
        newcomer = Newcomer()
        self._all[newcomer] = None
        reason = f"no greeting within greeting_timeout_ms = {self._timeout_ms}"
        running = asyncio.get_running_loop()
        newcomer.timer = running.call_later(self._timeout_ms / 1000, newcomer.expel, reason)
        return newcomer

    def leave(self, newcomer: Newcomer) -> None:
        self._all.pop(newcomer, None)
        if newcomer.timer is not None:
            newcomer.timer.cancel()

    def __len__(self) -> int:
        return len(self._all)
