"""Broken lines of names of adds: see `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

WITH_NAMES = {"properties": True, "retention": False, "delivering": False, "named": True}
# Many entries that are acknowledged on both sides of a cut.
BUSY = {
    **WITH_NAMES,
    "regions": 2,
    "topology": "mesh",
    "keeper": 1,
    "twin": "",
    "faults": ("cut",),
    "command_interval_ms": 5,
}

NAMES = (
    Mutation(
        "names are forgotten before they are stable",
        "core/names/register.py",
        "            if not is_stable(adds, stable):\n",
        "            if False:\n",
        "one name",
        focus=WITH_NAMES,
    ),
    Mutation(
        "of adds of one name the one stays that lives",
        "core/names/duplicates.py",
        "    losses = [pair for name in register.met for pair in register.losses(name)]\n    register",
        "    losses = [\n"
        "        pair if stream.holds(pair[1].dot[0], pair[1].entry_id) else (pair[1], pair[0])\n"
        "        for name in register.met\n"
        "        for pair in register.losses(name)\n"
        "    ]\n    register",
        "one name",
        focus=WITH_NAMES,
    ),
    Mutation(
        "a name ends with its key",
        "core/names/producers.py",
        "        if self.register is None:\n            return None\n        left",
        "        if True:\n            return None\n        left",
        "one name",
        focus=WITH_NAMES,
    ),
    Mutation(
        "an add that was seen is no witness",
        "core/names/register.py",
        "            if one.is_concurrent(add):\n                rival = one\n",
        "            if one.is_concurrent(add) and not any(two.saw(one.dot) for two in adds):\n"
        "                rival = one\n",
        "lost write",
        focus=BUSY,
    ),
    Mutation(
        "an acknowledgement of what is lost is not passed on",
        "core/names/duplicates.py",
        "passed = [survivor for lost, survivor in losses if is_acknowledged(stream, group_name, group, lost)]\n",
        "passed = []\n",
        "acknowledged by name",
        focus=BUSY,
    ),
    Mutation(
        "a checkpoint keeps no acknowledgements of names",
        "protocols/name_rows.py",
        "                rows += _acknowledged_rows(name, add)\n",
        "                pass\n",
        "names",
        focus={**WITH_NAMES, "checkpoint_interval_ms": 100},
    ),
    Mutation(
        "a state transfer brings no names",
        "core/names/joining_names.py",
        "    for name, adds in theirs.items():\n        put_all(",
        "    for name, adds in []:\n        put_all(",
        "one name",
        focus={**WITH_NAMES, "checkpoint_interval_ms": 100, "log_retention_bytes": 1},
    ),
)
