"""Intervals of origins: one interval and many say the same as the dictionary that they were made of."""

from __future__ import annotations

import pytest

from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import NOTHING, OriginIntervals

LOW, HIGH, ABOVE = (1, 0), (2, 0), (3, 0)


@pytest.mark.parametrize(
    "pieces", [{}, {7: []}, {7: [(LOW, HIGH)]}, {7: [(LOW, HIGH), (HIGH, ABOVE)]}, {7: [(LOW, HIGH)], 8: []}]
)
def test_pieces_come_back(pieces: dict[int, list[Interval]]) -> None:
    assert OriginIntervals.of(pieces).as_dict() == pieces
    assert OriginIntervals.of(pieces) == OriginIntervals.of(dict(pieces))
    assert hash(OriginIntervals.of(pieces)) == hash(OriginIntervals.of(dict(pieces)))
    assert OriginIntervals.of(pieces).is_one() == (pieces == {7: [(LOW, HIGH)]})


def test_one_interval_is_kept_as_it_is() -> None:
    one = OriginIntervals(7, LOW, HIGH)
    assert (one.is_one(), one.origin, one.low, one.high) == (True, 7, LOW, HIGH)
    assert one == OriginIntervals.of({7: [(LOW, HIGH)]})
    assert one != OriginIntervals(7, LOW, ABOVE) and one != NOTHING
    assert repr(one) == "OriginIntervals({7: [((1, 0), (2, 0))]})"
