"""Broken lines of what readers by position are told of deletions: see `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

DELETIONS = (
    Mutation(
        "a DEL does not note what it removed",
        "core/streams/stream.py",
        "            self.metas.of(holder).record_removed(tree.last_counter_through(covered))\n",
        "",
        "deletions",
    ),
    Mutation(
        "the deletions of a forgotten stream leave nothing",
        "core/streams/deleted_streams.py",
        "            forget(databases, orders, key[0], stream)\n",
        "",
        "deletions",
    ),
)
