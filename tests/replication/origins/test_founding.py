"""Rows of neighbours, and when they close."""

from __future__ import annotations

from itertools import permutations

import pytest

from crdtstream.replication.origins.founding import Founding

LINE = [(1, [2]), (2, [1, 3]), (3, [2, 4]), (4, [3])]


def told(rows: list[tuple[int, list[int]]]) -> Founding:
    founding = Founding()
    for origin, regions in rows:
        founding.record(origin, 0, regions)
    return founding


def test_nothing_is_known_at_first_but_that_the_own_row_is_missing() -> None:
    assert told([]).missing(1) == [1]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_line_closes_with_its_last_row_in_any_order(order: tuple[int, ...]) -> None:
    founding = Founding()
    for index in order:
        assert all(founding.missing(region) for region in (1, 2, 3, 4))
        origin, regions = LINE[index]
        founding.record(origin, 0, regions)
    assert not any(founding.missing(region) for region in (1, 2, 3, 4))


def test_a_row_that_nobody_names_is_not_waited_for() -> None:
    assert told([*LINE, (6, [1, 5])]).missing(1) == []


def test_a_region_that_is_not_named_back_does_not_close() -> None:
    assert told([*LINE, (6, [1])]).missing(6) == [1]


def test_a_ring_that_is_configured_one_way_never_closes() -> None:
    ring = told([(1, [2]), (2, [3]), (3, [1])])
    assert [ring.missing(region) for region in (1, 2, 3)] == [[1, 2, 3]] * 3


def test_a_later_origin_of_a_region_speaks_for_it() -> None:
    founding = told([(1, [2]), (2, [1])])
    founding.record(2 + 256, 1, [1, 3])
    assert founding.missing(1) == [3]
    founding.record(2, 0, [1])
    assert founding.rows() == [(0, 1, (2,)), (1, 258, (1, 3))]
    assert founding.origins() == [1, 258]


def test_of_two_origins_with_one_count_the_higher_number_speaks() -> None:
    """Both began with an empty directory; whatever the order, all who heard of both say the same."""
    for order in ((2, 258), (258, 2)):
        founding = told([(1, [2])])
        for origin in order:
            founding.record(origin, 0, [1])
        assert founding.origins() == [1, 258]


def test_what_is_told_twice_changes_nothing() -> None:
    founding = told(LINE)
    changes = founding.changes
    for origin, regions in LINE:
        founding.record(origin, 0, regions)
    assert founding.changes == changes == 4
