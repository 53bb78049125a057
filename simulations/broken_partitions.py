"""The lines of partitioned streams that are broken on purpose, as those in `broken_lines.py`: those that worlds notice
soon. What takes more than two mistakes at once is left to the tests of the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simulations.broken_lines import Mutation

STREAMS: Final[Mapping[str, Any]] = {"partitioned": True}
# Two homes at once, often.
DIVIDED: Final[Mapping[str, Any]] = {
    "partitioned": True,
    "regions": 3,
    "topology": "mesh",
    "faults": ("cut", "clog"),
    "late": False,
    "twin": "",
}

PARTITIONED = (
    Mutation(
        "a commit is not settled under the epochs",
        "partitions/state.py",
        "(self.epochs.settle(partition, offset + 1, (number, origin)) - 1, (number, origin))",
        "(offset, (number, origin))",
        "skipped message",
        focus=DIVIDED,
    ),
    Mutation(
        "silent instances stay",
        "core/ownership.py",
        "if one.until_ms <= now_ms and name != caller]",
        "if one.until_ms < 0 and name != caller]",
        "silent owner",
        focus=STREAMS,
    ),
    Mutation(
        "a clock that is set back keeps silent instances",
        "core/ownership.py",
        "            one.until_ms = min(one.until_ms, now_ms + one.timeout_ms)\n",
        "            pass\n",
        "silent owner",
        focus=STREAMS,
    ),
    Mutation(
        "an epoch starts one offset too late",
        "partitions/state.py",
        "        starts = [one.next_offset() for one in self.partitions()]\n",
        "        starts = [one.next_offset() + 1 for one in self.partitions()]\n",
        "dense offsets",
        focus=STREAMS,
    ),
    Mutation(
        "a group starts one message too late",
        "partitions/coordinator.py",
        "        offsets = [one.next_offset() for one in self._state.partitions()] if kind == LATEST else []\n",
        "        offsets = [one.next_offset() + 1 for one in self._state.partitions()] if kind == LATEST else []\n",
        "skipped message",
        focus=STREAMS,
    ),
    Mutation(
        "an epoch counts from its start, whatever the highest one knew",
        "core/epochs.py",
        "        self.line = self._line_of(self.rows[-1])\n",
        "        self.line = self.rows\n",
        "one sequence",
        alone=True,
        focus=DIVIDED,
    ),
    Mutation(
        "stale messages are numbered again and stay",
        "partitions/partition.py",
        "        self.append(found)\n        self._remove(ranges, False)\n",
        "        self.append(found)\n",
        "convergence",
        focus=STREAMS,
    ),
    Mutation(
        "stale messages are removed and not numbered again",
        "partitions/partition.py",
        "        self.append(found)\n        self._remove(ranges, False)\n",
        "        self._remove(ranges, False)\n",
        "lost message",
        alone=True,
        focus=STREAMS,
    ),
    Mutation(
        "stale messages that were added by a Redis client are left out",
        "partitions/partition.py",
        "            if message is not None and len(found) < count_max:\n",
        "            if message is not None and message.time_ms and len(found) < count_max:\n",
        "convergence",
        focus=STREAMS,
    ),
    Mutation(
        "an epoch in the middle is forgotten",
        "partitions/state.py",
        "        lowest = self.epochs.rows[0]\n        oldest = [one.oldest_offset() for one in self.partitions()]\n",
        "        lowest = self.epochs.rows[len(self.epochs.rows) // 2]\n        oldest = lowest.starts\n",
        "convergence",
        focus=STREAMS,
    ),
    Mutation(
        "a reset is not counted",
        "partitions/coordinator.py",
        "        membership.start = self._write_start(group, start, time_ms, membership.start.resets + 1)\n",
        "        membership.start = self._write_start(group, start, time_ms, membership.start.resets)\n",
        "commits",
        focus=STREAMS,
    ),
    Mutation(
        "a reset leaves the bookmarks valid",
        "partitions/coordinator.py",
        "        return self._state.epochs.counts(bookmark.epoch) and bookmark.start == start.name\n",
        "        return self._state.epochs.counts(bookmark.epoch)\n",
        "skipped message",
        focus=STREAMS,
    ),
    Mutation(
        "a reset is answered and does nothing",
        "partitions/streams.py",
        "        groups.reset(*arguments)\n",
        "",
        "commits",
        focus=STREAMS,
    ),
    Mutation(
        "commits from before a reset count",
        "partitions/state.py",
        "            if (name[0], name[1]) == start.name:\n",
        "            if name:\n",
        "skipped message",
        focus=STREAMS,
    ),
    Mutation(
        "a new owner starts behind the commit of the next message",
        "partitions/coordinator.py",
        "            return committed + 1\n",
        "            return committed + 2\n",
        "skipped message",
        focus=STREAMS,
    ),
    Mutation(
        "a commit goes back",
        "partitions/coordinator.py",
        "                if offset > self._state.committed(group, partition, start):\n",
        "                if offset != self._state.committed(group, partition, start):\n",
        "commits",
        focus=STREAMS,
    ),
    Mutation(
        "a group is not written again by another home",
        "partitions/coordinator.py",
        "        if start.epoch != epoch:\n",
        "        if start.epoch > epoch:\n",
        "skipped message",
        focus=DIVIDED,
    ),
    Mutation(
        "the oldest instances keep all",
        "core/ownership.py",
        "            instance.owned = instance.owned[: active.get(name, 0)]\n",
        "",
        "crash",
        focus=STREAMS,
    ),
    Mutation(
        "a rebalance leaves the owner of a partition as it was",
        "core/ownership.py",
        "                self.owners[partition] = name\n",
        "                self.owners[partition] = self.owners[partition] or name\n",
        "one owner",
        alone=True,
        focus=STREAMS,
    ),
    Mutation(
        "messages go before the retention is over",
        "partitions/streams.py",
        "            partition.trim_older(now_ms + self.ahead.ms - retention_ms)\n",
        "            partition.trim_older(now_ms + self.ahead.ms - retention_ms // 2)\n",
        "retention",
        focus=STREAMS,
    ),
    Mutation(
        "a call is answered before it is durable",
        "replication/forwarding.py",
        "                one.position = position\n",
        "                one.position = 0\n",
        "synced first",
        focus=STREAMS,
    ),
    Mutation(
        "an instance has read under the epoch of the home, whatever the region knew",
        "partitions/reading.py",
        "    return found, Bookmark(polled.generation, epoch, polled.start, offsets)\n",
        "    return found, Bookmark(polled.generation, polled.epoch, polled.start, offsets)\n",
        "one sequence",
        focus=DIVIDED,
    ),
)
