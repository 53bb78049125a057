"""Waiting by polling, with a deadline and a message for when it passes."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_AGAIN_S = 0.01


class DemoError(Exception):
    """What did not hold, and why the demo cannot continue."""


def wait_until(holds: Callable[[], bool], complaint: Callable[[], str], timeout_s: float) -> None:
    """Wait until `holds` is true; after the deadline raise DemoError with the complaint and the timeout."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline_s:
            raise DemoError(f"{complaint()} (after {timeout_s:g} s)")
        time.sleep(LOOK_AGAIN_S)
