"""The oldest entries of a stream, named as an effect that removes them names them."""

from __future__ import annotations

from crdtstream.core.effects import CounterRange
from crdtstream.core.entries.range_reading import counts_of_oldest
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import EntryId


def trimmable(stream: Stream, keep: int) -> dict[int, list[CounterRange]]:
    """The counters of the oldest entries in merged order, so that `keep` entries remain."""
    surplus = stream.length - keep
    if surplus <= 0:
        return {}
    if len(stream.chains.all) == 1 and surplus <= stream.chains.all[0].extents[0].count:
        tree = stream.chains.all[0].extents[0]
        return {tree.origin: tree.first_counters(surplus)}
    oldest = counts_of_oldest(stream.chains, surplus)
    return {origin: stream.trees[origin].first_counters(count) for origin, count in sorted(oldest.items())}


def below(stream: Stream, entry_id: EntryId) -> dict[int, list[CounterRange]]:
    """The counters of the entries with IDs below this one."""
    found = {origin: stream.trees[origin].counters_below(entry_id) for origin in sorted(stream.trees)}
    return {origin: pieces for origin, pieces in found.items() if pieces}
