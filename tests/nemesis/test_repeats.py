"""What handlers saw, judged: sound rounds have nothing wrong, and each kind of fault in them is named."""

from __future__ import annotations

import pytest

from nemesis.repeats import (
    NEVER_S,
    NEWS_S,
    AddedEntry,
    HandledEntry,
    PlannedMove,
    Times,
    judge_owned,
    judge_shared,
    stale,
)

EAST, WEST = 1, 2
LATE = NEWS_S + 0.5


def call(
    at_s: float, region: int = EAST, entry: bytes = b"1-1", again: bool = False, done: bool = True
) -> HandledEntry:
    return HandledEntry("g", entry, entry, region, "c", again, at_s, at_s + 0.1 if done else NEVER_S)


def added(at_s: float, entry: bytes = b"1-1") -> AddedEntry:
    return AddedEntry(entry, entry, at_s)


def test_an_entry_that_nobody_finished_is_missed() -> None:
    verdict = judge_owned([added(0), added(0, b"2-1")], [call(1, done=False)], Times(), [])
    assert verdict.missed == [b"1-1", b"2-1"] and verdict.handled == 1


def test_an_add_that_was_repeated_under_another_id_is_not_missed() -> None:
    calls = [HandledEntry("g", name, b"t", EAST, "c", False, 1, 2) for name in (b"1-1", b"2-2")]
    verdict = judge_owned([AddedEntry(b"3-1", b"t", 0)], calls, Times(), [])
    assert (verdict.missed, verdict.twice, verdict.repeated) == ([], 1, 0)


def test_a_second_region_repeats_and_the_same_region_retries() -> None:
    calls = [call(1), call(2, again=True), call(1, entry=b"2-1"), call(2, WEST, b"2-1")]
    verdict = judge_owned([added(0), added(0, b"2-1")], calls, Times(1.5, 9), [])
    assert (verdict.retried, verdict.repeated, verdict.wrong, verdict.missed) == (1, 1, [], [])
    assert verdict.bound == 2


def test_a_region_that_delivers_an_entry_as_new_twice_repeats_it() -> None:
    assert judge_owned([added(0)], [call(1), call(2)], Times(), []).repeated == 1


@pytest.mark.parametrize(
    ("added_s", "begun_s", "allowed"),
    [
        (0, 10, True),  # in work when the fault began
        (0, 10 - LATE, False),  # the others knew that it was acknowledged
        (10 + LATE, 12 + LATE, False),  # the others did not have it
        (8, 15, True),  # everybody had it, nobody had handled it
        (15, 20, True),  # in work when the fault ended
        (15, 20 + LATE, False),
    ],
)
def test_what_a_fault_from_10_to_20_may_repeat(added_s: float, begun_s: float, allowed: bool) -> None:
    calls = [call(begun_s), call(30, WEST)]
    verdict = judge_owned([added(added_s)], calls, Times(10, 20), [])
    assert (verdict.bound, verdict.wrong == []) == (int(allowed), allowed)
    assert judge_owned([added(added_s)], calls, Times(), []).wrong, "without a fault nothing may be repeated"


def test_a_repeat_counts_for_the_moves_that_lie_between_its_calls() -> None:
    moves = [PlannedMove(0, 1), PlannedMove(3, 4), PlannedMove(8, 9)]
    assert judge_owned([added(0)], [call(2), call(5, WEST)], Times(), moves).moves_with_a_repeat == 1
    assert judge_owned([added(0)], [call(2)], Times(), moves).moves_with_a_repeat == 0


def test_a_group_that_every_region_delivers_repeats_once_in_each() -> None:
    verdict = judge_shared([added(0)], [call(1), call(2, WEST), call(3, WEST, again=True)], 3)
    assert (verdict.repeated, verdict.bound, verdict.retried, verdict.wrong) == (1, 2, 1, [])
    assert judge_shared([added(0)], [call(1), call(2)], 3).wrong


def test_what_all_knew_to_be_acknowledged_may_not_come_again() -> None:
    assert stale(frozenset([b"1-1"]), [call(1), call(1, entry=b"2-1")]) == ["1-1 came again from region 1"]
