"""Which groups lag most."""

from __future__ import annotations

from dataclasses import replace

from crdtstream.observing.lagging import KEPT, LaggingGroup, each_where_it_lags_most, looked_at, most_lagging


def group(name: bytes, lag: int) -> LaggingGroup:
    return LaggingGroup("east", b"s", name, lag, 0, "")


def test_the_newest_figure_of_a_group_counts() -> None:
    found = most_lagging([group(b"a", 9), group(b"b", 5), group(b"a", 1), group(b"c", 0)])
    assert [(each.group, each.lag) for each in found] == [(b"b", 5), (b"a", 1)]


def test_few_are_kept() -> None:
    found = most_lagging([group(b"%d" % number, number) for number in range(1, 100)])
    assert [each.lag for each in found] == [99, 98, 97, 96, 95] and len(found) == KEPT


def origin(pending: int, delivered: bytes) -> list[object]:
    return [b"pending", pending, b"delivered", delivered]


def test_a_group_that_is_looked_at_has_its_oldest_entry() -> None:
    reply = [b"lag", 3, b"next", [[b"7-1", [b"f", b"v"], b"1.a"]], b"origins", [origin(2, b"7-0"), origin(1, b"3-1")]]
    found = looked_at(group(b"g", 9), reply)
    assert (found.lag, found.pending, found.oldest_id, found.delivered) == (3, 3, "7-1", "7-0,3-1")
    empty = looked_at(group(b"g", 9), [b"lag", 0, b"next", [], b"origins", []])
    assert (empty.lag, empty.oldest_id) == (0, "")


def test_a_group_that_lags_in_several_regions_stands_once() -> None:
    found = each_where_it_lags_most([group(b"a", 3), replace(group(b"a", 7), region="west"), group(b"b", 5)])
    assert [(each.group, each.region, each.lag, each.in_others) for each in found] == [
        (b"a", "west", 7, True),
        (b"b", "east", 5, False),
    ]
