"""Streams and groups side by side: what differs, and what is held."""

from __future__ import annotations

from crdtstream.dashboard.inspection import (
    Entry,
    GroupPart,
    GroupSide,
    OriginPart,
    PendingEntry,
    StreamSide,
    by_age,
    by_deliveries,
    comparable,
    covers,
    differing_origins,
    entry_differences,
    group_differences,
    group_side,
    holdings,
    most_delivered,
    run_differences,
    stream_side,
)
from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.rows import ConsumerRow, GroupRow


def entry(entry_id: str, origin: str = "1.a") -> Entry:
    return Entry(entry_id, (b"f", b"v"), origin)


def stream(region: str, parts: tuple[OriginPart, ...] = (), *groups: bytes) -> StreamSide:
    rows = tuple(GroupRow(name, 0, 0, "0-0", None, None) for name in groups)
    return StreamSide(region, None, "", parts, rows)


def group(region: str, *acked: tuple[str, str], pending: tuple[PendingEntry, ...] = ()) -> GroupSide:
    part = GroupPart("1.a", "0-0", "9-0", "0-0", 3, len(pending), len(acked), acked)
    return GroupSide(region, 3, (), (part,), (ConsumerRow(b"c", len(pending), 5, 5),), pending)


def test_entries_are_compared_by_id_and_origin() -> None:
    pages = {"east": [entry("2-1"), entry("1-1")], "west": [entry("2-1", "2.b"), entry("1-1")]}
    found = entry_differences(pages)
    assert [(each.name, each.origin, each.has, each.lacks) for each in found] == [
        ("2-1", "1.a", ("east",), ("west",)),
        ("2-1", "2.b", ("west",), ("east",)),
    ]
    assert entry_differences({"east": pages["east"], "west": pages["east"]}) == []
    assert entry_differences({}) == []


def test_below_a_full_page_nothing_is_compared() -> None:
    pages = {"east": [entry(f"{ms}-1") for ms in (9, 8, 7)], "west": [entry(f"{ms}-1") for ms in (9, 3)]}
    found = comparable(pages, 3)
    assert [each.entry_id for each in found["west"]] == ["9-1"]
    assert [each.name for each in entry_differences(found)] == ["7-1", "8-1"]
    assert comparable(pages, 10) == pages


def test_ids_are_ordered_as_numbers() -> None:
    pages = {"east": [entry("10-1"), entry("9-1")], "west": []}
    assert [each.name for each in entry_differences(pages)] == ["9-1", "10-1"]


def test_groups_that_one_region_lacks() -> None:
    (found,) = group_differences([stream("east", (), b"g", b"h"), stream("west", (), b"g")])
    assert (found.kind, found.name, found.has, found.lacks) == ("group", "h", ("east",), ("west",))


def test_a_run_inside_a_longer_one_does_not_differ() -> None:
    assert covers((("0-0", "9-1"),), ("3-0", "5-0")) and not covers((("4-0", "9-1"),), ("3-0", "5-0"))
    assert run_differences("g", [group("east", ("0-0", "5-1")), group("west", ("0-0", "5-1"))]) == []
    (found,) = run_differences("g", [group("east", ("0-0", "9-1")), group("west", ("0-0", "5-1"))])
    assert (found.name, found.has, found.lacks) == ("g: 0-0 to 9-1", ("east",), ("west",))


def test_origins_of_which_regions_hold_different_parts() -> None:
    one, other = OriginPart("1.a", 3, "1-1", "3-1", 9), OriginPart("2.b", 1, "1-2", "1-2", 3)
    assert differing_origins([stream("east", (one, other)), stream("west", (one,))]) == ["2.b"]


def test_a_region_without_the_stream_is_a_side_with_the_error() -> None:
    side = stream_side("east", [RegionAnswer("east", error="no such key")] * 4)
    assert (side.error, side.row, side.byte_count) == ("no such key", None, 0)
    assert group_differences([side, stream("west", (), b"g")]) == []


def test_a_group_side_is_read() -> None:
    part = [b"origin", b"1.a", b"start", b"0-0", b"delivered", b"2-1", b"frontier", b"1-1", b"lag", 4, b"pending", 1]
    part += [b"runs", 1, b"acked", [[b"0-0", b"1-1"]]]
    told = [b"lag", 4, b"next", [[b"3-1", [b"f", b"v"], b"1.a"]], b"origins", [part]]
    consumers = [[b"name", b"c", b"pending", 1, b"idle", 7, b"inactive", 7]]
    side = group_side("east", [RegionAnswer("", value) for value in (told, consumers, [[b"2-1", b"c", 70_000, 3]])])
    assert (side.lag, side.coming, side.pending_count) == (4, (entry("3-1"),), 1)
    assert side.parts[0].acked == (("0-0", "1-1"),)
    assert [(each.consumer, each.oldest_ms, each.deliveries_max) for each in holdings(side)] == [(b"c", 70_000, 3)]


def test_pending_entries_by_age_and_deliveries() -> None:
    pending = tuple(
        PendingEntry(f"{at}-1", b"c", ms, times) for at, (ms, times) in enumerate(((5, 1), (90_000, 4), (9**9, 2)))
    )
    assert list(by_age(pending).values()) == [1, 1, 0, 1]
    assert by_deliveries(pending) == {1: 1, 2: 1, 4: 1}
    assert [each.deliveries for each in most_delivered(pending, 5)] == [4, 2]
