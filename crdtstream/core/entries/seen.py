"""What a reader blocked on `$` has seen of a stream; it receives what arrives later, even entries with low IDs.

Counters of one origin ascend, so the last counter of each tree separates old entries from new ones. A stream may have
many origins: while no tree has grown except the tips of chains, only the trees that were tips are visited.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import ChainRange, TreeRange
from crdtstream.core.values.chain import Chains
from crdtstream.core.values.entry_id import ID_MAX, U64_MAX


class Counters:
    """The last counter of each tree, valid for this value of `Chains.placed`; tips may have grown since."""

    __slots__ = ("of_origin", "placed")

    def __init__(self, chains: Chains[EntryTree]) -> None:
        self.placed = chains.placed
        self.of_origin = {tree.origin: tree.last_counter() for chain in chains.all for tree in chain.extents}


@mypyc_attr(allow_interpreted_subclasses=True)
class KnownEntries:
    """A reader that knows the entries of each origin up to a counter (inclusive)."""

    __slots__ = ()

    def counter(self, origin: int) -> int:
        """The last counter that the reader knows of this origin, 0 for none; each kind of reader has its own."""
        raise NotImplementedError

    def parts_of(self, trees: tuple[EntryTree, ...], limit: int) -> ChainRange:
        """What it does not know of these trees of one chain, at most `limit` entries (all if negative)."""
        chain_range: ChainRange = []
        left = U64_MAX if limit < 0 else limit
        for tree in trees:
            if left <= 0:
                break
            first = tree.first_above(self.counter(tree.origin))
            slices = [] if first is None else tree.slices(first, ID_MAX, left, False)
            if slices:
                chain_range.append(TreeRange(tree.origin, slices))
                for part in slices:
                    left -= part.high - part.low
        return chain_range


class SeenEntries(KnownEntries):
    """All entries up to the trees' current counters."""

    __slots__ = ("_chains", "_others", "_tips")

    def __init__(self, chains: Chains[EntryTree] | None, others: Counters | None) -> None:
        """`others` was made since a tree was last placed; without chains nothing has been seen."""
        self._chains = chains
        self._others = others
        self._tips: dict[int, int] = {}
        if chains is not None:
            for chain in chains.all:
                self._tips[chain.extents[-1].origin] = chain.extents[-1].last_counter()

    def counter(self, origin: int) -> int:
        found = self._tips.get(origin)
        if found is not None:
            return found
        return 0 if self._others is None else self._others.of_origin.get(origin, 0)

    def since(self, chains: Chains[EntryTree], limit: int) -> list[ChainRange]:
        """The entries that arrived since, at most `limit` of each chain (all if negative)."""
        known = chains is self._chains and self._others is not None and self._others.placed == chains.placed
        chain_ranges: list[ChainRange] = []
        for chain in chains.all:
            chain_range = self.parts_of(chain.extents[-1:] if known else chain.extents, limit)
            if chain_range:
                chain_ranges.append(chain_range)
        return chain_ranges
