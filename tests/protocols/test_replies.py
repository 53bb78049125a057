"""Replies: the exact bytes, in both protocols."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols import replies
from crdtstream.protocols.requests import RequestParser

ONE_TWO = [replies.integer(1), replies.bulk(b"two")]


def test_lines() -> None:
    assert replies.simple(b"stream") == b"+stream\r\n"
    assert replies.error(b"ERR no such key") == b"-ERR no such key\r\n"


@given(st.binary())
def test_an_error_is_one_line(text: bytes) -> None:
    reply = replies.error(text)
    assert reply.startswith(b"-") and reply.endswith(b"\r\n")
    assert b"\r" not in reply[:-2] and b"\n" not in reply[:-2]


def test_line_breaks_fall_away_or_become_spaces() -> None:
    assert replies.error(b"\r\nERR a\r\nb\n") == b"-ERR a  b\r\n"
    assert replies.simple(b"a\nb\r\n") == b"+a b\r\n"


@pytest.mark.parametrize("value", [-(2**63), -1, 0, 1, 1023, 1024, 2**32, 2**53 + 1, 2**63 - 1, 2**64 - 1])
def test_integers(value: int) -> None:
    assert replies.integer(value) == b":" + str(value).encode() + b"\r\n"


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 100_000])
def test_bulks_and_headers(size: int) -> None:
    decimal = str(size).encode()
    assert replies.bulk(b"x" * size) == b"$" + decimal + b"\r\n" + b"x" * size + b"\r\n"
    assert replies.array_header(size) == b"*" + decimal + b"\r\n"


def test_arrays() -> None:
    assert replies.array(ONE_TWO) == b"*2\r\n:1\r\n$3\r\ntwo\r\n"
    assert replies.array([]) == replies.EMPTY_ARRAY
    assert replies.bulk_array([b"a", b""]) == b"*2\r\n$1\r\na\r\n$0\r\n\r\n"


@given(st.lists(st.binary(), min_size=1))
def test_a_bulk_array_reads_back(argv: list[bytes]) -> None:
    assert RequestParser().feed(replies.bulk_array(argv)) == [argv]


def test_what_differs_between_the_protocols() -> None:
    assert [replies.null_bulk(2), replies.null_bulk(3)] == [b"$-1\r\n", b"_\r\n"]
    assert [replies.null_array(2), replies.null_array(3)] == [b"*-1\r\n", b"_\r\n"]
    assert [replies.map_header(2, 2), replies.map_header(2, 3)] == [b"*4\r\n", b"%2\r\n"]
    assert replies.mapping(ONE_TWO, 2) == b"*2\r\n:1\r\n$3\r\ntwo\r\n"
    assert replies.mapping(ONE_TWO, 3) == b"%1\r\n:1\r\n$3\r\ntwo\r\n"
    assert replies.unordered(ONE_TWO, 2) == b"*2\r\n:1\r\n$3\r\ntwo\r\n"
    assert replies.unordered(ONE_TWO, 3) == b"~2\r\n:1\r\n$3\r\ntwo\r\n"
    assert replies.push(ONE_TWO, 2) == b"*2\r\n:1\r\n$3\r\ntwo\r\n"
    assert replies.push(ONE_TWO, 3) == b">2\r\n:1\r\n$3\r\ntwo\r\n"
    assert replies.verbatim(b"a\r\nb", 2) == b"$4\r\na\r\nb\r\n"
    assert replies.verbatim(b"a\r\nb", 3) == b"=8\r\ntxt:a\r\nb\r\n"
