"""What gRPC's C core writes to standard error, as log lines of this process.

The core refuses a peer with a wrong certificate before Python hears of it, and says why on file descriptor 2, once for
each attempt. `capture` puts a pipe there: such lines become one log line for each reason and minute, and all others
pass unchanged. Python's own standard error goes on to where it went, not through the pipe.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable

import structlog

from crdtstream.connections.alarms import Alarm
from crdtstream.settings.config import Config

# `... Handshake failed with error SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:REASON: detail`
REFUSAL = re.compile(rb"Handshake failed with error [A-Z_]+: (?:error:[^:]*:[^:]*:[^:]*:)?([^:\r\n]+)(?:: ([^\r\n]*))?")
MEANINGLESS = "invalid certificate verification context"
REASONS_MAX = 64

logger = structlog.get_logger()


def capture(config: Config) -> None:
    """Begin, in a process whose gRPC ports have TLS; before logging is configured."""
    if not config.tls_certificate and not config.bulk_tls:
        return
    before = os.dup(2)
    sys.stderr = os.fdopen(before, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=forward, args=(reading, before, Refusals(now_ms)), name="core-log", daemon=True).start()


def now_ms() -> int:
    return int(time.monotonic() * 1000)


def forward(reading: int, before: int, refusals: Refusals) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            reason = reason_in(line)
            if reason:
                refusals.log(reason)
            else:
                os.write(before, line)


def reason_in(line: bytes) -> str:
    """The reason in a line about a refused handshake; empty in other lines."""
    found = REFUSAL.search(line)
    if found is None:
        return ""
    texts = [text.decode("utf-8", "replace").lower().replace("_", " ").strip() for text in found.groups(b"")]
    return ": ".join([text for text in texts if text and text != MEANINGLESS])


class Refusals:
    """Logs each reason once a minute, with how often it was heard meanwhile."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._alarms: dict[str, Alarm] = {}

    def log(self, reason: str) -> None:
        if reason not in self._alarms and len(self._alarms) >= REASONS_MAX:
            self._alarms.clear()
        text = self._alarms.setdefault(reason, Alarm()).text_due(reason, self._clock())
        if text:
            logger.warning("tls-peer-refused", reason=text)
