"""XDELEX, XACKDEL and the references of a trim: replies, what stays pending, and what another region makes of it."""

from __future__ import annotations

import pytest

from tests.commands.group_region import EMPTY, OK, ONE, ZERO, array, bulk, entries, filled, grouped, integer, row, sync
from tests.commands.harness import Region


def fates(*numbers: int) -> bytes:
    return array(*[integer(number) for number in numbers])


def read_all(region: Region, group: str = "g", consumer: str = "a") -> None:
    region.line(f"XREADGROUP GROUP {group} {consumer} STREAMS s >")


def pending(region: Region, group: str = "g") -> bytes:
    return answer(region, f"XPENDING s {group} - + 100")


def answer(region: Region, line: str) -> bytes:
    reply = region.line(line)
    assert reply is not None
    return reply


@pytest.fixture
def region() -> Region:
    """`g` has read both entries, `h` none."""
    made = grouped("1-0", "2-0")
    assert made.line("XGROUP CREATE s h 0") == OK
    read_all(made)
    return made


def two_regions(*ids: str) -> tuple[Region, Region]:
    one, two = grouped(*ids), Region(2)
    sync(one, two)
    return one, two


# XDELEX


def test_xdelex_keeps_references_unless_told(region: Region) -> None:
    assert region.line("XDELEX s IDS 3 1-0 1-0 9-0") == fates(1, -1, -1)
    assert region.line("XDELEX s KEEPREF IDS 1 2-0") == fates(1)
    assert pending(region) == array(row("1-0", "a", 0, 1), row("2-0", "a", 0, 1))


def test_xdelex_drops_references_of_every_group(region: Region) -> None:
    read_all(region, "h")
    assert region.line("XDELEX s IDS 1 1-0 DELREF") == fates(1)
    for group in ("g", "h"):
        assert pending(region, group) == array(row("2-0", "a", 0, 1))


def test_xdelex_drops_dangling_references(region: Region) -> None:
    assert region.line("XDEL s 1-0") == ONE
    assert region.line("XDELEX s DELREF IDS 1 1-0") == fates(-1)
    assert pending(region) == array(row("2-0", "a", 0, 1))


def test_xdelex_acked_asks_every_group(region: Region) -> None:
    assert region.line("XDELEX s ACKED IDS 2 1-0 9-0") == fates(2, -1)
    region.line("XACK s g 1-0 2-0")
    assert region.line("XDELEX s ACKED IDS 2 1-0 2-0") == fates(2, 2)
    region.line("XREADGROUP GROUP h a COUNT 1 NOACK STREAMS s >")
    assert region.line("XDELEX s ACKED IDS 2 1-0 2-0") == fates(1, 2)


def test_without_groups_nothing_is_needed() -> None:
    assert filled("1-0").line("XDELEX s ACKED IDS 1 1-0") == fates(1)


def test_what_a_group_skips_is_not_needed_where_no_other_region_is() -> None:
    region = grouped("1-0", "2-0")
    region.line("XGROUP SETID s g 1-0")
    assert region.line("XDELEX s ACKED IDS 2 1-0 2-0") == fates(1, 2)


def test_xdelex_counts_as_xdel() -> None:
    region = filled("1-0", "2-0", "3-0")
    region.line("XDELEX s IDS 1 2-0")
    assert b"max-deleted-entry-id\r\n$3\r\n2-0" in answer(region, "XINFO STREAM s")


SYNTAX = b"-ERR syntax error\r\n"
NUMIDS = b"-ERR The `numids` parameter must match the number of arguments\r\n"
NUMBER = b"-ERR Number of IDs must be a positive integer\r\n"


@pytest.mark.parametrize(
    ("options", "reply"),
    [
        ("IDS 2 1-0", NUMIDS),
        ("IDS 0 1-0", NUMBER),
        ("IDS -1 1-0", NUMBER),
        ("IDS x 1-0", NUMBER),
        ("IDS 1 x", b"-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("FOO IDS 1 1-0", SYNTAX),
        ("KEEPREF ACKED IDS 1 1-0", SYNTAX),
        ("IDS 1 1-0 2-0", SYNTAX),
        ("KEEPREF 1-0 IDS", SYNTAX),
    ],
)
def test_named_ids_refused(options: str, reply: bytes) -> None:
    region = grouped("1-0")
    assert region.line(f"XDELEX s {options}") == reply
    assert region.line(f"XACKDEL s g {options}") == reply


# XACKDEL


def test_xackdel(region: Region) -> None:
    assert region.line("XACKDEL s g IDS 3 1-0 1-0 9-0") == fates(1, -1, -1)
    assert pending(region) == array(row("2-0", "a", 0, 1))
    assert region.line("XRANGE s - +") == entries("2-0")
    assert region.line("XACKDEL s h IDS 1 2-0") == fates(-1)
    assert region.line("XACKDEL s nog IDS 1 2-0") == fates(-1)
    assert region.line("XACKDEL nokey g IDS 2 2-0 1-0") == fates(-1, -1)


def test_xackdel_acked_acknowledges_anyway(region: Region) -> None:
    assert region.line("XACKDEL s g ACKED IDS 1 1-0") == fates(2)
    assert pending(region) == array(row("2-0", "a", 0, 1))
    region.line("XGROUP DESTROY s h")
    assert region.line("XACKDEL s g ACKED IDS 1 2-0") == fates(1)


def test_xackdel_drops_references(region: Region) -> None:
    read_all(region, "h")
    assert region.line("XACKDEL s g DELREF IDS 1 1-0") == fates(1)
    assert pending(region, "h") == array(row("2-0", "a", 0, 1))


def test_xackdel_of_an_entry_that_is_gone(region: Region) -> None:
    region.line("XDEL s 1-0")
    assert region.line("XACKDEL s g IDS 1 1-0") == fates(1)


# Trims


def test_a_trim_drops_references(region: Region) -> None:
    assert region.line("XTRIM s MAXLEN 1 DELREF") == ONE
    assert pending(region) == array(row("2-0", "a", 0, 1))
    assert region.line("XADD s DELREF MAXLEN 1 3-0 f v") == bulk("3-0")
    assert pending(region) == EMPTY


def test_a_trim_of_what_is_acknowledged_passes_over_the_rest() -> None:
    region = grouped("1-0", "2-0", "3-0", "4-0", "5-0")
    region.line("XREADGROUP GROUP g a COUNT 4 STREAMS s >")
    region.line("XACK s g 2-0 4-0")
    assert region.line("XTRIM s MAXLEN 4 ACKED") == ONE
    assert region.line("XRANGE s - +") == entries("1-0", "3-0", "4-0", "5-0")
    assert region.line("XTRIM s MINID 4 ACKED") == ZERO
    assert region.line("XTRIM s MAXLEN 0 ACKED") == ONE
    assert region.line("XRANGE s - +") == entries("1-0", "3-0", "5-0")


def test_a_trim_of_the_oldest_leaves_no_hole() -> None:
    region = grouped("1-0", "2-0")
    region.line("XREADGROUP GROUP g a NOACK STREAMS s >")
    assert region.line("XADD s ACKED MAXLEN 1 3-0 f v") == bulk("3-0")
    assert region.line("XRANGE s - +") == entries("3-0")
    assert b"max-deleted-entry-id\r\n$3\r\n0-0" in answer(region, "XINFO STREAM s")


# Regions


def test_references_are_dropped_in_every_region() -> None:
    one, two = two_regions("1-0", "2-0", "3-0")
    read_all(one)
    read_all(two, consumer="b")
    two.line("XDEL s 1-0")
    assert one.line("XDELEX s DELREF IDS 2 1-0 2-0") == fates(1, 1)
    sync(one, two)
    assert pending(one) == array(row("3-0", "a", 0, 1))
    assert pending(two) == array(row("3-0", "b", 0, 1))


def test_what_another_region_read_is_needed_until_its_run_arrives() -> None:
    one, two = two_regions("1-0", "2-0")
    read_all(two)
    two.line("XACK s g 1-0")
    assert one.line("XDELEX s ACKED IDS 1 1-0") == fates(2)
    sync(one, two)
    assert one.line("XTRIM s MAXLEN 0 ACKED") == ONE
    assert one.line("XRANGE s - +") == entries("2-0")


def test_what_only_this_region_skips_others_still_need() -> None:
    one, two = two_regions("1-0")
    two.line("XADD s 2-0 f v")
    sync(one, two)
    one.line("XGROUP SETID s g $")
    assert one.line("XDELEX s ACKED IDS 1 1-0") == fates(2)
    assert one.line("XTRIM s MAXLEN 0 ACKED") == ZERO
    read_all(two)
    two.line("XACK s g 1-0 2-0")
    sync(one, two)
    assert one.line("XTRIM s MAXLEN 1 ACKED") == ONE
    assert one.line("XDELEX s ACKED IDS 1 2-0") == fates(1)


def test_an_acked_trim_in_the_middle_is_no_removal_of_an_entry() -> None:
    """As in Redis, max-deleted-entry-id stays, and so the lag is known."""
    region = grouped("1-0", "2-0", "3-0")
    region.line("XREADGROUP GROUP g c COUNT 2 STREAMS s >")
    region.line("XACK s g 2-0")
    assert region.line("XTRIM s MAXLEN 1 ACKED") == ONE
    info = region.line("XINFO STREAM s") or b""
    assert bulk("max-deleted-entry-id") + bulk("0-0") in info
    assert bulk("lag") + integer(1) in (region.line("XINFO GROUPS s") or b"")
