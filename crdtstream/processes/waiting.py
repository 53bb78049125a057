"""Waiting by polling, with a deadline, and the error that everything about processes raises.

Deadlines are generous, because a machine may be busy with other things: they are there to end a wait that would never
end, and say nothing about how long something takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 60.0
LOOK_AGAIN_S = 0.005

Value = TypeVar("Value")


class ProcessError(Exception):
    """What did not hold; with the end of a log where a process is to blame."""


def until(condition: Callable[[], Value], what: str | Callable[[], str], deadline_s: float = DEADLINE_S) -> Value:
    """Return the condition's value once it is true; raise ProcessError with `what` after the deadline."""
    end_s = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end_s:
            raise ProcessError(f"not within {deadline_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(LOOK_AGAIN_S)
