"""Rate-limited warnings: a hostile client could repeat them at will, so each kind is logged at most once every
`WARNING_INTERVAL_MS`.
"""

from __future__ import annotations

from typing import Final

WARNING_INTERVAL_MS: Final = 60_000


class Alarm:
    """One kind of warning; `unsaid` counts the warnings suppressed since the last one that was logged."""

    __slots__ = ("_said_ms", "unsaid")

    def __init__(self) -> None:
        self.unsaid = 0
        self._said_ms: int | None = None

    def text_due(self, text: str, now_ms: int) -> str:
        """The text to log, or an empty string within the interval. After the clock was set back it is logged at
        once.
        """
        if self._said_ms is not None and 0 <= now_ms - self._said_ms < WARNING_INTERVAL_MS:
            self.unsaid += 1
            return ""
        more = f"; {self.unsaid} more like it since the last warning" if self.unsaid else ""
        self.unsaid = 0
        self._said_ms = now_ms
        return text + more


class Alarms:
    """The alarms of one region."""

    __slots__ = ("handshakes", "http", "passwords")

    def __init__(self) -> None:
        self.handshakes = Alarm()
        self.http = Alarm()
        self.passwords = Alarm()
