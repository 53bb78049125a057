"""Interval sets against sets of IDs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId, next_id, previous_id
from crdtstream.core.values.intervals import Interval, IntervalSet

# A stretch of neighbouring IDs across two ends of a millisecond; 0-0 stands for all below it.
IDS: list[EntryId] = [ID_MIN, (0, 1), (0, 2)]
IDS += [(4, U64_MAX - 2), (4, U64_MAX - 1), (4, U64_MAX), (5, 0), (5, 1), (5, 2), (5, 3), (5, 4)]
IDS += [(2**53, U64_MAX), (2**53 + 1, 0), (U64_MAX, U64_MAX - 1), ID_MAX]

known_ids = st.sampled_from(IDS)
intervals = st.tuples(known_ids, known_ids)
changes = st.lists(st.tuples(st.booleans(), intervals), max_size=8)


def ids_in(low: EntryId, high: EntryId) -> set[EntryId]:
    """The model: an ID of the list stands for itself and for all that lie between it and the one before."""
    return {one for one in IDS if low < one <= high}


def made_by(made: list[tuple[bool, Interval]]) -> tuple[IntervalSet, set[EntryId]]:
    intervals_set = IntervalSet()
    model: set[EntryId] = set()
    for adds, (low, high) in made:
        if adds:
            intervals_set.add(low, high)
            model |= ids_in(low, high)
        else:
            intervals_set.remove(low, high)
            model -= ids_in(low, high)
        intervals_set.check()
    return intervals_set, model


def maximal(model: set[EntryId]) -> list[Interval]:
    pairs: list[Interval] = []
    for before, one in pairwise(IDS):
        if one in model and pairs and pairs[-1][1] == before:
            pairs[-1] = (pairs[-1][0], one)
        elif one in model:
            pairs.append((before, one))
    return pairs


sets = changes.map(made_by)


@given(sets)
def test_a_set_is_what_was_added_and_not_removed(made: tuple[IntervalSet, set[EntryId]]) -> None:
    one, model = made
    assert one.pairs() == maximal(model)
    assert [i for i in IDS if one.contains(i)] == sorted(model)
    assert one.max() == max(model, default=None)
    assert [entry_id for entry_id in IDS if one.ends_at(entry_id)] == sorted(model)[-1:]
    assert bool(one) == bool(model)
    assert len(one) == len(maximal(model))
    assert IntervalSet.of(one.pairs()) == one


@given(sets, intervals)
def test_pieces_and_gaps_share_an_interval(made: tuple[IntervalSet, set[EntryId]], interval: Interval) -> None:
    one, model = made
    inside = ids_in(*interval)
    assert IntervalSet.of(one.pieces(*interval)).pairs() == one.pieces(*interval) == maximal(model & inside)
    assert IntervalSet.of(one.gaps(*interval)).pairs() == one.gaps(*interval) == maximal(inside - model)
    assert one.covers(*interval) == (inside <= model)


@given(sets, known_ids)
def test_end_from_goes_to_the_first_hole(made: tuple[IntervalSet, set[EntryId]], entry_id: EntryId) -> None:
    one, model = made
    end = entry_id
    for following in IDS[IDS.index(entry_id) + 1 :]:
        if following not in model:
            break
        end = following
    assert one.end_from(entry_id) == end


@given(sets, known_ids)
def test_next_absent_is_the_nearest_outside(made: tuple[IntervalSet, set[EntryId]], entry_id: EntryId) -> None:
    one, _ = made
    absent = one.next_absent(entry_id)
    if absent is None:
        assert one.covers(previous_id(entry_id) or ID_MIN, ID_MAX)
        return
    assert absent >= entry_id
    assert not one.contains(absent)
    if absent > entry_id:
        below = previous_id(absent)
        assert below is not None
        assert one.contains(entry_id) and one.covers(entry_id, below)


@given(sets, sets)
def test_union_minus_intersection(
    left: tuple[IntervalSet, set[EntryId]], right: tuple[IntervalSet, set[EntryId]]
) -> None:
    one, two = left[0], right[0]
    before = (one.pairs(), two.pairs())
    union = one.copy()
    union.union(two)
    for made, model in [
        (union, left[1] | right[1]),
        (one.minus(two), left[1] - right[1]),
        (one.intersection(two), left[1] & right[1]),
    ]:
        made.check()
        assert made.pairs() == maximal(model)
    assert (one.pairs(), two.pairs()) == before
    assert (one == two) == (left[1] == right[1])
    assert one.covers_all(two) == (right[1] <= left[1])


def test_the_lower_bound_is_open_and_the_upper_closed() -> None:
    one = IntervalSet.of([(ID_MIN, (5, 1))])
    assert not one.contains(ID_MIN)
    assert one.contains((0, 1)) and one.contains((4, U64_MAX)) and one.contains((5, 1))
    assert not one.contains((5, 2))
    assert one.next_absent((3, 3)) == next_id((5, 1)) == (5, 2)
    assert IntervalSet.of([(ID_MIN, ID_MAX)]).next_absent((1, 1)) is None


@pytest.mark.parametrize("pairs", [[((2, 0), (2, 0))], [((1, 0), (2, 0)), ((2, 0), (3, 0))], [((5, 0), (6, 0))] * 2])
def test_check_finds_damage(pairs: list[Interval]) -> None:
    one = IntervalSet()
    one._lows = [low for low, _ in pairs]
    one._highs = [high for _, high in pairs]
    with pytest.raises(AssertionError):
        one.check()
