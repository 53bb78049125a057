"""A target: the parser of requests.

It must give the same requests and the same refusal for bytes as a whole and in pieces, and what it read must be read
again when it is written as multibulk.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.protocols import replies
from crdtstream.protocols.requests import ProtocolError, RequestParser
from fuzz.target import Target

LARGE_BYTES = 1 << 20
PIECES_MAX = 8
Outcome = tuple[list[list[bytes]], bytes]
Edit = tuple[int, int, bytes]


def check(limits: int, sizes: list[int], wire: bytes) -> None:
    whole = outcome(limits, [wire])
    assert outcome(limits, pieces(wire, sizes)) == whole, f"split at {sizes} it is read in another way"
    written = b"".join(replies.bulk_array(argv) for argv in whole[0])
    assert outcome(0, [written]) == (whole[0], b""), "what was read is not read again"


def parser_of(limits: int) -> RequestParser:
    """Small limits are reached by small inputs; that on the whole query depends on pieces, in Redis too."""
    strict = bool(limits & 2)
    return RequestParser(
        authenticated=not limits & 1,
        inline_bytes_max=64 if strict else LARGE_BYTES,
        bulk_bytes_max=32 if strict else LARGE_BYTES,
        arguments_max=4 if strict else LARGE_BYTES,
    )


def outcome(limits: int, parts: list[bytes]) -> Outcome:
    """The requests, and why the rest was refused; empty if it was not."""
    parser = parser_of(limits)
    found: list[list[bytes]] = []
    try:
        for part in parts:
            found += parser.feed(part)
            while parser.paused:
                found += parser.feed(b"")
            parser.check()
    except ProtocolError as error:
        parser.check()
        return found + error.requests, error.text
    return found, b""


def pieces(wire: bytes, sizes: list[int]) -> list[bytes]:
    found = []
    for size in sizes:
        found.append(wire[:size])
        wire = wire[size:]
    return [*found, wire]


# Requests of each form, whole and broken.
FORMS = (
    b"*2\r\n$4\r\nXLEN\r\n$1\r\nx\r\n",
    b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nDEL\r\n$0\r\n\r\n$2\r\n\r\n\r\n",
    b"*12\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n" + b"$10\r\n0123456789\r\n" * 9,
    b"*0\r\n*-1\r\nPING\r\n",
    b"*2\r\n$4\r\nXLEN\r\n$-1\r\n",
    b"*1048577\r\n$1\r\na\r\n",
    b"*2\r\n:4\r\nXLEN\r\n",
    b"XADD s * f 'it\\'s' \"a\\x00b\\n\"\r\nXLEN s\n",
    b'XADD "s"x\r\n',
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"*1\r\n$2147483648\r\nx\r\n",
    b"*01\r\n$+4\r\nPING\r\n",
)
WORDS = (b"\r\n", b"\0", b"$", b"*", b"-1", b'"', b"9" * 20, b"*2\r\n", b"$4\r\n")
# A place, how many bytes are left out there, and what takes their place.
EDITS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 12), st.one_of(st.sampled_from(WORDS), st.binary(max_size=12))),
    max_size=6,
)


def edited(wire: bytes, edits: list[Edit]) -> bytes:
    for at, count, added in edits:
        at %= len(wire) + 1
        wire = wire[:at] + added + wire[at + count :]
    return wire


REQUEST = st.one_of(
    st.sampled_from(FORMS),
    st.lists(st.binary(max_size=40), min_size=1, max_size=12).map(replies.bulk_array),
    st.sampled_from(WORDS),
    st.binary(max_size=300),
)
WIRE = st.builds(edited, st.lists(REQUEST, max_size=4).map(b"".join), EDITS)
SIZES = st.lists(st.integers(1, 40), max_size=PIECES_MAX - 1)


def test(with_settings: settings) -> object:
    return with_settings(given(limits=st.integers(0, 3), sizes=SIZES, wire=WIRE)(check))


TARGET = Target("requests", test, batch=500)
