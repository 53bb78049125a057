"""Entry IDs and how each ID mode mints them.

An entry ID is the pair `(ms, seq)`, both unsigned 64-bit; pairs order as Redis orders IDs. Its text is `ms-seq`.

Minting in strict and semi-strict mode gives `seq = k * 65536 + slot`, the smallest that exceeds the stream's top, so no
two origins ever mint the same ID. When the clock is behind the top, the node continues from the top's millisecond.
"""

from __future__ import annotations

from typing import Final

EntryId = tuple[int, int]

U64_MAX: Final = 2**64 - 1
ID_TEXT_MAX: Final = 128
ID_MIN: Final[EntryId] = (0, 0)
ID_MAX: Final[EntryId] = (U64_MAX, U64_MAX)
SLOT_STRIDE: Final = 65536

STRICT: Final = "strict"
SEMI_STRICT: Final = "semi-strict"
LIBERAL: Final = "liberal"
ID_MODES: Final = (STRICT, SEMI_STRICT, LIBERAL)


def format_id(entry_id: EntryId) -> bytes:
    return b"%d-%d" % entry_id


class IdWriter:
    """Formats IDs, of which many in a row share their millisecond."""

    __slots__ = ("_ms", "_prefix")

    def __init__(self) -> None:
        self._ms = 0
        self._prefix = b"0-"

    def text(self, entry_id: EntryId) -> bytes:
        ms, seq = entry_id
        if ms != self._ms:
            self._ms = ms
            self._prefix = b"%d-" % ms
        return self._prefix + str(seq).encode("ascii")


def parse_u64(text: bytes) -> int | None:
    """An unsigned 64-bit decimal; None when the text is none. As in Redis, leading zeros are accepted."""
    if not text.isdigit() or len(text) > ID_TEXT_MAX:
        return None
    value = int(text)
    return value if value <= U64_MAX else None


def parse_id(text: bytes, missing_seq: int) -> EntryId | None:
    """`ms-seq`, or `ms` completed with `missing_seq`; None when the text is no ID."""
    ms_text, dash, seq_text = text.partition(b"-")
    ms = parse_u64(ms_text)
    if ms is None:
        return None
    if not dash:
        return (ms, missing_seq)
    seq = parse_u64(seq_text)
    return None if seq is None else (ms, seq)


def next_id(entry_id: EntryId) -> EntryId | None:
    """The smallest ID above; None above the last one."""
    ms, seq = entry_id
    if seq < U64_MAX:
        return (ms, seq + 1)
    return (ms + 1, 0) if ms < U64_MAX else None


def previous_id(entry_id: EntryId) -> EntryId | None:
    """The largest ID below; None below 0-0."""
    ms, seq = entry_id
    if seq > 0:
        return (ms, seq - 1)
    return (ms - 1, U64_MAX) if ms > 0 else None


def mint(now_ms: int, top: EntryId, slot: int) -> EntryId | None:
    """`*`: the smallest ID of this slot above `top`, at the clock's millisecond or later; None when there is none."""
    top_ms, top_seq = top
    if now_ms > top_ms:
        return (now_ms, slot)
    seq = seq_above(top_seq, slot)
    if seq <= U64_MAX:
        return (top_ms, seq)
    return (top_ms + 1, slot) if top_ms < U64_MAX else None


def mint_at(ms: int, top: EntryId, slot: int) -> EntryId | None:
    """`ms`: the smallest ID of this slot above `top` in that millisecond; None when there is none."""
    top_ms, top_seq = top
    if ms > top_ms:
        return (ms, slot)
    if ms < top_ms:
        return None
    seq = seq_above(top_seq, slot)
    return (ms, seq) if seq <= U64_MAX else None


def seq_above(seq: int, slot: int) -> int:
    """The smallest `k * 65536 + slot` that exceeds `seq`."""
    if seq < slot:
        return slot
    return ((seq - slot) // SLOT_STRIDE + 1) * SLOT_STRIDE + slot


def mint_plain(now_ms: int, top: EntryId) -> EntryId | None:
    """`*` in liberal mode, as Redis: the clock's millisecond, or the next ID after the top."""
    if now_ms > top[0]:
        return (now_ms, 0)
    return next_id(top)
