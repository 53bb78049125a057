"""CRDT.IMPORT: entries with the IDs that they have elsewhere, in every mode."""

from __future__ import annotations

import pytest

from tests.commands.stream_region import Region

ADDED = b":1\r\n"
THERE = b":0\r\n"


@pytest.fixture(params=["strict", "semi-strict", "liberal"])
def region(request: pytest.FixtureRequest) -> Region:
    return Region(id_mode=request.param)


def test_an_entry_keeps_its_id_and_is_added_once(region: Region) -> None:
    assert [region.line(f"CRDT.IMPORT s {entry_id} f v") for entry_id in ("1-1", "1-2", "1-1")] == [ADDED, ADDED, THERE]
    assert region.line("XLEN s") == b":2\r\n"
    assert b"1-1" in (region.line("XRANGE s - + COUNT 1") or b"")


def test_an_id_below_the_last_one_of_this_region_is_refused(region: Region) -> None:
    region.line("CRDT.IMPORT s 5-5 f v")
    assert (region.line("CRDT.IMPORT s 5-4 f v") or b"").startswith(b"-ERR the ID 5-4 is not above 5-5")
    assert region.line("XLEN s") == b":1\r\n"


@pytest.mark.parametrize(
    ("request_text", "error"),
    [
        ("CRDT.IMPORT s 5 f v", b"must be complete"),
        ("CRDT.IMPORT s * f v", b"must be complete"),
        ("CRDT.IMPORT s 5-x f v", b"must be complete"),
        ("CRDT.IMPORT s 0-0 f v", b"must be greater than 0-0"),
        ("CRDT.IMPORT s 1-1 f", b"wrong number of arguments"),
        ("CRDT.IMPORT s 1-1 f v g", b"wrong number of arguments"),
    ],
)
def test_what_is_refused_changes_nothing(region: Region, request_text: str, error: bytes) -> None:
    reply = region.line(request_text) or b""
    assert reply.startswith(b"-ERR") and error in reply
    assert region.line("EXISTS s") == b":0\r\n"
