"""What the operating system reports about this process: resident memory, processor time, the machine's memory.

`give_back` asks the C library to return freed memory to the system: removing entries frees memory inside the process
only, and resident memory shrinks only through this call. It walks the whole heap, so it runs rarely and on a thread;
`trim` is for callers who see to that themselves.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import threading

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
GIVE_BACK_S = 10.0


def resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def system_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES


def usage() -> tuple[int, float, float]:
    """Return resident bytes, and processor seconds in user mode and in the kernel."""
    times = os.times()
    return resident_bytes(), times.user, times.system


class _Trimming:
    """The C library's `malloc_trim`, if it has one."""

    def __init__(self) -> None:
        self.last_s = -GIVE_BACK_S
        self.trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


_trimming = _Trimming()


def trim() -> None:
    """Return freed memory now."""
    if _trimming.trim is not None:
        _trimming.trim(0)


def give_back(now_s: float) -> bool:
    """Return freed memory, at most once every `GIVE_BACK_S`; True if it was started."""
    if _trimming.trim is None or now_s - _trimming.last_s < GIVE_BACK_S:
        return False
    _trimming.last_s = now_s
    threading.Thread(target=_trimming.trim, args=(0,), name="give back memory", daemon=True).start()
    return True
