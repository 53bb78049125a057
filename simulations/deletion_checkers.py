"""A checker of what readers by position are told: no region hides that entries went with their stream."""

from __future__ import annotations

from crdtstream.core import effects as fx
from crdtstream.core.effects import Key
from crdtstream.core.streams.deleted_streams import FORGOTTEN
from crdtstream.core.values.causality import Dot
from crdtstream.region.node import Node
from simulations.checking import Sampled
from simulations.network import Network
from simulations.oracle import Row


class DeletionsAreTold(Sampled):
    """Of each stream and origin every region knows up to which entry a DEL removed them, or that it has forgotten
    streams that reached so far.
    """

    name = "deletions"

    def look(self, world: Network, number: int) -> None:
        node = world.machines[number].node
        rows = world.oracle.effects(node.replica.applied.vector)
        for (key, origin), counter in removed_together(rows).items():
            told = max(noted(node, key, origin), noted(node, (key[0], FORGOTTEN), origin))
            if told < counter:
                self.fail(
                    f"region {number}, {key[1]!r}: entry {origin}:{counter} is gone, but {told} is the last noted"
                )


def noted(node: Node, key: Key, origin: int) -> int:
    stream = node.replica.keyspace.databases[key[0]].get(key[1])
    meta = None if stream is None else stream.metas.get(origin)
    return 0 if meta is None else meta.trimmed_to


def removed_together(rows: list[Row]) -> dict[tuple[Key, int], int]:
    """Return for each key and origin the highest counter of an entry that a DEL saw and that was never removed by
    itself: a region that removed it first has nothing to note.
    """
    added: dict[Key, list[Dot]] = {}
    alone: set[tuple[Key, Dot]] = set()
    found: dict[tuple[Key, int], int] = {}
    for (origin, counter), _, effect in rows:
        if isinstance(effect, fx.EntriesAdded):
            added.setdefault(effect.key, []).extend((origin, counter + at) for at in range(effect.width))
        elif isinstance(effect, fx.EntriesRemoved):
            for holder, ranges in effect.ranges.items():
                alone.update((effect.key, (holder, at)) for low, high in ranges for at in range(low, high + 1))
    for _, context, effect in rows:
        if isinstance(effect, fx.StreamDeleted):
            for origin, counter in added.get(effect.key, []):
                if context.contains(origin, counter) and (effect.key, (origin, counter)) not in alone:
                    place = (effect.key, origin)
                    found[place] = max(counter, found.get(place, 0))
    return found
