"""Pieces: one interval and many say the same as the dictionary that they were made of."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import Interval
from crdtstream.core.values.origin_intervals import NOTHING, Pieces

LOW, HIGH, ABOVE = (1, 0), (2, 0), (3, 0)


@pytest.mark.parametrize(
    "pieces", [{}, {7: []}, {7: [(LOW, HIGH)]}, {7: [(LOW, HIGH), (HIGH, ABOVE)]}, {7: [(LOW, HIGH)], 8: []}]
)
def test_pieces_come_back(pieces: dict[int, list[Interval]]) -> None:
    assert Pieces.of(pieces).as_dict() == pieces
    assert Pieces.of(pieces) == Pieces.of(dict(pieces))
    assert hash(Pieces.of(pieces)) == hash(Pieces.of(dict(pieces)))
    assert Pieces.of(pieces).one == (pieces == {7: [(LOW, HIGH)]})


def test_one_interval_is_kept_as_it_is() -> None:
    one = Pieces(7, LOW, HIGH)
    assert (one.one, one.origin, one.low, one.high) == (True, 7, LOW, HIGH)
    assert one == Pieces.of({7: [(LOW, HIGH)]})
    assert one != Pieces(7, LOW, ABOVE) and one != NOTHING
    assert repr(one) == "Pieces({7: [((1, 0), (2, 0))]})"
