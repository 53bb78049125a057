"""Answers side by side: what counts as different, and what a script gets as exit code."""

from __future__ import annotations

from crdtstream.admin.comparison import AGREE, DIFFER, UNREACHABLE, compare, fields_of, joined, named_rows
from crdtstream.observing.asking import RegionAnswer


def answers(*values: object) -> list[RegionAnswer]:
    return [RegionAnswer(f"r{number}", value) for number, value in enumerate(values, 1)]


def test_a_region_without_a_link_is_named_by_who_knows_it() -> None:
    def row(region: int, name: bytes) -> list[object]:
        return [b"region", region, b"name", name, b"link", b"open"]

    answers = [
        RegionAnswer("east", [row(1, b"east"), row(2, b""), row(9, b"")]),
        RegionAnswer("north", [row(1, b"east"), row(2, b"west")]),
        RegionAnswer("west", error="refused", unreachable=True),
    ]
    named = named_rows(answers)
    assert [row[1] for row in named[0].value] == [b"east", b"west", b"region 9"]
    assert [row[1] for row in named[1].value] == [b"east", b"west"]
    assert named[2] is answers[2]
    assert named[0].value[1] == [b"name", b"west", b"region", 2, b"link", b"open"]


def test_an_address_where_nobody_answered_is_its_name() -> None:
    row = [b"region", 0, b"name", b"", b"address", b"west:1"]
    (named,) = named_rows([RegionAnswer("east", [row])])
    assert named.value[0][:2] == [b"name", b"west:1"]


def test_equal_values_agree() -> None:
    comparison = compare(answers(3, 3, 3))
    assert comparison.code == AGREE
    assert [(row.field, row.cells, row.differs) for row in comparison.rows] == [("value", [3, 3, 3], False)]


def test_a_different_value_is_marked() -> None:
    comparison = compare(answers(3, 4))
    assert comparison.code == DIFFER
    assert comparison.rows[0].differs


def test_entries_are_rows_by_id() -> None:
    comparison = compare(answers([[b"1-1", [b"f", b"v"]], [b"2-1", [b"f", b"w"]]], [[b"1-1", [b"f", b"v"]]]))
    assert [(row.field, row.cells, row.differs) for row in comparison.rows] == [
        ("1-1", ["f v", "f v"], False),
        ("2-1", ["f w", "-"], True),
    ]


def test_entries_with_one_id_do_not_hide_each_other() -> None:
    assert fields_of([[b"1-1", [b"f", b"v"]], [b"1-1", [b"f", b"w"]]]) == {"1-1": "f v", "1-1'": "f w"}


def test_what_is_local_is_not_compared() -> None:
    one = [[b"name", b"g", b"consumers", 1, b"pending", 2]]
    other = [[b"name", b"g", b"consumers", 0, b"pending", 0]]
    comparison = compare(answers(one, other))
    assert comparison.code == AGREE
    assert [row.field for row in comparison.rows] == ["g consumers", "g pending"]


def test_a_group_that_one_region_lacks_differs() -> None:
    comparison = compare(answers([[b"name", b"g", b"flavour", 1]], []))
    assert comparison.code == DIFFER
    assert comparison.rows[0].cells == [1, "-"]


def test_an_unreachable_region_is_said_and_not_compared() -> None:
    comparison = compare([RegionAnswer("r1", 3), RegionAnswer("r2", error="refused", unreachable=True)])
    assert comparison.code == UNREACHABLE
    assert [(row.field, row.cells, row.differs) for row in comparison.rows] == [
        ("error", ["", "refused"], False),
        ("value", [3, "-"], False),
    ]


def test_an_error_reply_of_one_region_differs() -> None:
    comparison = compare([RegionAnswer("r1", [b"length", 1]), RegionAnswer("r2", error="no such key")])
    assert comparison.code == DIFFER
    assert comparison.rows[0].differs


def test_rows_about_origins_keep_the_name_of_the_region() -> None:
    row = [b"origin", b"2.a", b"region", 2, b"name", b"west", b"state", b"member"]
    (named,) = named_rows([RegionAnswer("east", [row])], b"origin")
    assert fields_of(named.value) == {"2.a region": 2, "2.a region-name": "west", "2.a state": "member"}


def test_the_comparisons_of_shards_are_joined() -> None:
    one = compare([RegionAnswer("east", 1), RegionAnswer("west", 2)])
    two = compare([RegionAnswer("west", 3)])
    found = joined([(0, one), (1, two)])
    assert (found.regions, found.code) == (["east", "west"], DIFFER)
    assert [(row.shard, row.field, row.cells, row.differs) for row in found.rows] == [
        (0, "value", [1, 2], True),
        (1, "value", ["", 3], False),
    ]
    assert joined([(None, one)]) == one
