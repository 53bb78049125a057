"""Regions that answer as a test says, and a clock that only pauses move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis

from crdtstream.client.failover import Failover, FailoverOptions, Region
from crdtstream.client.session import SessionTokens

DOWN = redis.ConnectionError("refused")
LOST = redis.ConnectionError("reset")


class FakeRegion:
    """Answers with `replies` in order, then with `OK`; an exception is raised. While it is down nothing can be sent."""

    def __init__(self, address: str, *replies: object) -> None:
        self.address = address
        self.replies = [*replies]
        self.down = False
        self.asked: list[tuple[object, ...]] = []
        self.tokens = 0
        self.breaks = False

    def connect(self, region: Region) -> None:
        if self.down:
            raise DOWN

    def execute_command(self, *words: object) -> Any:
        self.asked.append(words)
        if self.breaks:
            raise LOST
        if words[0] == "CRDT.TOKEN":
            self.tokens += 1
            return f"{self.address}{self.tokens}".encode()
        reply = self.replies.pop(0) if self.replies else b"OK"
        if isinstance(reply, Exception):
            raise reply
        return reply


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[Callable[[], None]] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for act in self.pauses:
            act()


def failover_of(
    regions: Sequence[FakeRegion], clock: Clock, session: SessionTokens | None = None, **options: Any
) -> Failover:
    made = [Region(region.address, region, region.connect) for region in regions]
    return Failover(made, FailoverOptions(**options), session, lambda: clock.now_s, clock.sleep)
