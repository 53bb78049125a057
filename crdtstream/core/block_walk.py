"""A walk over all blocks of a region, a little at a time: what compresses and what spills blocks shares it.

A walk visits the blocks of each tree but the last, which the next reader wants. Keys are visited by the cursor of
SCAN, so none that is there all the time is missed. Within a tree a walk goes on at the number of a block: if blocks
before it are removed meanwhile, some are visited by the next walk only.

Nothing replicated changes, so walks may differ from region to region, and need not be in the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.group import Group
from crdtstream.core.keyspace import DATABASES, Keyspace

# In visits of a block that needs nothing, each about 0.05 µs.
KEY_COST: Final = 16
KEYS_A_READ: Final = 16


class BlockWalk(ABC):
    """The walks of one kind, which say what a visit of a tree does."""

    __slots__ = ("_at", "_cursor", "_database", "_groups", "_keyspace", "_names", "_trees", "walking", "walks")

    def __init__(self, keyspace: Keyspace) -> None:
        self.walks = 0
        self.walking = False
        self._keyspace = keyspace
        # What is left of the walk: blocks of the last of these trees from a number on, the other trees, these names,
        # then names from the cursor on.
        self._at = 0
        self._trees: list[EntryTree] = []
        self._groups: list[Group] = []
        self._names: list[bytes] = []
        self._database = 0
        self._cursor = 0

    def go_on(self, cost_max: int) -> bool:
        """Walk on for about this cost; true if there is more of this walk."""
        while cost_max > 0 and self.walking:
            cost_max -= self._advance()
        return self.walking

    def _restart(self) -> None:
        self.walking = True
        self._trees, self._groups, self._names = [], [], []
        self._at = self._database = self._cursor = 0

    def _advance(self) -> int:
        """Take the next part of the walk; returns what it cost."""
        if self._trees:
            return self._visit_tree(self._trees[-1])
        if self._names:
            stream = self._keyspace.databases[self._database].get(self._names.pop())
            self._trees = [] if stream is None else list(stream.trees.values())
            self._groups = [] if stream is None else list(stream.groups.values())
            self._visit_groups(self._groups)
            return KEY_COST
        if self._cursor < 0:
            self._database, self._cursor = self._database + 1, 0
        if self._database == DATABASES:
            self.walking = False
            self.walks += 1
            self._end()
            return 1
        cursor, self._names = self._keyspace.orders[self._database].read(self._cursor, KEYS_A_READ)
        self._cursor = cursor or -1
        return 1

    # Not abstract: a hook that only one kind of walk fills.
    def _visit_groups(self, groups: list[Group]) -> None:  # noqa: B027
        """Visit the groups of the next stream."""

    def _leave_tree(self) -> None:
        self._trees.pop()
        self._at = 0

    @abstractmethod
    def _visit_tree(self, tree: EntryTree) -> int:
        """Visit the next blocks of this tree, or leave it behind the last; returns what that cost."""

    @abstractmethod
    def _end(self) -> None:
        """All blocks were visited."""
