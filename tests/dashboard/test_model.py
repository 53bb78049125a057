"""Headline, lag and links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.dashboard.model import (
    AGREE,
    BEHIND,
    DIFFER,
    UNKNOWN,
    DigestRound,
    Place,
    places,
    verdict,
    worst_places,
    worst_round,
)
from crdtstream.observing.links import links
from crdtstream.observing.reading import RegionReading
from tests.dashboard.cluster import reading, row

SAME = DigestRound({1: "a", 2: "a"}, True, 10.0)
NEVER = DigestRound({}, False, 0.0)


def two(late: int = 0, late_ms: int = 0) -> list[Place]:
    return places([reading(1, {"1.a": 9}, row(2)), reading(2, {"1.a": 9 - late}, row(1))], {(2, 0): late_ms})


def test_regions_that_hold_the_same_agree() -> None:
    told = verdict(two(), [], SAME, 10.0)
    assert (told.kind, told.headline) == (AGREE, "All 2 regions hold the same")


def test_what_is_on_its_way_is_no_lag() -> None:
    told = verdict(two(late=4, late_ms=500), [], DigestRound({1: "a", 2: "b"}, False, 4.0), 10.0)
    assert (told.kind, told.headline) == (AGREE, "All 2 regions keep up")
    assert told.details == ("4 effects on their way at this moment.", "Their digests were equal 6 s ago.")


def test_who_is_behind_is_named() -> None:
    told = verdict(two(late=4, late_ms=8_000), [], NEVER, 10.0)
    assert (told.kind, told.headline) == (BEHIND, "west is behind")
    assert told.details[0] == "west lacks 4 effects, the oldest for 8 s"


def test_digests_that_were_equal_before_somebody_fell_behind_are_old() -> None:
    told = verdict(two(late=4, late_ms=8_000), [], DigestRound({1: "a", 2: "a"}, True, 4.0), 10.0)
    assert told.details[1] == "Their digests were equal 6 s ago."


def test_equal_vectors_with_unequal_digests_are_the_worst() -> None:
    told = verdict(two(), [], DigestRound({1: "a", 2: "b"}, True, 0.0), 10.0)
    assert told.kind == DIFFER


def test_unequal_vectors_with_unequal_digests_are_not() -> None:
    assert verdict(two(), [], DigestRound({1: "a", 2: "b"}, False, 0.0), 10.0).kind == AGREE


def test_a_region_that_does_not_answer_is_told_with_its_error() -> None:
    shown = places([reading(1, {}), reading(2, {}, error="Connection refused")], {})
    told = verdict(shown, [], NEVER, 10.0)
    assert (told.kind, told.headline) == (BEHIND, "west does not answer")
    assert told.details[0] == "west does not answer: Connection refused"


def test_nobody_answers() -> None:
    assert verdict([], [], NEVER, 10.0).kind == UNKNOWN
    assert places([RegionReading("h:1", error="Connection refused")], {}) == []
    assert verdict(places([reading(1, {}, error="x")], {}), [], NEVER, 10.0).kind == UNKNOWN


def test_a_region_that_is_only_known_from_others_is_shown() -> None:
    shown = places([reading(1, {}, row(2, "none", lag=3), row(0, "none"))], {})
    assert [(place.region, place.name, place.is_asked) for place in shown] == [(1, "east", True), (2, "west", False)]
    assert "west is not asked: give its Redis address with --node" in verdict(shown, [], NEVER, 1.0).details


def test_a_link_is_down_if_either_side_says_so() -> None:
    down = row(1, "none", lag=5, reason="it refuses: a, b", unlinked_ms=1_000)
    (link,) = links([reading(1, {}, row(2, lag=2)), reading(2, {}, down)], {(1, 2): 70, (2, 1): 90})
    assert (link.one, link.other, link.is_up, link.lag, link.lag_ms) == (1, 2, False, 5, 90)
    assert (link.reason, link.unlinked_ms) == ("it refuses: a, b", 1_000)
    told = verdict(two(), [link], SAME, 10.0)
    assert (told.kind, told.headline) == (BEHIND, "1 link is down")


def test_what_a_region_said_before_it_fell_silent_is_no_link() -> None:
    assert links([replace(reading(1, {}, row(2, "none")), error="gone")], {}) == []


@pytest.mark.parametrize(
    ("digests", "text"),
    [
        (DigestRound({}, False, 0.0, ended=False), "Their digests are being compared for the first time."),
        (NEVER, "Their digests could not be compared: fewer than two regions returned one."),
        (DigestRound({1: "a", 2: "b"}, False, 0.0), "Their digests have not been equal since this dashboard began."),
    ],
)
def test_digests_that_were_never_equal(digests: DigestRound, text: str) -> None:
    assert verdict(two(), [], digests, 10.0).details == (text,)
    assert verdict(two(late=4, late_ms=8_000), [], digests, 10.0).details[-1] == text


def shards(*silent: tuple[int, int], late: int = 0) -> list[Place]:
    """Two regions of two shards, of which shard 1 of the second lacks something."""
    told = [
        reading(region, {f"{number}.a": 9 - (late if (region, number) == (2, 1) else 0)}, row(3 - region))
        for number in (0, 1)
        for region in (1, 2)
    ]
    found = [
        replace(each, report=replace(each.report, shard=number, shards=2))
        for each, number in zip(told, (0, 0, 1, 1), strict=True)
        if each.report is not None
    ]
    found = [replace(each, error="Connection refused") if each.place in silent else each for each in found]
    return places(found, {(2, 1): 8_000 if late else 0})


def test_a_region_is_as_well_off_as_its_worst_shard() -> None:
    assert [(each.region, each.shard, each.lag) for each in shards(late=4)] == [
        (1, 0, 0),
        (1, 1, 0),
        (2, 0, 0),
        (2, 1, 4),
    ]
    assert [(each.label, each.lag) for each in worst_places(shards(late=4))] == [
        ("east shard 0", 0),
        ("west shard 1", 4),
    ]
    told = verdict(shards(late=4), [], SAME, 10.0)
    assert (told.kind, told.headline) == (BEHIND, "west shard 1 is behind")
    assert told.details[0] == "west shard 1 lacks 4 effects, the oldest for 8 s"
    assert verdict(shards(), [], SAME, 10.0).headline == "All 2 regions hold the same"


def test_regions_that_answer_in_part_are_not_unknown() -> None:
    told = verdict(shards((1, 1), (2, 1)), [], SAME, 10.0)
    assert (told.kind, told.headline) == (BEHIND, "east shard 1 and west shard 1 do not answer")
    assert verdict(shards((1, 0), (1, 1), (2, 0), (2, 1)), [], SAME, 10.0).kind == UNKNOWN


def test_the_shard_whose_state_differs_is_named() -> None:
    rounds = [replace(SAME, shard=0), DigestRound({1: "a", 2: "b"}, True, 0.0, shard=1)]
    told = verdict(shards(), [], worst_round(rounds), 10.0)
    assert (told.kind, told.headline) == (DIFFER, "Regions hold different state in shard 1")
    assert worst_round([replace(SAME, equal_s=2.0), NEVER]) == NEVER
