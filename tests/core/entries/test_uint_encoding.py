"""Narrow columns against the wide ones that they stand for."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.uint_encoding import base_of, narrowed, widened
from crdtstream.core.values.entry_id import U64_MAX

halves = st.one_of(st.integers(0, 3), st.integers(2**31 - 1, 2**31 + 1), st.just(2**32 - 1))


@given(halves, st.lists(halves, min_size=1, max_size=40))
def test_what_shares_a_high_half_comes_back(high: int, lows: list[int]) -> None:
    wide = array("Q", [high << 32 | low for low in lows])
    assert base_of(wide) == high << 32
    narrow = narrowed(wide)
    assert narrow == array("I", lows) and narrow.itemsize == 4
    assert widened(narrow, high << 32) == wide
    assert widened(narrow[1:], high << 32) == wide[1:]


@given(st.lists(st.integers(0, U64_MAX), min_size=2, max_size=40))
def test_a_base_is_there_only_when_all_share_it(values: list[int]) -> None:
    wide = array("Q", values)
    assert (base_of(wide) >= 0) == (len({value >> 32 for value in values}) == 1)
    assert widened(wide, 0) is wide


def test_one_value_beyond_the_half_is_seen() -> None:
    for at in range(8):
        wide = array("Q", range(8))
        wide[at] = 2**32
        assert base_of(wide) == -1


def test_nothing_is_narrow() -> None:
    assert base_of(array("Q")) == 0
    assert widened(narrowed(array("Q")), 0) == array("Q")
