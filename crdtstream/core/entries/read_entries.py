"""What a client has read of a stream, and what comes next: the last entry read of each origin, by its counter.

IDs do not tell what a client has read, since an entry of another region may arrive later with a lower ID. Counters do:
both ascend within an origin, a region has all effects of an origin up to the last that it applied, and each reply takes
the unread entries of an origin from its first one on. So what was read of an origin is all that lived up to its
counter (inclusive), whatever regions the client has read from. A counter above what a region has applied leaves nothing
to read there.

Entries come in the order (ID, origin) among those that the client has not read.
"""

from __future__ import annotations

from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import ChainRange, Merge
from crdtstream.core.entries.range_reading import sliced
from crdtstream.core.entries.seen import KnownEntries
from crdtstream.core.values.chain import Chains


class ReadEntries(KnownEntries):
    """All entries up to `counters`, which grow as the client reads."""

    __slots__ = ("counters",)

    def __init__(self, counters: dict[int, int]) -> None:
        self.counters = counters

    def counter(self, origin: int) -> int:
        return self.counters.get(origin, 0)

    def read(self, chains: Chains[EntryTree], count: int) -> tuple[int, list[bytes]]:
        """Read the next entries, at most `count` (all if negative): their number, and their RESP bytes."""
        chain_ranges = [part for part in [self.parts_of(chain.extents, count) for chain in chains.all] if part]
        if len(chain_ranges) == 1:
            return self._read_chain(chain_ranges[0])
        return self._read_merged(chain_ranges, count)

    def _read_chain(self, chain_range: ChainRange) -> tuple[int, list[bytes]]:
        for part in chain_range:
            last = part.slices[-1]
            self.counters[part.origin] = last.block.counter_at(last.high - 1)
        return sliced([piece for part in chain_range for piece in part.slices], False)

    def _read_merged(self, chain_ranges: list[ChainRange], count: int) -> tuple[int, list[bytes]]:
        merging = Merge(chain_ranges, count, False)
        chunks: list[bytes] = []
        taken = 0
        piece = merging.step()
        while piece is not None:
            low, high = merging.low, merging.high
            taken += high - low
            chunks.append(piece.text(low, high))
            self.counters[piece.origin] = piece.block.counter_at(high - 1)
            piece = merging.step()
        return taken, chunks
