"""Which origins may be at work: those that gave a sign of life a short while ago, and those that may still give one.

An origin that this region hears of late, as after a partition, may have begun a moment ago, and its signs come another
way than its effects. So silence counts from when this region first asked about it.
"""

from __future__ import annotations

from crdtstream.replication.exchange.exchange import Exchange

HEARTBEATS_OF_SILENCE = 2


class FailureDetector:
    """Signs of life, as seen by one region. Times are milliseconds of its clock."""

    __slots__ = ("_asked_ms", "_exchange")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._asked_ms: dict[int, int] = {}

    def is_alive(self, origin: int, now_ms: int, same_directory: bool, since_ms: int) -> bool:
        """Return whether this origin may be at work; `since_ms` is when its successor was met. An origin whose
        directory has another one now is silent sooner.
        """
        limits = self._exchange.view.settings.limits
        sign_ms = self._exchange.progress.sign_ms(origin)
        if same_directory:
            return sign_ms > 0 and now_ms - sign_ms < HEARTBEATS_OF_SILENCE * limits.heartbeat_ms
        listened_ms = now_ms - self._exchange.progress.stalled_ms
        # The clock may have been set back.
        asked_ms = self._asked_ms[origin] = min(self._asked_ms.get(origin, listened_ms), listened_ms)
        return min(listened_ms - asked_ms, now_ms - max(sign_ms, since_ms)) < limits.peer_timeout_ms

    def end(self, origin: int) -> None:
        """Drop an origin whose membership has ended."""
        self._asked_ms.pop(origin, None)
