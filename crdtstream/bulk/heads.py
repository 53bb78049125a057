"""The extent of streams: for each origin its first and last seq, and how many entries lie in a given range.

Streams are looked up by name or by pattern, a limited number at a time, so that no call blocks the loop. An expired key
counts as deleted. A deleted stream is absent, unless a call asks for what was deleted with it.
"""

from __future__ import annotations

from typing import Final

from crdtstream.bulk.errors import INVALID_ARGUMENT, BulkError, require_database
from crdtstream.connections.context import Context
from crdtstream.core.effects import Key
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.streams.deleted_streams import FORGOTTEN
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import U64_MAX, EntryId
from crdtstream.protocols.glob import Token, matches, tokens_of

NAMES_READ: Final = 1_000
SPLIT_ENTRIES: Final = 100_000

_NOTHING: Final = EntryTree()
_UNKNOWN: Final = OriginMeta()


class OriginHead:
    """One origin in one stream; the fields are those of the contract."""

    __slots__ = ("at", "first", "forgotten", "head", "length", "origin", "since", "trimmed", "waiting")

    def __init__(self, origin: int, tree: EntryTree, meta: OriginMeta) -> None:
        self.origin = origin
        self.head = max(tree.last_counter(), meta.add_counter, meta.trimmed_to)
        self.trimmed = meta.trimmed_to
        self.first = first_seq(tree)
        self.length = tree.count
        self.at = 0
        self.waiting = 0
        self.since = 0
        self.forgotten = 0


class Names:
    """The streams that a call selects: the named ones, or all that match a pattern, with `deleted` also the remembered
    ones.
    """

    __slots__ = ("_cursor", "_deleted", "_given", "_tokens", "database", "ended")

    def __init__(self, database: int, names: list[bytes], pattern: bytes, deleted: bool = False) -> None:
        if names and pattern:
            raise BulkError(INVALID_ARGUMENT, "both streams and a pattern are given: use one of them")
        self.database = require_database(database)
        self.ended = False
        self._deleted = deleted
        self._given = names
        self._tokens: list[Token] = tokens_of(pattern or b"*")
        self._cursor = 0

    def next(self, context: Context) -> list[Key]:
        """Return the next few keys; `ended` becomes true when there are no more."""
        if self._given:
            names, self._given = self._given[:NAMES_READ], self._given[NAMES_READ:]
            self.ended = not self._given
            return [(self.database, name) for name in names]
        self._cursor, found = context.replica.keyspace.orders[self.database].read(self._cursor, NAMES_READ)
        self.ended = self._cursor == 0
        keys = [(self.database, name) for name in found if matches(self._tokens, name)]
        return [key for key in keys if self._selects(context, key)]

    def _selects(self, context: Context, key: Key) -> bool:
        keyspace = context.replica.keyspace
        return keyspace.peek(key) is not None or (self._deleted and key[1] != FORGOTTEN)


def heads_of(
    context: Context, key: Key, before_ms: int | None = None, position: dict[int, int] | None = None
) -> list[OriginHead]:
    """Return the head of each origin that ever had an entry, ascending; empty if the stream does not exist."""
    stream = context.replica.keyspace.peek(key)
    if stream is None:
        return []
    heads: list[OriginHead] = []
    for origin in sorted({*stream.metas, *stream.trees}):
        tree = stream.trees.get(origin) or _NOTHING
        head = OriginHead(origin, tree, stream.metas.get(origin) or _UNKNOWN)
        if before_ms is not None:
            head.at = max(last_seq_below(tree, (before_ms, 0)), head.trimmed)
        if position is not None:
            head.waiting = tree.count - tree.count_through(position.get(origin, 0))
        if head.head:
            heads.append(head)
    return heads


def heads_with_deleted(
    context: Context, key: Key, before_ms: int | None = None, position: dict[int, int] | None = None
) -> list[OriginHead]:
    """As `heads_of`, for a caller that wants to know what was deleted before it was read. Of a stream that does not
    exist, the heads say up to where it was deleted.
    """
    keyspace = context.replica.keyspace
    stream = keyspace.databases[key[0]].get(key[1])
    exists = keyspace.peek(key) is not None
    heads = heads_of(context, key, before_ms, position) if exists else deleted_heads(context, key)
    forgotten = keyspace.databases[key[0]].get(FORGOTTEN)
    for head in heads:
        meta = None if stream is None else stream.metas.get(head.origin)
        head.since = meta.first if exists and meta is not None else 0
        lost = None if forgotten is None else forgotten.metas.get(head.origin)
        head.forgotten = 0 if lost is None else lost.trimmed_to
    return heads


def deleted_heads(context: Context, key: Key) -> list[OriginHead]:
    stream = context.replica.keyspace.databases[key[0]].get(key[1])
    origins = [] if stream is None else sorted({*stream.metas, *stream.trees})
    heads = []
    for origin in origins:
        removed = removed_through(context, key, origin)
        if removed:
            head = OriginHead(origin, _NOTHING, _UNKNOWN)
            head.head = head.trimmed = head.at = removed
            heads.append(head)
    return heads


def removed_through(context: Context, key: Key, origin: int) -> int:
    """Return the seq up to which entries of this origin were removed together, also by an expiry that has passed."""
    stream = context.replica.keyspace.databases[key[0]].get(key[1])
    if stream is None:
        return 0
    removed = (stream.metas.get(origin) or _UNKNOWN).trimmed_to
    if stream.is_hidden(context.replica.keyspace.now_ms):
        removed = max(removed, (stream.trees.get(origin) or _NOTHING).last_counter())
    return removed


def first_seq(tree: EntryTree) -> int:
    first = tree.slices_between(0, U64_MAX, 1)
    return first[0].block.counter_at(first[0].low) if first else 0


def last_seq_below(tree: EntryTree, entry_id: EntryId) -> int:
    """Return the seq of the last entry with a smaller ID; 0 if there is none."""
    below = tree.counters_below(entry_id)
    return below[-1][1] if below else 0


def tree_of(stream: Stream | None, origin: int) -> EntryTree:
    return _NOTHING if stream is None else stream.trees.get(origin) or _NOTHING


class IntervalSplitter:
    """Splits an interval (after, through] of seqs into pieces of a given number of entries, a bounded amount of work a
    step.
    """

    __slots__ = ("_after", "_counted", "_entries", "_key", "_origin", "_pieces_max", "_through", "counts", "ends")

    def __init__(self, key: Key, origin: int, after: int, through: int, entries: int, pieces_max: int) -> None:
        if entries == 0:
            raise BulkError(INVALID_ARGUMENT, "entries is 0: use at least 1 entry for each piece")
        self._key = key
        self._origin = origin
        self._after = after
        self._through = through
        self._entries = entries
        self._pieces_max = pieces_max
        self._counted = 0
        self.ends: list[int] = []
        self.counts: list[int] = []

    def step(self, context: Context) -> bool:
        """Do the next part; False when everything is split."""
        tree = tree_of(context.replica.keyspace.peek(self._key), self._origin)
        if self._pieces_max and len(self.ends) + 1 >= self._pieces_max:
            self._counted += tree.count_through(self._through) - tree.count_through(self._after)
            return self._end()
        wanted = min(self._entries - self._counted, SPLIT_ENTRIES)
        parts = tree.slices_between(self._after + 1, self._through, wanted)
        found = sum([part.count() for part in parts])
        # Before anything is noted: it may need a spilled block.
        after = parts[-1].block.counter_at(parts[-1].high - 1) if found == wanted else 0
        self._counted += found
        if found < wanted:
            return self._end()
        self._after = after
        if self._counted == self._entries:
            self._add(self._after)
        return True

    def _end(self) -> bool:
        """Finish: the last piece ends where the interval ends; if a piece just ended before it, that one is
        extended.
        """
        if self._counted or not self.ends:
            self._add(self._through)
        else:
            self.ends[-1] = self._through
        return False

    def _add(self, through: int) -> None:
        self.ends.append(through)
        self.counts.append(self._counted)
        self._counted = 0
