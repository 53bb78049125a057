"""Forked origins: two processes went on as the same origin, so two states hold different entries under one dot.

From the fork on, the effects of the origin differ, in whatever streams the two processes wrote. So for each origin
known to both states, the entries under the last `WINDOW` counters covered by both are compared. A fork goes unnoticed
if all of these agree, or if no dot among them has an entry in both states.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from crdtstream.core.effects import Key
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector

WINDOW: Final = 256

KeyedStreams = Iterable[tuple[Key, Stream]]
# The key that holds an entry, and the entry's bytes.
HeldEntry = tuple[Key, bytes]


def forks(mine: KeyedStreams, vector: VersionVector, theirs: KeyedStreams, other: VersionVector) -> dict[int, int]:
    """Each origin under which the two states hold different entries, with the counter of one such entry."""
    through = {origin: min(counter, other.get(origin)) for origin, counter in vector.items() if other.get(origin)}
    here = last_held(mine, through)
    found: dict[int, int] = {}
    for dot, held in last_held(theirs, through).items():
        if here.get(dot, held) != held:
            found[dot[0]] = dot[1]
    return found


def last_held(streams: KeyedStreams, through: dict[int, int]) -> dict[tuple[int, int], HeldEntry]:
    """The entries under the last `WINDOW` counters of each origin, up to `through`, inclusive."""
    found: dict[tuple[int, int], HeldEntry] = {}
    for key, stream in streams:
        for origin, tree in stream.trees.items():
            last = through.get(origin, 0)
            if last and tree.last_counter() > last - WINDOW:
                for counter in tree.counters_between(last - WINDOW + 1, last):
                    entry_id = tree.id_of(counter)
                    entry = None if entry_id is None else tree.find(entry_id)
                    if entry is not None:
                        found[(origin, counter)] = (key, entry)
    return found
