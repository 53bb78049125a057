"""Runs `crdtstream` on a disk whose block files are slow to read: python slow_disk.py ORDERS serve ...

ORDERS is a file with two numbers, which may change at any time: the milliseconds that each read takes, and the moment,
on the monotonic clock, before which none comes back. The system has none of these files in memory, so nothing is there
at once; everything else is as fast as the disk below.

A script, so that it runs in any interpreter. Of the package it replaces what opens the data directory, in a module that
is never compiled.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any


def order(orders: Path, delay_ms: float, stall_s: float = 0.0) -> None:
    """Let each read take so long from now on, and none come back before the stall is over."""
    text = f"{delay_ms} {time.monotonic() + stall_s}"
    written = orders.with_suffix(".new")
    written.write_text(text)
    written.replace(orders)


class LateFile:
    """An open block file that obeys these orders."""

    def __init__(self, file: Any, orders: Path) -> None:
        self._file = file
        self._orders = orders

    def at_once(self, _offset: int, _length: int) -> bytes | None:
        return None

    def read(self, offset: int, length: int) -> bytes:
        delay_ms, free_s = [float(word) for word in self._orders.read_text().split()]
        time.sleep(max(delay_ms / 1000, free_s - time.monotonic(), 0))
        found: bytes = self._file.read(offset, length)
        return found

    def __deepcopy__(self, memo: object) -> LateFile:
        return self


class LateDisk:
    """A data directory that obeys these orders where a block file is read."""

    def __init__(self, opened: Any, orders: Path) -> None:
        self._opened = opened
        self._orders = orders

    def open_file(self, name: str) -> LateFile:
        return LateFile(self._opened.open_file(name), self._orders)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)


def opened_late(orders: Path, open_directory: Any, config: Any) -> LateDisk:
    return LateDisk(open_directory(config), orders)


def main() -> None:
    orders = Path(sys.argv.pop(1))
    del sys.path[0]  # this directory, whose modules the region must not see
    from crdtstream.__main__ import main as run
    from crdtstream.runtime import loop

    vars(loop)["open_directory"] = partial(opened_late, orders, vars(loop)["open_directory"])
    run()


if __name__ == "__main__":
    main()
