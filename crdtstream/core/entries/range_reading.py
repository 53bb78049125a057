"""Range reading: what chains of entry trees give of a range, as RESP bytes or counts; see core/values/chain.py and
core/entries/merging.py.

Both ends of a range are included. A negative limit means all.
"""

from __future__ import annotations

from bisect import bisect_right

from mypy_extensions import i64

from crdtstream.core.entries.block import demand_blocks
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import ChainRange, Merge, MergeInput, TreeRange, merge
from crdtstream.core.entries.slices import Slice
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.chain import Chain, Chains
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId


def chain_range_of(chain: Chain[EntryTree], start: EntryId, end: EntryId, limit: int, reverse: bool) -> ChainRange:
    """The chain's entries from start to end: the first `limit` of them, or with `reverse` the last."""
    trees = chain.extents
    if len(trees) == 1:
        slices = trees[0].slices(start, end, limit, reverse)
        return [TreeRange(trees[0].origin, slices)] if slices else []
    if limit < 0:
        limit = U64_MAX
    chain_range: ChainRange = []
    at, step = (min(chain.reaching(end), len(trees) - 1), -1) if reverse else (chain.reaching(start), 1)
    while 0 <= at < len(trees) and limit > 0 and not _beyond(trees[at], start, end, reverse):
        slices = trees[at].slices(start, end, limit, reverse)
        if slices:
            chain_range.append(TreeRange(trees[at].origin, slices))
            for part in slices:
                limit -= part.high - part.low
        at += step
    return chain_range


def _beyond(tree: EntryTree, start: EntryId, end: EntryId, reverse: bool) -> bool:
    """True if neither this tree nor any tree read after it has an entry in the range."""
    edge = tree.last_id() if reverse else tree.first_id()
    return edge is None or (edge < start if reverse else edge > end)


def chain_ranges_of(
    chains: Chains[EntryTree], start: EntryId, end: EntryId, limit: int, reverse: bool
) -> list[ChainRange]:
    """What each chain has of a range, at most `limit` entries each; chains without any are left out."""
    chain_ranges: list[ChainRange] = []
    for chain in chains.all:
        chain_range = chain_range_of(chain, start, end, limit, reverse)
        if chain_range:
            chain_ranges.append(chain_range)
    return chain_ranges


def count_through(chains: Chains[EntryTree], end: EntryId) -> int:
    """The number of entries with this ID or a lower one."""
    count = 0
    for chain in chains.all:
        for tree in chain.extents[: chain.reaching(end) + 1]:
            count += tree.count_in(ID_MIN, end)
    return count


def counts_of_oldest(chains: Chains[EntryTree], count: int) -> dict[int, int]:
    """For each origin, how many of the `count` oldest entries in merged order it has."""
    if len(chains.all) == 1:
        return _counts_in_chain(chains.all[0], count)
    oldest: dict[int, int] = {}
    for run in merge(chain_ranges_of(chains, ID_MIN, ID_MAX, count, False), count):
        oldest[run.origin] = oldest.get(run.origin, 0) + run.count()
    return oldest


def _counts_in_chain(chain: Chain[EntryTree], count: int) -> dict[int, int]:
    oldest: dict[int, int] = {}
    for tree in chain.extents:
        if count <= 0:
            break
        oldest[tree.origin] = min(tree.count, count)
        count -= tree.count
    return oldest


def add_dots(chain: Chain[EntryTree], ids: list[EntryId], found: dict[EntryId, list[Dot]]) -> None:
    """Add the dots of those of these ascending IDs that the chain holds."""
    for tree, some, counters in held_in(chain, ids):
        for entry_id, counter in zip(some, counters, strict=True):
            if counter:
                found.setdefault(entry_id, []).append((tree.origin, counter))


def held_in(chain: Chain[EntryTree], ids: list[EntryId]) -> list[tuple[EntryTree, list[EntryId], list[int]]]:
    """These ascending IDs divided among the trees of the chain, with the counter of each; 0 for one not held."""
    held: list[tuple[EntryTree, list[EntryId], list[int]]] = []
    at = 0
    while at < len(ids):
        place = chain.reaching(ids[at])
        if place == len(chain.extents):
            break
        tree = chain.extents[place]
        end = bisect_right(ids, tree.last_id() or ID_MIN, at)
        some = ids[at:end]
        held.append((tree, some, tree.counters_of(some)))
        at = end
    return held


# Bytes


def read_chain_ranges(chain_ranges: list[ChainRange], count: int, reverse: bool) -> tuple[int, list[bytes]]:
    """All chain_ranges merged into one range: the number of entries, and their RESP bytes."""
    if len(chain_ranges) > 1:
        taken, chunks, _ = read_merged(chain_ranges, count, reverse)
        return taken, chunks
    if not chain_ranges:
        return 0, []
    if len(chain_ranges[0]) == 1:
        return sliced(chain_ranges[0][0].slices, reverse)
    return sliced([piece for part in chain_ranges[0] for piece in part.slices], reverse)


def sliced(slices: list[Slice], reverse: bool) -> tuple[int, list[bytes]]:
    """The number of entries in these slices and their RESP bytes; in reverse, entry by entry."""
    count = 0
    chunks: list[bytes] = []
    packed = [part.block for part in slices if part.block.is_packed]
    if packed:
        demand_blocks(packed)
    for part in slices:
        count += part.high - part.low
        if reverse:
            chunks += [part.block.entry(i) for i in range(part.high - 1, part.low - 1, -1)]
        else:
            chunks.append(part.entries())
    return count, chunks


def read_merged(chain_ranges: list[ChainRange], count: int, reverse: bool) -> tuple[int, list[bytes], EntryId]:
    """Chain ranges merged into one range: the number of entries, their RESP bytes, and the ID of the one read last."""
    merging = Merge(chain_ranges, count, reverse)
    chunks: list[bytes] = []
    taken: i64 = 0
    last: MergeInput | None = None
    piece = merging.step()
    while piece is not None:
        low, high = merging.low, merging.high
        taken += high - low
        if reverse:
            chunks += piece.texts_down(low, high)
        else:
            chunks.append(piece.text(low, high))
        last, piece = piece, merging.step()
    if last is None:
        return 0, chunks, ID_MIN
    return taken, chunks, last.block.id_at(merging.low if reverse else merging.high - 1)
