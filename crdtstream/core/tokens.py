"""Tokens and cursors: vectors that clients carry from one region to another, as text.

A text is its kind and version, a hyphen, and base64 for URLs of: the CRC-32 of the cluster's name, the CRC-32 of what
the text is bound to besides (0 for nothing), for each origin ascending its number and counter as LEB128, and the CRC-32
of all that, with kind and version in front. All fixed-width numbers are big-endian. The checksums guard against what
was cut, changed or sent to another cluster by mistake; they are no protection from somebody who makes texts.

The rows of a token stand for everything that its region had applied: a region that has applied an effect has applied
its context, so the own last effect stands for all that came before it, and only what was applied since is named
besides. Counters are inclusive.

Shards of a region replicate by themselves, so a token of one of several is bound to its number and theirs, and has that
number and a colon in front. Joined by dots, tokens are one text, of which each shard awaits its own parts.

Reference: Terry et al., "Session guarantees for weakly consistent replicated data" (1994).
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from struct import Struct
from typing import Final
from zlib import crc32

from crdtstream.core.applying import Applied
from crdtstream.core.values.causality import VersionVector, is_origin

TOKEN: Final = b"t"
CURSOR: Final = b"c"
# What a client has seen of the conflicts of a region: one row.
SEEN: Final = b"s"
VERSION: Final = b"1"
PREFIX_BYTES: Final = 3
LABEL_END: Final = b":"
JOINT: Final = b"."

# Why a text cannot be read.
GARBLED: Final = 1
NEWER: Final = 2
OTHER_CLUSTER: Final = 3
OTHER_SUBJECT: Final = 4

_HEAD: Final = Struct(">II")
_SUM: Final = Struct(">I")
_FOR_URLS: Final = bytes.maketrans(b"+/", b"-_")
_TO_BASE64: Final = bytes.maketrans(b"-_", b"+/")
_COUNTER_MAX: Final = (1 << 64) - 1


class Unreadable(ValueError):
    """A text that is no token or cursor of this use; `reason` is one of the constants above."""

    def __init__(self, reason: int) -> None:
        super().__init__(reason)
        self.reason = reason


def session_rows(applied: Applied) -> VersionVector:
    """The fewest rows that stand for everything that is applied here."""
    known = applied.contexts.get(applied.origin)
    if known is None:
        # No effect of this origin says yet what it had seen.
        return applied.vector.copy()
    rows = applied.vector.beyond(known)
    rows.advance(applied.origin, applied.counter())
    return rows


def encode(kind: bytes, cluster: str, rows: Iterable[tuple[int, int]], subject: bytes = b"") -> bytes:
    """The text of these rows, which ascend; `subject` is what it is bound to, empty for nothing."""
    data = bytearray(_HEAD.pack(crc32(cluster.encode()), crc32(subject)))
    for origin, counter in rows:
        _write(data, origin)
        _write(data, counter)
    prefix = kind + VERSION + b"-"
    data += _SUM.pack(crc32(bytes(data), crc32(prefix)))
    return prefix + _text_of(bytes(data))


def decode(kind: bytes, text: bytes, cluster: str, subject: bytes = b"") -> VersionVector:
    """The rows of a text; raises `Unreadable`."""
    prefix = text[:PREFIX_BYTES]
    if prefix[:1] != kind or prefix[2:] != b"-" or not prefix[1:2].isdigit():
        raise Unreadable(GARBLED)
    if prefix[1:2] > VERSION:
        raise Unreadable(NEWER)
    data = _body(text[PREFIX_BYTES:])
    if len(data) < _HEAD.size + _SUM.size or _SUM.unpack(data[-4:])[0] != crc32(data[:-4], crc32(prefix)):
        raise Unreadable(GARBLED)
    of_cluster, of_subject = _HEAD.unpack_from(data)
    if of_cluster != crc32(cluster.encode()):
        raise Unreadable(OTHER_CLUSTER)
    if of_subject != crc32(subject):
        raise Unreadable(OTHER_SUBJECT)
    return _rows(data[_HEAD.size : -_SUM.size])


def encode_of_shard(cluster: str, rows: Iterable[tuple[int, int]], shard: int, shards: int) -> bytes:
    """A token of one shard among so many."""
    if shards == 1:
        return encode(TOKEN, cluster, rows)
    label = b"%d" % shard
    return label + LABEL_END + encode(TOKEN, cluster, rows, _subject_of(label, shards))


def decode_of_shard(text: bytes, cluster: str, shard: int, shards: int) -> VersionVector:
    """What the tokens of this shard in a text name together; raises `Unreadable`, also for a token of another shard."""
    own = b"" if shards == 1 else b"%d" % shard
    wanted = VersionVector({})
    for part in text.split(JOINT):
        label, colon, token = part.rpartition(LABEL_END)
        rows = decode(TOKEN, token, cluster, _subject_of(label, shards) if colon else b"")
        if not colon and shards > 1:
            raise Unreadable(OTHER_SUBJECT)
        if label == own:
            wanted.merge(rows)
    return wanted


def _subject_of(label: bytes, shards: int) -> bytes:
    return b"shard %b of %d" % (label, shards)


def _body(text: bytes) -> bytes:
    try:
        data = a2b_base64(text.translate(_TO_BASE64) + b"=" * (-len(text) % 4))
    except ValueError as error:
        raise Unreadable(GARBLED) from error
    # What is no base64 was passed over, and the last character may have bits that say nothing.
    if _text_of(data) != text:
        raise Unreadable(GARBLED)
    return data


def _text_of(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).rstrip(b"=").translate(_FOR_URLS)


def _rows(data: bytes) -> VersionVector:
    rows: dict[int, int] = {}
    at = before = 0
    while at < len(data):
        origin, at = _read(data, at)
        counter, at = _read(data, at)
        if not is_origin(origin) or origin <= before or not 0 < counter <= _COUNTER_MAX:
            raise Unreadable(GARBLED)
        rows[origin] = counter
        before = origin
    return VersionVector(rows)


def _write(data: bytearray, number: int) -> None:
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)


def _read(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins here, and where it ends."""
    number = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
    raise Unreadable(GARBLED)
