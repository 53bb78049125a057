"""SCAN's order: what stays is visited once, whatever comes and goes, and a page costs what it holds."""

from __future__ import annotations

from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values import key_order
from crdtstream.core.values.key_order import PAGE_NAMES_MAX, KeyOrder, Page, place_of

names = st.binary(max_size=2)
MANY = [b"%d" % i for i in range(5_000)]


def made(held: list[bytes]) -> KeyOrder:
    order = KeyOrder()
    for name in held:
        order.add(name)
    return order


def visit(order: KeyOrder, held: set[bytes], count: int, changes: list[tuple[bytes, bool]]) -> list[bytes]:
    """A whole scan; one change between two calls."""
    visited: list[bytes] = []
    cursor = 0
    while True:
        order.check(held)
        cursor, page = order.read(cursor, count)
        visited += page
        if cursor == 0:
            return visited
        if changes:
            name, adds = changes.pop()
            if adds and name not in held:
                held.add(name)
                order.add(name)
            elif not adds and name in held:
                held.remove(name)
                order.remove(name)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the core is compiled the constant is part of the code, and pages stay as they are."""
    monkeypatch.setattr(key_order, "PAGE_NAMES_MAX", 4)


@pytest.mark.usefixtures("small_pages")
def test_what_stays_is_visited_once() -> None:
    @given(st.sets(names), st.integers(1, 5), st.lists(st.tuples(names, st.booleans()), max_size=40))
    def check(kept: set[bytes], count: int, changes: list[tuple[bytes, bool]]) -> None:
        changes = [(name, adds) for name, adds in changes if name not in kept]
        visited = visit(made(sorted(kept)), set(kept), count, changes)
        assert [name for name in sorted(visited) if name in kept] == sorted(kept)

    check()


def test_pages_have_the_size_asked_for() -> None:
    order = made(MANY)
    visited = visit(order, set(MANY), 100, [])
    assert sorted(visited) == sorted(MANY)
    assert len(order.read(0, 10)[1]) == 10
    assert order.read(0, len(MANY) + 1) == (0, visited)


def test_pages_split_and_join() -> None:
    """Not as many pages as there were once, nor fewer than a page's size demands."""
    order = made(MANY)
    assert len(MANY) / PAGE_NAMES_MAX <= len(order._pages) <= 4 * len(MANY) / PAGE_NAMES_MAX
    for name in MANY[10:]:
        order.remove(name)
    order.check(MANY[:10])
    assert len(order._pages) <= 2


def test_names_of_one_place_come_together() -> None:
    order = KeyOrder()
    order._pages = [Page(array("Q", [7, 7, 7, 9]), [b"a", b"b", b"c", b"z"])]
    assert order.read(0, 1) == (9, [b"a", b"b", b"c"])
    assert order.read(9, 1) == (0, [b"z"])


def test_names_of_one_place_stay_on_one_page() -> None:
    order = KeyOrder()
    same, other = PAGE_NAMES_MAX - 10, 20
    places = array("Q", [7] * same + [9] * other)
    order._pages = [Page(places, [b"%d" % i for i in range(same + other)])]
    order._split(0)
    assert [sorted(set(page.places)) for page in order._pages] == [[7], [9]]
    assert order._firsts == [0, 9]
    order._split(1)
    assert len(order._pages) == 2, "names of one place were split"


def test_names_of_one_place_are_in_order_however_they_came() -> None:
    order = KeyOrder()
    place = place_of(b"m")
    order._pages = [Page(array("Q", [place, place]), [b"a", b"z"])]
    order.add(b"m")
    assert order.names() == [b"a", b"m", b"z"]


def test_a_cursor_is_never_zero_in_the_middle() -> None:
    assert all(place_of(name) > 0 for name in MANY)


def test_a_cursor_means_the_same_place_in_another_order_of_arrival() -> None:
    """After a restart, or in another region."""
    one, other = made(MANY), made(MANY[::-1])
    cursor, _ = one.read(0, 1_234)
    assert one.read(cursor, 10) == other.read(cursor, 10)


def test_every_name_is_drawn_as_often() -> None:
    order = made(MANY)
    for name in MANY[300:]:
        order.remove(name)
    span = PAGE_NAMES_MAX * len(order._pages)
    drawn = Counter(name for name in map(order.drawn, range(span)) if name is not None)
    assert set(drawn) == set(MANY[:300]) and set(drawn.values()) == {1}
    assert len(drawn) >= span / 4, "too many draws fail"


def test_few_names_are_drawn_at_once() -> None:
    assert KeyOrder().drawn(12345) is None
    assert {made([b"a", b"b"]).drawn(number) for number in range(10)} == {b"a", b"b"}
