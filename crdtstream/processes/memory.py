"""What the kernel says about the memory of a process (Linux), now and at its highest while something runs.

*Anonymous* memory is what a process has allocated. Its resident size counts pages of files as well, which the system
may drop.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Self

ANONYMOUS, RESIDENT, RESIDENT_PEAK = "RssAnon", "VmRSS", "VmHWM"
LOOK_S = 0.01


def status_bytes(pid: int, field: str) -> int:
    """A size in /proc/PID/status; 0 once the process has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


class PeakMemory(threading.Thread):
    """The most anonymous memory that a process has while the context lasts, looked at every hundredth of a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._pid = pid
        self._ends = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ends.set()
        self.join()

    def run(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, status_bytes(self._pid, ANONYMOUS))
            if self._ends.wait(LOOK_S):
                return
