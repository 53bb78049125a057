"""Broken lines of dead letters: see `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

WITH_LETTERS = {"properties": True, "retention": False, "delivering": False, "named": False, "letters": True}

LETTERS = (
    Mutation(
        "a letter's name without its group",
        "core/names/letters.py",
        '    parts = [poison.group, b"%d-%d" % create, b"%d-%d" % group.creates[create].reset]\n',
        "    parts = list[bytes]()\n",
        "letters",
        alone=True,
        focus=WITH_LETTERS,
    ),
    Mutation(
        "a letter without its acknowledgement",
        "core/names/letters.py",
        "    if acked is None or not acked.contains(entry_id):\n        replica.prepare_runs(",
        "    if False:\n        replica.prepare_runs(",
        "letters",
        alone=True,
        focus=WITH_LETTERS,
    ),
    Mutation(
        "a letter that goes back leaves its key, and is not added",
        "core/names/letters.py",
        "    if is_known(replica, key, STORE, back):\n        return\n",
        "    return\n",
        "letters",
        focus=WITH_LETTERS,
    ),
)
