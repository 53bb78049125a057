"""Rows of members come back, and rows that no sound region tells are refused."""

from __future__ import annotations

import pytest

from crdtstream.core.members import (
    ADMITTED,
    ADMITTED_BY_ALL,
    EVICTED,
    JOINED,
    KNEW,
    PAST,
    SUCCEEDED,
    VOID,
    MemberRow,
)
from crdtstream.protocols.columns import CodecError
from crdtstream.protocols.member_rows import member_column, read_members

SOUND: list[MemberRow] = [
    (JOINED, 1, 2, 2**40, 0),
    (JOINED, 1, 3, 5, 0),
    (ADMITTED, 1, 2, 2**40, 4),
    (ADMITTED, 2, 0, 0, 1),
    (ADMITTED_BY_ALL, 3, 3, 1, 2),
    (VOID, 3, 0, 0, 0),
    (EVICTED, 1, 2, 9, 0),
    (EVICTED, 3, 2, 8, 7),
    (SUCCEEDED, 1, 2, 9, 257),
    (KNEW, 1, 2, 8, 0),
    (PAST, 4, 0, 0, 0),
]


def test_they_come_back() -> None:
    assert read_members(member_column(SOUND)) == SOUND
    assert read_members(member_column([])) == []


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((0, 1, 1, 1, 0), "0 is not a kind of row"),
        ((PAST + 1, 1, 1, 1, 0), "9 is not a kind of row"),
        ((JOINED, 0, 1, 1, 0), "member: 0 is not an origin"),
        ((JOINED, 256, 1, 1, 0), "member: 256 is not an origin"),
        ((JOINED, 1, 0, 0, 0), "sponsor or evictor: 0 is not an origin"),
        ((JOINED, 1, 2, 0, 0), "join or eviction: counters begin at 1"),
        ((JOINED, 1, 2, 1, 1), "a row of kind 1 has the value 1, not 0"),
        ((ADMITTED, 1, 0, 3, 1), "sponsor or evictor: 0 is not an origin"),
        ((ADMITTED, 1, 2, 3, 0), "admission: counters begin at 1"),
        ((ADMITTED_BY_ALL, 1, 0, 0, 1), "sponsor or evictor: 0 is not an origin"),
        ((VOID, 1, 2, 3, 0), r"a row of kind 4 names the effect \(2, 3\)"),
        ((VOID, 1, 0, 0, 1), "a row of kind 4 has the value 1, not 0"),
        ((EVICTED, 1, 2**62, 1, 0), "sponsor or evictor: 4611686018427387904 is not an origin"),
        ((PAST, 1, 0, 3, 5), r"a row of kind 8 names the effect \(0, 3\)"),
    ],
)
def test_a_row_whose_fields_are_not_of_its_kind_is_refused(row: MemberRow, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        read_members(member_column([row]))


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(JOINED, 1, 2, 3, 0), (JOINED, 1, 2, 3, 0)], "do not ascend"),
        ([(JOINED, 2, 2, 3, 0), (JOINED, 1, 2, 3, 0)], "do not ascend"),
        ([(ADMITTED, 1, 2, 3, 1), (ADMITTED, 1, 2, 4, 1)], "an origin is admitted twice"),
        ([(ADMITTED, 1, 2, 3, 1), (ADMITTED_BY_ALL, 1, 2, 3, 1)], "an origin is admitted twice"),
        ([(PAST, 1, 0, 0, 1), (PAST, 1, 0, 0, 2)], "an origin has two past ends"),
        ([(EVICTED, 1, 2, 3, 0), (EVICTED, 4, 2, 3, 0)], r"the effect \(2, 3\) evicts two origins"),
        ([(SUCCEEDED, 1, 2, 3, 257)], r"row \(6, 1\) describes an eviction by \(2, 3\), which does not exist"),
        (
            [(EVICTED, 4, 2, 3, 0), (SUCCEEDED, 1, 2, 3, 257)],
            r"row \(6, 1\) describes an eviction by \(2, 3\), which does not exist",
        ),
        ([(EVICTED, 1, 2, 3, 0), (SUCCEEDED, 1, 2, 3, 258)], "successor 258 is of another region than origin 1"),
        ([(KNEW, 1, 2, 3, 0)], r"row \(7, 1\) describes an eviction by \(2, 3\), which does not exist"),
    ],
)
def test_rows_that_contradict_each_other_are_refused(rows: list[MemberRow], text: str) -> None:
    with pytest.raises(CodecError, match=text):
        read_members(member_column(rows))


def test_a_column_that_is_no_table_is_refused() -> None:
    with pytest.raises(CodecError, match="members: 39 bytes are not a whole number of 40-byte rows"):
        read_members(member_column(SOUND[:1])[:-1])
