"""RENAME, RENAMENX and COPY where Redis is no model: ID modes, groups, limits, who waits."""

from __future__ import annotations

import re

import pytest

from crdtstream.core import effects as fx
from crdtstream.settings.config import Limits
from tests.commands.harness import Region


@pytest.fixture
def region() -> Region:
    region = Region(id_mode="strict")
    region.line("XADD a 5 f v")
    return region


@pytest.mark.parametrize("text", ["RENAME a b", "RENAMENX a b", "COPY a b"])
def test_full_ids_are_written_in_strict_mode(region: Region, text: str) -> None:
    before = region.line("XRANGE a - +")
    region.line(text)
    assert region.line("XRANGE b - +") == before
    assert region.line("XADD b 5 f w") == b"$7\r\n5-65537\r\n"


def test_rename_drops_groups(region: Region) -> None:
    region.line("XGROUP CREATE a g 0")
    region.line("XREADGROUP GROUP g c STREAMS a >")
    region.line("RENAME a b")
    assert region.line("XINFO GROUPS b") == b"*0\r\n"


GROUPS = (
    *[f"XADD a {at} f v" for at in range(6, 14)],
    "XGROUP CREATE a all 0",
    "XGROUP CREATE a new $",
    "XREADGROUP GROUP all one COUNT 5 STREAMS a >",
    "XREADGROUP GROUP all two COUNT 2 STREAMS a >",
    "XACK a all 5-1 6-1 8-1",
    "XNACK a all FAIL IDS 1 9-1",
    "XDEL a 10-1 13-1",
    "XGROUP SETID a new 7-1",
    "XGROUP CREATECONSUMER a new idle",
    "XADD a IDMP p i * f v",
    "XADD a IDMP p i * f v",
)


@pytest.mark.parametrize("text", ["COPY a a DB 3", "MOVE a 3", "SWAPDB 0 3"])
def test_groups_go_along(text: str) -> None:
    region = Region()
    region.line("XADD a 5-1 f v")
    for line in GROUPS:
        region.line(line.replace(" f v", "-1 f v") if line.startswith("XADD a ") and "*" not in line else line)
    region.end_turn()
    before = region.line("XINFO STREAM a FULL")
    assert region.line(text) in (b":1\r\n", b"+OK\r\n")
    region.check()
    region.line("SELECT 3")
    assert region.line("XINFO STREAM a FULL") == before
    region.end_turn()
    assert region.line("XINFO STREAM a FULL") == before
    assert (region.line("XREADGROUP GROUP all one STREAMS a >") or b"").count(b"-") == 2
    region.check()


def test_both_streams_of_a_swap_keep_their_groups(region: Region) -> None:
    for text in ("XGROUP CREATE a g 0", "XREADGROUP GROUP g c STREAMS a >", "SELECT 1", "XADD a 7 f w"):
        region.line(text)
    for text in ("XGROUP CREATE a h $", "XGROUP CREATECONSUMER a h d", "SWAPDB 1 0"):
        region.line(text)
    assert (region.line("XPENDING a g") or b"").startswith(b"*4\r\n:1\r\n$3\r\n5-1")
    region.line("SELECT 0")
    assert (region.line("XINFO CONSUMERS a h") or b"").startswith(b"*1")
    assert (region.line("XPENDING a g") or b"").startswith(b"-NOGROUP")
    region.check()


def test_all_lies_in_one_batch(region: Region) -> None:
    region.line("XADD b * f old")
    region.end_turn()
    region.line("PEXPIRE a 1000")
    region.line("RENAME a b")
    batch = region.replica.drain().batch
    assert batch is not None
    batch.check()
    kinds = [type(effect) for effect in batch.effects]
    assert kinds == [fx.ExpirySet, fx.StreamDeleted, fx.EntriesAdded, fx.StreamIdSet, fx.ExpirySet, fx.StreamDeleted]


def test_too_many_entries_are_refused() -> None:
    region = Region(limits=Limits(copy_entries_max=2))
    for _ in range(2):
        region.line("XADD a * f v")
    assert region.line("COPY a b") == b":1\r\n"
    region.line("XADD a * f v")
    before = region.replica.applied.counter()
    for text in ("RENAME a b", "RENAMENX a c", "COPY a b REPLACE"):
        reply = region.line(text)
        assert reply is not None
        assert reply.startswith(b"-ERR the stream has 3 entries"), reply
        assert b"copy_entries_max = 2" in reply
    assert region.replica.applied.counter() == before
    assert region.line("RENAME a a") == b"+OK\r\n"


def test_no_effect_where_nothing_is_renamed(region: Region) -> None:
    region.line("XADD b * f v")
    before = region.replica.applied.counter()
    assert region.line("RENAME a a") == b"+OK\r\n"
    assert region.line("RENAMENX a b") == b":0\r\n"
    assert region.line("COPY a b") == b":0\r\n"
    assert region.line("RENAME x b") == b"-ERR no such key\r\n"
    assert region.replica.applied.counter() == before


def test_who_waits(region: Region) -> None:
    """In a group of the source: it is gone. For entries of the target: here they are."""
    region.line("XGROUP CREATE a g $")
    grouped, reading = region.connect(), region.connect()
    assert region.line("XREADGROUP GROUP g c BLOCK 0 STREAMS a >", client=grouped) is None
    assert region.line("XREAD BLOCK 0 STREAMS b $", client=reading) is None
    region.line("RENAME a b")
    text = b"-NOGROUP No such key 'a' or consumer group 'g' in XREADGROUP with GROUP option\r\n"
    assert region.late_replies(grouped) == [text]
    (entries,) = region.late_replies(reading)
    assert b"5-1" in entries


# MOVE and SWAPDB


def test_move(region: Region) -> None:
    before = region.line("XRANGE a - +")
    assert region.line("MOVE a 3") == b":1\r\n"
    assert region.line("EXISTS a") == b":0\r\n"
    region.line("SELECT 3")
    assert region.line("XRANGE a - +") == before
    assert region.line("MOVE none 0") == b":0\r\n"
    region.line("COPY a a DB 0")
    assert region.line("MOVE a 0") == b":0\r\n"
    assert region.line("MOVE a 3") == b"-ERR source and destination objects are the same\r\n"
    region.check()


def test_swapped_databases(region: Region) -> None:
    region.line("XADD only-0 7 f v")
    region.line("SELECT 1")
    for text in ("XADD a 9 f w", "XADD only-1 8 f v", "XADD a:swap 1 f v"):
        region.line(text)
    region.line("SELECT 0")
    assert region.line("SWAPDB 0 1") == b"+OK\r\n"
    found = {}
    for database in (0, 1):
        region.line(f"SELECT {database}")
        found[database] = {name: region.line(f"XRANGE {name} - +") for name in ("a", "only-0", "only-1", "a:swap")}
    ids = {
        database: [re.findall(rb"\d+-\d+", reply or b"") for reply in each.values()] for database, each in found.items()
    }
    assert ids == {0: [[b"9-1"], [], [b"8-1"], [b"1-1"]], 1: [[b"5-1"], [b"7-1"], [], []]}
    region.check()


def test_too_many_entries_to_swap() -> None:
    region = Region(limits=Limits(copy_entries_max=1))
    for text in ("XADD a * f v", "SELECT 1", "XADD b * f v"):
        region.line(text)
    assert (region.line("SWAPDB 0 1") or b"").startswith(b"-ERR the databases have 2 entries; SWAPDB rewrites every")
