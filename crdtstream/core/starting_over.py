"""Starting over: what a region must hand over when it replaces its state by another region's, because only it has it.

Both states belong to one cluster, each captured at its vector, but one dot may name different effects in the two,
because the memory of a process was cloned. So a dot covered by the other vector proves that the other side removed the
entry only if the dot's origin is not in **doubt**. In doubt are: the origins named by the caller; the origins under
which the two states hold different entries (core/forks.py); and all origins if this region's vector covers the other
one, since this region then knows every removal that the other side knows, and none of them removed what is here.

    an entry of this region's state                                                   is
    that the other state holds with the same ID and fields, under any dot             there already
    whose dot lies above the other vector                                             handed over
    whose dot the other vector covers, of an origin in doubt                          handed over
    any other                                                                         removed on the other side

A named entry (core/names/register.py) of which the other state has a concurrent one of its name is left out: that one
stands for it. What is handed over has no name any more.

The same table applies to groups, by their create dots. An entry that was removed on the other side under a dot in doubt
comes back: an acknowledged write matters more than a removal. Expired keys are not handed over.

Entries that are handed over keep their bytes, including the ID, and go to the trees of new origins in ID order. A tree
holds an ID only once, so entries with equal IDs need several origins, one for each *layer*.
"""

from __future__ import annotations

from collections.abc import Iterator

from crdtstream.core.effects import UNKNOWN_ENTRIES_READ, Key, Position
from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES, Block
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.forks import forks
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import lasting_values
from crdtstream.core.names.named_keys import register_of
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import EntryId
from crdtstream.core.whole_state import WholeState

OwnEntry = tuple[EntryId, bytes]
FoundEntry = tuple[int, EntryId, bytes]


class LeftBehind:
    """What remains to be handed over: for each key its entries in ID order, its expiry and its
    properties; and the groups."""

    __slots__ = ("entries", "expiries", "groups", "properties")

    def __init__(self) -> None:
        self.entries: dict[Key, list[OwnEntry]] = {}
        self.expiries: dict[Key, int] = {}
        self.properties: dict[Key, dict[bytes, bytes]] = {}
        self.groups: list[tuple[Key, bytes, Position, dict[bytes, bytes]]] = []

    def entry_count(self) -> int:
        return sum(map(len, self.entries.values()))


def left_behind(mine: Replica, theirs: WholeState, doubted: list[int]) -> LeftBehind:
    """What only `mine` holds; `doubted` are origins in doubt whatever the states show."""
    judge = _Judge(mine, theirs, doubted)
    left = LeftBehind()
    for number, database in enumerate(mine.keyspace.databases):
        for name in sorted(database):
            stream = database[name]
            if stream.exists() and not mine.keyspace.hides((number, name)):
                judge.look((number, name), stream, left)
    return left


class _Judge:
    """Decides whether something missing in the other state is only here, or was removed there."""

    __slots__ = ("_all_doubted", "_doubted", "_theirs", "_vector")

    def __init__(self, mine: Replica, theirs: WholeState, doubted: list[int]) -> None:
        self._theirs = theirs.streams
        self._vector = theirs.vector
        self._all_doubted = mine.applied.vector.descends(theirs.vector)
        self._doubted = dict.fromkeys(doubted)
        forked = forks(mine.keyspace.streams(), mine.applied.vector, theirs.streams.items(), theirs.vector)
        self._doubted.update(dict.fromkeys(forked))

    def _stays(self, origin: int, counter: int) -> bool:
        """True if the other state's lack of what has this dot does not prove that it was removed there."""
        return self._all_doubted or origin in self._doubted or not self._vector.contains(origin, counter)

    def look(self, key: Key, stream: Stream, left: LeftBehind) -> None:
        other = self._theirs.get(key)
        entries: dict[OwnEntry, None] = {}
        for origin, tree in stream.trees.items():
            twin = None if other is None else other.trees.get(origin)
            for counter, entry_id, entry in differing(tree, twin):
                if not self._stays(origin, counter):
                    continue
                if other is None or not (holds(other, entry_id, entry) or stands_for(other, stream, origin, entry_id)):
                    entries[(entry_id, entry)] = None
        if entries:
            left.entries[key] = sorted(entries)
            if other is None or not other.exists():
                if stream.expires_ms != NO_EXPIRY:
                    left.expiries[key] = stream.expires_ms
                if stream.properties is not None:
                    left.properties[key] = stream.properties.values()
        for name, group in sorted(stream.groups.items()):
            if (other is None or name not in other.groups) and self._group_stays(group):
                left.groups.append((key, name, group.start(), lasting_values(group.properties)))

    def _group_stays(self, group: Group) -> bool:
        return any(self._stays(origin, counter) for origin, counter in group.creates)


def differing(tree: EntryTree, twin: EntryTree | None) -> Iterator[FoundEntry]:
    """The entries of a tree that the other state's tree of this origin does not hold under the same counter."""
    if twin is not None and tree.count == twin.count and tree.checksum() == twin.checksum():
        return
    blocks, head, _ = tree.blocks()
    for block in blocks:
        for index in range(head, block.count):
            counter, entry_id, entry = block.counter_at(index), block.id_at(index), block.entry(index)
            same = twin is not None and twin.counter_of(entry_id) == counter and twin.find(entry_id) == entry
            if not same:
                yield counter, entry_id, entry
        head = 0


def holds(stream: Stream, entry_id: EntryId, entry: bytes) -> bool:
    """True if the stream holds this entry under any dot."""
    return any(stream.trees[origin].find(entry_id) == entry for origin in stream.origins_holding(entry_id))


def stands_for(other: Stream, mine: Stream, origin: int, entry_id: EntryId) -> bool:
    """True if the other state has an add under the name of this entry that is concurrent with it."""
    own, theirs = register_of(mine), register_of(other)
    if own is None or theirs is None:
        return False
    adds = own.adds_with(origin, entry_id)
    rivals = [one for name in own.names_with(entry_id) for one in theirs.adds_of(name)]
    return any(one.is_concurrent(add) for add in adds for one in rivals)


def hand_over_layer(replica: Replica, left: LeftBehind) -> Iterator[int]:
    """Prepare one layer: the first entry of each ID, block by block, under the local origin. Entries that its trees
    cannot take stay in `left`. Yields the size of each block in bytes, so that the caller may close a batch there.
    """
    for key in list(left.entries):
        stream = replica.keyspace.known(key)
        here = [one for one in left.entries[key] if stream is None or not holds(stream, *one)]
        layer, later = split_layer(here)
        if layer:
            replica.freshen(key)
        for part in blocks_of(layer):
            block = numbered(part, replica.applied.counter() + 1)
            replica.add_block(key, block)
            yield block.byte_count
        if key in left.expiries and layer:
            replica.set_expiry(key, left.expiries.pop(key))
        if key in left.properties and layer:
            replica.set_stream_properties(key, left.properties.pop(key))
        left.entries[key] = later
        if not later:
            del left.entries[key]


def split_layer(
    entries: list[OwnEntry],
) -> tuple[list[OwnEntry], list[OwnEntry]]:
    """Split off the first entry of each ID; returns these, and the others."""
    first: dict[EntryId, bytes] = {}
    later: list[OwnEntry] = []
    for entry_id, entry in entries:
        if entry_id in first:
            later.append((entry_id, entry))
        else:
            first[entry_id] = entry
    return list(first.items()), later


def blocks_of(entries: list[OwnEntry]) -> Iterator[list[OwnEntry]]:
    """Split entries into parts that each fill one block."""
    part: list[OwnEntry] = []
    size = 0
    for one in entries:
        if len(part) == BLOCK_ENTRIES or size > BLOCK_BYTES:
            yield part
            part, size = [], 0
        part.append(one)
        size += len(one[1])
    if part:
        yield part


def numbered(entries: list[OwnEntry], counter: int) -> Block:
    """A block of these entries with contiguous counters from `counter` on."""
    block = Block()
    for at, (entry_id, entry) in enumerate(entries):
        block.append(entry_id, counter + at, entry)
    return block


def hand_over_groups(replica: Replica, left: LeftBehind) -> None:
    """Prepare creates of the groups that are missing; the local origin must have been admitted."""
    for key, name, start, properties in left.groups:
        stream = replica.keyspace.known(key)
        if stream is None or name not in stream.groups:
            replica.create_group(key, name, start, UNKNOWN_ENTRIES_READ)
            if properties:
                replica.set_properties(key, name, properties)
    left.groups = []
