"""Rows that a client adds: columns whose every value is validated before it is used.

The data of a row is the part of an entry after its ID, in RESP:

    *<2k> CRLF, then $<n> CRLF <bytes> CRLF for each field and value

These bytes become bytes of replies, of the log and of other regions, so they must be exactly those that an XADD would
have produced: numbers without a sign or a leading zero, and nothing before, between or after the items.

Rows of one source usually begin alike: the same count, fields and sizes up to the last value. Such a prefix is parsed
once and then only compared. Work is done in slices that limit both the number of rows and their bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from crdtstream.bulk.columns import U32, U64, read_column
from crdtstream.bulk.errors import INVALID_ARGUMENT, BulkError, require_database
from crdtstream.connections.minting import TOO_LARGE
from crdtstream.core.effects import Key
from crdtstream.core.values.batch_budget import BatchBudget
from crdtstream.settings.config import Limits

SLICE_ROWS: Final = 1_024
SLICE_BYTES: Final = 256 << 10
# Rows for many streams: each row may need a block, and an effect, of its own.
SCATTERED_STREAMS: Final = 64
SCATTERED_ROWS: Final = 128
STREAMS_MAX: Final = 65_536

_CRLF: Final = b"\r\n"
_SIZES: Final = 1_024
_HEADERS: Final = [b"$%d\r\n" % size for size in range(_SIZES)]
_SIZE_OF: Final = {b"%d" % size: size for size in range(_SIZES)}
# The header of a field, by the bytes that the field takes in the row, including both line ends.
_HEADER_OF: Final = {len(header) + size + 2: header for size, header in enumerate(_HEADERS)}
_NUMBER_BYTES: Final = 12
_DIGITS: Final = b"0123456789"
# Key, ID and name of the command that adds such a row.
_OTHER_ARGUMENTS: Final = 3


class EntryRows:
    """Rows of one message, for one or several streams; the rows below `checked` are validated."""

    __slots__ = (
        "_beginnings",
        "_prefix",
        "budget",
        "byte_count",
        "checked",
        "count",
        "data",
        "ends",
        "id_seqs",
        "keys",
        "ms",
        "skip_lower_ids",
        "slice_bytes_max",
        "stream_of",
    )

    def __init__(self, keys: list[Key], ends: array[int], data: bytes) -> None:
        self.keys = keys
        self.count = len(ends)
        self.ends = ends
        self.data = data
        self.byte_count = len(data) + 4 * len(ends)
        # Empty: all rows go to the one stream. The same for `ms`: the region mints the IDs.
        self.stream_of = array(U32)
        self.ms = array(U64)
        self.id_seqs = array(U64)
        self.skip_lower_ids = False
        self.checked = 0
        self.budget: BatchBudget | None = None
        self.slice_bytes_max = SLICE_BYTES
        # The last parsed row up to its last value; and the same with the header of that value, by the size of a row.
        self._prefix = b""
        self._beginnings: dict[int, bytes] = {}

    def bound(self, budget: BatchBudget) -> None:
        """Make slices so small that two of them fit into a batch, and refuse rows that do not fit into half of one."""
        self.budget = budget
        self.slice_bytes_max = min(SLICE_BYTES, budget.cut_bytes // 4)

    def has_ids(self) -> bool:
        return len(self.ms) > 0

    def is_scattered(self) -> bool:
        return len(self.keys) > SCATTERED_STREAMS

    def start_of(self, index: int) -> int:
        return self.ends[index - 1] if index else 0

    def pieces(self, low: int, high: int) -> list[bytes]:
        """The data of each of the rows [low, high)."""
        data, start = self.data, self.start_of(low)
        found: list[bytes] = []
        for end in self.ends[low:high]:
            found.append(data[start:end])
            start = end
        return found

    def slice_end(self, low: int, rows_max: int = SLICE_ROWS) -> int:
        """Return the end of the slice that begins at row `low`; it has at least one row unless there is none."""
        high = min(low + min(rows_max, SCATTERED_ROWS if self.is_scattered() else rows_max), self.count)
        if low >= high:
            return low
        return max(bisect_right(self.ends, self.start_of(low) + self.slice_bytes_max, low, high), low + 1)

    def by_stream(self, low: int, high: int) -> list[tuple[Key, Sequence[int]]]:
        """The rows [low, high) of each stream, in their order."""
        if not self.stream_of:
            return [(self.keys[0], range(low, high))] if low < high else []
        found: dict[int, list[int]] = {}
        for index in range(low, high):
            found.setdefault(self.stream_of[index], []).append(index)
        return [(self.keys[number], found[number]) for number in sorted(found)]

    # Checking

    def check(self, limits: Limits) -> bool:
        """Validate the next slice; False when all rows are validated."""
        low, high = self.checked, self.slice_end(self.checked)
        start = self.start_of(low)
        if self.stream_of and max(self.stream_of[low:high]) >= len(self.keys):
            text = f"column stream_of names stream {max(self.stream_of[low:high])} of {len(self.keys)}"
            raise BulkError(INVALID_ARGUMENT, text)
        index = low
        row_bytes_max = (
            limits.entry_bytes_max if self.budget is None else min(limits.entry_bytes_max, self.budget.bytes_max // 2)
        )
        for end in self.ends[low:high]:
            if end < start:
                raise _bad(index, "column ends does not ascend")
            if not self._is_alike(start, end) or end - start > row_bytes_max:
                self._check_row(index, start, end, limits)
            start = end
            index += 1
        self.checked = high
        if high < self.count:
            return True
        self._beginnings = {}
        return False

    def _is_alike(self, start: int, end: int) -> bool:
        """Return whether the row begins like the previous one, and its last value fills the rest."""
        beginning = self._beginnings.get(end - start)
        if beginning is None:
            beginning = self._begin_alike(end - start)
        data = self.data
        # When compiled by mypyc, a slice that begins behind the data raises SystemError.
        if not beginning or end > len(data):
            return False
        return data[start : start + len(beginning)] == beginning and data[end - 2 : end] == _CRLF

    def _begin_alike(self, size: int) -> bytes:
        """Return the beginning of a row of this size that resembles the previous one; empty if there can be none."""
        prefix = self._prefix
        taken = size - len(prefix)
        header = _HEADER_OF.get(taken) or _header_of(taken)
        beginning = prefix + header if prefix and header else b""
        self._beginnings[size] = beginning
        return beginning

    def _check_row(self, index: int, start: int, end: int, limits: Limits) -> None:
        at, count = self._number(index, b"*", start, end)
        if count == 0 or count % 2:
            raise _bad(index, f"it has {count} fields and values, but needs pairs of them")
        if count + _OTHER_ARGUMENTS > limits.arguments_max:
            raise _bad(index, f"it has {count} fields and values, more than arguments_max = {limits.arguments_max}")
        size = last = 0
        for _ in range(count):
            last = at
            at, length = self._number(index, b"$", at, end)
            size += length
            at += length + 2
            if at > end or self.data[at - 2 : at] != _CRLF:
                raise _bad(index, f"a field of {length} bytes does not end where it should")
        if at != end:
            raise _bad(index, f"{end - at} bytes follow its last value")
        if size > limits.entry_bytes_max:
            raise _bad(index, TOO_LARGE.removeprefix("ERR "))
        if self.budget is not None and end - start > self.budget.bytes_max // 2:
            text = f"it has {end - start} bytes, more than half of {self.budget.bound()}"
            raise _bad(index, f"{text}: send a smaller row, or raise that limit")
        self._prefix = self.data[start:last]
        self._beginnings = {}

    def _number(self, index: int, sign: bytes, at: int, end: int) -> tuple[int, int]:
        """Parse the line of a count or a size; return the offset after it and the number."""
        line_end = self.data.find(_CRLF, at, min(at + _NUMBER_BYTES, end))
        # When compiled by mypyc, a slice that ends before it begins raises SystemError.
        digits = self.data[at + 1 : line_end] if line_end > at else b""
        size = _SIZE_OF.get(digits, -1)
        if size < 0:
            canonical = digits[:1] != b"0" and digits and not digits.strip(_DIGITS)
            size = int(digits) if canonical else -1
        if size < 0 or self.data[at : at + 1] != sign:
            shown = self.data[at : min(at + _NUMBER_BYTES, end)]
            raise _bad(index, f"{shown!r} is found where {sign.decode()}, a number and a line end are expected")
        return line_end + 2, size


def _header_of(taken: int) -> bytes:
    """Return the header as `_HEADER_OF` does, for large fields; empty if no field takes this many bytes."""
    digits = len(str(taken))
    for size in (taken - digits - 5, taken - digits - 4):
        header = b"$%d\r\n" % size
        if size >= _SIZES and len(header) + size + 2 == taken:
            return header
    return b""


def _bad(index: int, what: str) -> BulkError:
    return BulkError(INVALID_ARGUMENT, f"row {index}: {what}")


def rows_of(database: int, streams: Sequence[bytes], count: int, ends: bytes, data: bytes) -> EntryRows:
    """Decode the columns that every message has; raises BulkError if they are inconsistent."""
    require_database(database)
    if count and not streams:
        raise BulkError(INVALID_ARGUMENT, "the rows have no stream: name one in streams")
    if len(streams) > STREAMS_MAX:
        raise BulkError(INVALID_ARGUMENT, f"{len(streams)} streams in one message, more than {STREAMS_MAX}")
    if len(dict.fromkeys(streams)) != len(streams):
        raise BulkError(INVALID_ARGUMENT, "streams names a stream twice: name each once, and refer to it by its index")
    column = read_column(ends, U32, count, "ends")
    if (column[-1] if count else 0) != len(data):
        raise BulkError(INVALID_ARGUMENT, f"the last value of column ends is not the size of data, {len(data)}")
    return EntryRows([(database, name) for name in streams], column, data)


def place(rows: EntryRows, stream_of: bytes) -> None:
    """Assign rows to streams."""
    if not stream_of and len(rows.keys) <= 1:
        return
    rows.stream_of = read_column(stream_of, U32, rows.count, "stream_of")
    rows.byte_count += len(stream_of)


def identify(rows: EntryRows, ms: bytes, id_seqs: bytes, skip_lower_ids: bool) -> None:
    """Assign the client's IDs to the rows; without them the region mints IDs."""
    if not ms and not id_seqs:
        return
    rows.ms = read_column(ms, U64, rows.count, "ms")
    rows.id_seqs = read_column(id_seqs, U64, rows.count, "id_seqs")
    rows.skip_lower_ids = skip_lower_ids
    rows.byte_count += len(ms) + len(id_seqs)
