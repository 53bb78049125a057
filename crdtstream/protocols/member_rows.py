"""The table of members (core/members.py) as a column of numbers, five for each row.

Invariant: `read_members` returns only rows that a sound region can have sent. Rows ascend, and each has the fields of
its kind; an origin is admitted once and has one past end; an effect evicts one origin, and the rows that describe an
eviction come after it.
"""

from __future__ import annotations

from itertools import pairwise

from crdtstream.core.members import (
    ADMITTED,
    ADMITTED_BY_ALL,
    EVICTED,
    FOUNDER,
    JOINED,
    KNEW,
    PAST,
    ROW_WIDTH,
    SUCCEEDED,
    VOID,
    MemberRow,
)
from crdtstream.core.values.causality import Dot, region_of
from crdtstream.protocols.columns import CodecError, column, read_column, read_counter, read_origin


def member_column(rows: list[MemberRow]) -> bytes:
    return column([number for row in rows for number in row])


def read_members(value: object) -> list[MemberRow]:
    numbers = read_column(value, "members", ROW_WIDTH)
    columns = [numbers[at::ROW_WIDTH] for at in range(ROW_WIDTH)]
    rows: list[MemberRow] = list(zip(*columns, strict=True))
    for row in rows:
        _check_row(row)
    if any(before >= after for before, after in pairwise(rows)):
        raise CodecError("members: the rows do not ascend")
    _check_told_once(rows)
    _check_evictions(rows)
    return rows


def _check_row(row: MemberRow) -> None:
    kind, origin, other, counter, value = row
    if not JOINED <= kind <= PAST:
        raise CodecError(f"members: {kind} is not a kind of row")
    read_origin(origin, "member")
    if kind in (VOID, PAST):
        if (other, counter) != (0, 0):
            raise CodecError(f"members: a row of kind {kind} names the effect {(other, counter)}")
    elif kind != ADMITTED or (other, counter) != FOUNDER:
        read_origin(other, "sponsor or evictor")
        read_counter(counter, "join or eviction")
    _check_value(kind, origin, value)


def _check_value(kind: int, origin: int, value: int) -> None:
    if kind in (JOINED, VOID, KNEW) and value:
        raise CodecError(f"members: a row of kind {kind} has the value {value}, not 0")
    if kind in (ADMITTED, ADMITTED_BY_ALL):
        read_counter(value, "admission")
    if kind == SUCCEEDED and region_of(read_origin(value, "successor")) != region_of(origin):
        raise CodecError(f"successor {value} is of another region than origin {origin}")


def _check_told_once(rows: list[MemberRow]) -> None:
    admitted = [origin for kind, origin, _, _, _ in rows if kind in (ADMITTED, ADMITTED_BY_ALL)]
    past = [origin for kind, origin, _, _, _ in rows if kind == PAST]
    if len(set(admitted)) < len(admitted):
        raise CodecError("members: an origin is admitted twice")
    if len(set(past)) < len(past):
        raise CodecError("members: an origin has two past ends")


def _check_evictions(rows: list[MemberRow]) -> None:
    """Check rows about evictions; an eviction comes before the rows that describe it, because rows ascend."""
    evicted: dict[Dot, int] = {}
    for kind, origin, other, counter, _ in rows:
        dot = (other, counter)
        if kind == EVICTED and evicted.setdefault(dot, origin) != origin:
            raise CodecError(f"members: the effect {dot} evicts two origins")
        if (kind == SUCCEEDED and evicted.get(dot) != origin) or (kind == KNEW and dot not in evicted):
            raise CodecError(f"members: row {(kind, origin)} describes an eviction by {dot}, which does not exist")
