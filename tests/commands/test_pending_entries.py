"""XPENDING, XCLAIM and XAUTOCLAIM: replies, errors, deleted entries, and IDs that two origins gave."""

from __future__ import annotations

import pytest

from crdtstream.commands import pending_entries
from crdtstream.commands.pending_entries import PendingScan
from crdtstream.core.groups.pending import PendingEntries
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, format_id
from tests.commands.group_region import (
    EMPTY,
    NIL2,
    NILA,
    ONE,
    ZERO,
    array,
    bulk,
    bulks,
    entries,
    error,
    filled,
    group_of,
    grouped,
    integer,
    read,
    row,
    sync,
)
from tests.commands.harness import Region

INVALID_ID = error("ERR Invalid stream ID specified as stream command argument")
NOT_AN_INTEGER = error("ERR value is not an integer or out of range")
SYNTAX = error("ERR syntax error")
NO_COUNT = error("ERR COUNT must be > 0")


def no_group(key: str, group: str) -> bytes:
    return error(f"NOGROUP No such key '{key}' or consumer group '{group}'")


def delivered(*ids: str) -> Region:
    """Entries that consumer `c` holds for 100 ms."""
    region = grouped(*ids)
    assert region.line("XREADGROUP GROUP g c STREAMS s >") == read("s", *ids)
    region.replica.keyspace.now_ms += 100
    return region


def holders(region: Region) -> list[tuple[str, str, int]]:
    """Who holds which ID, and how often it was delivered."""
    rows = group_of(region).pending.rows(ID_MIN, ID_MAX, -1, None)
    return [(format_id(row.entry_id).decode(), row.consumer.decode(), row.deliveries) for row in rows]


# XPENDING


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XPENDING s nog", no_group("s", "nog")),
        ("XPENDING none g", no_group("none", "g")),
        ("XPENDING s g -", SYNTAX),
        ("XPENDING s g - +", SYNTAX),
        ("XPENDING s g - + x", NOT_AN_INTEGER),
        ("XPENDING s g x + 1", INVALID_ID),
        ("XPENDING s g - x 1", INVALID_ID),
        ("XPENDING s g - (0-0 1", error("ERR invalid end ID for the interval")),
        ("XPENDING s g IDLE 0", SYNTAX),
        ("XPENDING s g IDLE 0 - +", SYNTAX),
        ("XPENDING s g IDLE x - + 1", NOT_AN_INTEGER),
        ("XPENDING s g - + 1 c d e f", SYNTAX),
        ("XPENDING s g - + 0", EMPTY),
        ("XPENDING s g - + -1", EMPTY),
        ("XPENDING s g - + 9 nobody", EMPTY),
        ("XPENDING s g - + 1", array(row("1-0", "c", 100, 1))),
        ("XPENDING s g (1-0 + 9", array(row("2-0", "c", 100, 1), row("3-0", "d", 0, 1))),
        ("XPENDING s g 2 2 9", array(row("2-0", "c", 100, 1))),
        ("XPENDING s g - + 9 d", array(row("3-0", "d", 0, 1))),
        ("XPENDING s g - + 9 d extra", array(row("3-0", "d", 0, 1))),
        ("XPENDING s g IDLE 100 - + 9", array(row("1-0", "c", 100, 1), row("2-0", "c", 100, 1))),
        ("XPENDING s g IDLE 100 - + 1 c", array(row("1-0", "c", 100, 1))),
        ("XPENDING s g idle 101 - + 9", EMPTY),
        ("XPENDING s g IDLE -5 - + 1", array(row("1-0", "c", 100, 1))),
    ],
)
def test_xpending(line: str, expected: bytes) -> None:
    region = delivered("1-0", "2-0")
    region.line("XADD s 3-0 f v")
    region.line("XREADGROUP GROUP g d STREAMS s >")
    assert region.line(line) == expected


def test_the_summary_counts_by_consumer() -> None:
    region = delivered("1-0", "2-0")
    region.line("XADD s 3-0 f v")
    region.line("XREADGROUP GROUP g b STREAMS s >")
    region.line("XGROUP CREATECONSUMER s g a")
    counts = array(bulks("b", "1"), bulks("c", "2"))
    assert region.line("XPENDING s g") == array(integer(3), bulk("1-0"), bulk("3-0"), counts)


def test_the_summary_of_nothing() -> None:
    region = grouped("1-0")
    assert region.line("XPENDING s g") == array(ZERO, NIL2, NIL2, NILA)
    region.client.protocol = 3
    assert region.line("XPENDING s g") == array(ZERO, b"_\r\n", b"_\r\n", b"_\r\n")


# XCLAIM


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XCLAIM s nog d x 1-0", no_group("s", "nog")),
        ("XCLAIM none g d 0 1-0", no_group("none", "g")),
        ("XCLAIM s g d x 1-0", error("ERR Invalid min-idle-time argument for XCLAIM")),
        ("XCLAIM s g d 0", error("ERR wrong number of arguments for 'xclaim' command")),
        ("XCLAIM s g d 0 x", error("ERR Unrecognized XCLAIM option 'x'")),
        ("XCLAIM s g d 0 1-0 FORCE 2-0", error("ERR Unrecognized XCLAIM option '2-0'")),
        ("XCLAIM s g d 0 1-0 IDLE", error("ERR Unrecognized XCLAIM option 'IDLE'")),
        ("XCLAIM s g d 0 1-0 IDLE x", error("ERR Invalid IDLE option argument for XCLAIM")),
        ("XCLAIM s g d 0 1-0 TIME x", error("ERR Invalid TIME option argument for XCLAIM")),
        ("XCLAIM s g d 0 1-0 RETRYCOUNT x", error("ERR Invalid RETRYCOUNT option argument for XCLAIM")),
        ("XCLAIM s g d 0 1-0 LASTID x", INVALID_ID),
        ("XCLAIM s g d 0 9-0", EMPTY),
        ("XCLAIM s g d 0 9-0 FORCE", EMPTY),
        ("XCLAIM s g d 101 1-0", EMPTY),
        ("XCLAIM s g d 100 1-0", entries("1-0")),
        ("XCLAIM s g d -1 2-0 1-0", entries("2-0", "1-0")),
        ("XCLAIM s g d 0 1-0 2-0 justid", bulks("1-0", "2-0")),
        ("XCLAIM s g d 1 1-0 1-0", entries("1-0")),
    ],
)
def test_xclaim(line: str, expected: bytes) -> None:
    region = delivered("1-0", "2-0")
    assert region.line(line) == expected
    region.end_turn()
    region.check()


@pytest.mark.parametrize(
    ("options", "deliveries", "idle_ms"),
    [
        ("", 2, 0),
        ("JUSTID", 1, 0),
        ("RETRYCOUNT 7", 7, 0),
        ("RETRYCOUNT -7", 2, 0),
        ("JUSTID RETRYCOUNT 0", 0, 0),
        ("IDLE 30", 2, 30),
        ("IDLE -30", 2, 0),
        ("IDLE 9000000000000", 2, 0),
        ("TIME 1700000000040", 2, 60),
        ("TIME 9000000000000", 2, 0),
        ("TIME -1", 2, 0),
        ("IDLE 30 TIME 1700000000099", 2, 1),
    ],
)
def test_a_claim_sets_owner_time_and_count(options: str, deliveries: int, idle_ms: int) -> None:
    region = delivered("1-0")
    region.line(f"XCLAIM s g d 0 1-0 {options}")
    assert region.line("XPENDING s g - + 9") == array(row("1-0", "d", idle_ms, deliveries))


def test_a_time_to_come_is_taken_as_now() -> None:
    region = delivered("1-0")
    region.line("XCLAIM s g d 0 1-0 TIME 9000000000000")
    region.replica.keyspace.now_ms += 10
    assert region.line("XPENDING s g - + 9") == array(row("1-0", "d", 10, 2))


def test_an_id_claimed_twice_counts_twice() -> None:
    region = delivered("1-0")
    assert region.line("XCLAIM s g d 0 1-0 1-0") == entries("1-0", "1-0")
    assert holders(region) == [("1-0", "d", 3)]


def test_a_claim_drops_what_was_deleted() -> None:
    region = delivered("1-0", "2-0")
    region.line("XDEL s 1-0")
    assert region.line("XCLAIM s g d 1000 1-0 1-0 2-0") == EMPTY
    assert holders(region) == [("2-0", "c", 1)]


def test_claiming_makes_the_consumer_whatever_it_gets() -> None:
    region = delivered("1-0")
    region.line("XCLAIM s g d 0 9-0")
    region.line("XAUTOCLAIM s g e 1000 0")
    assert sorted(group_of(region).consumers) == [b"c", b"d", b"e"]
    assert group_of(region).consumers[b"d"].active_ms == -1
    region.line("XCLAIM s g d 0 1-0")
    assert group_of(region).consumers[b"d"].active_ms == region.context.now_ms


def test_force_makes_a_pending_entry_of_a_live_entry() -> None:
    region = grouped("1-0", "2-0", "3-0")
    assert region.line("XCLAIM s g d 0 2-0 FORCE") == entries("2-0")
    assert holders(region) == [("2-0", "d", 2)]
    assert region.line("XCLAIM s g d 0 3-0 FORCE JUSTID") == bulks("3-0")
    assert holders(region) == [("2-0", "d", 2), ("3-0", "d", 1)]


def test_force_above_the_cursor_raises_nothing() -> None:
    region = grouped("1-0", "2-0")
    region.line("XCLAIM s g d 0 2-0 FORCE")
    region.line("XACK s g 2-0")
    region.end_turn()
    assert group_of(region).frontier(1) == (0, 0)
    assert region.line("XREADGROUP GROUP g c STREAMS s >") == read("s", "1-0", "2-0")


def test_what_was_forced_goes_to_its_reader() -> None:
    region = grouped("1-0", "2-0")
    region.line("XCLAIM s g d 0 2-0 FORCE")
    region.line("XREADGROUP GROUP g c STREAMS s >")
    assert holders(region) == [("1-0", "c", 1), ("2-0", "c", 1)]


def test_losing_a_forced_entry_does_not_lose_its_delivery() -> None:
    region = grouped("1-0", "2-0")
    region.line("XCLAIM s g d 0 2-0 FORCE")
    assert region.line("XGROUP DELCONSUMER s g d") == ONE
    assert region.line("XREADGROUP GROUP g c STREAMS s >") == read("s", "1-0", "2-0")


def test_lastid_passes_over() -> None:
    region = grouped("1-0", "2-0", "3-0")
    region.line("XCLAIM s g d 0 9-0 LASTID 2-0")
    assert group_of(region).last_delivered() == (2, 0)
    region.replica.drain()
    region.line("XCLAIM s g d 0 9-0 LASTID 1-0")
    assert region.replica.drain().facts == []
    assert region.line("XREADGROUP GROUP g c STREAMS s >") == read("s", "3-0")


def test_lastid_passes_over_what_comes_behind_a_removed_end() -> None:
    """The group began at `$`, and nothing was delivered or lives: only its start says that the origin exists."""
    region = filled("6-1")
    region.line("XGROUP CREATE s g $")
    region.line("XDEL s 6-1")
    assert region.line("XCLAIM s g c 0 1-0 LASTID 7-2") == EMPTY
    region.line("XADD s 7-1 f v")
    assert region.line("XREADGROUP GROUP g c STREAMS s >") == NILA
    assert group_of(region).last_delivered() == (7, 2)
    region.line("XADD s 7-3 f v")
    assert region.line("XREADGROUP GROUP g c STREAMS s >") == read("s", "7-3")


def test_lastid_moves_this_region_only_and_is_a_floor_for_all_origins() -> None:
    """Like XGROUP SETID to an ID: what arrives late at or below it is not delivered here; the other region delivers
    all.
    """
    one, two = filled("6-1"), Region(2)
    one.line("XGROUP CREATE s g $")
    sync(one, two)
    one.line("XDEL s 6-1")
    sync(one, two)
    one.line("XCLAIM s g c 0 1-0 LASTID 7-2")
    two.line("XADD s 7-1 f v")
    two.line("XADD s 7-3 f v")
    sync(one, two)
    assert two.line("XREADGROUP GROUP g c STREAMS s >") == read("s", "7-1", "7-3")
    assert one.line("XREADGROUP GROUP g c STREAMS s >") == read("s", "7-3")


# XAUTOCLAIM


def claimed(cursor: str, chunk: bytes, *deleted: str) -> bytes:
    return array(bulk(cursor), chunk, bulks(*deleted))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XAUTOCLAIM s nog d 0 0", no_group("s", "nog")),
        ("XAUTOCLAIM none g d 0 0", no_group("none", "g")),
        ("XAUTOCLAIM none g d x 0", error("ERR Invalid min-idle-time argument for XAUTOCLAIM")),
        ("XAUTOCLAIM s g d 0 x", INVALID_ID),
        (f"XAUTOCLAIM s g d 0 ({format_id(ID_MAX).decode()}", error("ERR invalid start ID for the interval")),
        ("XAUTOCLAIM s g d 0 0 COUNT 0", NO_COUNT),
        ("XAUTOCLAIM s g d 0 0 COUNT -1", NO_COUNT),
        ("XAUTOCLAIM s g d 0 0 COUNT x", NO_COUNT),
        ("XAUTOCLAIM s g d 0 0 COUNT 9223372036854775807", NO_COUNT),
        ("XAUTOCLAIM s g d 0 0 COUNT", SYNTAX),
        ("XAUTOCLAIM s g d 0 0 FOO", SYNTAX),
        ("XAUTOCLAIM s g d", error("ERR wrong number of arguments for 'xautoclaim' command")),
        ("XAUTOCLAIM s g d 0 -", claimed("0-0", entries("1-0", "2-0", "3-0"))),
        ("XAUTOCLAIM s g d 100 0 JUSTID", claimed("0-0", bulks("1-0", "2-0", "3-0"))),
        ("XAUTOCLAIM s g d -1 2", claimed("0-0", entries("2-0", "3-0"))),
        ("XAUTOCLAIM s g d 0 (2-0 count 1", claimed("0-0", entries("3-0"))),
        ("XAUTOCLAIM s g d 0 0 COUNT 2", claimed("3-0", entries("1-0", "2-0"))),
        ("XAUTOCLAIM s g d 0 0 COUNT 3", claimed("0-0", entries("1-0", "2-0", "3-0"))),
        ("XAUTOCLAIM s g d 101 0", claimed("0-0", EMPTY)),
        ("XAUTOCLAIM s g d 0 4-0", claimed("0-0", EMPTY)),
    ],
)
def test_xautoclaim(line: str, expected: bytes) -> None:
    region = delivered("1-0", "2-0", "3-0")
    assert region.line(line) == expected
    region.end_turn()
    region.check()


def test_an_autoclaim_counts_on_unless_it_wants_ids_only() -> None:
    region = delivered("1-0")
    region.line("XAUTOCLAIM s g d 0 0")
    assert holders(region) == [("1-0", "d", 2)]
    region.line("XAUTOCLAIM s g e 0 0 JUSTID")
    assert holders(region) == [("1-0", "e", 2)]


def test_deleted_entries_count_and_are_told() -> None:
    region = delivered("1-0", "2-0", "3-0")
    region.line("XDEL s 1-0")
    assert region.line("XAUTOCLAIM s g d 1000 0 COUNT 1") == claimed("2-0", EMPTY, "1-0")
    assert holders(region) == [("2-0", "c", 1), ("3-0", "c", 1)]
    region.line("XDEL s 3-0")
    assert region.line("XAUTOCLAIM s g d 0 0") == claimed("0-0", entries("2-0"), "3-0")


def test_an_autoclaim_looks_at_ten_times_its_count() -> None:
    ids = [f"{ms}-0" for ms in range(1, 31)]
    region = delivered(*ids)
    assert region.line("XAUTOCLAIM s g d 1000 0 COUNT 2") == claimed("21-0", EMPTY)


# IDs that two origins gave


def duplicated() -> Region:
    """1-0 is there twice, from two origins, and pending in both; 2-0 is there once."""
    west, east = grouped("1-0", "2-0"), filled("1-0", origin=2)
    sync(west, east)
    assert west.line("XREADGROUP GROUP g c STREAMS s >") == read("s", "1-0", "1-0", "2-0")
    return west


def test_a_claim_takes_both() -> None:
    region = duplicated()
    assert region.line("XCLAIM s g d 0 1-0") == entries("1-0", "1-0")
    assert holders(region) == [("1-0", "d", 2), ("1-0", "d", 2), ("2-0", "c", 1)]


def test_force_takes_both() -> None:
    west, east = grouped("1-0"), filled("1-0", origin=2)
    sync(west, east)
    assert west.line("XCLAIM s g d 0 1-0 FORCE JUSTID") == bulks("1-0", "1-0")
    assert group_of(west).pending.origins_of((1, 0)) == [1, 2]


def test_an_autoclaim_moves_past_both() -> None:
    region = duplicated()
    assert region.line("XAUTOCLAIM s g d 0 0 COUNT 1") == claimed("2-0", entries("1-0", "1-0"))
    assert region.line("XAUTOCLAIM s g d 0 2-0 COUNT 1") == claimed("0-0", entries("2-0"))


def test_one_that_lives_hides_that_the_other_was_deleted() -> None:
    region = duplicated()
    tree = region.replica.keyspace.databases[0][b"s"].trees[2]
    counter = tree.counter_of((1, 0))
    region.replica.remove_entries((0, b"s"), {2: [(counter, counter)]}, False, (1, 0))
    assert region.line("XAUTOCLAIM s g d 0 0 COUNT 1") == claimed("2-0", entries("1-0"))
    assert group_of(region).pending.origins_of((1, 0)) == [1]


# The walk


def test_a_walk_sees_every_id_once_whatever_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_entries, "PAGE_ROWS", 2)
    pending = PendingEntries()
    for origin, numbers in ((1, [1, 2, 3, 5]), (2, [2, 3, 4, 5]), (3, [2, 5, 6])):
        pending.add(origin, [(number, 0) for number in numbers], b"c", 0, 1)
    scan = PendingScan(pending, (2, 0), (6, 0), None)
    walked: list[tuple[int, list[int]]] = []
    while rows := scan.next_rows():
        walked.append((rows[0].entry_id[0], [row.origin for row in rows]))
    assert walked == [(2, [1, 2, 3]), (3, [1, 2]), (4, [2]), (5, [1, 2, 3]), (6, [3])]
    assert scan.next_rows() == []
