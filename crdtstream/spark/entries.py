"""Parses entries as the bulk port sends them, without a Python object for each row.

An entry is in RESP (`Entries.data` of the contract): `*2`, the ID, `*2k`, then 2k items `$n CRLF bytes CRLF`. All rows
are parsed at once: a vector of cursors, one for each row, advances by one header and one item at a time, so the number
of numpy calls depends on the longest row and not on the number of rows. A few rows that are longer than all others are
parsed one by one.

Items are never copied in Python. Their starts and ends in the data, in one ascending vector of offsets, form a valid
binary array of twice the length, in which every second value is the text between two items; `take` drops those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtstream.bulk import bulk_pb2

# With at most this many rows left, a loop over them is cheaper than one numpy step for each item.
FEW: Final = 12
# `$0 CRLF CRLF`
ITEM_BYTES_MIN: Final = 6
ROWS_WANTED: Final = 32_768
BYTES_WANTED: Final = 8 << 20
STRANGE: Final = "a region sent entries in an unknown format: it may run another version"
ZERO: Final = np.uint8(48)
CR, STAR, DOLLAR = 13, 42, 36

Array = Any


class MalformedEntries(ValueError):
    """The data that a region sent cannot be parsed."""


@dataclass(slots=True)
class EntryBatch:
    """Consecutive entries of several intervals; `streams` and `origins` have one value for each interval."""

    streams: list[bytes]
    origins: list[int]
    interval_of: Array
    region: str
    seqs: Array
    ms: Array
    id_seqs: Array
    ends: Array
    data: bytes

    @property
    def count(self) -> int:
        return len(self.seqs)


EntryInterval = bulk_pb2.Interval
EntriesMessage = tuple[EntryInterval, bulk_pb2.Entries]


def run_of(messages: Sequence[EntriesMessage], region: str) -> EntryBatch:
    entries = [each for _, each in messages]
    counts = [each.count for each in entries]
    sizes = np.array([len(each.data) for each in entries], dtype=np.int64)
    bases = np.cumsum(sizes) - sizes
    ends = np.concatenate([np.frombuffer(each.ends, "<u4") for each in entries]).astype(np.int64)
    return EntryBatch(
        [interval.stream for interval, _ in messages],
        [interval.origin for interval, _ in messages],
        np.repeat(np.arange(len(counts)), counts),
        region,
        np.frombuffer(b"".join(each.seqs for each in entries), "<u8"),
        np.frombuffer(b"".join(each.ms for each in entries), "<u8"),
        np.frombuffer(b"".join(each.id_seqs for each in entries), "<u8"),
        ends + np.repeat(bases, counts),
        b"".join(each.data for each in entries),
    )


def runs(messages: Iterator[tuple[str, EntryInterval, bulk_pb2.Entries]]) -> Iterator[EntryBatch]:
    """Combine successive messages of one region, so that many small intervals cost no more than a long one."""
    held: list[EntriesMessage] = []
    held_region, rows, size = "", 0, 0
    for region, interval, entries in messages:
        if held and (region != held_region or rows >= ROWS_WANTED or size >= BYTES_WANTED):
            yield run_of(held, held_region)
            held, rows, size = [], 0, 0
        if entries.count:
            held.append((interval, entries))
        held_region, rows, size = region, rows + entries.count, size + len(entries.data)
    if held:
        yield run_of(held, held_region)


@dataclass(slots=True)
class Parsed:
    """Where IDs and items are in `data`: items row by row, those of row i from `firsts[i]` to `firsts[i + 1]`."""

    data: bytes
    id_starts: Array
    id_sizes: Array
    firsts: Array
    starts: Array
    sizes: Array


def parse(data: bytes, ends: Array) -> Parsed:
    """Parse adjacent entries from offset 0 on; `ends` is where each entry ends."""
    octets = np.frombuffer(data, np.uint8)
    cursors: Array = np.zeros(len(ends), np.int64)
    cursors[1:] = ends[:-1]
    try:
        parsed, cursors = parse_items(data, octets, cursors)
    except IndexError:
        raise MalformedEntries("a region sent entries that end too early") from None
    if not np.array_equal(cursors, ends):
        raise MalformedEntries("a region sent entries whose ends differ from its column of ends")
    return parsed


def parse_items(data: bytes, octets: Array, cursors: Array) -> tuple[Parsed, Array]:
    id_sizes, id_starts = headers(octets, cursors + 4, DOLLAR)
    counts, cursors = headers(octets, id_starts + id_sizes + 2, STAR)
    if counts.sum() > len(data) // ITEM_BYTES_MIN or (counts % 2).any():
        raise MalformedEntries(STRANGE)
    firsts: Array = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=firsts[1:])
    starts = np.empty(firsts[-1], np.int64)
    sizes = np.empty(firsts[-1], np.int64)
    rows = np.flatnonzero(counts)
    step = 0
    while len(rows) > FEW:
        lengths, at = headers(octets, cursors[rows], DOLLAR)
        origins = firsts[rows] + step
        starts[origins] = at
        sizes[origins] = lengths
        cursors[rows] = at + lengths + 2
        step += 1
        rows = rows[counts[rows] > step]
    for row in rows.tolist():
        cursors[row] = parse_row(
            data, int(cursors[row]), starts[firsts[row] + step : firsts[row + 1]], sizes[firsts[row] + step :]
        )
    return Parsed(data, id_starts, id_sizes, firsts, starts, sizes), cursors


def parse_row(data: bytes, cursor: int, starts: Array, sizes: Array) -> int:
    """Parse the remaining items of one row; return where it ends."""
    for index in range(len(starts)):
        line_end = data.find(b"\r\n", cursor)
        number = data[cursor + 1 : line_end]
        if line_end < 0 or data[cursor] != DOLLAR or not number.isdigit():
            raise MalformedEntries(STRANGE)
        size = int(number)
        starts[index] = line_end + 2
        sizes[index] = size
        cursor = line_end + 4 + size
    return cursor


def headers(octets: Array, cursors: Array, mark: int) -> tuple[Array, Array]:
    """Parse the lines `<mark><number> CRLF` at these offsets; return the numbers and the offsets after the lines."""
    if not (octets[cursors] == mark).all():
        raise MalformedEntries(STRANGE)
    at = cursors + 1
    digits = octets[at] - ZERO
    numbers = digits.astype(np.int64)
    while True:
        # Subtracting ZERO wraps below '0', so any other byte exceeds 9; the second test prevents overflow.
        if (digits > 9).any() or (numbers > len(octets)).any():
            raise MalformedEntries(STRANGE)
        at += 1
        following = octets[at]
        more = following != CR
        if not more.all():
            break
        # Usually all numbers have another digit, and then no masks are needed.
        digits = following - ZERO
        numbers = numbers * 10 + digits
    rows = np.flatnonzero(more)
    while len(rows):
        digits = octets[at[rows]] - ZERO
        numbers[rows] = numbers[rows] * 10 + digits
        if (digits > 9).any() or (numbers > len(octets)).any():
            raise MalformedEntries(STRANGE)
        at[rows] += 1
        rows = rows[octets[at[rows]] != CR]
    return numbers, at + 2


def slices(data: bytes, starts: Array, sizes: Array) -> Array:
    """Return these parts of the data, which ascend and do not overlap, as a binary array."""
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    offsets: Array = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = starts + sizes
    between = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return between.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
