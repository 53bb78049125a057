"""Entry IDs, and how each ID mode mints them.

An entry ID is the pair `(ms, seq)`, both unsigned 64-bit; pairs compare as Redis compares IDs. Its text is `ms-seq`.

In strict and semi-strict mode, minting gives `seq = k * 65536 + residue`, the smallest that exceeds the stream's last
ID, so origins with different residues never mint the same ID. The residue of an origin is
`region + 256 * (count modulo 256)`, where the count is the number of earlier origins of the region. It is not an
identity: two live copies of one data directory may mint the same ID before they learn of each other; nothing but that
ID is then affected. When the clock is behind the last ID, minting continues in the last ID's millisecond.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

EntryId = tuple[int, int]

U64_MAX: Final = 2**64 - 1
ID_TEXT_MAX: Final = 128
# A number of so many digits is below 2^63.
PLAIN_DIGITS: Final = 18
ZERO: Final = 48
NINE: Final = 57
DASH: Final = 45
ID_MIN: Final[EntryId] = (0, 0)
ID_MAX: Final[EntryId] = (U64_MAX, U64_MAX)
# What `parse_plain` says of other texts; written out there, where a constant would be looked up.
NOT_PLAIN: Final[EntryId] = (-1, -1)
SEQ_MODULUS: Final = 65536

STRICT: Final = "strict"
SEMI_STRICT: Final = "semi-strict"
LIBERAL: Final = "liberal"
ID_MODES: Final = (STRICT, SEMI_STRICT, LIBERAL)


def format_id(entry_id: EntryId) -> bytes:
    return b"%d-%d" % entry_id


class IdWriter:
    """Formats IDs; consecutive IDs often share their millisecond, so its text is kept."""

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


WHITE_SPACE = b" \t\n\v\f\r"


def parse_u64(text: bytes) -> int | None:
    """An unsigned 64-bit decimal; None if the text is not one. As in Redis, leading zeros are accepted."""
    if not text.isdigit() or len(text) > ID_TEXT_MAX:
        return None
    value = int(text)
    return value if value <= U64_MAX else None


def parse_part(text: bytes) -> int | None:
    """One part of an ID: as for the `strtoull` of C, white space or a plus sign may come before its digits."""
    part = parse_u64(text)
    return part if part is not None else parse_u64(text.lstrip(WHITE_SPACE).removeprefix(b"+"))


def parse_plain(text: bytes) -> EntryId:
    """`ms-seq` in digits, as IDs are mostly written, at most `PLAIN_DIGITS` in each part; `NOT_PLAIN` for any other
    text. Not None: when compiled, an optional pair is an object that holds two more.
    """
    size: i64 = len(text)
    ms: i64 = -1
    number: i64 = 0
    digits: i64 = 0
    for at in range(size):
        byte: i64 = text[at]
        if byte == DASH and ms < 0 and digits:
            ms, number, digits = number, 0, 0
            continue
        digits += 1
        if byte < ZERO or byte > NINE or digits > PLAIN_DIGITS:
            return (-1, -1)
        number = number * 10 + byte - ZERO
    if ms < 0 or digits == 0:
        return (-1, -1)
    # A pair of native integers would become an object on its way to a pair of `int`.
    whole: int = ms
    part: int = number
    return (whole, part)


def parse_id(text: bytes, missing_seq: int) -> EntryId | None:
    """`ms-seq`, or `ms` completed with `missing_seq`; None if the text is not an ID."""
    plain = parse_plain(text)
    if plain[0] >= 0:
        return plain
    ms_text, dash, seq_text = text.partition(b"-")
    ms = parse_part(ms_text)
    if ms is None:
        return None
    if not dash:
        return (ms, missing_seq)
    seq = parse_part(seq_text)
    return None if seq is None else (ms, seq)


def at_most(one: EntryId, two: EntryId) -> bool:
    """one <= two. Compiled, `<=` of tuples makes objects of all four numbers first."""
    return one[0] < two[0] or (one[0] == two[0] and one[1] <= two[1])


def higher(one: EntryId, two: EntryId) -> EntryId:
    return two if at_most(one, two) else one


def is_next(one: EntryId, two: EntryId) -> bool:
    """True if `two` is the smallest ID above `one`."""
    if two[1] == 0:
        return one[1] == U64_MAX and one[0] == two[0] - 1
    return one[0] == two[0] and one[1] == two[1] - 1


def next_id(entry_id: EntryId) -> EntryId | None:
    """The smallest ID above this one; None for the highest ID."""
    ms, seq = entry_id
    if seq < U64_MAX:
        return (ms, seq + 1)
    return (ms + 1, 0) if ms < U64_MAX else None


def previous_id(entry_id: EntryId) -> EntryId | None:
    """The largest ID below this one; None for 0-0."""
    return None if entry_id == ID_MIN else id_below(entry_id)


def id_below(entry_id: EntryId) -> EntryId:
    """Like `previous_id`, for an ID that is not 0-0; compiled, no object for an optional pair."""
    ms, seq = entry_id
    return (ms, seq - 1) if seq else (ms - 1, U64_MAX)


def residue_of(region: int, count: int) -> int:
    return region + 256 * (count % 256)


def mint(now_ms: int, top: EntryId, residue: int) -> EntryId | None:
    """`*`: the smallest ID with this residue above `top` whose milliseconds are the clock's or later; None if none is
    left.
    """
    top_ms, top_seq = top
    if now_ms > top_ms:
        return (now_ms, residue)
    seq = seq_above(top_seq, residue)
    if seq <= U64_MAX:
        return (top_ms, seq)
    return (top_ms + 1, residue) if top_ms < U64_MAX else None


def mint_at(ms: int, top: EntryId, residue: int) -> EntryId | None:
    """`ms` or `ms-*`: the smallest ID with this residue above `top` in that millisecond; None if none is left."""
    top_ms, top_seq = top
    if ms > top_ms:
        return (ms, residue)
    if ms < top_ms:
        return None
    seq = seq_above(top_seq, residue)
    return (ms, seq) if seq <= U64_MAX else None


def seq_above(seq: int, residue: int) -> int:
    """The smallest `k * 65536 + residue` that exceeds `seq`."""
    if seq < residue:
        return residue
    return ((seq - residue) // SEQ_MODULUS + 1) * SEQ_MODULUS + residue


def mint_plain(now_ms: int, top: EntryId) -> EntryId | None:
    """`*` in liberal mode, as in Redis: the clock's millisecond with sequence 0, or the ID next after `top`."""
    if now_ms > top[0]:
        return (now_ms, 0)
    return next_id(top)
