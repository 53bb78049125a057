"""The request parser: any cut of the bytes gives the same requests, and garbage gives nothing but a ProtocolError."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.protocols import replies
from crdtstream.protocols.requests import ProtocolError, RequestParser, split_arguments

ARGUMENTS = st.lists(st.binary(max_size=40) | st.sampled_from([b"\r\n", b"$3\r\nabc", b"*1\r\n", b"\0"]), min_size=1)
PARTS = [
    b"*",
    b"$",
    b"1",
    b"2",
    b"3",
    b"0",
    b"-1",
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b" ",
    b'"',
    b"'",
    b"x41",
    b"\\",
    b"\xff",
]
LINES = [b"*1\r\n", b"*2\r\n", b"$1\r\n", b"$3\r\n", b"*1\r\n$4\r\nPING\r\n", b"PING\r\n", b"*0\r\n", b"*-1\r\n"]
FRAGMENTS = st.sampled_from(PARTS) | st.sampled_from(LINES)
SOUP = st.lists(FRAGMENTS, max_size=30).map(b"".join) | st.binary(max_size=200)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces; `cuts` are taken modulo its length."""
    at = sorted({n % (len(data) + 1) for n in cuts})
    return [data[i:j] for i, j in zip([0, *at], [*at, len(data)], strict=True)]


def read(parser: RequestParser, pieces: list[bytes]) -> tuple[list[list[bytes]], bytes]:
    """All requests, and the error that ended the input (empty when none did)."""
    requests: list[list[bytes]] = []
    try:
        for piece in pieces:
            requests += parser.feed(piece)
            parser.check()
            while parser.paused:
                requests += parser.feed(b"")
    except ProtocolError as failure:
        return requests + failure.requests, failure.text
    return requests, b""


@given(st.lists(ARGUMENTS, max_size=8), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_request_survives_any_cut(requests: list[list[bytes]], cuts: list[int]) -> None:
    data = b"".join(map(replies.bulk_array, requests))
    parser = RequestParser()
    assert read(parser, cut(data, cuts)) == (requests, b"")
    assert parser.held_bytes() == 0


@given(SOUP, st.lists(st.integers(0, 300), max_size=8), st.booleans())
def test_a_cut_changes_neither_requests_nor_error(data: bytes, cuts: list[int], authenticated: bool) -> None:
    whole, pieces = RequestParser(authenticated), RequestParser(authenticated)
    assert read(whole, [data]) == read(pieces, cut(data, cuts))
    assert whole.held_bytes() == pieces.held_bytes() <= len(data)


@settings(max_examples=40)
@given(st.lists(ARGUMENTS, min_size=1, max_size=4))
def test_byte_by_byte(requests: list[list[bytes]]) -> None:
    data = b"".join(map(replies.bulk_array, requests))
    assert read(RequestParser(), [data[i : i + 1] for i in range(len(data))]) == (requests, b"")


@pytest.mark.parametrize("length", [0, 1, 9, 10, 99, 100, 1023, 1024, 70_000])
@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 99, 100, 300])
def test_every_width_of_header(length: int, count: int) -> None:
    argv = [bytes(length), *[b"x"] * (count - 1)]
    data = replies.bulk_array(argv)
    assert RequestParser().feed(data * 2) == [argv, argv]
    assert read(RequestParser(), cut(data, [len(data) // 2, len(data) - 1])) == ([argv], b"")


@pytest.mark.parametrize("at", range(1, 24))
def test_a_long_header_may_be_cut_anywhere(at: int) -> None:
    argv = [b"SET", bytes(1_000_000)]
    data = replies.bulk_array(argv)
    assert read(RequestParser(), [data[:at], data[at:]]) == ([argv], b"")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"*abc\r\n", b"invalid multibulk length"),
        (b"*\r\n", b"invalid multibulk length"),
        (b"*01\r\n$4\r\nPING\r\n", b"invalid multibulk length"),
        (b"*+1\r\n$4\r\nPING\r\n", b"invalid multibulk length"),
        (b"*:\r\n" + b"$1\r\na\r\n" * 10, b"invalid multibulk length"),
        (b"*1048577\r\n", b"invalid multibulk length"),
        (b"*9223372036854775808\r\n", b"invalid multibulk length"),
        (b"*-9223372036854775809\r\n", b"invalid multibulk length"),
        (b"*1\r\n$-1\r\n", b"invalid bulk length"),
        (b"*1\r\n$04\r\nPING\r\n", b"invalid bulk length"),
        (b"*1\r\n$\r\nPING\r\n", b"invalid bulk length"),
        (b"*1\r\n$4x\r\nPING\r\n", b"invalid bulk length"),
        (b"*1\r\n$:\r\n0123456789\r\n", b"invalid bulk length"),
        (b"*1\r\n$:0\r\n" + b"v" * 100 + b"\r\n", b"invalid bulk length"),
        (b"*1\r\n$536870913\r\n", b"invalid bulk length"),
        (b"*1\r\n$9223372036854775808\r\n", b"invalid bulk length"),
        (b"*2\r\n$1\r\na\r\nbcd\r\n", b"expected '$', got 'b'"),
        (b"*1\r\n:1\r\n", b"expected '$', got ':'"),
        (b"*" + b"1" * 65536, b"too big mbulk count string"),
        (b"*1\r\n$" + b"1" * 65536, b"too big bulk count string"),
        (b"*1\r\n$1\0\r\n" + b"x" * 65536, b"too big bulk count string"),
        (b"x" * 65537, b"too big inline request"),
        (b"x\0\r\n" + b"x" * 65536, b"too big inline request"),
        (b'PING "a\r\n', b"unbalanced quotes in request"),
        (b"PING 'a'b\r\n", b"unbalanced quotes in request"),
    ],
)
def test_errors(data: bytes, text: bytes) -> None:
    parser = RequestParser()
    with pytest.raises(ProtocolError) as caught:
        parser.feed(b"PING\r\n" + data)
    assert caught.value.text == b"ERR Protocol error: " + text
    assert caught.value.requests == [[b"PING"]]
    assert parser.held_bytes() == 0
    with pytest.raises(ProtocolError) as again:
        parser.feed(b"PING\r\n")
    assert (again.value.text, again.value.requests) == (caught.value.text, [])


@pytest.mark.parametrize("data", [b"*0\r\n", b"*-1\r\n", b"*-7\r\n", b"\r\n", b"\n", b"  \t \v\r\n", b""])
def test_empty_requests_are_skipped(data: bytes) -> None:
    parser = RequestParser()
    assert parser.feed(data + b"*1\r\n$4\r\nPING\r\n" + data) == [[b"PING"]]
    assert parser.held_bytes() == 0


def test_what_redis_does_not_look_at() -> None:
    assert RequestParser().feed(b"*1\rx$4\ryPINGzz*1\r\n$1\r\na\r\n") == [[b"PING"], [b"a"]]


def test_limits_are_inclusive() -> None:
    parser = RequestParser(inline_bytes_max=8, bulk_bytes_max=3, arguments_max=2)
    assert parser.feed(b"12345678\n*2\r\n$3\r\nabc\r\n$0\r\n\r\n") == [[b"12345678"], [b"abc", b""]]
    assert read(RequestParser(inline_bytes_max=8), [b"123456789\n"])[1] == b"ERR Protocol error: too big inline request"
    assert (
        read(RequestParser(bulk_bytes_max=3), [b"*1\r\n$4\r\nPING\r\n"])[1]
        == b"ERR Protocol error: invalid bulk length"
    )
    assert read(RequestParser(arguments_max=2), [b"*3\r\n"])[1] == b"ERR Protocol error: invalid multibulk length"


def test_the_query_limit_counts_all_that_is_unread() -> None:
    parser = RequestParser(query_bytes_max=20)
    assert parser.feed(b"*3\r\n$1\r\na\r\n$9\r\n12345") == []
    assert parser.held_bytes() == 20
    with pytest.raises(ProtocolError, match="query buffer limit exceeded"):
        parser.feed(b"6")


STRANGE = [
    (replies.bulk_array([b"x"] * 11), b"ERR Protocol error: unauthenticated multibulk length"),
    (replies.bulk_array([bytes(16385)]), b"ERR Protocol error: unauthenticated bulk length"),
]


@pytest.mark.parametrize(("data", "text"), STRANGE)
def test_strangers_are_limited(data: bytes, text: bytes) -> None:
    assert read(RequestParser(authenticated=False), [data]) == ([], text)
    assert read(RequestParser(authenticated=False), [b"AUTH no\r\n" + data]) == ([[b"AUTH", b"no"]], text)
    allowed = [replies.bulk_array([b"x"] * 10), replies.bulk_array([bytes(16384)])]
    assert len(read(RequestParser(authenticated=False), allowed)[0]) == 2


@pytest.mark.parametrize("data", [data for data, _ in STRANGE])
def test_what_follows_auth_is_judged_after_it(data: bytes) -> None:
    parser = RequestParser(authenticated=False)
    assert parser.feed(b"AUTH yes\r\n" + data + b"PING\r\n") == [[b"AUTH", b"yes"]]
    assert parser.paused
    parser.authenticated = True
    assert [len(argv) for argv in parser.feed(b"")] in ([11, 1], [1, 1])
    assert not parser.paused


@pytest.mark.parametrize("declared", [b"*1048576\r\n", b"*1\r\n$536870912\r\n", b"*1048576\r\n$536870912\r\n"])
def test_a_declared_size_reserves_nothing(declared: bytes) -> None:
    parser = RequestParser()
    tracemalloc.start()
    try:
        assert parser.feed(declared) == []
        assert tracemalloc.get_traced_memory()[1] < 16_384
    finally:
        tracemalloc.stop()


def seconds(data: bytes, read_bytes: int) -> float:
    pieces = [data[i : i + read_bytes] for i in range(0, len(data), read_bytes)]
    began = time.process_time()
    assert len(read(RequestParser(), pieces)[0]) == 1
    return time.process_time() - began


@pytest.mark.parametrize("argv", [[bytes(32 << 20)], [b"abc"] * 200_000], ids=["one large value", "many arguments"])
def test_small_reads_of_a_large_request_stay_linear(argv: list[bytes]) -> None:
    """Each takes a tenth of a second; reading again what was held, at every read, would take more than ten."""
    assert seconds(replies.bulk_array(argv), 4096) < 5


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        (b"", []),
        (b"  set\tkey  value ", [b"set", b"key", b"value"]),
        (b'"a b" c', [b"a b", b"c"]),
        (rb'"\n\r\t\b\a\\\"\q\x41\x4g"', [b'\n\r\t\b\a\\"qAx4g']),
        (rb"'\n\'\x41\\'", None),
        (rb"'\n\'\x41\\a'", [rb"\n'\x41\\a"]),
        (b'""', [b""]),
        (b"''", [b""]),
        (b'foo"bar"', [b"foobar"]),
        (b'foo"bar"baz', None),
        (b'foo"bar"\vbaz', [b"foobar", b"baz"]),
        (b"a\vb\f c", [b"a\vb\f", b"c"]),
        (b"\v\fa", [b"a"]),
        (b'a\vb"c', None),
        (b'"', None),
        (b"'", None),
        (b'"abc\\', None),
        (b"a\rb", [b"a", b"b"]),
        (b"\xff\x85\xa0", [b"\xff\x85\xa0"]),
    ],
)
def test_inline_quoting(line: bytes, argv: list[bytes] | None) -> None:
    assert split_arguments(line) == argv


@given(st.lists(st.binary(), min_size=1))
def test_quoted_arguments_survive(argv: list[bytes]) -> None:
    line = b" ".join(b'"' + b"".join(b"\\x%02x" % byte for byte in arg) + b'"' for arg in argv)
    assert split_arguments(line) == argv
