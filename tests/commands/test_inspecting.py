"""CRDT.STREAM SHOW, CRDT.GROUP SHOW and CRDT.ENTRIES: what two origins added, delivered and acknowledged."""

from __future__ import annotations

from typing import Any

import pytest

from crdtstream.observing.rows import fields_of_row
from tests.commands.portraits import Part, parsed
from tests.commands.stream_region import Region

EAST, WEST = 1, 2


def value(reply: bytes | None) -> Any:
    return plain(parsed(reply or b""))


def plain(part: Part) -> Any:
    _, content = part
    return [plain(item) for item in content] if isinstance(content, list) else content


@pytest.fixture
def region() -> Region:
    """East has read and acknowledged 1-1 of its own, and has 2-2 of west and 3-1 of its own to read."""
    east, west = Region(EAST), Region(WEST)
    east.say("XADD s 1-1 f a")
    west.say("XADD s 2-2 f b")
    east.close_turn()
    west.close_turn()
    east.hear(west)
    east.create_group()
    for line in ("XREADGROUP GROUP g c COUNT 1 STREAMS s >", "XACK s g 1-1", "XADD s 3-1 f c"):
        east.say(line)
        east.close_turn()
    return east


def test_a_stream_by_origin(region: Region) -> None:
    rows = [fields_of_row(row) for row in value(region.say("CRDT.STREAM SHOW s"))]
    shown = [(row["origin"], row["entries"], row["first-id"], row["last-id"]) for row in rows]
    assert shown == [(b"1.0", 2, b"1-1", b"3-1"), (b"2.0", 1, b"2-2", b"2-2")]
    assert all(row["bytes"] > 0 for row in rows)
    assert region.say("CRDT.STREAM SHOW none") == b"-ERR no such key\r\n"


def test_entries_with_their_origins(region: Region) -> None:
    found = value(region.say("CRDT.ENTRIES s - +"))
    assert found == [
        [b"1-1", [b"f", b"a"], b"1.0"],
        [b"2-2", [b"f", b"b"], b"2.0"],
        [b"3-1", [b"f", b"c"], b"1.0"],
    ]
    assert value(region.say("CRDT.ENTRIES s - + REV COUNT 2")) == [found[2], found[1]]
    assert value(region.say("CRDT.ENTRIES s (1-1 2-2")) == [found[1]]
    assert value(region.say("CRDT.ENTRIES s - + COUNT 0")) == []
    assert value(region.say("CRDT.ENTRIES none - +")) == []
    assert (region.say("CRDT.ENTRIES s - + REV REV") or b"").startswith(b"-ERR syntax error")


def test_a_group_by_origin(region: Region) -> None:
    found = fields_of_row(value(region.say("CRDT.GROUP SHOW s g")))
    assert found["lag"] == 2
    assert found["next"] == [[b"2-2", [b"f", b"b"], b"2.0"], [b"3-1", [b"f", b"c"], b"1.0"]]
    own, other = [fields_of_row(row) for row in found["origins"]]
    assert (own["delivered"], own["frontier"], own["lag"], own["pending"]) == (b"1-1", b"1-1", 1, 0)
    assert (own["runs"], own["acked"]) == (1, [[b"0-0", b"1-1"]])
    assert (other["delivered"], other["frontier"], other["lag"], other["runs"]) == (b"0-0", b"0-0", 1, 0)


def test_looking_at_a_group_delivers_nothing(region: Region) -> None:
    before = region.say("CRDT.GROUP SHOW s g")
    assert region.say("CRDT.GROUP SHOW s g COUNT 1") != before
    assert region.say("CRDT.GROUP SHOW s g") == before
    (stream,) = value(region.say("XREADGROUP GROUP g c STREAMS s >"))
    assert [entry[0] for entry in stream[1]] == [b"2-2", b"3-1"]
    found = fields_of_row(value(region.say("CRDT.GROUP SHOW s g")))
    assert (found["lag"], found["next"]) == (0, [])
    assert [fields_of_row(row)["pending"] for row in found["origins"]] == [1, 1]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("CRDT.GROUP SHOW none g", "ERR no such key"),
        ("CRDT.GROUP SHOW s none", "NOGROUP No such consumer group 'none' for key name 's'"),
        ("CRDT.GROUP SHOW s g COUNT", "ERR syntax error"),
        ("CRDT.GROUP SHOW s g COUNT -1", "ERR COUNT must be a number from 0"),
    ],
)
def test_what_is_refused(region: Region, line: str, error: str) -> None:
    assert region.say(line) == f"-{error}\r\n".encode()
