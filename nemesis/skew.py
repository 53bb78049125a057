"""Clocks of regions that are wrong: each process sees the time of the machine plus an offset that may change meanwhile.

A small library, compiled when it is first needed and loaded before the C library, answers `clock_gettime` for the time
of day. Other clocks, among them the one that asyncio waits by, are as they are.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset_ms;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("NEMESIS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) offset_ms = found;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (failed || !offset_ms || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    int64_t ns = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + *offset_ms * 1000000;
    at->tv_sec = ns / 1000000000;
    at->tv_nsec = ns % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def reason_for_no_skew() -> str:
    """Return why clocks cannot be set here; empty if they can."""
    return "" if shutil.which("cc") else "there is no C compiler"


class Clocks:
    """The offsets of all regions, in milliseconds."""

    def __init__(self, directory: Path, numbers: Iterable[int]) -> None:
        self._library = directory / "clock.so"
        source = directory / "clock.c"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", self._library, source], check=True)
        self._offsets: dict[int, mmap.mmap] = {}
        self._paths = {number: directory / f"clock-{number}" for number in numbers}
        for number, path in self._paths.items():
            path.write_bytes(bytes(8))
            with path.open("r+b") as file:
                self._offsets[number] = mmap.mmap(file.fileno(), 8)

    def environment(self, number: int) -> dict[str, str]:
        """Return the variables with which that region is started."""
        return os.environ | {"LD_PRELOAD": str(self._library), "NEMESIS_CLOCK": str(self._paths[number])}

    def set(self, number: int, offset_ms: int) -> None:
        """Let the clock of that region jump."""
        self._offsets[number][:] = struct.pack("q", offset_ms)

    def close(self) -> None:
        for offset in self._offsets.values():
            offset.close()
