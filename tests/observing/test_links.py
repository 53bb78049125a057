"""Links as both sides see them."""

from __future__ import annotations

from dataclasses import replace

from crdtstream.observing.links import links, names_of, never_reached, worst_links
from tests.observing.made import origin, reading, row, shard


def test_a_link_is_down_if_one_side_says_so() -> None:
    one = reading(1, row(2, lag=4), row(3, "transfer", lag=9))
    two = reading(2, row(1, "none", unlinked_ms=1500, reason=b"refused"), row(3))
    found = links([one, two], {(2, 1): 70})
    assert [(each.one, each.other, each.is_up, each.is_transferring) for each in found] == [
        (1, 2, False, False),
        (1, 3, True, True),
        (2, 3, True, False),
    ]
    assert (found[0].reason, found[0].unlinked_ms, found[0].lag, found[0].lag_ms) == ("refused", 1500, 4, 70)


def test_evicted_regions_and_stale_replies_have_no_links() -> None:
    one = replace(reading(1, row(2, "none"), row(3)), origins=origin(2, "evicted"))
    stale = replace(reading(3, row(1, "none")), error="no answer")
    assert [(each.one, each.other, each.is_up) for each in links([one, stale])] == [(1, 3, True)]


def test_names_and_addresses_where_nobody_answered() -> None:
    one = reading(1, row(0, "none", address=b"r9:7100"), row(2), row(4, name=b""))
    assert names_of([one]) == {1: "r1", 2: "r2", 4: "region 4"}
    assert [(name, each.address) for name, each in never_reached([one])] == [("r1", "r9:7100")]


def test_of_the_links_of_two_regions_the_worst_one_stands_for_all() -> None:
    up = [shard(1, 0, row(2, lag=7)), shard(2, 0, row(1))]
    down = [shard(1, 1, row(2, "none", unlinked_ms=5_000, reason=b"refused")), shard(2, 1, row(1))]
    (worst,) = worst_links([*links(up), *links(down)])
    assert (worst.shard, worst.is_up, worst.reason) == (1, False, "refused")
    (worst,) = worst_links([*links(up), *links([shard(1, 1, row(2)), shard(2, 1, row(1))])])
    assert (worst.shard, worst.lag) == (0, 7)
