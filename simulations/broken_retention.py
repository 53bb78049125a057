"""Broken lines of the properties of streams, and of retention: see `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

WITH_LIMITS = {"properties": True, "retention": True}

RETENTION = (
    Mutation(
        "a SET of a stream replaces only values of its own region",
        "core/streams/properties.py",
        "            kept = uncovered_registers(self._registers.get(name, {}), context)\n",
        "            kept = dict(self._registers.get(name, {}))\n",
        "stream properties",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "of several values of a property the one with the lowest number counts",
        "core/streams/properties.py",
        "    return max([(number, origin, value)",
        "    return min([(number, origin, value)",
        "stream properties",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "a DEL leaves the properties of the stream",
        "core/streams/stream.py",
        "            self.properties = without_voided(self.properties, context)\n",
        "            pass\n",
        "stream properties",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "a joined state brings no properties of streams",
        "core/joining.py",
        "        mine.properties = joined_properties(",
        "        joined_properties(",
        "convergence",
        focus={**WITH_LIMITS, "checkpoint_interval_ms": 100, "log_retention_bytes": 1},
    ),
    Mutation(
        "retention removes what other regions wrote",
        "region/retaining.py",
        "        return region == self._region or (they is not None and region not in they)\n",
        "        return True\n",
        "stream limits",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "MAXLEN removes one more",
        "core/streams/retention.py",
        "        surplus = stream.length - limits.entries_max\n",
        "        surplus = stream.length - limits.entries_max + 1\n",
        "stream limits",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "an entry as old as MAXAGE minus a second is too old",
        "core/streams/retention.py",
        "older_than(stream, now_ms - limits.max_age_ms)",
        "older_than(stream, now_ms - limits.max_age_ms + 1_000)",
        "stream limits",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "ACKED without a group removes all",
        "core/streams/references.py",
        "    if not groups or above >= end:\n",
        "    if above >= end:\n",
        "stream limits",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "ACKED removes what is pending",
        "core/streams/references.py",
        "            settled += _unpending(part, groups, origin)\n            entries_max",
        "            settled.append(part)\n            entries_max",
        "needed entries",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "a key that has got limits is not visited",
        "core/keyspace.py",
        "            self.retained.schedule(key, properties is not None and properties.limits.removes())\n",
        "            self.retained.schedule(key, properties is not None and properties.limits.acked)\n",
        "invariants",
        focus=WITH_LIMITS,
    ),
    Mutation(
        "MAXBYTES removes nothing while another region has entries",
        "core/streams/retention.py",
        "        return {} if limits.max_bytes == NO_LIMIT or surplus <= 0 else oldest_bytes(stream, surplus)\n",
        "        return {} if limits.max_bytes == NO_LIMIT or surplus <= 0 or len(stream.trees) > 1"
        " else oldest_bytes(stream, surplus)\n",
        "limits in time",
        focus=WITH_LIMITS,
    ),
)
