"""Broken lines of what a client finds that moves to another region: see `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

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
        "            if all_lack(context, (origin, counter), ends):\n",
        "            if ends:\n",
        "sessions",
    ),
)
