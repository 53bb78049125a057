"""Groups that nobody reads."""

from __future__ import annotations

from crdtstream.observing.lagging import LaggingGroup
from crdtstream.observing.unread import SHOWN_MAX, UNREAD_LAG, UNREAD_S, UnreadGroups, UnreadMarks, unread_in

LATE = UNREAD_LAG + 1


def group(name: bytes, lag: int = LATE, delivered: str = "5-1", region: str = "east") -> LaggingGroup:
    return LaggingGroup(region, b"orders", name, lag, 0, "", delivered)


def marks_of(*names: bytes, region: str = "east") -> UnreadMarks:
    """Marks with these groups, which nobody reads."""
    marks = UnreadMarks(region)
    for now_s in (0.0, UNREAD_S):
        for name in names:
            marks.record(now_s, group(name, region=region))
    return marks


def test_a_group_that_stands_still_for_long() -> None:
    marks = UnreadMarks("east")
    for now_s, lag, delivered, told in (
        (0.0, LATE, "5-1", 0),
        (UNREAD_S - 1, LATE + 500, "5-1", 0),
        (UNREAD_S, LATE + 500, "5-1", 1),
        (UNREAD_S + 1, LATE + 400, "6-1", 0),
        (3 * UNREAD_S, UNREAD_LAG, "6-1", 0),
        (5 * UNREAD_S, LATE, "6-1", 0),
    ):
        marks.record(now_s, group(b"g", lag, delivered))
        assert len(marks.worst()) == len(marks.names()) == told, now_s


def test_only_groups_that_lag_much_are_looked_at() -> None:
    marks = UnreadMarks("east")
    wanted = [marks.wants((b"orders", b"g"), lag) for lag in (0, UNREAD_LAG, LATE, None)]
    assert wanted == [False, False, True, True]
    assert not UnreadMarks("east", 0).wants((b"orders", b"g"), LATE)


def test_there_is_a_bound_and_it_is_no_secret() -> None:
    marks = UnreadMarks("east", 2)
    for number in range(3):
        found = group(b"%d" % number)
        assert marks.wants(found.name, found.lag) == (number < 2)
        marks.record(0.0, found)
    marks.end_walk(True)
    assert marks.is_crowded and unread_in([marks]).crowded == ["east"]
    marks.record(1.0, group(b"0", 0))
    assert marks.wants((b"orders", b"2"), LATE)
    marks.end_walk(True)
    assert not marks.is_crowded


def test_a_group_that_a_whole_walk_has_not_found_is_forgotten() -> None:
    marks = marks_of(b"stays", b"goes")
    marks.end_walk(True)
    marks.record(UNREAD_S, group(b"stays"))
    marks.end_walk(False)
    assert len(marks.names()) == 2, "part of the streams did not answer"
    marks.record(UNREAD_S, group(b"stays"))
    marks.end_walk(True)
    assert [each.group for each in marks.worst()] == [b"stays"]


def test_a_group_that_is_destroyed_is_forgotten_at_once() -> None:
    marks = marks_of(b"g")
    marks.forget((b"orders", b"g"))
    marks.forget((b"orders", b"other"))
    assert not marks.worst() and not marks.names()


def test_the_groups_of_several_regions_stand_once() -> None:
    found = unread_in([marks_of(b"a", b"b"), marks_of(b"b", region="west")])
    assert [(each.group, each.region, each.in_others) for each in found.shown] == [
        (b"a", "east", False),
        (b"b", "east", True),
    ]
    assert (found.number, found.crowded) == (2, [])
    assert unread_in([]) == UnreadGroups([], 0, [])


def test_few_are_shown_and_all_are_counted() -> None:
    found = unread_in([marks_of(*[b"%02d" % number for number in range(50)])])
    assert (len(found.shown), found.number) == (SHOWN_MAX, 50)
