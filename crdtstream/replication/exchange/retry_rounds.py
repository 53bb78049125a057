"""When a region asks again for batches that it dropped.

At once while what waits takes at most half of `inbox_bytes_max`. While it takes more, it may be what was dropped that
it waits for: then the region asks as soon as what waits has not shrunk for a heartbeat. A peer sends first what its
receiver lacks first, and of all that is missing one batch depends on nothing else that is missing: it is applied as it
arrives, whatever waits. So each round brings at least that batch, if its link is open. A round that brought nothing
doubles the time until the next one, up to `peer_timeout_ms`: the missing batch may be with a region that is away.
"""

from __future__ import annotations

from crdtstream.settings.config import Limits


class Asking:
    """The rounds in which a region asks for what it dropped."""

    __slots__ = ("_applied", "_least_bytes", "_since_ms", "_wait_ms")

    def __init__(self) -> None:
        self._applied = 0
        self._least_bytes = 0
        self._since_ms = 0
        # 0 while nothing is dropped, or there is room.
        self._wait_ms = 0

    def end(self) -> None:
        """Nothing is dropped any more."""
        self._wait_ms = 0

    def is_due(self, held_bytes: int, applied: int, limits: Limits, now_ms: int) -> bool:
        """Return whether to ask now: `held_bytes` wait, and `applied` effects are applied."""
        if 2 * held_bytes <= limits.inbox_bytes_max:
            self.end()
            return True
        if not self._wait_ms:
            self._wait_ms, self._applied = limits.heartbeat_ms, applied
            self._begin(held_bytes, now_ms)
        # The clock may have been set back.
        elif held_bytes < self._least_bytes or now_ms < self._since_ms:
            self._begin(held_bytes, now_ms)
        elif now_ms - self._since_ms >= self._wait_ms:
            fruitless = applied == self._applied
            self._wait_ms = min(2 * self._wait_ms, limits.peer_timeout_ms) if fruitless else limits.heartbeat_ms
            self._applied = applied
            self._begin(held_bytes, now_ms)
            return True
        return False

    def _begin(self, held_bytes: int, now_ms: int) -> None:
        self._least_bytes, self._since_ms = held_bytes, now_ms
