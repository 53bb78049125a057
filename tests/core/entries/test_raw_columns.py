"""Native columns against the columns that they were made from."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.raw_columns import Ids, Texts, shifted
from crdtstream.core.entries.uint_encoding import base_of, narrowed
from crdtstream.core.values.entry_id import U64_MAX, EntryId

EDGES = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**61 - 1, 2**61, 2**62, 2**63 - 1, 2**63, U64_MAX - 1, U64_MAX)
numbers = st.sampled_from(EDGES) | st.integers(0, U64_MAX)
halves = st.tuples(numbers, numbers)
# In one block of milliseconds, so that the columns can be narrow.
near = st.tuples(st.integers(2**63 + 2**40, 2**63 + 2**40 + 5), st.integers(0, 5) | st.integers(2**32 - 3, 2**32 - 1))


def native(ids: list[EntryId]) -> Ids:
    """Columns as narrow as a sealed block has them."""
    ms, seq = array("Q", [one for one, _ in ids]), array("Q", [two for _, two in ids])
    base = base_of(ms)
    narrow_seq = narrowed(seq) if base_of(seq) == 0 else seq
    return Ids(ms, narrow_seq, 0) if base < 0 else Ids(narrowed(ms), narrow_seq, base)


@given(numbers, numbers)
def test_shifted_numbers_compare_as_the_numbers_do(one: int, two: int) -> None:
    assert (shifted(one) < shifted(two)) == (one < two)
    assert shifted(one) == one - 2**63


@given(st.lists(halves, max_size=40) | st.lists(near, max_size=40))
def test_a_number_comes_back_from_wide_and_narrow_columns(found: list[EntryId]) -> None:
    ids = sorted(found)
    columns = native(ids)
    for at, (ms, seq) in enumerate(ids):
        assert (columns.ms_at(at), columns.seq_at(at)) == (shifted(ms), shifted(seq))


@given(st.sets(halves, max_size=40), halves, st.data())
def test_bounds_are_those_of_bisection(found: set[EntryId], wanted: EntryId, data: st.DataObject) -> None:
    check_bounds(sorted(found), wanted, data)


@given(st.sets(near, max_size=40), near, st.data())
def test_bounds_in_narrow_columns_are_those_of_bisection(
    found: set[EntryId], wanted: EntryId, data: st.DataObject
) -> None:
    check_bounds(sorted(found), wanted, data)


def check_bounds(ids: list[EntryId], wanted: EntryId, data: st.DataObject) -> None:
    low = data.draw(st.integers(0, len(ids)))
    high = data.draw(st.integers(low, len(ids)))
    columns, ms, seq = native(ids), shifted(wanted[0]), shifted(wanted[1])
    assert columns.lower_bound(ms, seq, low, high) == bisect_left(ids, wanted, low, high)
    assert columns.upper_bound(ms, seq, low, high) == bisect_right(ids, wanted, low, high)


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=12), st.booleans(), st.data())
def test_texts_are_cut_where_the_entries_end(entries: list[bytes], narrow: bool, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(entries) - 1), label="the first entry whose bytes are at hand")
    ends = array("Q", [len(b"".join(entries[: at + 1])) for at in range(len(entries))])
    offset = ends[first - 1] if first else 0
    texts = Texts(b"".join(entries[first:]), narrowed(ends) if narrow else ends, offset)
    low = data.draw(st.integers(first, len(entries) - 1))
    high = data.draw(st.integers(low + 1, len(entries)))
    assert texts.between(low, high) == b"".join(entries[low:high])
