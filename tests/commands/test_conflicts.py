"""CRDT.CONFLICTS."""

from __future__ import annotations

from io import BytesIO

import pytest

from crdtstream.core.tokens import SEEN, TOKEN, encode
from crdtstream.scenarios.reply import Value, next_reply
from tests.commands.harness import Argument
from tests.commands.stream_region import Region


@pytest.fixture
def region() -> Region:
    """Region 1, which deleted what region 2 added to."""
    made, other = Region(), Region(2)
    made.say("XADD s 1-0 f v")
    other.hear(made)
    made.say("DEL s")
    other.say("XADD s 2-0 f v")
    made.hear(other)
    return made


def read(region: Region, *since: Argument) -> tuple[bytes, list[dict[str, Value]]]:
    """The cursor, and the rows."""
    options: list[Argument] = [b"SINCE", since[0]] if since else []
    reply = region.call("CRDT.CONFLICTS", "s", *options)
    assert reply is not None
    fields = pairs(next_reply(BytesIO(reply)))
    rows = fields["conflicts"]
    assert isinstance(rows, list)
    return str(fields["cursor"]).encode(), [pairs(row) for row in rows]


def pairs(value: Value) -> dict[str, Value]:
    assert isinstance(value, list)
    return {str(name): found for name, found in zip(value[::2], value[1::2], strict=True)}


def again(region: Region) -> None:
    other = Region(3)
    other.say("XADD s 9-0 f v")
    region.hear(other)


def test_a_row_says_what_met_and_what_became_of_it(region: Region) -> None:
    _, rows = read(region)
    assert rows == [
        {
            "kind": "adds-survived-delete",
            "outcome": "the delete had not seen these entries, so they stay",
            "time-ms": 1_000,
            "count": 1,
            "effect-region": 1,
            "effect": "1.0=2",
            "other-region": 2,
            "other": "2.0=1",
        }
    ]


def test_a_row_of_a_group_names_it(region: Region) -> None:
    other = Region(3)
    region.create_group(name=b"g")
    other.create_group(name=b"g")
    region.hear(other)
    assert [(row["kind"], row["group"]) for row in read(region)[1][1:]] == [("group-creation-lost", "g")]


def test_a_key_without_conflicts_has_an_empty_list(region: Region) -> None:
    region.client.protocol = 3
    reply = region.say("CRDT.CONFLICTS t")
    assert reply is not None and reply.startswith(b"%2\r\n$6\r\ncursor\r\n") and reply.endswith(b"conflicts\r\n*0\r\n")


def test_rows_are_maps_in_protocol_3(region: Region) -> None:
    region.client.protocol = 3
    reply = region.say("CRDT.CONFLICTS s")
    assert reply is not None and b"*1\r\n%8\r\n$4\r\nkind\r\n$20\r\nadds-survived-delete\r\n" in reply


def test_a_cursor_gives_what_came_since(region: Region) -> None:
    cursor, rows = read(region)
    assert len(rows) == 1
    assert read(region, cursor) == (cursor, [])
    again(region)
    later, rows = read(region, cursor)
    assert [row["other-region"] for row in rows] == [3]
    assert read(region, later)[1] == []


def test_what_is_no_longer_kept_is_a_gap(region: Region) -> None:
    conflicts = region.replica.applied.conflicts
    cursor, _ = read(region)
    conflicts.limit(1)
    again(region)
    assert [row["kind"] for row in read(region, cursor)[1]] == ["adds-survived-delete"], "the caller has seen the other"
    first = encode(SEEN, "", [(1, 1)])
    found = read(region, first)[1]
    assert found[0] == {"kind": "gap", "outcome": "conflicts before this one may be missing"}
    assert [row["kind"] for row in found[1:]] == ["adds-survived-delete"]


def test_a_cursor_of_another_process_begins_with_a_gap(region: Region) -> None:
    assert [row["kind"] for row in read(region, encode(SEEN, "", [(257, 1)]))[1]] == ["gap", "adds-survived-delete"]
    assert [row["kind"] for row in read(region, encode(SEEN, "", []))[1]] == ["gap", "adds-survived-delete"]


def test_a_state_of_another_region_is_a_gap_in_every_key(region: Region) -> None:
    cursor, _ = read(region)
    region.replica.applied.conflicts.record_gap()
    _, rows = read(region, cursor)
    assert rows == [{"kind": "gap", "outcome": "conflicts before this one may be missing", "time-ms": 1_000}]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((b"SINCE",), b"-ERR syntax error\r\n"),
        ((b"FROM", b"x"), b"-ERR syntax error\r\n"),
        ((b"SINCE", b"x"), b"-ERR invalid cursor: it was changed, or CRDT.CONFLICTS did not reply it; leave SINCE out"),
        ((b"SINCE", encode(TOKEN, "", [(1, 1)])), b"-ERR invalid cursor: it was changed"),
        ((b"SINCE", encode(SEEN, "bank", [])), b"-ERR the cursor is of another cluster: leave SINCE out to get all"),
    ],
)
def test_errors_say_what_to_do(region: Region, words: tuple[bytes, ...], error: bytes) -> None:
    reply = region.call("CRDT.CONFLICTS", "s", *words)
    assert reply is not None and reply.startswith(error)


def test_info_counts_each_kind(region: Region) -> None:
    info = region.say("INFO replication")
    assert info is not None
    assert b"conflicts_adds_survived_delete:1\r\n" in info and b"conflicts_gap:0\r\n" in info


def test_the_limit_is_a_setting(region: Region) -> None:
    limits = region.context.limits
    region.configure(limits=type(limits)(conflict_entries_max=0))
    assert read(region)[1] == []
