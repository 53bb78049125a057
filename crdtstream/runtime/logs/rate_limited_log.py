"""What is logged when something happens again and again: the first time at once, then how often, once a minute.

A peer that is refused dials again after a moment, and a stranger may dial as often as it likes with another name each
time. So lines are rationed by what they say, and all lines of one event together.
"""

from __future__ import annotations

INTERVAL_S = 60.0
# So many different lines of one event in an interval; what is beyond them shares one.
TEXTS_MAX = 32
OTHERS = ""


class Repeat:
    """One line: when it was last logged, and how often it was not logged since."""

    __slots__ = ("said_s", "unsaid")

    def __init__(self, said_s: float) -> None:
        self.said_s = said_s
        self.unsaid = 0

    def is_old(self, now_s: float) -> bool:
        return now_s - self.said_s >= INTERVAL_S


class Repeats:
    """The lines of one process, by event and then by text."""

    def __init__(self) -> None:
        self._events: dict[str, dict[str, Repeat]] = {}

    def ask(self, event: str, text: str, now_s: float) -> int | None:
        """Return None if the line must not be logged now, or else how often it was not logged since the last time."""
        repeats = self._events.setdefault(event, {})
        repeat = repeats.get(text)
        if repeat is None and len(repeats) >= TEXTS_MAX:
            self._forget(repeats, now_s)
            if len(repeats) >= TEXTS_MAX:
                text = OTHERS
                repeat = repeats.get(text)
        if repeat is None:
            repeats[text] = Repeat(now_s)
            return 0
        if not repeat.is_old(now_s):
            repeat.unsaid += 1
            return None
        unsaid, repeat.unsaid, repeat.said_s = repeat.unsaid + 1, 0, now_s
        return unsaid

    def forget(self, event: str, text: str) -> None:
        """The next time is a first time."""
        self._events.get(event, {}).pop(text, None)

    def _forget(self, repeats: dict[str, Repeat], now_s: float) -> None:
        for text in [text for text, repeat in repeats.items() if repeat.is_old(now_s)]:
            del repeats[text]
