"""What others write goes to the log as events: Python's loggers and warnings, uncaught exceptions, and C libraries.

C libraries, gRPC first of all, write to file descriptor 2. It becomes a pipe that a thread reads; the log goes on to
where it led before. A write to a full pipe fails rather than waits. What a library writes while it ends the process may
be lost; faulthandler still writes to where the log goes.

With the format for people nothing is captured.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import sys
import threading
import time
from types import TracebackType

import structlog

from crdtstream.runtime.logs.library_logs import Refusals, now_ms, reason_in
from crdtstream.runtime.logs.logging import NUMBERS
from crdtstream.runtime.logs.rate_limited_log import Repeats

LINE_BYTES_MAX = 1 << 16
STOP_S = 1.0
# The prefix of a line of Abseil's log: severity, day, time, thread, place.
ABSEIL = re.compile(r"([IWEF])\d{4} [\d:.]+ +\d+ ([\w.]+:\d+)\] (.*)")
# Said once by each process, and true for every program that uses gRPC.
KNOWN = "All log messages before absl::InitializeLog()"

logger = structlog.get_logger()


class Libraries(logging.Handler):
    """Logs what Python libraries log; what repeats is rationed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._repeats = Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        repeated = self._repeats.ask(record.name, without_numbers(text), time.monotonic())
        if repeated is not None:
            level = NUMBERS["error" if record.levelno >= logging.ERROR else "warning"]
            fields = {"logger": record.name, "detail": text, "repeated": repeated or None}
            logger.log(level, "library-message", **fields, exc_info=record.exc_info or None)


class ForeignOutput:
    """Captures while the context lasts."""

    def __init__(self) -> None:
        self._repeats = Repeats()
        self._libraries = Libraries()
        self._refusals = Refusals(now_ms)
        self._before = -1
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ForeignOutput:
        self._capture_python()
        self._capture_native()
        return self

    def __exit__(self, *exception: object) -> None:
        """Give the descriptor back; the thread logs what is left in the pipe and ends."""
        sys.stderr.flush()
        os.dup2(self._before, 2)
        if self._thread is not None:
            self._thread.join(STOP_S)
        logging.getLogger().removeHandler(self._libraries)

    def _capture_python(self) -> None:
        logging.captureWarnings(True)
        logging.getLogger().addHandler(self._libraries)
        sys.excepthook = log_uncaught
        threading.excepthook = lambda given: log_uncaught(given.exc_type, given.exc_value, given.exc_traceback)
        sys.unraisablehook = lambda given: log_uncaught(given.exc_type, given.exc_value, given.exc_traceback)

    def _capture_native(self) -> None:
        sys.stderr.flush()
        self._before = os.dup(2)
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.dup2(writing, 2)
        os.close(writing)
        sys.stderr = os.fdopen(os.dup(self._before), "w", encoding="utf-8", errors="backslashreplace")
        faulthandler.enable(sys.stderr)
        self._thread = threading.Thread(target=self._read, args=(reading,), name="native output", daemon=True)
        self._thread.start()

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as pipe:
            while line := pipe.readline(LINE_BYTES_MAX):
                self.log(line.decode("utf-8", "backslashreplace").strip())

    def log(self, line: str) -> None:
        """Log one line of a library, unless it says nothing, or was said a moment ago."""
        known = ABSEIL.match(line)
        if not line or KNOWN in line or (known is not None and known[1] == "I"):
            return
        refused = reason_in(line.encode())
        if refused:
            self._refusals.log(refused)
            return
        text = line if known is None else f"{known[2]}: {known[3]}"
        repeated = self._repeats.ask("native-message", without_numbers(text), time.monotonic())
        if repeated is not None:
            logger.warning("native-message", detail=text, repeated=repeated or None)


def log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    given = error if error is not None else kind()
    logger.error("uncaught", detail=f"{kind.__name__}: {error}", exc_info=(kind, given, trace))


def without_numbers(text: str) -> str:
    """What stays the same when ports, times and addresses differ."""
    return re.sub(r"[0-9]+|0x[0-9a-f]+", "", text)
