"""The checker on small records: each kind of anomaly has examples that must be found, and sound ones that must not."""

from __future__ import annotations

from typing import Any

import pytest

from nemesis.checker import DUPLICATE, KINDS, LOST, REORDERED, RESURRECTED, SKIPPED, Record, check
from nemesis.history import (
    ACKNOWLEDGE,
    ADD,
    DELETE,
    NEVER_S,
    RANGE,
    READ,
    REFUSED,
    REMOVE,
    UNKNOWN,
    Entry,
    EntryID,
    Loss,
    Operation,
)

A: EntryID = (10, 1)
B: EntryID = (11, 1)
C: EntryID = (12, 1)
OTHER: EntryID = (10, 2)
EAST, WEST = 1, 2


def at(second: float, kind: str, region: int = EAST, **rest: Any) -> Operation:
    """Takes half a second, unless its answer never came."""
    ended_s = NEVER_S if rest.get("outcome") == UNKNOWN else second + 0.5
    return Operation(region, kind, "x", second, ended_s, **rest)


def add(second: float, entry_id: EntryID, token: str, region: int = EAST) -> Operation:
    return at(second, ADD, region, ids=(entry_id,), token=token)


def shows(second: float, *entries: Entry, region: int = EAST, **rest: Any) -> Operation:
    return at(second, RANGE, region, entries=entries, **rest)


def gives(second: float, *entries: Entry, region: int = EAST, fresh: bool = True) -> Operation:
    return at(second, READ, region, entries=entries, fresh=fresh)


def found(
    operations: list[Operation], held: dict[int, list[Entry]], drained: bool = False, loss: Loss | None = None
) -> set[tuple[str, int, str]]:
    return {(each.kind, each.region, each.entry) for each in check(Record("x", operations, held, loss), drained)}


def both(*entries: Entry) -> dict[int, list[Entry]]:
    return {EAST: list(entries), WEST: list(entries)}


A1, B1, C1 = (A, "a"), (B, "b"), (C, "c")
WRITTEN = [add(0, A, "a"), add(1, B, "b"), add(2, C, "c")]
REMOVED = at(3, REMOVE, ids=(B,), count=1)
LATE_DELETE = at(3, DELETE, count=1)

BROKEN: dict[str, tuple[list[Operation], dict[int, list[Entry]], bool, tuple[str, int, str]]] = {
    "acknowledged and gone": (WRITTEN, {EAST: [A1, B1, C1], WEST: [A1, C1]}, False, (LOST, WEST, "11-1")),
    "shown and gone": (
        [at(0, ADD, outcome=UNKNOWN, token="a"), shows(1, A1)],
        both(),
        False,
        (LOST, EAST, "10-1"),
    ),
    "written after the DEL and gone": ([LATE_DELETE, add(4, A, "a")], both(), False, (LOST, EAST, "10-1")),
    "gone, and its removal was refused": (
        [add(0, A, "a"), at(1, REMOVE, ids=(A,), outcome=REFUSED)],
        both(),
        False,
        (LOST, WEST, "10-1"),
    ),
    "one write, two IDs": (
        [at(0, ADD, outcome=UNKNOWN, token="a")],
        both(A1, (B, "a")),
        False,
        (DUPLICATE, EAST, "11-1"),
    ),
    "one ID, two writes": ([add(0, A, "a"), add(1, A, "b", WEST)], both(A1), False, (DUPLICATE, WEST, "10-1")),
    "given twice": ([*WRITTEN, gives(3, A1), gives(4, A1)], both(A1, B1, C1), False, (DUPLICATE, EAST, "10-1")),
    "back after XDEL": ([*WRITTEN, REMOVED], {EAST: [A1, C1], WEST: [A1, B1, C1]}, False, (RESURRECTED, WEST, "11-1")),
    "shown after XDEL": ([*WRITTEN, REMOVED, shows(4, A1, B1, C1)], both(A1, C1), False, (RESURRECTED, EAST, "11-1")),
    "shown, removed by an XDEL that counted none, and back": (
        [*WRITTEN, shows(3, B1, region=WEST, low=B), at(4, REMOVE, WEST, ids=(B,))],
        both(A1, B1, C1),
        False,
        (RESURRECTED, EAST, "11-1"),
    ),
    "back after DEL": ([*WRITTEN, LATE_DELETE], {EAST: [], WEST: [A1]}, False, (RESURRECTED, WEST, "10-1")),
    "given after its acknowledgement": (
        [*WRITTEN, gives(3, A1), at(4, ACKNOWLEDGE, ids=(A,), count=1), gives(5, A1, fresh=False)],
        both(A1, B1, C1),
        False,
        (RESURRECTED, EAST, "10-1"),
    ),
    "there though refused": ([at(0, ADD, outcome=REFUSED, token="a")], both(A1), False, (RESURRECTED, EAST, "10-1")),
    "there though never written": ([], both(A1), False, (RESURRECTED, WEST, "10-1")),
    "never given": ([*WRITTEN, gives(3, A1, C1)], {EAST: [A1, B1, C1]}, True, (SKIPPED, EAST, "11-1")),
    "given nowhere else": (
        [*WRITTEN, gives(3, A1, B1, C1), gives(3, A1, B1, region=WEST)],
        both(A1, B1, C1),
        True,
        (SKIPPED, WEST, "12-1"),
    ),
    "descending reply": (
        [*WRITTEN, shows(3, A1, C1, B1)],
        both(A1, B1, C1),
        False,
        (REORDERED, EAST, "11-1"),
    ),
    "descending IDs given": ([add(0, B, "b"), add(1, A, "a")], both(A1, B1), False, (REORDERED, EAST, "10-1")),
    "an origin's entries given out of order": (
        [*WRITTEN, gives(3, B1, region=WEST), gives(4, A1, C1, region=WEST)],
        both(A1, B1, C1),
        False,
        (REORDERED, WEST, "10-1"),
    ),
    "a hole": ([*WRITTEN, shows(3, A1, C1, region=WEST)], both(A1, B1, C1), False, (REORDERED, WEST, "11-1")),
}

SOUND: dict[str, tuple[list[Operation], dict[int, list[Entry]], bool]] = {
    "nothing": ([], both(), True),
    "written and there": (WRITTEN, both(A1, B1, C1), False),
    "removed and gone": ([*WRITTEN, REMOVED], both(A1, C1), False),
    "perhaps removed, there or not": (
        [*WRITTEN, at(3, REMOVE, ids=(B, C), outcome=UNKNOWN)],
        {EAST: [A1, B1], WEST: [A1, C1]},
        False,
    ),
    "written beside the DEL of another region": ([add(0, A, "a"), at(0.2, DELETE, WEST, count=1)], both(A1), False),
    "covered by that DEL": ([add(0, A, "a"), at(0.2, DELETE, WEST, count=1)], both(), False),
    "unknown and there": ([at(0, ADD, outcome=UNKNOWN, token="a")], both(A1), False),
    "unknown and gone": ([at(0, ADD, outcome=UNKNOWN, token="a")], both(), False),
    "refused and gone": ([at(0, ADD, outcome=REFUSED, token="a")], both(), False),
    "shown while its removal was under way": (
        [*WRITTEN, REMOVED, shows(3.2, A1, B1, C1)],
        both(A1, C1),
        False,
    ),
    "shown where it was not heard of": (
        [*WRITTEN, REMOVED, shows(4, B1, region=WEST, low=B)],
        both(A1, C1),
        False,
    ),
    "given by both regions": (
        [*WRITTEN, gives(3, A1, B1, C1), gives(3, A1, B1, C1, region=WEST)],
        both(A1, B1, C1),
        True,
    ),
    "acknowledged by the other region": (
        [*WRITTEN, gives(3, A1, B1, C1), at(4, ACKNOWLEDGE, ids=(A, B, C), count=3)],
        both(A1, B1, C1),
        True,
    ),
    "given again from the history": (
        [*WRITTEN, gives(3, A1, B1, C1), gives(4, A1, fresh=False)],
        {EAST: [A1, B1, C1]},
        True,
    ),
    "an origin that arrives late": (
        [*WRITTEN, add(0, OTHER, "o", WEST), gives(3, A1, B1, C1), gives(4, (OTHER, "o"))],
        both(A1, (OTHER, "o"), B1, C1),
        False,
    ),
    "the same ID after a DEL": ([add(0, A, "a"), at(1, DELETE, count=1), add(2, A, "b")], both((A, "b")), False),
    "two clients at once": ([at(0, ADD, ids=(B,), token="b"), at(0.1, ADD, ids=(A,), token="a")], both(A1, B1), False),
    "begun behind what is not shown": ([*WRITTEN, shows(3, C1, low=C)], both(A1, B1, C1), False),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_anomaly_is_named(name: str) -> None:
    operations, held, drained, expected = BROKEN[name]
    assert expected in found(operations, held, drained)
    assert {kind for kind, _, _ in found(operations, held, drained)} == {expected[0]}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_passes(name: str) -> None:
    operations, held, drained = SOUND[name]
    assert not found(operations, held, drained)


# East loses its disk at 10 s. What it wrote has the IDs of region 1, `OTHER` is west's.

GONE = Loss(EAST, 10)
O1 = (OTHER, "o")
BY_WEST = add(0, OTHER, "o", WEST)


def test_what_nobody_else_had_perishes_with_a_disk_and_is_counted() -> None:
    operations = [*WRITTEN, shows(5, A1, B1, region=WEST)]
    assert not found(operations, both(A1, B1), loss=GONE)
    assert Record("x", operations, both(A1, B1), GONE).perished == {C}
    assert found(operations, both(A1, B1)) == {(LOST, EAST, "12-1"), (LOST, WEST, "12-1")}, "without that excuse"


@pytest.mark.parametrize("shown_s", [5, 20])
def test_what_another_region_had_must_be_there_though_the_disk_is_lost(shown_s: float) -> None:
    operations = [*WRITTEN, shows(shown_s, A1, B1, C1, region=WEST)]
    assert found(operations, both(A1, B1), loss=GONE) == {(LOST, EAST, "12-1"), (LOST, WEST, "12-1")}


def test_what_another_region_wrote_does_not_perish() -> None:
    operations = [BY_WEST, shows(5, O1)]
    assert found(operations, both(), loss=GONE) == {(LOST, EAST, "10-2"), (LOST, WEST, "10-2")}


def test_what_was_written_after_the_loss_does_not_perish() -> None:
    assert found([add(11, (20, 257), "n")], both(), loss=GONE) == {(LOST, EAST, "20-257"), (LOST, WEST, "20-257")}


def test_a_removal_that_went_with_a_disk_is_counted() -> None:
    operations = [*WRITTEN, shows(2.5, A1, B1, C1, region=WEST), REMOVED, shows(11, A1, B1, C1, region=WEST)]
    assert not found(operations, both(A1, B1, C1), loss=GONE)
    assert Record("x", operations, both(A1, B1, C1), GONE).undone == {B}


def test_a_removal_that_another_region_was_seen_to_know_holds() -> None:
    operations = [*WRITTEN, shows(2.6, A1, B1, C1, region=WEST), REMOVED, shows(11, A1, C1, region=WEST)]
    assert (RESURRECTED, EAST, "11-1") in found(operations, both(A1, B1, C1), loss=GONE)
    assert not Record("x", operations, both(A1, B1, C1), GONE).undone


def test_a_group_gives_again_what_was_given_and_acknowledged_before_the_loss() -> None:
    operations = [*WRITTEN, gives(3, A1, B1, C1), at(4, ACKNOWLEDGE, ids=(A,), count=1), gives(20, A1, B1, C1)]
    assert not found(operations, {EAST: [A1, B1, C1]}, True, GONE)


def test_a_group_skips_nothing_after_the_loss() -> None:
    operations = [*WRITTEN, gives(3, A1, B1, C1), gives(20, A1, C1)]
    assert found(operations, {EAST: [A1, B1, C1]}, True, GONE) == {(SKIPPED, EAST, "11-1")}


def test_every_kind_has_a_broken_example() -> None:
    assert {expected[0] for _, _, _, expected in BROKEN.values()} == set(KINDS)


def test_an_anomaly_says_what_and_where() -> None:
    [said] = check(Record("x", WRITTEN, {WEST: [A1, C1]}), False)
    assert str(said) == "lost: x 11-1 in region 2: nothing removed it"


def test_other_keys_do_not_count() -> None:
    assert not check(Record("y", WRITTEN, both()), True)
