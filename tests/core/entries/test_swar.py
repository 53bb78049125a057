"""Columns computed with as a whole give what numbers one by one give."""

from __future__ import annotations

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.swar import LANES, counting, joined_ends, lowered, stepping

LARGEST = {"I": 2**32 - 1, "Q": 2**64 - 1}
typecodes = st.sampled_from(sorted(LARGEST))


@given(typecodes, st.integers(0, LANES + 2), st.data())
def test_counting(typecode: str, count: int, data: st.DataObject) -> None:
    largest = LARGEST[typecode] - count
    first = data.draw(st.integers(0, largest) | st.integers(largest - LANES, largest))
    assert counting(typecode, first, count) == array(typecode, range(first, first + count))


@given(st.integers(0, 2**63), st.sampled_from([0, 1, 65536]), st.integers(1, LANES + 2))
def test_stepping(first: int, step: int, count: int) -> None:
    assert stepping(first, step, count) == array("Q", [first + index * step for index in range(count)])


def test_stepping_reaches_the_edge_of_a_lane() -> None:
    assert stepping(2**64 - 4, 1, 4).tolist() == [2**64 - 4, 2**64 - 3, 2**64 - 2, 2**64 - 1]
    assert stepping(2**64 - 1, 0, 3).tolist() == [2**64 - 1] * 3


@pytest.mark.parametrize("typecode", LARGEST)
@pytest.mark.parametrize("count", [1, 2, LANES, LANES + 1])
def test_lowering_reaches_the_edges_of_a_lane(typecode: str, count: int) -> None:
    largest = LARGEST[typecode]
    numbers = [largest if index % 2 else largest - 1 for index in range(count)]
    less = lowered(array(typecode, numbers), largest - 1)
    assert less == array(typecode, [number - largest + 1 for number in numbers])


@given(typecodes, st.lists(st.integers(1, 1000), min_size=1, max_size=300), st.sets(st.integers(0, 299)))
def test_ends_of_what_is_kept(typecode: str, sizes: list[int], gone: set[int]) -> None:
    ends = array(typecode, accumulate(sizes))
    pieces: list[tuple[int, int]] = []
    for index in range(len(sizes)):
        if index in gone:
            continue
        if pieces and pieces[-1][1] == index:
            pieces[-1] = (pieces[-1][0], index + 1)
        else:
            pieces.append((index, index + 1))
    kept = [size for index, size in enumerate(sizes) if index not in gone]
    assert joined_ends(ends, pieces) == array(typecode, accumulate(kept))
