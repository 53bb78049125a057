"""What an action did in each shard: whom it is for, what is done already, and what is shown of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.admin.leaving import ABORTED
from crdtstream.dashboard.outcomes import (
    EVICTED_BEFORE,
    LEFT_BEFORE,
    ActionOutcome,
    ShardOutcome,
    absent_outcomes,
    concerned,
    outcome_of,
)
from crdtstream.dashboard.views.actions import outcome
from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.reading import RegionReading
from crdtstream.observing.rows import OriginRow
from tests.dashboard.cluster import reading

GONE = "Connection refused"
# Of shard 0 and of shard 1.
KEYS = (b"b", b"a")


def shard(region: int, number: int, count: int = 2) -> RegionReading:
    """Its counterpart in region 2 has an origin whose name ends with the number of the shard."""
    found = reading(region, {}, shard=number, shards=count)
    return replace(found, origins=(OriginRow(f"2.{number}", 2, "west", 2, "member", 0),))


EAST = [shard(1, 0), shard(1, 1)]
ALL = [*EAST, shard(2, 0), shard(2, 1)]


def test_a_key_is_for_one_shard_and_anything_else_for_all() -> None:
    assert [concerned(ALL, "east", [b"XTRIM"], key) for key in KEYS] == [[EAST[0]], [EAST[1]]]
    assert concerned(ALL, "east", [b"CRDT.LEAVE"], None) == EAST
    assert concerned(ALL, "north", [b"CRDT.LEAVE"], None) == []


def test_an_origin_is_evicted_by_the_shard_that_knows_it() -> None:
    assert concerned(ALL, "east", [b"CRDT.EVICT", b"2.1"], None) == [EAST[1]]
    assert concerned(ALL, "east", [b"CRDT.EVICT", b"2.7"], None) == [EAST[0]]
    assert concerned(ALL, "east", [b"CRDT.EVICT", b"west"], None) == EAST


@pytest.mark.parametrize(
    ("words", "answer", "has_left", "told"),
    [
        ("CRDT.EVICT west", RegionAnswer("", [b"origin", b"2.1"]), False, ("origin 2.1", False)),
        (
            "CRDT.EVICT west",
            RegionAnswer("", error="ERR origin 2.1 is already evicted"),
            False,
            (EVICTED_BEFORE, False),
        ),
        ("CRDT.EVICT west", RegionAnswer("", error="ERR it is linked"), False, ("ERR it is linked", True)),
        ("CRDT.LEAVE", RegionAnswer("", error=GONE, unreachable=True), True, (LEFT_BEFORE, False)),
        ("CRDT.LEAVE", RegionAnswer("", error=GONE, unreachable=True), False, (GONE, True)),
        ("CRDT.EVICT west", RegionAnswer("", error=GONE, unreachable=True), True, (GONE, True)),
        (
            "CRDT.LEAVE",
            RegionAnswer("", [b"state", b"leaving", b"lacking", [[b"name", b"west", b"region", 2, b"effects", 3]]]),
            False,
            ("leaving, region west (2) lacks 3 effects", False),
        ),
        ("CRDT.LEAVE STATUS", RegionAnswer("", [b"state", b"staying", b"lacking", []]), False, (ABORTED, True)),
        ("CRDT.LEAVE ABORT", RegionAnswer("", [b"state", b"staying", b"lacking", []]), False, ("staying", False)),
    ],
)
def test_a_shard_that_is_done_says_so(words: str, answer: RegionAnswer, has_left: bool, told: tuple[str, bool]) -> None:
    found = outcome_of(EAST[1], [word.encode() for word in words.split()], answer, has_left)
    assert found == ShardOutcome("east shard 1", *told)


def test_a_region_of_one_shard_says_what_it_replied() -> None:
    answer = RegionAnswer("", error="ERR origin 2.1 is already evicted")
    found = outcome_of(shard(1, 0, 1), [b"CRDT.EVICT", b"west"], answer, False)
    assert found == ShardOutcome("east", answer.error, True)


def test_shards_that_have_left_are_named_though_nobody_asks_them() -> None:
    gone = {(1, 1), (2, 0)}
    assert absent_outcomes(EAST[:1], [b"CRDT.LEAVE"], gone) == [ShardOutcome("east shard 1", LEFT_BEFORE)]
    assert absent_outcomes(EAST, [b"CRDT.LEAVE"], gone) == []
    assert absent_outcomes(EAST[:1], [b"CRDT.EVICT", b"west"], gone) == []
    assert absent_outcomes([], [b"CRDT.LEAVE"], gone) == []


def shown(*shards: ShardOutcome) -> str:
    page = outcome(ActionOutcome("CRDT.LEAVE", "east", shards, "/actions?again"))
    return " ".join(tag.text or tag.attributes.get("href", "") for tag in page.all() if tag.text)


def test_what_each_shard_did_is_shown_and_can_be_repeated() -> None:
    done, refused = ShardOutcome("east shard 0", "leaving"), ShardOutcome("east shard 1", GONE, True)
    assert "Done in part" in shown(done, refused) and "Repeat the command once" in shown(done, refused)
    assert all(text in shown(done, refused) for text in ("east shard 0", "leaving", "east shard 1", GONE))
    assert shown(done, done).startswith("Done ") and "Repeat the command once" not in shown(done, done)
    assert shown(refused, refused).startswith("Refused ")
    assert shown(ShardOutcome("east", "OK")) == "Done CRDT.LEAVE east replied: OK"
    [again] = [tag for tag in outcome(ActionOutcome("x", "east", (done, refused), "/again")).all() if tag.tag == "a"]
    assert again.attributes["href"] == "/again"
