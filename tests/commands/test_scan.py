"""SCAN's order: what stays is visited, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.scan import ScanOrder, page_of, place_of
from crdtstream.core.stream import Stream

names = st.binary(max_size=2)


def visit(order: ScanOrder, held: dict[bytes, Stream], count: int, changes: list[tuple[bytes, bool]]) -> list[bytes]:
    """A whole scan; one change between two calls."""
    visited: list[bytes] = []
    cursor = 0
    while True:
        order.follow(held)
        order.check(held)
        cursor, page = order.page(cursor, count)
        visited += page
        if cursor == 0:
            return visited
        if changes:
            name, adds = changes.pop()
            if adds:
                held[name] = Stream()
            else:
                held.pop(name, None)


@given(st.sets(names), st.integers(1, 5), st.lists(st.tuples(names, st.booleans()), max_size=8))
def test_what_stays_is_visited_once(kept: set[bytes], count: int, changes: list[tuple[bytes, bool]]) -> None:
    changes = [(name, adds) for name, adds in changes if name not in kept]
    held = {name: Stream() for name in sorted(kept)}
    visited = visit(ScanOrder(), held, count, changes)
    assert [name for name in sorted(visited) if name in kept] == sorted(kept)


def test_pages_have_about_the_size_asked_for() -> None:
    held = {b"%d" % i: Stream() for i in range(25)}
    order = ScanOrder()
    order.follow(held)
    cursor, page = order.page(0, 10)
    assert len(page) == 10 and cursor > 0
    assert order.page(0, 100)[0] == 0


def test_equal_hashes_come_together() -> None:
    places = [(7, b"a"), (7, b"b"), (7, b"c"), (9, b"z")]
    assert page_of(places, 0, 1) == (9, [b"a", b"b", b"c"])
    assert page_of(places, 9, 1) == (0, [b"z"])


def test_a_cursor_is_never_zero_in_the_middle() -> None:
    assert all(place_of(b"%d" % i)[0] > 0 for i in range(100))
