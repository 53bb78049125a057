"""Broken lines of the properties of consumer groups, and of what they select: see `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

WITH_PROPERTIES = {"properties": True}

QUEUES = (
    Mutation(
        "of two values of a property the first stays",
        "core/groups/properties.py",
        "        if known is None or known < register:\n",
        "        if known is None:\n",
        "properties",
        alone=True,
        focus=WITH_PROPERTIES,
    ),
    Mutation(
        "a SET has no number above those that it saw",
        "core/replica.py",
        "sorted(found.groups[group].creates), found.groups[group].properties\n",
        "sorted(found.groups[group].creates), {}\n",
        "properties",
        focus=WITH_PROPERTIES,
    ),
    Mutation(
        "a joined state brings no properties",
        "core/joining.py",
        "        if create.properties:\n            mine.properties = merged(",
        "        if False:\n            mine.properties = merged(",
        "convergence",
        focus={**WITH_PROPERTIES, "checkpoint_interval_ms": 100, "log_retention_bytes": 1},
    ),
    Mutation(
        "what was acknowledged above a pending entry is told to nobody",
        "core/groups/group.py",
        "            pieces += exact_runs(",
        "            exact_runs(",
        "exact acknowledgement",
        focus=WITH_PROPERTIES,
    ),
    Mutation(
        "an exact run covers what is pending",
        "core/groups/runs.py",
        "        found.append((start if last is None else last, high))\n",
        "        found.append((start, high))\n",
        "ack frontier",
        focus=WITH_PROPERTIES,
    ),
    Mutation(
        "an XACK of what nobody got here covers all below it",
        "commands/acknowledging.py",
        "runs.setdefault(origin, []).append((id_below(entry_id), entry_id))",
        "runs.setdefault(origin, []).append((group.floor.get(origin), entry_id))",
        "ack frontier",
        focus=WITH_PROPERTIES,
    ),
    Mutation(
        "an XACK of what nobody got here is told to nobody",
        "commands/acknowledging.py",
        "    if runs:\n        context",
        "    if False:\n        context",
        "exact acknowledgement",
        focus=WITH_PROPERTIES,
    ),
    Mutation(
        "an XACK counts where the entry was delivered alone",
        "commands/acknowledging.py",
        "    if group.rules.exact and acknowledged < len(ids):\n",
        "    if False:\n",
        "exact acknowledgement",
        focus=WITH_PROPERTIES,
    ),
    Mutation(
        "a restart tells again what it may",
        "core/groups/runs.py",
        "        if tree.last_id_between(low, high) is None:\n            continue\n",
        "",
        "recovery",
        focus={**WITH_PROPERTIES, "references": True},
    ),
)
