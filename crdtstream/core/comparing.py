"""What a state that arrived lacks of this region's entries, found before the state is joined, a few blocks at a time.

A join is one piece, and for what the other side removed it compares the counters of both sides (core/joining.py). Where
counters are listed, that reads every spilled block. So they are compared before, while the region goes on; only the
ranges are kept.

What was found stays true until the join. The state does not change. Of the entries here with counters up to `through`,
some may be removed meanwhile, which takes nothing that the state holds; and an origin adds above its last counter, so
none can come. What has come above `through` is compared when the state is joined.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.applying import Applied
from crdtstream.core.effects import Key
from crdtstream.core.entries.block import demand_blocks
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.joining import LackingEntries, lacking
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.whole_state import WholeState

# A step takes this many visits; comparing so many blocks of a tree, about 0.1 ms each, takes that many.
STEP_VISITS: Final = 64
BLOCKS_A_PIECE: Final = 4
PIECE_VISITS: Final = 32
NAMES_A_READ: Final = 16

_NO_TREE: Final = EntryTree()


class StateComparison:
    """One comparison; `done` once every tree of more than one block was compared. Keys are visited by the cursor of
    SCAN, so none is missed that is there all the time.
    """

    __slots__ = ("_applied", "_cursor", "_database", "_names", "_state", "_trees", "done")

    def __init__(self, state: WholeState, applied: Applied) -> None:
        self._state = state
        self._applied = applied
        self._database = 0
        self._cursor = 0
        self._names: list[bytes] = []
        # The trees of the current key, by origin; the last one is compared now.
        self._trees: list[tuple[Key, int]] = []
        self.done = False

    def step(self) -> None:
        """Go on for a moment. Raises NotAtOnce where it may wait and lacks blocks; then it goes on there."""
        visits = STEP_VISITS
        while visits > 0 and not self.done:
            visits -= self._advance()

    def _advance(self) -> int:
        if self._trees:
            key, origin = self._trees[-1]
            return self._compare(key, origin)
        if self._names:
            self._begin_key((self._database, self._names.pop()))
        elif self._database == DATABASES:
            self.done = True
        else:
            order = self._applied.keyspace.orders[self._database]
            self._cursor, self._names = order.read(self._cursor, NAMES_A_READ)
            if not self._cursor:
                # What was read last is of the database before.
                self._end_database()
        return 1

    def _end_database(self) -> None:
        for name in self._names:
            self._begin_key((self._database, name))
        self._names = []
        self._database += 1

    def _begin_key(self, key: Key) -> None:
        stream = self._applied.keyspace.databases[key[0]].get(key[1])
        if stream is not None:
            self._trees += [(key, origin) for origin, tree in stream.trees.items() if tree.block_count() > 1]

    def _compare(self, key: Key, origin: int) -> int:
        """Compare the next blocks of a tree; returns how many visits that took."""
        stream = self._applied.keyspace.databases[key[0]].get(key[1])
        tree = None if stream is None else stream.trees.get(origin)
        found = self._state.lacking.setdefault(key, {}).setdefault(origin, LackingEntries())
        last = min(self._applied.vector.get(origin), self._state.vector.get(origin))
        if tree is None or not tree.count or found.through >= last:
            self._trees.pop()
            return 1
        theirs = self._state.streams.get(key)
        other = _NO_TREE if theirs is None else theirs.trees.get(origin) or _NO_TREE
        low, high = found.through + 1, min(last, tree.last_counter_of(found.through + 1, BLOCKS_A_PIECE))
        if not other.surely_lacks(low, high):
            demand_blocks([*tree.listed_between(low, high), *other.listed_between(low, high)])
        found.ranges += lacking(tree, other, high, low)
        found.through = high
        return PIECE_VISITS
