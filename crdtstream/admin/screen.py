"""Where the tools for operators print: names of streams and regions appear as they are, never as markup or emoji."""

from __future__ import annotations

import os
import sys

from rich.console import Console

# A file or a pipe has no width of its own; a table takes what it needs. As in `spark/output.py`, which may import only
# the contract of the bulk port.
WIDE_COLUMNS = 1 << 16


def screen(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE_COLUMNS
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)
