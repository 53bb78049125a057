"""XADD, ranges, removals, XREAD and XSETID: replies, errors, ID modes, and how blocked readers are served."""

from __future__ import annotations

import pytest

from crdtstream.commands.removing import ranges_of
from crdtstream.commands.streams import BELOW_TOP
from crdtstream.connections.minting import EXHAUSTED, NOT_ABOVE, STRICT_ID, TOO_LARGE, ZERO_ID
from crdtstream.core.values.entry_id import LIBERAL, SEMI_STRICT, STRICT
from crdtstream.settings.config import Limits
from tests.commands.stream_region import Region


def error(text: str) -> bytes:
    return b"-" + text.encode() + b"\r\n"


def bulk(text: str) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text.encode())


def entry(entry_id: str, *fields: str) -> bytes:
    words = fields or ("f", "v")
    return b"*2\r\n" + bulk(entry_id) + b"*%d\r\n" % len(words) + b"".join(bulk(word) for word in words)


def entries(*ids: str) -> bytes:
    return b"*%d\r\n" % len(ids) + b"".join(entry(entry_id) for entry_id in ids)


def read(**streams: tuple[str, ...]) -> bytes:
    parts = [b"*2\r\n" + bulk(name) + entries(*ids) for name, ids in streams.items()]
    return b"*%d\r\n" % len(parts) + b"".join(parts)


def filled(*ids: str, id_mode: str = LIBERAL) -> Region:
    region = Region(id_mode=id_mode)
    for entry_id in ids:
        assert region.say(f"XADD s {entry_id} f v") == bulk(entry_id)
    return region


# XADD


@pytest.mark.parametrize(
    ("id_mode", "given", "expected"),
    [
        (STRICT, "*", bulk("1000-1")),
        (STRICT, "7", bulk("7-1")),
        (STRICT, "7-*", bulk("7-1")),
        (STRICT, "0", bulk("0-1")),
        (STRICT, "7-7", error(STRICT_ID)),
        (STRICT, "0-0", error(STRICT_ID)),
        (SEMI_STRICT, "*", bulk("1000-1")),
        (SEMI_STRICT, "7", bulk("7-1")),
        (SEMI_STRICT, "7-*", bulk("7-1")),
        (SEMI_STRICT, "7-7", bulk("7-7")),
        (SEMI_STRICT, "0-0", error(ZERO_ID)),
        (LIBERAL, "*", bulk("1000-0")),
        (LIBERAL, "7", bulk("7-0")),
        (LIBERAL, "7-*", bulk("7-0")),
        (LIBERAL, "0-*", bulk("0-1")),
        (LIBERAL, "7-7", bulk("7-7")),
        (LIBERAL, "0", error(ZERO_ID)),
    ],
)
def test_the_first_id_by_mode(id_mode: str, given: str, expected: bytes) -> None:
    assert Region(id_mode=id_mode).call("XADD", "s", given, "f", "v") == expected


@pytest.mark.parametrize(
    ("id_mode", "given", "expected"),
    [
        (STRICT, "*", bulk("2000-65537")),
        (STRICT, "2000", bulk("2000-65537")),
        (STRICT, "2000-*", bulk("2000-65537")),
        (STRICT, "1999", error(NOT_ABOVE)),
        (SEMI_STRICT, "2000-2", bulk("2000-2")),
        (SEMI_STRICT, "2000-1", error(NOT_ABOVE)),
        (LIBERAL, "*", bulk("2000-2")),
        (LIBERAL, "2000-*", bulk("2000-2")),
        (LIBERAL, "2000", error(NOT_ABOVE)),
        (LIBERAL, "1999-*", error(NOT_ABOVE)),
    ],
)
def test_the_next_id_by_mode_when_the_clock_is_behind(id_mode: str, given: str, expected: bytes) -> None:
    region = filled("2000-1")
    region.configure(id_mode=id_mode)
    assert region.call("XADD", "s", given, "f", "v") == expected


def test_the_last_id_ends_a_stream() -> None:
    region = filled("18446744073709551615-18446744073709551615")
    for given in ("*", "1-1", "18446744073709551615-*"):
        assert region.call("XADD", "s", given, "f", "v") == error(EXHAUSTED)
    assert region.say("XADD s NOMKSTREAM 0-0 f v") == error(ZERO_ID)


def test_a_millisecond_has_a_last_sequence_number() -> None:
    region = filled("5-18446744073709551615")
    assert region.say("XADD s 5-* f v") == error(NOT_ABOVE)
    assert region.say("XADD s 5-1 f v") == error(NOT_ABOVE)


def test_the_top_outlives_its_entry_but_not_the_stream() -> None:
    region = filled("5-1")
    assert region.say("XDEL s 5-1") == b":1\r\n"
    assert region.say("XADD s 5-1 f v") == error(NOT_ABOVE)
    assert region.say("DEL s") == b":1\r\n"
    assert region.say("XADD s 1-1 f v") == bulk("1-1")


def test_nomkstream() -> None:
    region = Region()
    assert region.say("XADD s NOMKSTREAM * f v") == b"$-1\r\n"
    assert region.say("XADD s nomkstream 0-0 f v") == error(ZERO_ID)
    assert region.call("XADD", "s", "NOMKSTREAM", "*", "f", "v", client=region.new_client(3)) == b"_\r\n"
    assert region.say("EXISTS s") == b":0\r\n"
    region.say("XADD s 1-1 f v")
    assert region.say("XADD s NOMKSTREAM 2-0 f v") == bulk("2-0")


def test_what_is_too_large_is_refused() -> None:
    region = Region(limits=Limits(entry_bytes_max=10))
    assert region.call("XADD", "s", "*", "f", "v" * 9) == bulk("1000-0")
    assert region.call("XADD", "s", "*", "f", "v" * 10) == error(TOO_LARGE)
    assert region.call("XADD", "s", "MAXLEN", "0", "*", "f", "v" * 10) == error(TOO_LARGE)
    assert region.say("XLEN s") == b":1\r\n"


def test_values_are_bytes() -> None:
    region = Region()
    region.call("XADD", b"\xff\r\n", "1-1", b"\x00", b"\r\n", b"", b"$5\r\n")
    expected = b"*1\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\n\x00\r\n$2\r\n\r\n\r\n$0\r\n\r\n$4\r\n$5\r\n\r\n"
    assert region.call("XRANGE", b"\xff\r\n", "-", "+") == expected


# Ranges


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XRANGE s - +", entries("1-1", "1-2", "2-0", "3-0")),
        ("XRANGE s 1 1", entries("1-1", "1-2")),
        ("XRANGE s (1-1 +", entries("1-2", "2-0", "3-0")),
        ("XRANGE s - (3-0", entries("1-1", "1-2", "2-0")),
        ("XRANGE s - + COUNT 2", entries("1-1", "1-2")),
        ("XRANGE s - + COUNT 0", b"*-1\r\n"),
        ("XRANGE s + -", b"*0\r\n"),
        ("XRANGE s 5 +", b"*0\r\n"),
        ("XRANGE nokey - + COUNT 0", b"*0\r\n"),
        ("XREVRANGE s + -", entries("3-0", "2-0", "1-2", "1-1")),
        ("XREVRANGE s + - COUNT 1", entries("3-0")),
        ("XREVRANGE s (3-0 (1-1", entries("2-0", "1-2")),
        ("XREVRANGE s 1 1", entries("1-2", "1-1")),
        ("XREVRANGE nokey + -", b"*0\r\n"),
        ("XLEN s", b":4\r\n"),
        ("XLEN nokey", b":0\r\n"),
    ],
)
def test_ranges(line: str, expected: bytes) -> None:
    assert filled("1-1", "1-2", "2-0", "3-0").say(line) == expected


def test_a_range_over_two_origins_is_one_order() -> None:
    east, west = filled("1-1", "3-1"), Region(2)
    for entry_id in ("2-2", "3-2", "4-2"):
        west.say(f"XADD s {entry_id} f v")
    east.hear(west)
    assert east.say("XRANGE s - +") == entries("1-1", "2-2", "3-1", "3-2", "4-2")
    assert east.say("XREVRANGE s + 3-1 COUNT 2") == entries("4-2", "3-2")
    assert east.say("XRANGE s (1-1 + COUNT 2") == entries("2-2", "3-1")


# Removing


def test_xdel() -> None:
    region = filled("1-1", "2-0", "3-0", "4-0")
    assert region.say("XDEL s 9-9 x") == error("ERR Invalid stream ID specified as stream command argument")
    assert region.say("XDEL s 3-0 3-0 1-1 9-9") == b":2\r\n"
    assert region.say("XDEL s 3-0") == b":0\r\n"
    assert region.say("XDEL nokey x") == b":0\r\n"
    assert region.say("XRANGE s - +") == entries("2-0", "4-0")
    assert region.stream().max_deleted() == (3, 0)
    region.close_turn()
    assert len(region.batches[0].effects) == 2


def test_counters_become_closed_ranges() -> None:
    assert ranges_of([7, 3, 4, 4, 9, 8]) == [(3, 4), (7, 9)]
    assert ranges_of([]) == []


def test_xdel_removes_what_another_origin_wrote() -> None:
    east, west = filled("1-1"), Region(2)
    west.say("XADD s 2-2 f v")
    east.hear(west)
    assert east.say("XDEL s 1-1 2-2") == b":2\r\n"
    west.hear(east)
    assert west.say("XRANGE s - +") == b"*0\r\n"
    assert west.stream().max_deleted() == (2, 2)


@pytest.mark.parametrize(
    ("line", "removed", "left"),
    [
        ("XTRIM s MAXLEN 3", 1, ("2-0", "3-0", "4-0")),
        ("XTRIM s MAXLEN = 0", 4, ()),
        ("XTRIM s MAXLEN 9", 0, ("1-0", "2-0", "3-0", "4-0")),
        ("XTRIM s MINID 3", 2, ("3-0", "4-0")),
        ("XTRIM s MINID = 2-1", 2, ("3-0", "4-0")),
        ("XTRIM s MINID 0", 0, ("1-0", "2-0", "3-0", "4-0")),
        ("XTRIM s MINID 99", 4, ()),
        ("XTRIM s MAXLEN ~ 1", 2, ("3-0", "4-0")),
        ("XTRIM s MAXLEN ~ 0", 4, ()),
        ("XTRIM s MAXLEN ~ 0 LIMIT 3", 2, ("3-0", "4-0")),
        ("XTRIM s MAXLEN ~ 0 LIMIT 1", 0, ("1-0", "2-0", "3-0", "4-0")),
        ("XTRIM s MAXLEN ~ 0 LIMIT 0", 4, ()),
        ("XTRIM s MINID ~ 4", 2, ("3-0", "4-0")),
        ("XTRIM s MINID ~ 3 LIMIT 3", 2, ("3-0", "4-0")),
        ("XTRIM nokey MAXLEN 0", 0, ("1-0", "2-0", "3-0", "4-0")),
    ],
)
def test_xtrim(line: str, removed: int, left: tuple[str, ...]) -> None:
    region = Region(limits=Limits(stream_node_entries_max=2))
    for ms in range(1, 5):
        region.say(f"XADD s {ms} f v")
    assert region.say(line) == b":%d\r\n" % removed
    assert region.say("XRANGE s - +") == entries(*left)
    assert region.stream().max_deleted() == (0, 0)
    assert region.stream().top == (4, 0)


@pytest.mark.parametrize(
    ("line", "removed"),
    [
        ("XTRIM s MAXLEN ~ 0", 5),
        ("XTRIM s MAXLEN ~ 1", 4),
        ("XTRIM s MINID ~ 99", 5),
        ("XTRIM s MINID ~ 5", 4),
        ("XTRIM s MAXLEN ~ 0 LIMIT 5", 5),
        ("XTRIM s MAXLEN ~ 0 LIMIT 4", 4),
        ("XTRIM s MAXLEN ~ 0 LIMIT 3", 2),
    ],
)
def test_the_last_node_goes_though_it_is_not_full(line: str, removed: int) -> None:
    region = Region(limits=Limits(stream_node_entries_max=2))
    for ms in range(1, 6):
        region.say(f"XADD s {ms} f v")
    assert region.say(line) == b":%d\r\n" % removed
    assert region.say("XLEN s") == b":%d\r\n" % (5 - removed)


def test_a_trim_counts_over_all_origins() -> None:
    east, west = filled("1-1", "3-1", "5-1"), Region(2)
    for entry_id in ("2-2", "4-2"):
        west.say(f"XADD s {entry_id} f v")
    east.hear(west)
    assert east.say("XTRIM s MAXLEN 3") == b":2\r\n"
    assert east.say("XRANGE s - +") == entries("3-1", "4-2", "5-1")
    assert east.say("XTRIM s MINID 4-2") == b":1\r\n"
    assert east.say("XRANGE s - +") == entries("4-2", "5-1")


def test_xadd_trims_after_it_added() -> None:
    region = filled("1-0", "2-0")
    assert region.say("XADD s MAXLEN 2 3 f v") == bulk("3-0")
    assert region.say("XRANGE s - +") == entries("2-0", "3-0")
    assert region.say("XADD s MINID = 4 3-1 f v") == bulk("3-1")
    assert region.say("XLEN s") == b":0\r\n"
    assert region.say("EXISTS s") == b":1\r\n"


def test_no_more_than_the_default_limit_goes_at_once() -> None:
    region = Region(limits=Limits(stream_node_entries_max=2))
    for _ in range(300):
        region.say("XADD s * f v")
    assert region.say("XTRIM s MAXLEN ~ 0") == b":200\r\n"


# XREAD


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XREAD STREAMS s 0", read(s=("1-1", "1-2", "3-0"))),
        ("XREAD COUNT 2 STREAMS s 0", read(s=("1-1", "1-2"))),
        ("XREAD COUNT 0 STREAMS s 1-1", read(s=("1-2", "3-0"))),
        ("XREAD COUNT -5 STREAMS s 1-1", read(s=("1-2", "3-0"))),
        ("XREAD STREAMS s 3-0", b"*-1\r\n"),
        ("XREAD STREAMS s $", b"*-1\r\n"),
        ("XREAD STREAMS s +", read(s=("3-0",))),
        ("XREAD STREAMS nokey +", b"*-1\r\n"),
        ("XREAD STREAMS s 18446744073709551615-18446744073709551615", b"*-1\r\n"),
        ("XREAD STREAMS nokey s 0 1-2", read(s=("3-0",))),
    ],
)
def test_xread(line: str, expected: bytes) -> None:
    assert filled("1-1", "1-2", "3-0").say(line) == expected


def test_xread_names_a_stream_twice_and_is_a_map_in_protocol_3() -> None:
    region = filled("1-1", "2-0")
    twice = b"*2\r\n*2\r\n" + bulk("s") + entries("1-1", "2-0") + b"*2\r\n" + bulk("s") + entries("2-0")
    assert region.say("XREAD STREAMS s s 0 1-1") == twice
    third = region.new_client(3)
    mapped = b"%1\r\n" + bulk("s") + entries("2-0")
    assert region.call("XREAD", "STREAMS", "s", "1-1", client=third) == mapped
    assert region.call("XREAD", "STREAMS", "s", "2-0", client=third) == b"_\r\n"


def test_a_blocked_reader_is_served_by_what_comes() -> None:
    region = filled("1-1")
    reader = region.new_client()
    assert region.call("XREAD", "BLOCK", "0", "STREAMS", "t", "s", "0", "$", client=reader) is None
    assert reader.parked and region.context.parking.next_deadline_ms() is None
    region.say("XADD other * f v")
    assert region.close_turn() == {}
    region.say("XADD s 2-0 f v")
    region.say("XADD s 3-0 f v")
    assert region.close_turn() == {reader.id: read(s=("2-0", "3-0"))}
    assert not reader.parked


def test_a_blocked_reader_ends_at_its_deadline() -> None:
    region = filled("1-1")
    assert region.say("XREAD BLOCK 50 STREAMS s 1-1") is None
    assert region.context.parking.overdue(1049) == []
    [waiter] = region.context.parking.overdue(1050)
    assert waiter.expired(region.context) == b"*-1\r\n"
    region.context.parking.leave(waiter.client.id)
    assert region.call("XREAD", "BLOCK", 50, "STREAMS", "s", "$", client=region.new_client(3)) is None
    assert region.context.parking.overdue(1050)[0].expired(region.context) == b"_\r\n"


def test_a_reader_with_something_to_read_does_not_block() -> None:
    region = filled("1-1")
    assert region.say("XREAD BLOCK 0 STREAMS s 0") == read(s=("1-1",))
    assert region.say("XREAD BLOCK 0 STREAMS s +") == read(s=("1-1",))
    assert len(region.context.parking) == 0


def test_a_reader_of_new_entries_gets_a_late_one_with_a_smaller_id() -> None:
    east, west = filled("5-1"), Region(2)
    west.say("XADD s 3-2 f v")
    by_vector, by_id = east.new_client(), east.new_client()
    assert east.call("XREAD", "BLOCK", "0", "STREAMS", "s", "$", client=by_vector) is None
    assert east.call("XREAD", "BLOCK", "0", "STREAMS", "s", "5-1", client=by_id) is None
    assert east.hear(west) == {by_vector.id: read(s=("3-2",))}
    assert by_id.parked


def test_a_reader_of_new_entries_survives_a_delete() -> None:
    region = filled("5-1")
    reader = region.new_client()
    assert region.call("XREAD", "BLOCK", "0", "STREAMS", "s", "$", client=reader) is None
    region.say("DEL s")
    assert region.close_turn() == {}
    region.say("XADD s 1-1 f v")
    assert region.close_turn() == {reader.id: read(s=("1-1",))}


def test_the_last_entry_of_an_empty_stream_is_the_next_to_come() -> None:
    region = filled("5-1")
    region.say("XDEL s 5-1")
    assert region.say("XREAD BLOCK 0 STREAMS s +") is None
    region.say("XADD s 6-0 f v")
    assert region.close_turn() == {region.client.id: read(s=("6-0",))}


def test_of_entries_that_come_at_once_the_last_is_given() -> None:
    region = Region()
    reader = region.new_client()
    assert region.call("XREAD", "BLOCK", "0", "STREAMS", "s", "+", client=reader) is None
    region.say("XADD s 1-1 f v")
    region.say("XADD s 2-1 f v")
    assert region.close_turn() == {reader.id: read(s=("2-1",))}


def test_count_bounds_what_a_blocked_reader_gets() -> None:
    region = Region()
    reader = region.new_client()
    assert region.call("XREAD", "COUNT", "1", "BLOCK", "0", "STREAMS", "s", "$", client=reader) is None
    region.say("XADD s 1-1 f v")
    region.say("XADD s 2-1 f v")
    assert region.close_turn() == {reader.id: read(s=("1-1",))}


def test_only_so_many_clients_block() -> None:
    region = Region(limits=Limits(blocked_clients_max=1))
    assert region.say("XREAD BLOCK 0 STREAMS s $") is None
    refused = region.call("XREAD", "BLOCK", "0", "STREAMS", "s", "$", client=region.new_client())
    assert refused == error("ERR max number of blocked clients reached: 1")


# XSETID


def test_xsetid() -> None:
    region = filled("1-1", "2-0", "3-0")
    region.say("XDEL s 2-0")
    assert region.say("XSETID nokey 1-0") == error("ERR no such key")
    assert region.say("XSETID s 10-0") == b"+OK\r\n"
    assert region.say("XADD s 10-0 f v") == error(NOT_ABOVE)
    assert region.say("XSETID s 10-0 ENTRIESADDED 100 MAXDELETEDID 9-0") == b"+OK\r\n"
    stream = region.stream()
    assert (stream.top, stream.entries_added(), stream.max_deleted()) == ((10, 0), 100, (9, 0))
    assert region.say("XADD s * f v") == bulk("1000-0")
    assert stream.entries_added() == 101


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        ("x", "ERR Invalid stream ID specified as stream command argument"),
        ("9-0", BELOW_TOP),
        ("1-0", "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"),
        ("10-0 ENTRIESADDED", "ERR syntax error"),
        ("10-0 FOO 1", "ERR syntax error"),
        ("10-0 ENTRIESADDED -1", "ERR entries_added must be positive"),
        ("10-0 ENTRIESADDED x", "ERR value is not an integer or out of range"),
        ("10-0 ENTRIESADDED 1", "ERR The entries_added specified in XSETID is smaller than the target stream length"),
        ("10-0 MAXDELETEDID 11", "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"),
    ],
)
def test_xsetid_refuses(rest: str, text: str) -> None:
    region = filled("1-1", "2-0", "10-0")
    region.say("XDEL s 2-0")
    assert region.say(f"XSETID s {rest}") == error(text)


def test_xsetid_without_max_deleted_keeps_it() -> None:
    region = filled("1-1", "2-0")
    region.say("XDEL s 2-0")
    assert region.say("XSETID s 2-0 MAXDELETEDID 0-0") == b"+OK\r\n"
    assert region.stream().max_deleted() == (2, 0)
