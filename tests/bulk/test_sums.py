"""Sums over rows: equal for equal rows however they came, different for any other rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.bulk import sums
from crdtstream.bulk.rows import EntryRows
from crdtstream.bulk.sums import RowSum, place_of
from crdtstream.core.effects import Key
from tests.bulk.columns import message_of, parsed

rows_given = st.lists(
    st.tuples(
        st.integers(0, 1), st.lists(st.binary(max_size=4), min_size=2, max_size=2), st.tuples(*[st.integers(0, 9)] * 2)
    ),
    min_size=1,
    max_size=12,
)
NAMES = [b"a", b"ab"]
Row = tuple[int, list[bytes], tuple[int, int]]


def rows_of(rows: list[Row], with_ids: bool) -> EntryRows:
    ids = [one[2] for one in rows] if with_ids else None
    return parsed(message_of([one[1] for one in rows], NAMES, [one[0] for one in rows], ids))


def sum_of(messages: list[list[Row]], step: int, with_ids: bool) -> bytes:
    found = RowSum()
    for message in messages:
        rows = rows_of(message, with_ids)
        for low in range(0, rows.count, step):
            found.add(rows, low, min(low + step, rows.count))
    return found.value()


@given(rows_given, st.data(), st.booleans())
def test_messages_and_slices_do_not_matter(rows: list[Row], data: st.DataObject, with_ids: bool) -> None:
    at = data.draw(st.integers(0, len(rows)))
    whole = sum_of([rows], len(rows), with_ids)
    assert sum_of([rows[:at], [], rows[at:]], data.draw(st.integers(1, 5)), with_ids) == whole


@given(rows_given, rows_given, st.booleans())
def test_other_rows_have_another_sum(one: list[Row], other: list[Row], with_ids: bool) -> None:
    def seen(rows: list[Row]) -> list[object]:
        return [row if with_ids else row[:2] for row in rows]

    equal = sum_of([one], 3, with_ids) == sum_of([other], 3, with_ids)
    assert equal == (seen(one) == seen(other))
    assert sum_of([one], 3, True) != sum_of([one], 3, False)


@pytest.mark.interpreted
def test_a_slice_asks_for_its_own_streams_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many slices would else cost as much as all streams of its message."""
    seen: list[bytes] = []

    def noted(key: Key, kind: bytes) -> bytes:
        seen.append(key[1])
        return place_of(key, kind)

    monkeypatch.setattr(sums, "place_of", noted)
    names = [b"%d" % at for at in range(100)]
    RowSum().add(parsed(message_of([[b"f", b"v"]] * 6, names, [0, 7, 99, 7, 99, 1])), 1, 5)
    assert seen == [b"7", b"99"]


def test_one_stream_is_the_same_stream_however_it_is_named() -> None:
    rows = [(1, [b"f", b"v"], (1, 1)), (1, [b"f", b"w"], (1, 2))]
    alone = parsed(message_of([one[1] for one in rows], [b"ab"]))
    found = RowSum()
    found.add(alone, 0, 2)
    assert found.value() == sum_of([rows], 5, False)


def test_a_sum_may_be_asked_for_in_between() -> None:
    rows = rows_of([(0, [b"f", b"%d" % at], (0, 0)) for at in range(3)], False)
    found = RowSum()
    found.add(rows, 0, 1)
    first = found.value()
    found.add(rows, 1, 1)
    assert found.value() == first
    found.add(rows, 1, 3)
    assert found.value() != first
