"""Bursts: entries that one pipeline adds to one stream, encoded and appended together.

What the adds share is done once for all of them: their IDs are in one millisecond and a constant step apart, so their
columns are made by arithmetic, their bytes by one join, and their effect and its log record grow once. The result is
that of adding the entries one by one; only the chunks of the block differ.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from crdtstream.core.entries.encoding import array_header, bulk_header
from crdtstream.core.entries.swar import stepping
from crdtstream.core.values.entry_id import EntryId

_CRLF: Final = b"\r\n"
# More entries in a millisecond are rare; the IDs of one region have one residue at a time.
_TEXTS_MAX: Final = 1024
_RESIDUES_MAX: Final = 4
# The numbers of a residue as text, by the second of them.
_TEXTS: Final[dict[int, list[bytes]]] = {}


class Burst:
    """`count` entries with the IDs (ms, seq), (ms, seq + step), ...; `ends[i]` is the offset in `data` just after entry
    i; `replies` are the IDs as RESP bulk strings, concatenated.
    """

    __slots__ = ("count", "data", "ends", "ms", "replies", "seq", "step")

    def __init__(self, first: EntryId, step: int, ends: list[int], data: bytes, replies: bytes) -> None:
        self.ms, self.seq = first
        self.step = step
        self.count = len(ends)
        self.ends = ends
        self.data = data
        self.replies = replies

    def last_id(self) -> EntryId:
        return self.id_at(self.count - 1)

    def id_at(self, index: int) -> EntryId:
        return (self.ms, self.seq + index * self.step)

    def start_of(self, index: int) -> int:
        return self.ends[index - 1] if index else 0

    def fitting(self, low: int, entries_max: int, bytes_max: int) -> int:
        """The end of the longest slice [low, end) of at most so many entries, of which all but the last together have
        less than `bytes_max` bytes; at least one entry.
        """
        high = min(low + entries_max, self.count)
        ends = self.ends
        start = self.start_of(low)
        if ends[high - 1] - start < bytes_max:
            return high
        return min(bisect_left(ends, start + bytes_max, low, high) + 1, high)

    def bytes_of(self, low: int, high: int) -> bytes:
        if low == 0 and high == self.count:
            return self.data
        return self.data[self.start_of(low) : self.ends[high - 1]]

    def id_columns(self, low: int, high: int) -> tuple[array[int], array[int]]:
        """The milliseconds and sequence numbers of the entries [low, high)."""
        ms = array("Q", (self.ms,)) * (high - low)
        return ms, stepping(self.seq + low * self.step, self.step, high - low)


def encoded_fields(row: list[bytes], start: int) -> bytes:
    """The fields `row[start:]` as an entry has them after its ID."""
    parts = [array_header(len(row) - start)]
    for at in range(start, len(row)):
        parts.append(bulk_header(len(row[at])))
        parts.append(row[at])
    parts.append(_CRLF)
    return b"".join(parts)


def encode_burst(first: EntryId, step: int, bodies: list[bytes], middle: bytes = b"") -> Burst:
    """Encode entries, at least one. After its ID an entry has `middle` and its body, which together are what
    `encoded_fields` returns.
    """
    ms, seq = first
    prefix = b"%d-" % ms
    digits = size = end = 0
    name = head = b""
    parts: list[bytes] = []
    texts: list[bytes] = []
    ends: list[int] = []
    replies: list[bytes] = []
    numbers = texts_of(seq, step, len(bodies))
    for at, body in enumerate(bodies):
        text = numbers[at]
        if len(text) != digits:
            # IDs become longer a few times in each millisecond.
            replies += reply_parts(name, texts)
            texts = []
            digits = len(text)
            name = b"$%d\r\n%b" % (len(prefix) + digits, prefix)
            head = b"*2\r\n" + name
            size = len(head) + digits + len(middle)
        parts.append(head)
        parts.append(text)
        if middle:
            parts.append(middle)
        parts.append(body)
        end += size + len(body)
        ends.append(end)
        texts.append(text)
    replies += reply_parts(name, texts)
    return Burst(first, step, ends, b"".join(parts), b"".join(replies))


def texts_of(first: int, step: int, count: int) -> list[bytes]:
    """The numbers first, first + step, ... as text, `count` of them. Low ones are kept, because each millisecond has
    them again.
    """
    at, lowest = divmod(first, step)
    end = at + count
    if end > _TEXTS_MAX:
        return [str(first + index * step).encode("ascii") for index in range(count)]
    kept = _TEXTS.get(step + lowest)
    if kept is None:
        if len(_TEXTS) == _RESIDUES_MAX:
            _TEXTS.clear()
        kept = []
        _TEXTS[step + lowest] = kept
    while len(kept) < end:
        kept.append(str(lowest + len(kept) * step).encode("ascii"))
    return kept[at:end]


def reply_parts(name: bytes, texts: list[bytes]) -> list[bytes]:
    """What joins to the IDs with these ends, all of which begin with the bytes of `name`, as RESP bulk strings."""
    return [name, (_CRLF + name).join(texts), _CRLF] if texts else []
