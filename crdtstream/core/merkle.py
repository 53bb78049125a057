"""A stream's replicated state as labelled checksums, to locate a difference between two regions.

The labels cover what core/digest.py covers. Checksums are 64-bit, and equal for equal state, however blocks divide
the entries. Entries are narrowed down by intervals of counters `[low, high]`, both ends inclusive, which shrink to one
`FANOUT`-th in each step.

Reference: Merkle, "A digital signature based on a conventional encryption function" (1987), for trees of hashes.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from crdtstream.core.digest import numbers_of, numbers_of_position, numbers_of_properties, packed
from crdtstream.core.effects import Key
from crdtstream.core.entries.block import Block, entry_checksum
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.group import Group
from crdtstream.core.members import Members
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import origin_name

# Label -> checksum.
PortionSums = dict[bytes, int]

FANOUT: Final = 8
NAME_BYTES_MAX: Final = 100
COUNTER_DIGITS_MAX: Final = 20
ENTRIES: Final = b"entries of origin "
GROUP: Final = b"group "
BETWEEN: Final = b".."


class Measure:
    """The count, counter sum and checksum of some live entries of one tree."""

    __slots__ = ("checksum", "count", "counters")

    def __init__(self) -> None:
        self.count = 0
        self.counters = 0
        self.checksum = 0

    def add_block(self, block: Block, low: int, high: int) -> None:
        """Add the entries at the indexes [low, high)."""
        whole = low == 0 and high == block.count
        self.count += high - low
        self.counters += block.counter_sum(low, high)
        self.checksum += block.checksum() if whole else block.checksum_of(low, high)

    def sum(self) -> int:
        return sum_of([self.count, self.counters, self.checksum])


def sum_of(numbers: list[int]) -> int:
    return hash_of(packed(numbers))


def hash_of(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def key_hash(key: Key) -> int:
    return hash_of(packed([key[0]]) + key[1])


def rows_sum(rows: PortionSums) -> int:
    return hash_of(b"".join([packed([len(label), rows[label]]) + label for label in sorted(rows)]))


def stream_sum(key: int, stream: Stream, measures: dict[int, Measure]) -> int:
    """One checksum over all labels. It includes the hash of the key, so swapping two keys changes both checksums."""
    live = [origin for origin in measures if measures[origin].count]
    expiries = stream.expiries()
    numbers = [key, *stream.top, *stream.max_deleted(), stream.entries_added(), len(live), len(expiries)]
    for origin in live:
        measure = measures[origin]
        numbers += (origin, measure.count, measure.counters, measure.checksum)
    for expiry in expiries:
        numbers += expiry
    if stream.properties is not None:
        numbers += numbers_of_properties(stream.properties)
    data = packed(numbers)
    for name in sorted(stream.groups):
        data += packed([len(name)]) + name + packed(numbers_of(stream.groups[name]))
    return hash_of(data)


def origin_label(origin: int) -> bytes:
    return origin_name(origin).encode()


def entries_label(origin: int) -> bytes:
    return ENTRIES + origin_label(origin)


def group_label(name: bytes) -> bytes:
    return GROUP + shortened(name)


def shortened(name: bytes) -> bytes:
    """A long name truncated, with a hash in place of the rest."""
    if len(name) <= NAME_BYTES_MAX:
        return name
    return name[:NAME_BYTES_MAX] + b"...%016x" % hash_of(name)


def stream_hashes(stream: Stream, measures: dict[int, Measure]) -> PortionSums:
    """The registers, the entries of each origin, and the groups; `measures` covers all trees of the stream."""
    rows: PortionSums = {
        b"last-generated-id": sum_of([*stream.top]),
        b"max-deleted-entry-id": sum_of([*stream.max_deleted()]),
        b"entries-added": sum_of([stream.entries_added()]),
        b"expiry": sum_of([number for expiry in stream.expiries() for number in expiry]),
    }
    if stream.properties is not None:
        rows[b"properties"] = sum_of(numbers_of_properties(stream.properties))
    for origin, measure in measures.items():
        if measure.count:
            rows[entries_label(origin)] = measure.sum()
    for name, group in stream.groups.items():
        rows[group_label(name)] = sum_of(numbers_of(group))
    return rows


def measures_of(stream: Stream) -> dict[int, Measure]:
    measures: dict[int, Measure] = {}
    for origin in sorted(stream.trees):
        measures[origin] = Measure()
        blocks, head, _ = stream.trees[origin].blocks()
        for block in blocks:
            measures[origin].add_block(block, head, block.count)
            head = 0
    return measures


def group_hashes(group: Group) -> PortionSums:
    """The start of each create of a group, and the runs acknowledged under it."""
    rows: PortionSums = {}
    for dot, create in group.creates.items():
        name = b"%b:%d" % (origin_label(dot[0]), dot[1])
        rows[b"start of its create " + name] = sum_of(numbers_of_position(create.start))
        for origin, runs in create.runs.items():
            if runs:
                numbers = [number for low, high in runs.pairs() for number in (*low, *high)]
                rows[b"runs of origin %b under its create %b" % (origin_label(origin), name)] = sum_of(numbers)
    return rows


def member_hashes(members: Members) -> PortionSums:
    rows = members.lasting_rows()
    return {
        b"%d of origin %d, %d:%d" % (kind, origin, other, n): sum_of([value]) for kind, origin, other, n, value in rows
    }


def entry_hashes(tree: EntryTree | None, low: int, high: int) -> PortionSums:
    """The non-empty parts of an interval of counters; if the interval is narrow, its entries, as `counter ms-seq`."""
    rows: PortionSums = {}
    if tree is None:
        return rows
    blocks, head, _ = tree.blocks()
    width = (high - low) // FANOUT + 1
    if width == 1:
        for block, start, stop in pieces_between(blocks, head, low, high):
            for index in range(start, stop):
                label = b"%d %d-%d" % (block.counter_at(index), *block.id_at(index))
                rows[label] = sum_of([entry_checksum(block.counter_at(index), block.entry(index))])
        return rows
    for first in range(low, high + 1, width):
        last = min(first + width - 1, high)
        measure = Measure()
        for block, start, stop in pieces_between(blocks, head, first, last):
            measure.add_block(block, start, stop)
        if measure.count:
            rows[b"%d%b%d" % (first, BETWEEN, last)] = measure.sum()
    return rows


def pieces_between(blocks: list[Block], head: int, low: int, high: int) -> list[tuple[Block, int, int]]:
    """The parts of these blocks with counters from low to high, both inclusive: (block, first index, end index)."""
    pieces: list[tuple[Block, int, int]] = []
    for at in range(len(blocks)):
        block = blocks[at]
        if block.counter_at(block.count - 1) < low:
            continue
        if block.counter_at(0) > high:
            break
        start = max(block.lower_bound_counter(low), head if at == 0 else 0)
        stop = block.lower_bound_counter(high + 1)
        if start < stop:
            pieces.append((block, start, stop))
    return pieces


def interval_of(label: bytes) -> tuple[int, int] | None:
    """The interval that a label names; None if it names none."""
    low, between, high = label.partition(BETWEEN)
    if not (between and low.isdigit() and high.isdigit() and max(len(low), len(high)) <= COUNTER_DIGITS_MAX):
        return None
    return (int(low), int(high)) if int(low) <= int(high) else None
