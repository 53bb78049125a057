"""The read cursor of a group: what its last reads found, so that the next one need not search again.

It is a cache and can be dropped at any time. It has three parts:

    nothing_to   for each chain of trees the ID up to which nothing is wanted; entries arrive only above everything
                 their chain held, so these IDs stay valid
    the offer    what the last read found, by a number that the delivery has; who gives the number back with the
                 intervals of that delivery means exactly its runs
    the end      behind the last entry delivered, in a stream of one chain: a block, an index and an ID, above which
                 everything is wanted and nothing is passed

Offer and end hold while nothing leaves the trees and no tree is placed (the counters of `Chains`), and while nothing
but deliveries changes what the group has passed, which the group reports by `invalidate`.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.block_list import NO_TAIL
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import BlockRange
from crdtstream.core.groups.delivery import NOT_OFFERED, Delivery
from crdtstream.core.values.chain import Chain, Chains
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, next_id
from crdtstream.core.values.origin_intervals import OriginIntervals

# No number of a delivery, not even of one that no read found.
NO_OFFER: Final = -1
NO_RUNS: Final[list[BlockRange]] = []


class ReadCursor:
    """Where the next read of a group begins."""

    __slots__ = (
        "_block",
        "_chains",
        "_cut",
        "_ended",
        "_id",
        "_index",
        "_nothing_to",
        "_offer",
        "_offers",
        "_origin",
        "_placed",
        "_runs",
    )

    def __init__(self) -> None:
        # Chain number -> the ID up to which nothing is wanted.
        self._nothing_to: dict[int, EntryId] = {}
        self._chains: Chains[EntryTree] | None = None
        self._cut = 0
        self._placed = 0
        self._offers = NOT_OFFERED
        self._offer = NO_OFFER
        self._runs = NO_RUNS
        self._ended = False
        self._block: Block = NO_TAIL
        self._index = 0
        self._origin = 0
        self._id: EntryId = ID_MIN

    def reset(self) -> None:
        self._nothing_to = {}
        self.invalidate()

    def invalidate(self) -> None:
        """Drop the offer and the end."""
        self._chains = None
        self._ended = False
        self._offer = NO_OFFER
        self._runs = NO_RUNS
        self._block = NO_TAIL

    # Chains

    def first_of(self, chain: Chain[EntryTree]) -> int:
        """The index of the first tree of the chain that may hold a wanted entry."""
        nothing_to = self._nothing_to.get(chain.number)
        return 0 if nothing_to is None else chain.reaching(next_id(nothing_to) or ID_MAX)

    def pass_tree(self, chain: Chain[EntryTree], tree: EntryTree, chain_count: int) -> None:
        """Record that nothing is wanted up to the end of this tree."""
        if len(self._nothing_to) > 2 * chain_count and chain.number not in self._nothing_to:
            self._nothing_to = {}
        self._nothing_to[chain.number] = tree.last_id() or ID_MIN

    # Offer and end

    def _holds(self, chains: Chains[EntryTree]) -> bool:
        return self._chains is chains and chains.cut == self._cut and chains.placed == self._placed

    def behind_end(self, chains: Chains[EntryTree], count: int) -> Delivery | None:
        """The next `count` entries, if they follow the end in its block; None if a read has to search."""
        block, low = self._block, self._index
        high = low + count
        if not self._ended or count <= 0 or high > block.count or not self._holds(chains):
            return None
        intervals = OriginIntervals(self._origin, self._id, block.id_at(high - 1))
        self._runs = [BlockRange(self._origin, 0, block, low, high)]
        return Delivery(count, [block.entry_slice(low, high)], intervals, self._runs, self._next_offer())

    def _next_offer(self) -> int:
        self._offers += 1
        self._offer = self._offers
        return self._offer

    def offer(self, chains: Chains[EntryTree], delivery: Delivery) -> None:
        """Note what a read found by searching."""
        if delivery.count:
            self.invalidate()
            self._chains, self._cut, self._placed = chains, chains.cut, chains.placed
        self._runs, delivery.offer = delivery.runs, self._next_offer()

    def accept(self, offer: int) -> list[BlockRange] | None:
        """The runs of the delivery with this number, if it is the offer, which is then taken."""
        chains = self._chains
        if offer != self._offer or chains is None or not self._holds(chains):
            self.invalidate()
            return None
        runs = self._runs
        self._offer, self._runs = NO_OFFER, NO_RUNS
        return runs

    def goes_on(self, delivery: Delivery) -> bool:
        """True if this delivery, found by the last read, begins at the end."""
        return self._ended and delivery.offer == self._offer

    def end_behind(self, run: BlockRange, last: EntryId) -> bool:
        """Put the end behind the last run of the offer that was accepted, which ends with this ID; false in a stream
        of several chains, where there is no end.
        """
        chains = self._chains
        self._ended = chains is not None and len(chains.all) == 1
        if self._ended:
            self._origin, self._block, self._index, self._id = run.origin, run.block, run.high, last
        return self._ended
