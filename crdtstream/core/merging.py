"""Merging: several chains of entry trees read as one sequence, in the order (ID, origin).

The result says what is taken of each slice, its *share*, and in which order the shares are read: as *runs*, each of
which continues a share by consecutive entries with no entry of another tree between them. Trees that were written one
after the other give long runs, whose ends are found by bisection, so a run costs no more than a slice. Where entries
alternate they are *woven*: the next few of each strand are sorted together, and give one run of several shares.

Indexes `[low, high)` are low inclusive, high exclusive. In reverse, slices, shares and runs come in descending order,
each run is to be read from its end, and nothing is woven.

A *strand* is what one chain contributes to a range (core/chain.py): a part for each of its trees, in reading order.

Reference: the k-way merge of TAOCP 5.4.1; a linear search finds the smallest head, because chains are few.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from typing import Final

from crdtstream.core.block import Block
from crdtstream.core.entry_id import U64_MAX, EntryId
from crdtstream.core.slices import Slice

# After so many runs of one entry each, entries are taken to alternate.
SINGLES: Final = 2
# So many entries more than its part of the rest are woven of each strand, because the parts are seldom equal.
MARGIN: Final = 8
WOVEN_MAX: Final = 256


class Part:
    """What one tree contributes to a range: its slices in reading order, at least one."""

    __slots__ = ("slices", "slot")

    def __init__(self, slot: int, slices: list[Slice]) -> None:
        self.slot = slot
        self.slices = slices


Strand = list[Part]


class Share(Slice):
    """A slice of a block of this slot; `source` is the index of the slice that it is part of, among the slot's."""

    __slots__ = ("slot", "source")

    def __init__(self, slot: int, source: int, block: Block, low: int, high: int) -> None:
        super().__init__(block, low, high)
        self.slot = slot
        self.source = source


class Run:
    """`counts[i]` entries of the share of number `owners[i]`. If these are several, `order` has an index of both for
    each entry.
    """

    __slots__ = ("counts", "order", "owners")

    def __init__(self, owners: list[int], counts: list[int], order: list[int] | None = None) -> None:
        self.owners = owners
        self.counts = counts
        self.order: list[int] = order or []


class Merged:
    """Runs in reading order, and the shares that they continue; none is empty."""

    __slots__ = ("count", "reverse", "runs", "shares")

    def __init__(self, reverse: bool) -> None:
        self.reverse = reverse
        self.shares: list[Share] = []
        self.runs: list[Run] = []
        self.count = 0

    def begin(self, cursor: _Cursor) -> int:
        """Begin the share of the slice that the cursor has entered; returns its number."""
        low = cursor.at + 1 if self.reverse else cursor.at
        self.shares.append(Share(cursor.slot, cursor.source, cursor.block, low, low))
        return len(self.shares) - 1

    def add(self, run: Run) -> None:
        for owner, count in zip(run.owners, run.counts, strict=True):
            share = self.shares[owner]
            if self.reverse:
                share.low -= count
            else:
                share.high += count
            self.count += count
        self.runs.append(run)

    def last_id(self) -> EntryId:
        """The ID that is read last."""
        run = self.runs[-1]
        share = self.shares[run.owners[run.order[-1] if run.order else 0]]
        return share.block.id_at(share.low if self.reverse else share.high - 1)

    def chunks(self) -> list[bytes]:
        """The bytes of the entries in reading order; one by one in reverse and where entries alternate."""
        ats = [share.high if self.reverse else share.low for share in self.shares]
        chunks: list[bytes] = []
        for run in self.runs:
            if run.order:
                chunks += self._woven(run, ats)
                continue
            owner, count = run.owners[0], run.counts[0]
            block, at = self.shares[owner].block, ats[owner]
            if self.reverse:
                ats[owner] = at - count
                chunks += block.entries(at - count, at)[::-1]
            else:
                ats[owner] = at + count
                chunks.append(block.entry_slice(at, at + count))
        return chunks

    def _woven(self, run: Run, ats: list[int]) -> list[bytes]:
        """Each entry of a run of several shares, which begin at these indexes."""
        rests: list[list[bytes]] = []
        for index in range(len(run.owners)):
            owner, count = run.owners[index], run.counts[index]
            at = ats[owner]
            ats[owner] = at + count
            # Taken from the end, the first entry last.
            rests.append(self.shares[owner].block.entries(at, at + count)[::-1] if count else [])
        return [rests[index].pop() for index in run.order]

    def entries(self) -> list[tuple[EntryId, bytes]]:
        """ID and bytes of each entry in reading order."""
        rests = []
        for share in self.shares:
            ids, entries = share.block.ids(share.low, share.high), share.block.entries(share.low, share.high)
            rows = list(zip(ids, entries, strict=True))
            rests.append(iter(rows[::-1] if self.reverse else rows))
        return [next(rests[owner]) for owner in self.owners()]

    def owners(self) -> list[int]:
        """The number of the share of each entry, in reading order."""
        found: list[int] = []
        for run in self.runs:
            found += [run.owners[index] for index in run.order] if run.order else run.owners * run.counts[0]
        return found


class _Cursor:
    """The next entry of one strand; `stop` is the index just after the last one of the slice, in reading order."""

    __slots__ = (
        "_end_ms",
        "_end_seq",
        "at",
        "block",
        "ended",
        "ms",
        "part",
        "seq",
        "share",
        "slices",
        "slot",
        "source",
        "step",
        "stop",
        "strand",
    )

    def __init__(self, strand: Strand, step: int) -> None:
        self.strand = strand
        self.step = step
        self.ended = False
        self._begin(0)

    def _begin(self, part: int) -> None:
        self.part = part
        self.slot = self.strand[part].slot
        self.slices = self.strand[part].slices
        self._enter(0)

    def _enter(self, source: int) -> None:
        piece = self.slices[source]
        self.source = source
        self.block: Block = piece.block
        # The number of the slice's share, once it has one.
        self.share = -1
        first, last = piece.low, piece.high - 1
        if self.step < 0:
            first, last = last, first
        self.stop: int = last + self.step
        self._look(last)
        self._end_ms: int = self.ms
        self._end_seq: int = self.seq
        if first != last:
            self._look(first)

    def _look(self, at: int) -> None:
        self.at: int = at
        block = self.block
        if block.closed:
            block.open()
        self.ms: int = block.ms_base + block.ms[at]
        self.seq: int = block.seq[at]

    def before(self, other: _Cursor) -> bool:
        """True if this cursor's entry comes before the other's in reading order."""
        return self._precedes(self.ms, self.seq, other)

    def _precedes(self, ms: int, seq: int, other: _Cursor) -> bool:
        if ms != other.ms:
            return (ms < other.ms) == (self.step > 0)
        if seq != other.seq:
            return (seq < other.seq) == (self.step > 0)
        return (self.slot < other.slot) == (self.step > 0)

    def take(self, bound: _Cursor | None, left: int) -> int:
        """Pass the entries before `bound` (the nearest of the other cursors): at least one, at most `left`. Returns how
        many.
        """
        if bound is None or self._precedes(self._end_ms, self._end_seq, bound):
            return self.pass_by(min(left, (self.stop - self.at) * self.step))
        # What is taken ends within the slice.
        self._look(self.at + self.step)
        if left == 1 or not self.before(bound):
            return 1
        return 1 + self.pass_by(min(left - 1, (self._bisected(bound) - self.at) * self.step))

    def _bisected(self, bound: _Cursor) -> int:
        """The index of the first entry of the block, in reading order, that does not come before `bound`."""
        entry_id = (bound.ms, bound.seq)
        # Of two entries with this ID, that of the lower slot is read first; in reverse, last.
        high = self.block.upper_bound(entry_id) if self.slot < bound.slot else self.block.lower_bound(entry_id)
        return high if self.step > 0 else high - 1

    def pass_by(self, count: int) -> int:
        """Go on by so many entries of the slice."""
        at = self.at + count * self.step
        if at == self.stop:
            self._leave()
        else:
            self._look(at)
        return count

    def _leave(self) -> None:
        if self.source + 1 < len(self.slices):
            self._enter(self.source + 1)
        elif self.part + 1 < len(self.strand):
            self._begin(self.part + 1)
        else:
            self.ended = True

    def window(self, count: int) -> tuple[list[int], list[int]]:
        """The IDs of the next entries of the slice, at most `count`: milliseconds and sequence numbers."""
        block, at = self.block, self.at
        if block.closed:
            block.open()
        end = min(at + count, self.stop)
        base, ms = block.ms_base, block.ms[at:end].tolist()
        return [base + one for one in ms] if base else ms, block.seq[at:end].tolist()


def merge(strands: list[Strand], count: int, reverse: bool = False) -> Merged:
    """The first `count` entries of non-empty strands in reading order (all if negative)."""
    cursors = [_Cursor(strand, -1 if reverse else 1) for strand in strands]
    left = count if count >= 0 else U64_MAX
    merged = Merged(reverse)
    singles = 0
    while cursors and left > 0:
        first, bound = _leaders(cursors)
        if singles >= SINGLES and bound is not None:
            singles = 0
            run = _woven_run(cursors, left, merged)
        else:
            run = Run([_owner(first, merged)], [first.take(bound, left)])
            singles = singles + 1 if run.counts[0] == 1 and not reverse else 0
        merged.add(run)
        left = count - merged.count if count >= 0 else U64_MAX
        cursors = [cursor for cursor in cursors if not cursor.ended]
    return merged


def _owner(cursor: _Cursor, merged: Merged) -> int:
    """The number of the share of the cursor's slice."""
    if cursor.share < 0:
        cursor.share = merged.begin(cursor)
    return cursor.share


def _leaders(cursors: list[_Cursor]) -> tuple[_Cursor, _Cursor | None]:
    """The cursor with the first entry, and the one with the next entry among the others (None if there is no other)."""
    first = cursors[0]
    bound: _Cursor | None = None
    for at in range(1, len(cursors)):
        cursor = cursors[at]
        if cursor.before(first):
            first, bound = cursor, first
        elif bound is None or cursor.before(bound):
            bound = cursor
    return first, bound


def _woven_run(cursors: list[_Cursor], left: int, merged: Merged) -> Run:
    """The next entries of all cursors, up to the end of the window that ends first."""
    # In the order of slots, which decides where IDs are equal.
    ranked = sorted(cursors, key=_slot_of)
    size = min(left // len(ranked) + MARGIN, WOVEN_MAX)
    windows = _keys([cursor.window(size) for cursor in ranked])
    # Above it the strand of that window may have more.
    bound = min([keys[-1] for keys in windows])
    keys = sorted(chain.from_iterable(windows))
    del keys[min(left, bisect_right(keys, bound)) :]
    count = len(ranked)
    order = [key % count for key in keys]
    counts = [order.count(rank) for rank in range(count)]
    # One that gives nothing gets no share.
    owners = [_owner(ranked[rank], merged) if counts[rank] else 0 for rank in range(count)]
    for rank in range(count):
        if counts[rank]:
            ranked[rank].pass_by(counts[rank])
    return Run(owners, counts, order)


def _keys(windows: list[tuple[list[int], list[int]]]) -> list[list[int]]:
    """A number for each ID, in their order; where IDs are equal, in that of the windows. The remainder is the number of
    the window.
    """
    count = len(windows)
    ms_base = min([ms[0] for ms, _ in windows])
    # As small as possible: small numbers are sorted much faster.
    bits = max([max(seq) for _, seq in windows]).bit_length()
    keyed: list[list[int]] = []
    for rank in range(count):
        ms, seq = windows[rank]
        keyed.append([((ms[at] - ms_base << bits) + seq[at]) * count + rank for at in range(len(ms))])
    return keyed


def _slot_of(cursor: _Cursor) -> int:
    return cursor.slot
