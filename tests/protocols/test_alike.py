"""Requests alike: what is taken is what the parser reads, byte for byte in the one form; nothing else is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.encoding import fields_at
from crdtstream.protocols import replies
from crdtstream.protocols.alike import NOWHERE, Alike, end_of_bulks
from crdtstream.protocols.requests import RequestParser, after_first

MANY = 1 << 20
arguments = st.binary(max_size=12) | st.sampled_from([b"", b"\r\n", b"$1\r\nx\r\n", b"v" * 100])
HEAD = [b"XADD", b"s", b"*"]


def alike_in(data: bytes, argv: list[bytes], start: int, count_max: int = MANY, bytes_max: int = MANY) -> Alike:
    alike = Alike(argv, start)
    alike.parse(data, 0, after_first(data, 0, start), count_max, bytes_max)
    return alike


@given(st.lists(st.tuples(arguments, arguments), min_size=1, max_size=6), st.integers(0, 80))
def test_whole_requests_are_taken_as_the_parser_reads_them(pairs: list[tuple[bytes, bytes]], cut: int) -> None:
    rows = [[*HEAD, *pair] for pair in pairs]
    wire = [replies.bulk_array(row) for row in rows]
    data = b"".join(wire)
    data = data[: max(len(wire[0]), len(data) - cut)]
    alike = alike_in(data, rows[0], len(HEAD))
    parsed = RequestParser().feed(data)
    assert [[*HEAD, *fields_at(b"*2\r\n" + body, 0)] for body in alike.bodies] == parsed
    assert data[: alike.end] == b"".join(wire[: len(parsed)])


@pytest.mark.parametrize(
    "other",
    [
        [b"XADD", b"t", b"*", b"f", b"v"],
        [b"xadd", b"s", b"*", b"f", b"v"],
        [b"XADD", b"s", b"*", b"f", b"v", b"g", b"w"],
        [b"PING"],
    ],
)
def test_another_beginning_ends_the_run(other: list[bytes]) -> None:
    row = [*HEAD, b"f", b"v"]
    data = b"".join(map(replies.bulk_array, [row, row, other, row]))
    alike = alike_in(data, row, len(HEAD))
    assert (len(alike.bodies), alike.end) == (2, 2 * len(replies.bulk_array(row)))


def test_bounds_are_those_of_requests_and_of_bytes() -> None:
    row = [*HEAD, b"f", b"v"]
    data = replies.bulk_array(row) * 9
    assert len(alike_in(data, row, len(HEAD), count_max=4).bodies) == 4
    size = len(b"$1\r\nf\r\n$1\r\nv\r\n")
    assert len(alike_in(data, row, len(HEAD), bytes_max=3 * size).bodies) == 3
    assert len(alike_in(data, row, len(HEAD), bytes_max=3 * size - 1).bodies) == 2


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"$",
        b"$1\r\nv\r",
        b"$1\r\nv\n\n",
        b"$1\r\nv\rx",
        b"$1\rxv\r\n",
        b"$1xxv\r\n",
        b"$01\r\nv\r\n",
        b"$+1\r\nv\r\n",
        b"$-1\r\n",
        b"$1x\r\nv\r\n",
        b"$9999999999\r\nv\r\n",
        b"$2\r\nv\r\n",
        b"*1\r\nv\r\n",
        b"$1111111",
        b"$:\r\nvvvvvvvvvv\r\n",
    ],
)
def test_only_the_one_form_is_taken(wire: bytes) -> None:
    assert end_of_bulks(wire, 0, 1) == NOWHERE
    assert end_of_bulks(b"$1\r\nf\r\n" + wire, 0, 2) == NOWHERE


@given(st.binary(max_size=30), st.binary(max_size=8))
def test_garbage_is_not_read_beyond_its_end(garbage: bytes, value: bytes) -> None:
    wire = replies.bulk(value)
    assert end_of_bulks(wire + garbage, 0, 1) == len(wire)
    found = end_of_bulks(garbage, 0, 1)
    assert found == NOWHERE or found <= len(garbage)
