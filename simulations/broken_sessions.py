"""Broken lines of what a client finds that moves to another region: see `broken_lines.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simulations.broken_lines import Mutation

# A region ends while some have what it wrote, and others do not have it yet.
ENDINGS: Final[Mapping[str, Any]] = {
    "regions": 5,
    "topology": "line",
    "faults": ("cut", "clog", "evict", "disk-loss", "pause"),
    "fault_interval_ms": 150,
}

SESSIONS = (
    Mutation(
        "a token names the own last effect alone",
        "core/tokens.py",
        "    rows = applied.vector.beyond(known)\n",
        "    rows = VersionVector()\n",
        "sessions",
    ),
    Mutation(
        "a token of an origin without effects names nothing",
        "core/tokens.py",
        "        return applied.vector.copy()\n",
        "        return VersionVector()\n",
        "sessions",
    ),
    Mutation(
        "a write is called lost as soon as its origin has ended",
        "commands/sessions.py",
        "        if all_lack(context, (origin, counter), members.evictions_of(origin)):\n",
        "        if members.evictions_of(origin):\n",
        "sessions",
        focus=ENDINGS,
    ),
    Mutation(
        "a cursor says what was read of the last block alone",
        "core/entries/read_entries.py",
        "            self.counters[piece.origin] = piece.block.counter_at(high - 1)\n",
        "            self.counters = {piece.origin: piece.block.counter_at(high - 1)}\n",
        "cursor reads",
    ),
    Mutation(
        "a cursor passes what the region has and the reply has not",
        "commands/cursor_reading.py",
        "            return self.known.read(stream.chains, count)\n",
        "            found = self.known.read(stream.chains, count)\n"
        "            self.known.counters = counters_of(stream)\n"
        "            return found\n",
        "cursor reads",
    ),
    Mutation(
        "a row of a cursor is dropped while another region may have the entries",
        "commands/cursor_reading.py",
        "        if not progress.holds_all(member, applied.vector):\n",
        "        if not progress:\n",
        "cursor reads",
    ),
)
