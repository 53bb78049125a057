"""Headline, lag and links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.dashboard.model import AGREE, BEHIND, DIFFER, UNKNOWN, DigestRound, Place, places, verdict
from crdtstream.observing.links import links
from crdtstream.observing.reading import RegionReading
from tests.dashboard.cluster import reading, row

SAME = DigestRound({1: "a", 2: "a"}, True, 10.0)
NEVER = DigestRound({}, False, 0.0)


def two(late: int = 0, late_ms: int = 0) -> list[Place]:
    return places([reading(1, {"1.a": 9}, row(2)), reading(2, {"1.a": 9 - late}, row(1))], {2: late_ms})


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
