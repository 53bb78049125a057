r"""RESP replies: encoding of values in protocol 2 and 3.

Each function returns one whole reply, or a header that the caller completes with the number of replies it announces. A
function takes `protocol` only where the two protocols differ. The entries of a stream are the same bytes in both (see
core/entries/block.py).

Invariant: a simple string or an error is a single line, whatever text it is given. Tables cover lengths and integers
from 0 to TABLE_SIZE (exclusive).

Reference: Redis protocol specification, RESP2 and RESP3.
"""

from __future__ import annotations

from typing import Final

TABLE_SIZE: Final = 1024
RESP2: Final = 2
RESP3: Final = 3

OK: Final = b"+OK\r\n"
PONG: Final = b"+PONG\r\n"
QUEUED: Final = b"+QUEUED\r\n"
ZERO: Final = b":0\r\n"
ONE: Final = b":1\r\n"
EMPTY_BULK: Final = b"$0\r\n\r\n"
EMPTY_ARRAY: Final = b"*0\r\n"
NULL_BULK: Final = b"$-1\r\n"
NULL_ARRAY: Final = b"*-1\r\n"
NULL: Final = b"_\r\n"

CRLF: Final = b"\r\n"
LINE_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
VERBATIM_TEXT: Final = b"txt:"

INTEGERS: Final[list[bytes]] = [b":%d\r\n" % n for n in range(TABLE_SIZE)]
BULK_HEADERS: Final[list[bytes]] = [b"$%d\r\n" % n for n in range(TABLE_SIZE)]
ARRAY_HEADERS: Final[list[bytes]] = [b"*%d\r\n" % n for n in range(TABLE_SIZE)]


def simple(text: bytes) -> bytes:
    return b"+" + one_line(text) + CRLF


def error(text: bytes) -> bytes:
    """An error reply; `text` starts with the code: `ERR ...`, `WRONGTYPE ...`."""
    return b"-" + one_line(text) + CRLF


def one_line(text: bytes) -> bytes:
    """As in Redis, line breaks at the ends are removed and line breaks inside become spaces."""
    return text.strip(CRLF).translate(LINE_BREAKS)


def integer(value: int) -> bytes:
    if 0 <= value < TABLE_SIZE:
        return INTEGERS[value]
    return b":%d\r\n" % value


def double(value: float, protocol: int) -> bytes:
    """A number with a fraction; text in protocol 2."""
    text = repr(value).removesuffix(".0").encode()
    return b",%b\r\n" % text if protocol == RESP3 else bulk(text)


def bulk(value: bytes) -> bytes:
    size = len(value)
    if size < TABLE_SIZE:
        return BULK_HEADERS[size] + value + CRLF
    # Joining copies a large value once; two concatenations would copy it twice.
    return b"".join((b"$%d\r\n" % size, value, CRLF))


def null_bulk(protocol: int) -> bytes:
    return NULL if protocol == RESP3 else NULL_BULK


def null_array(protocol: int) -> bytes:
    return NULL if protocol == RESP3 else NULL_ARRAY


def array_header(count: int) -> bytes:
    if count < TABLE_SIZE:
        return ARRAY_HEADERS[count]
    return b"*%d\r\n" % count


def array(items: list[bytes]) -> bytes:
    """An array of replies that are already encoded."""
    return array_header(len(items)) + b"".join(items)


def bulk_array(values: list[bytes]) -> bytes:
    """An array of bulk strings; this is also how a request is written."""
    return array_header(len(values)) + b"".join([bulk(value) for value in values])


def map_header(pairs: int, protocol: int) -> bytes:
    return b"%%%d\r\n" % pairs if protocol == RESP3 else array_header(2 * pairs)


def mapping(items: list[bytes], protocol: int) -> bytes:
    """A map of replies that are already encoded: key, value, key, value, ..."""
    assert len(items) % 2 == 0
    return map_header(len(items) // 2, protocol) + b"".join(items)


def unordered(items: list[bytes], protocol: int) -> bytes:
    """A set of replies that are already encoded; an array in RESP2."""
    header = b"~%d\r\n" % len(items) if protocol == RESP3 else array_header(len(items))
    return header + b"".join(items)


def push(items: list[bytes], protocol: int) -> bytes:
    """Out-of-band data; an array in RESP2."""
    header = b">%d\r\n" % len(items) if protocol == RESP3 else array_header(len(items))
    return header + b"".join(items)


def verbatim(text: bytes, protocol: int) -> bytes:
    """Text for people, as INFO sends it."""
    if protocol != RESP3:
        return bulk(text)
    return b"=%d\r\n%b%b\r\n" % (len(VERBATIM_TEXT) + len(text), VERBATIM_TEXT, text)
