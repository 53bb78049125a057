"""XGROUP, XREADGROUP and XACK: replies, errors, blocked readers, and what other regions do to them."""

from __future__ import annotations

import pytest

from crdtstream.commands.groups import BUSY, NEGATIVE_ENTRIES_READ, NO_KEY
from crdtstream.core.effects import Position
from tests.commands.group_region import (
    EMPTY,
    NILA,
    OK,
    ONE,
    ZERO,
    array,
    bulk,
    entries,
    entry,
    error,
    filled,
    group_of,
    grouped,
    integer,
    read,
    sync,
)
from tests.commands.harness import Region

INVALID_ID = error("ERR Invalid stream ID specified as stream command argument")
NO_SUCH_GROUP = error("NOGROUP No such consumer group 'nog' for key name 's'")
READ_NO_GROUP = error("NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option")
READ_NEW = "XREADGROUP GROUP g c STREAMS s >"
BLOCK_NEW = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"


def misused(subcommand: str) -> bytes:
    return error(f"ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try XGROUP HELP.")


# XGROUP


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XGROUP CREATE s h 0", OK),
        ("XGROUP CREATE s h $", OK),
        ("XGROUP CREATE s h 7", OK),
        ("XGROUP create s h 0 mkstream entriesread 3", OK),
        ("XGROUP CREATE s g 0", error(BUSY)),
        ("XGROUP CREATE s g x", INVALID_ID),
        ("XGROUP CREATE s h -", INVALID_ID),
        ("XGROUP CREATE none h 0", error(NO_KEY)),
        ("XGROUP CREATE none h x MKSTREAM", INVALID_ID),
        ("XGROUP CREATE none h $ MKSTREAM", OK),
        ("XGROUP CREATE s h 0 FOO", misused("CREATE")),
        ("XGROUP CREATE s h 0 ENTRIESREAD", misused("CREATE")),
        ("XGROUP CREATE s h 0 MKSTREAM MKSTREAM ENTRIESREAD 1", misused("CREATE")),
        ("XGROUP CREATE s h 0 ENTRIESREAD -1", OK),
        ("XGROUP CREATE s h 0 ENTRIESREAD -2", error(NEGATIVE_ENTRIES_READ)),
        ("XGROUP CREATE s h 0 ENTRIESREAD x", error("ERR value is not an integer or out of range")),
        ("XGROUP CREATE s h", error("ERR wrong number of arguments for 'xgroup|create' command")),
        ("XGROUP SETID s g 1", OK),
        ("XGROUP SETID s g -", OK),
        ("XGROUP SETID s g +", OK),
        ("XGROUP SETID s g $ ENTRIESREAD 2", OK),
        ("XGROUP SETID s g x", INVALID_ID),
        ("XGROUP SETID s g 0 MKSTREAM", misused("SETID")),
        ("XGROUP SETID s g 0 ENTRIESREAD 1 ENTRIESREAD 1", misused("SETID")),
        ("XGROUP SETID s nog 0", NO_SUCH_GROUP),
        ("XGROUP SETID none g 0", error(NO_KEY)),
        ("XGROUP DESTROY s g", ONE),
        ("XGROUP DESTROY s nog", ZERO),
        ("XGROUP DESTROY none g", error(NO_KEY)),
        ("XGROUP CREATECONSUMER s g c", ONE),
        ("XGROUP CREATECONSUMER s nog c", NO_SUCH_GROUP),
        ("XGROUP CREATECONSUMER none g c", error(NO_KEY)),
        ("XGROUP DELCONSUMER s g c", ZERO),
        ("XGROUP DELCONSUMER s nog c", NO_SUCH_GROUP),
        ("XGROUP DELCONSUMER none g c", error(NO_KEY)),
        ("XGROUP FOO s", error("ERR unknown subcommand 'FOO'. Try XGROUP HELP.")),
        ("XGROUP", error("ERR wrong number of arguments for 'xgroup' command")),
    ],
)
def test_xgroup(line: str, expected: bytes) -> None:
    region = grouped("1-0", "2-0")
    assert region.line(line) == expected
    region.end_turn()
    region.check()


def test_help_is_lines() -> None:
    reply = Region().line("XGROUP HELP")
    assert reply is not None and reply.startswith(b"*17\r\n+XGROUP <subcommand>")


def test_a_refused_create_makes_no_stream() -> None:
    region = Region()
    region.line("XGROUP CREATE s g x MKSTREAM")
    assert region.line("EXISTS s") == ZERO


def test_mkstream_makes_an_empty_stream() -> None:
    region = Region()
    assert region.line("XGROUP CREATE s g $ MKSTREAM") == OK
    assert region.line("EXISTS s") == ONE
    assert region.line("XLEN s") == ZERO


def test_create_at_the_end_wants_only_what_comes() -> None:
    region = filled("1-0", "2-0")
    region.line("XGROUP CREATE s g $")
    assert region.line(READ_NEW) == NILA
    region.line("XADD s 3-0 f v")
    assert region.line(READ_NEW) == read("s", "3-0")


def test_the_end_is_what_xsetid_made_it() -> None:
    region = filled("1-0")
    region.line("XSETID s 9-0")
    region.line("XGROUP CREATE s g $")
    assert group_of(region).last_delivered() == (9, 0)
    region.line("XGROUP SETID s g 0")
    region.line("XGROUP SETID s g $")
    assert group_of(region).last_delivered() == (9, 0)


def test_the_end_names_every_origin_that_was_seen() -> None:
    west, east = filled("1-0"), filled("5-0", origin=2)
    sync(west, east)
    west.line("XGROUP CREATE s g $")
    assert group_of(west).start() == Position((0, 0), {1: (5, 0), 2: (5, 0)})


def test_an_id_is_a_floor_for_origins_not_yet_seen() -> None:
    region = filled("1-0")
    region.line("XGROUP CREATE s g 3")
    assert group_of(region).start() == Position((3, 0))


def test_nobody_has_read_more_than_was_added() -> None:
    region = filled("1-0", "2-0")
    region.line("XGROUP CREATE s g 2 ENTRIESREAD 7")
    assert group_of(region).entries_read == 2
    region.line("XGROUP SETID s g 0 ENTRIESREAD 9")
    assert group_of(region).entries_read == 2
    region.line("XGROUP CREATE t g 0 MKSTREAM ENTRIESREAD 7")
    assert (region.line("XINFO GROUPS t") or b"").endswith(b"entries-read\r\n:0\r\n$3\r\nlag\r\n:0\r\n")


def test_createconsumer_tells_whether_it_is_new() -> None:
    region = grouped()
    assert region.line("XGROUP CREATECONSUMER s g c") == ONE
    assert region.line("XGROUP CREATECONSUMER s g c") == ZERO
    consumer = group_of(region).consumers[b"c"]
    assert (consumer.seen_ms, consumer.active_ms) == (region.context.now_ms, -1)


def test_delconsumer_tells_what_it_loses() -> None:
    region = grouped("1-0", "2-0", "3-0")
    region.line("XREADGROUP GROUP g c COUNT 2 STREAMS s >")
    assert region.line("XGROUP DELCONSUMER s g c") == integer(2)
    assert b"c" not in group_of(region).consumers
    assert region.line("XREADGROUP GROUP g d STREAMS s >") == read("s", "3-0")


def test_setid_back_delivers_again() -> None:
    region = grouped("1-0", "2-0")
    region.line(READ_NEW)
    region.line("XACK s g 1-0 2-0")
    region.end_turn()
    region.line("XGROUP SETID s g 1-0")
    assert region.line("XREADGROUP GROUP g d STREAMS s >") == read("s", "2-0")


def test_setid_forward_passes_over() -> None:
    region = grouped("1-0", "2-0", "3-0")
    region.line("XGROUP SETID s g 2-0")
    assert region.line(READ_NEW) == read("s", "3-0")


# XREADGROUP


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XREADGROUP GROUP nog c STREAMS s >", READ_NO_GROUP.replace(b"'g'", b"'nog'")),
        ("XREADGROUP GROUP g c STREAMS none >", READ_NO_GROUP.replace(b"'s'", b"'none'")),
        ("XREADGROUP GROUP g c STREAMS s none > x", READ_NO_GROUP.replace(b"'s'", b"'none'")),
        (
            "XREADGROUP GROUP g c STREAMS s none x >",
            INVALID_ID,
        ),
        ("XREADGROUP GROUP g c BLOCK -1 STREAMS s >", error("ERR timeout is negative")),
        ("XREADGROUP GROUP g c BLOCK x STREAMS s >", error("ERR timeout is not an integer or out of range")),
        ("XREADGROUP GROUP g c COUNT x STREAMS s >", error("ERR value is not an integer or out of range")),
        ("XREADGROUP COUNT 1 STREAMS s s > >", error("ERR Missing GROUP option for XREADGROUP")),
        ("XREADGROUP GROUP g c COUNT 1 s >", error("ERR syntax error")),
        (
            "XREADGROUP GROUP g c STREAMS s s >",
            error("ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."),
        ),
    ],
)
def test_xreadgroup_refuses(line: str, expected: bytes) -> None:
    region = grouped("1-0")
    assert region.line(line) == expected
    assert not group_of(region).consumers


def test_the_dollar_is_meaningless() -> None:
    reply = grouped("1-0").line("XREADGROUP GROUP g c STREAMS s $")
    assert reply is not None and reply.startswith(b"-ERR The $ ID is meaningless in the context of XREADGROUP")


def test_each_entry_goes_to_one_consumer() -> None:
    region = grouped("1-0", "2-0", "3-0")
    assert region.line("XREADGROUP GROUP g c COUNT 1 STREAMS s >") == read("s", "1-0")
    assert region.line("XREADGROUP GROUP g d COUNT 0 STREAMS s >") == read("s", "2-0", "3-0")
    assert region.line(READ_NEW) == NILA


def test_a_map_in_protocol_3() -> None:
    region = grouped("1-0")
    region.client.protocol = 3
    assert region.line(READ_NEW) == b"%1\r\n" + bulk("s") + entries("1-0")
    assert region.line(READ_NEW) == b"_\r\n"
    region.line("XDEL s 1-0")
    gone = array(array(bulk("1-0"), b"_\r\n"))
    assert region.line("XREADGROUP GROUP g c STREAMS s 0") == b"%1\r\n" + bulk("s") + gone


def test_several_streams_show_those_that_have_something() -> None:
    region = grouped("1-0")
    for name in ("t", "u"):
        region.line(f"XGROUP CREATE {name} g 0 MKSTREAM")
    region.line("XADD u 2-0 f v")
    reply = region.line("XREADGROUP GROUP g c STREAMS s t u > > >")
    assert reply == array(array(bulk("s"), entries("1-0")), array(bulk("u"), entries("2-0")))


def test_a_stream_named_twice_gives_its_entries_once() -> None:
    assert grouped("1-0").line("XREADGROUP GROUP g c STREAMS s s > >") == read("s", "1-0")


def test_asking_makes_the_consumer_and_marks_it_seen() -> None:
    region = grouped()
    region.line(READ_NEW)
    region.replica.keyspace.now_ms += 5
    region.line(READ_NEW)
    consumer = group_of(region).consumers[b"c"]
    assert (consumer.seen_ms, consumer.active_ms) == (region.context.now_ms, -1)
    assert len(region.replica.drain().facts) == 1


def test_only_a_delivery_that_must_be_acknowledged_is_activity() -> None:
    region = grouped("1-0", "2-0")
    region.line("XREADGROUP GROUP g c COUNT 1 NOACK STREAMS s >")
    assert group_of(region).consumers[b"c"].active_ms == -1
    region.line(READ_NEW)
    assert group_of(region).consumers[b"c"].active_ms == region.context.now_ms


def test_noack_leaves_nothing_pending() -> None:
    region = grouped("1-0")
    assert region.line("XREADGROUP GROUP g c NOACK STREAMS s >") == read("s", "1-0")
    assert group_of(region).pending.count == 0
    region.end_turn()
    assert group_of(region).frontier(1) == (1, 0)


def test_history_is_what_the_consumer_holds() -> None:
    region = grouped("1-0", "2-0", "3-0")
    region.line("XREADGROUP GROUP g c COUNT 2 STREAMS s >")
    region.line("XREADGROUP GROUP g d STREAMS s >")
    assert region.line("XREADGROUP GROUP g c STREAMS s 0") == read("s", "1-0", "2-0")
    assert region.line("XREADGROUP GROUP g c STREAMS s 1-0") == read("s", "2-0")
    assert region.line("XREADGROUP GROUP g c COUNT 1 STREAMS s 0") == read("s", "1-0")
    assert region.line("XREADGROUP GROUP g e BLOCK 0 STREAMS s 0") == read("s")


def test_history_counts_as_a_delivery() -> None:
    region = grouped("1-0")
    region.line(READ_NEW)
    region.replica.keyspace.now_ms += 9
    region.line("XREADGROUP GROUP g c STREAMS s 0")
    pending = group_of(region).pending.get(1, (1, 0))
    assert pending is not None
    assert (pending.deliveries, pending.delivered_ms) == (2, region.context.now_ms)


def test_history_shows_a_deleted_entry_without_fields() -> None:
    region = grouped("1-0", "2-0")
    region.line(READ_NEW)
    region.line("XDEL s 1-0")
    gone = array(bulk("1-0"), NILA)
    assert region.line("XREADGROUP GROUP g c STREAMS s 0") == array(array(bulk("s"), array(gone, entry("2-0"))))
    pending = group_of(region).pending.get(1, (1, 0))
    assert pending is not None and pending.deliveries == 1


def test_a_late_entry_with_a_smaller_id_is_delivered() -> None:
    west, east = grouped("5-0"), filled("3-0", origin=2)
    assert west.line(READ_NEW) == read("s", "5-0")
    sync(west, east)
    assert west.line(READ_NEW) == read("s", "3-0")


# Waiting


def test_a_blocked_reader_is_served_when_an_entry_comes() -> None:
    region = grouped()
    reader = region.connect()
    assert region.line(BLOCK_NEW, reader) is None
    region.line("XADD s 1-0 f v")
    assert region.late_replies(reader) == [read("s", "1-0")]
    assert len(region.context.parking) == 0


def test_first_come_first_served() -> None:
    region = grouped()
    first, second = region.connect(), region.connect()
    region.line("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", first)
    region.line("XREADGROUP GROUP g d BLOCK 0 STREAMS s >", second)
    region.line("XADD s 1-0 f v")
    assert region.late_replies(first) == [read("s", "1-0")]
    assert region.late_replies(second) == []
    region.line("XADD s 2-0 f v")
    assert region.late_replies(second) == [read("s", "2-0")]


def test_a_count_leaves_the_rest_to_the_next() -> None:
    west, east = grouped(), Region(2)
    sync(west, east)
    first, second = west.connect(), west.connect()
    west.line("XREADGROUP GROUP g c COUNT 1 BLOCK 0 STREAMS s >", first)
    west.line("XREADGROUP GROUP g d BLOCK 0 STREAMS s >", second)
    for entry_id in ("1-0", "2-0", "3-0"):
        east.line(f"XADD s {entry_id} f v")
    sync(west, east)
    assert west.late_replies(first) == [read("s", "1-0")]
    assert west.late_replies(second) == [read("s", "2-0", "3-0")]


def test_readers_of_two_groups_are_both_served() -> None:
    region = grouped()
    region.line("XGROUP CREATE s h 0")
    first, second = region.connect(), region.connect()
    region.line(BLOCK_NEW, first)
    region.line("XREADGROUP GROUP h c BLOCK 0 STREAMS s >", second)
    region.line("XADD s 1-0 f v")
    assert region.late_replies(first) == region.late_replies(second) == [read("s", "1-0")]


def test_a_wait_ends_at_its_deadline() -> None:
    region = grouped()
    reader = region.connect()
    region.line("XREADGROUP GROUP g c BLOCK 10 STREAMS s >", reader)
    region.pass_time(9)
    assert region.late_replies(reader) == []
    region.pass_time(1)
    assert region.late_replies(reader) == [NILA]


@pytest.mark.parametrize("line", ["XGROUP DESTROY s g", "DEL s", "FLUSHALL"])
def test_a_group_that_goes_ends_the_wait(line: str) -> None:
    region = grouped()
    reader = region.connect()
    region.line(BLOCK_NEW, reader)
    region.line(line)
    assert region.late_replies(reader) == [READ_NO_GROUP]


def test_a_group_that_goes_elsewhere_ends_the_wait() -> None:
    west, east = grouped(), Region(2)
    sync(west, east)
    reader = west.connect()
    west.line(BLOCK_NEW, reader)
    assert east.line("XGROUP DESTROY s g") == ONE
    sync(west, east)
    assert west.late_replies(reader) == [READ_NO_GROUP]


def test_a_group_made_again_meanwhile_is_the_one_that_is_read() -> None:
    west, east = grouped("1-0"), Region(2)
    sync(west, east)
    reader = west.connect()
    west.line("XREADGROUP GROUP g c STREAMS s >")
    west.line(BLOCK_NEW, reader)
    east.line("XGROUP DESTROY s g")
    east.line("XGROUP CREATE s g 0")
    sync(west, east)
    assert west.late_replies(reader) == [read("s", "1-0")]


def test_a_blocked_reader_of_two_streams_gets_what_both_have() -> None:
    west, east = grouped(), Region(2)
    west.line("XGROUP CREATE t g 0 MKSTREAM")
    sync(west, east)
    reader = west.connect()
    west.line("XREADGROUP GROUP g c BLOCK 0 STREAMS s t > >", reader)
    east.line("XADD t 1-0 f v")
    east.line("XADD s 1-0 f v")
    sync(west, east)
    assert west.late_replies(reader) == [array(array(bulk("s"), entries("1-0")), array(bulk("t"), entries("1-0")))]


def test_nothing_is_delivered_while_the_disk_is_full() -> None:
    west, east = grouped(), Region(2)
    sync(west, east)
    reader = west.connect()
    west.line(BLOCK_NEW, reader)
    west.context.standing.writable = False
    east.line("XADD s 1-0 f v")
    sync(west, east)
    assert west.late_replies(reader) == []


# XACK


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XACK s g 1-0", ONE),
        ("XACK s g 1-0 1-0", ONE),
        ("XACK s g 1-0 2-0 9-0", integer(2)),
        ("XACK s g 3-0", ZERO),
        ("XACK s nog 1-0", ZERO),
        ("XACK none g x", ZERO),
        ("XACK s g 1-0 x", INVALID_ID),
        ("XACK s g", error("ERR wrong number of arguments for 'xack' command")),
    ],
)
def test_xack(line: str, expected: bytes) -> None:
    region = grouped("1-0", "2-0", "3-0")
    region.line("XREADGROUP GROUP g c COUNT 2 STREAMS s >")
    assert region.line(line) == expected
    pending = {integer(1): 1, integer(2): 0}.get(expected, 2)
    assert group_of(region).pending.count == pending
    region.end_turn()
    region.check()


def test_xack_of_nothing_records_nothing() -> None:
    region = grouped("1-0")
    region.replica.drain()
    region.line("XACK s g 1-0")
    assert region.replica.drain().facts == []


def duplicated() -> Region:
    """1-0 is there twice, from two origins, and pending in both."""
    west, east = grouped("1-0"), filled("1-0", origin=2)
    sync(west, east)
    assert west.line(READ_NEW) == read("s", "1-0", "1-0")
    return west


def test_xack_of_an_id_that_two_origins_gave() -> None:
    region = duplicated()
    assert group_of(region).pending.origins_of((1, 0)) == [1, 2]
    assert region.line("XACK s g 1-0") == ONE
    assert group_of(region).pending.count == 0
    region.end_turn()
    assert [group_of(region).frontier(origin) for origin in (1, 2)] == [(1, 0), (1, 0)]


def test_an_acknowledgement_reaches_the_other_region() -> None:
    west, east = grouped("1-0", "2-0", "3-0"), Region(2)
    sync(west, east)
    west.line(READ_NEW)
    west.line("XACK s g 1-0 3-0")
    sync(west, east)
    assert east.line("XREADGROUP GROUP g c COUNT 1 STREAMS s >") == read("s", "2-0")
    west.line("XACK s g 2-0")
    sync(west, east)
    assert group_of(east).pending.count == 0
    assert east.line(READ_NEW) == NILA


def test_an_entry_that_was_deleted_stays_pending_until_it_is_acknowledged() -> None:
    region = grouped("1-0", "2-0")
    region.line(READ_NEW)
    region.line("XDEL s 1-0")
    region.line("XACK s g 2-0")
    region.end_turn()
    assert group_of(region).frontier(1) == (2, 0)
    assert group_of(region).pending.origins_of((1, 0)) == [1]
    assert region.line("XACK s g 1-0") == ONE


def test_reading_an_empty_stream_gives_nothing() -> None:
    region = grouped()
    assert region.line(READ_NEW) == NILA
    assert region.line("XREADGROUP GROUP g c STREAMS s 0") == array(array(bulk("s"), EMPTY))
