"""CRDT.XREAD."""

from __future__ import annotations

from io import BytesIO

import pytest

from crdtstream.core.tokens import CURSOR, TOKEN, decode, encode
from crdtstream.core.values.causality import VersionVector
from crdtstream.scenarios.reply import Value, next_reply
from tests.commands.harness import Argument
from tests.commands.stream_region import Region

NIL = b"*-1\r\n"
Part = tuple[str, list[str], bytes]


@pytest.fixture
def region() -> Region:
    made = Region()
    for number in (1, 2, 3):
        made.say(f"XADD s {number}-0 f v")
    return made


def parts_of(reply: bytes | None) -> list[Part]:
    """For each stream its name, the IDs of its entries, and its cursor."""
    assert reply is not None
    value = next_reply(BytesIO(reply))
    assert isinstance(value, list), value
    return [part_of(part) for part in value]


def part_of(part: Value) -> Part:
    assert isinstance(part, list) and isinstance(part[1], list)
    return str(part[0]), [str(entry[0]) for entry in part[1] if isinstance(entry, list)], str(part[2]).encode()


def read(region: Region, *words: Argument) -> list[Part]:
    return parts_of(region.call("CRDT.XREAD", *words))


def test_a_cursor_goes_on_where_the_reply_ended(region: Region) -> None:
    ((name, ids, cursor),) = read(region, "COUNT", 2, "STREAMS", "s", 0)
    assert (name, ids) == ("s", ["1-0", "2-0"])
    ((_, ids, later),) = read(region, "STREAMS", "s", cursor)
    assert ids == ["3-0"]
    assert region.call("CRDT.XREAD", "STREAMS", "s", later) == NIL
    assert decode(CURSOR, later, "", b"0 s") == VersionVector({1: 3})


def test_protocol_3_has_a_map(region: Region) -> None:
    region.client.protocol = 3
    reply = region.say("CRDT.XREAD COUNT 1 STREAMS s 0")
    assert reply is not None
    assert reply.startswith(b"%1\r\n$1\r\ns\r\n*2\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n$")
    assert region.say("CRDT.XREAD STREAMS t 0") == b"_\r\n"


def test_a_cursor_is_good_in_another_region(region: Region) -> None:
    other = Region(2)
    other.say("XADD s 2-5 f v")
    ((_, _, cursor),) = read(region, "STREAMS", "s", 0)
    ((_, ids, cursor),) = read(other, "STREAMS", "s", cursor)
    assert ids == ["2-5"]
    other.hear(region)
    assert other.call("CRDT.XREAD", "STREAMS", "s", cursor) == NIL
    region.hear(other)
    assert region.call("CRDT.XREAD", "STREAMS", "s", cursor) == NIL


def test_what_is_deleted_and_added_again_is_read_once(region: Region) -> None:
    ((_, _, cursor),) = read(region, "STREAMS", "s", 0)
    region.say("DEL s")
    assert region.call("CRDT.XREAD", "STREAMS", "s", cursor) == NIL
    region.say("XADD s 1-0 f v")
    ((_, ids, cursor),) = read(region, "STREAMS", "s", cursor)
    assert ids == ["1-0"]


def test_only_streams_with_entries_are_returned(region: Region) -> None:
    region.say("XADD t 1-0 f v")
    ((_, _, cursor),) = read(region, "STREAMS", "t", 0)
    assert [part[0] for part in read(region, "STREAMS", "t", "s", cursor, 0)] == ["s"]
    assert [part[0] for part in read(region, "COUNT", 1, "STREAMS", "t", "s", "u", 0, 0, 0)] == ["t", "s"]


def test_plus_is_the_last_entry_and_a_cursor_behind_it(region: Region) -> None:
    ((_, ids, cursor),) = read(region, "STREAMS", "s", "+")
    assert ids == ["3-0"]
    region.say("XADD s 4-0 f v")
    assert read(region, "STREAMS", "s", cursor)[0][1] == ["4-0"]
    assert region.say("CRDT.XREAD STREAMS t +") == NIL


def test_plus_is_behind_what_was_removed(region: Region) -> None:
    region.say("XTRIM s MAXLEN 1")
    region.say("XDEL s 3-0")
    assert region.say("CRDT.XREAD STREAMS s +") == NIL
    other = Region(2)
    other.say("XADD s 2-5 f v")
    region.hear(other)
    ((_, _, cursor),) = read(region, "STREAMS", "s", "+")
    assert decode(CURSOR, cursor, "", b"0 s") == VersionVector({1: 3, 2: 1})


# Blocking


def test_a_reader_waits_for_what_it_has_not_read(region: Region) -> None:
    ((_, _, cursor),) = read(region, "STREAMS", "s", 0)
    waiting = region.new_client()
    assert region.call("CRDT.XREAD", "BLOCK", 0, "STREAMS", "s", cursor, client=waiting) is None
    other = Region(2)
    other.say("XADD s 0-1 f late")
    woken = region.hear(other)
    ((_, ids, _),) = parts_of(woken[waiting.id])
    assert ids == ["0-1"]


def test_a_dollar_has_a_cursor_in_every_reply(region: Region) -> None:
    waiting = region.new_client()
    assert region.say("CRDT.XREAD STREAMS s $") == NIL
    assert region.call("CRDT.XREAD", "BLOCK", 0, "STREAMS", "s", "t", "$", "$", client=waiting) is None
    region.say("XADD t 1-0 f v")
    found = parts_of(region.close_turn()[waiting.id])
    assert [(name, ids) for name, ids, _ in found] == [("s", []), ("t", ["1-0"])]
    region.say("XADD s 4-0 f v")
    assert read(region, "STREAMS", "s", found[0][2])[0][1] == ["4-0"]


@pytest.mark.parametrize(("protocol", "nothing"), [(2, NIL), (3, b"_\r\n")])
def test_the_wait_ends(region: Region, protocol: int, nothing: bytes) -> None:
    region.client.protocol = protocol
    assert region.say("CRDT.XREAD BLOCK 50 STREAMS s $") is None
    region.pass_time(50)
    assert region.late_replies(region.client) == [nothing]


def test_nothing_waits_in_a_transaction(region: Region) -> None:
    region.say("MULTI")
    region.say("CRDT.XREAD BLOCK 0 STREAMS s $")
    assert region.say("EXEC") == b"*1\r\n" + NIL


# Rows


@pytest.fixture
def emptied() -> tuple[Region, bytes]:
    """Region 1, where nothing is left of what regions 2 and 3 added, and the cursor of a reader that has all of it."""
    region = Region(1)
    for number in (2, 3):
        other = Region(number)
        other.say(f"XADD s {number}-0 f v")
        region.hear(other)
    region.say("XADD s 9-0 f v")
    ((_, _, cursor),) = read(region, "STREAMS", "s", 0)
    assert rows_in(cursor) == {1: 1, 2: 1, 3: 1}
    region.say("XDEL s 2-0 3-0")
    region.replica.join_member(2)
    region.replica.join_member(3)
    region.say("XADD s 10-0 f v")
    region.close_turn()
    return region, cursor


def rows_in(cursor: bytes) -> dict[int, int]:
    return decode(CURSOR, cursor, "", b"0 s").as_dict()


def rows_after(region: Region, cursor: bytes) -> list[int]:
    """The origins that the next cursor names."""
    ((_, _, later),) = read(region, "STREAMS", "s", cursor)
    return sorted(rows_in(later))


def test_rows_of_which_nothing_is_left_are_dropped(emptied: tuple[Region, bytes]) -> None:
    region, cursor = emptied
    for member in (2, 3):
        assert rows_after(region, cursor) == [1, 2, 3], "a member has not all on its disk"
        region.progress.durable[member] = region.replica.applied.vector.copy()
    assert rows_after(region, cursor) == [1]


def test_rows_stay_while_a_region_may_come_back_with_entries(emptied: tuple[Region, bytes]) -> None:
    region, cursor = emptied
    region.replica.evict_member(2)
    region.close_turn()
    region.progress.durable[3] = region.replica.applied.vector.copy()
    assert rows_after(region, cursor) == [1, 2, 3]
    region.replica.join_member(258)
    region.close_turn()
    for member in (3, 258):
        region.progress.durable[member] = region.replica.applied.vector.copy()
    assert rows_after(region, cursor) == [1]


def test_rows_stay_while_a_founder_has_not_told_what_it_has(emptied: tuple[Region, bytes]) -> None:
    region, cursor = emptied
    region.neighbours.founders = [4]
    for member in (2, 3):
        region.progress.durable[member] = region.replica.applied.vector.copy()
    assert rows_after(region, cursor) == [1, 2, 3]


def test_rows_stay_while_they_are_few(emptied: tuple[Region, bytes]) -> None:
    region, _ = emptied
    for member in (2, 3):
        region.progress.durable[member] = region.replica.applied.vector.copy()
    assert rows_after(region, encode(CURSOR, "", [(2, 1)], b"0 s")) == [1, 2]


# Errors

ANOTHER = b"-ERR the cursor for 's' is of another stream: give the one that was replied for it, or 0"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("STREAMS s 1-0", b"-ERR invalid cursor for 's': give 0, $, +, or the cursor that CRDT.XREAD replied, and no"),
        ("STREAMS s >", b"-ERR invalid cursor for 's'"),
        (f"STREAMS s {encode(TOKEN, '', [(1, 1)]).decode()}", b"-ERR invalid cursor for 's'"),
        (f"STREAMS s {encode(CURSOR, '', [(1, 1)], b'0 s').decode()[:-1]}", b"-ERR invalid cursor for 's'"),
        (f"STREAMS s {encode(CURSOR, 'bank', [], b'0 s').decode()}", b"-ERR the cursor for 's' is of another cluster:"),
        (f"STREAMS s {encode(CURSOR, '', [], b'0 t').decode()}", ANOTHER),
        (f"STREAMS s {encode(CURSOR, '', [], b'1 s').decode()}", ANOTHER),
        ("STREAMS s c9-x", b"-ERR the cursor for 's' is of a newer release: update this region"),
        ("STREAMS s t 0", b"-ERR Unbalanced 'crdt.xread' list of streams: for each stream key a cursor, '0', '+', or"),
        ("COUNT x STREAMS s 0", b"-ERR value is not an integer or out of range\r\n"),
        ("BLOCK -1 STREAMS s 0", b"-ERR timeout is negative\r\n"),
        ("COUNT 1 BLOCK 1", b"-ERR syntax error\r\n"),
        ("COUNT 1 STREAMS", b"-ERR syntax error\r\n"),
        ("NOACK STREAMS s 0", b"-ERR syntax error\r\n"),
        ("MAXCOUNT 1 STREAMS s 0", b"-ERR syntax error\r\n"),
    ],
)
def test_errors_say_what_to_do(region: Region, line: str, error: bytes) -> None:
    reply = region.say(f"CRDT.XREAD {line}")
    assert reply is not None and reply.startswith(error), reply
    assert not region.client.parked


def test_count_0_is_all(region: Region) -> None:
    assert len(read(region, "COUNT", 0, "STREAMS", "s", 0)[0][1]) == 3


def test_look_ups_are_counted_once_for_each_key(region: Region) -> None:
    statistics = region.context.statistics
    region.say("CRDT.XREAD STREAMS s t 0 0")
    assert (statistics.hits, statistics.misses) == (1, 1)
