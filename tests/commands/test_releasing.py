"""XNACK: what is released, how it is shown, and who gets it next."""

from __future__ import annotations

import pytest

from crdtstream.commands.integers import I64_MAX
from tests.commands.group_region import ONE, ZERO, array, bulk, bulks, error, group_of, grouped, integer, row, sync
from tests.commands.harness import Region


def pending(region: Region) -> bytes | None:
    return region.line("XPENDING s g - + 10")


@pytest.fixture
def region() -> Region:
    made = grouped("1-0", "2-0", "3-0")
    made.line("XREADGROUP GROUP g a COUNT 2 STREAMS s >")
    return made


@pytest.mark.parametrize(
    ("options", "deliveries"),
    [
        ("SILENT IDS 1 1-0", 0),
        ("FAIL IDS 1 1-0", 1),
        ("fatal ids 1 1-0", I64_MAX),
        ("FATAL IDS 1 1-0 RETRYCOUNT 7", 7),
        ("SILENT RETRYCOUNT 0 FORCE IDS 1 1-0", 0),
    ],
)
def test_modes(region: Region, options: str, deliveries: int) -> None:
    assert region.line(f"XNACK s g {options}") == ONE
    assert pending(region) == array(row("1-0", "", -1, deliveries), row("2-0", "a", 0, 1))


def test_what_is_not_pending(region: Region) -> None:
    assert region.line("XNACK s g FAIL IDS 3 1-0 3-0 9-0") == ONE
    assert region.line("XNACK s g FAIL IDS 1 9-0") == ZERO


@pytest.mark.parametrize(("key", "group"), [("s", "nog"), ("nokey", "g")])
def test_a_missing_key_or_group(region: Region, key: str, group: str) -> None:
    refused = error(f"NOGROUP No such key '{key}' or consumer group '{group}'")
    assert region.line(f"XNACK {key} {group} FAIL IDS 1 1-0") == refused


def test_force_makes_an_entry_pending(region: Region) -> None:
    assert region.line("XNACK s g FAIL IDS 2 3-0 9-0 FORCE") == ONE
    assert pending(region) == array(row("1-0", "a", 0, 1), row("2-0", "a", 0, 1), row("3-0", "", -1, 0))


def test_summaries(region: Region) -> None:
    region.line("XNACK s g FAIL IDS 1 2-0")
    assert region.line("XPENDING s g") == array(integer(2), bulk("1-0"), bulk("2-0"), array(bulks("a", "1")))
    info = region.line("XINFO STREAM s FULL")
    assert info is not None
    assert b"$9\r\npel-count\r\n:2\r\n$12\r\nnacked-count\r\n:1\r\n" in info
    assert array(bulk("2-0"), bulk(""), integer(0), integer(1)) in info


def test_released_entries_are_claimed_first_in_the_order_of_release(region: Region) -> None:
    region.line("XNACK s g FAIL IDS 1 2-0")
    region.line("XNACK s g SILENT IDS 1 1-0")
    region.line("XREADGROUP GROUP g b STREAMS s >")
    region.replica.keyspace.now_ms += 1_000
    told = region.line("XREADGROUP GROUP g c COUNT 2 CLAIM 999999 STREAMS s >")
    idle = integer(region.context.now_ms)
    expected = [array(bulk(one), bulks("f", "v"), idle, integer(n)) for one, n in (("2-0", 1), ("1-0", 0))]
    assert told == array(array(bulk("s"), array(*expected)))


def test_others_claim_at_once(region: Region) -> None:
    region.line("XNACK s g FATAL IDS 2 1-0 2-0")
    assert region.line("XCLAIM s g b 100000 1-0 JUSTID") == bulks("1-0")
    assert region.line("XAUTOCLAIM s g b 100000 0 JUSTID") == array(bulk("0-0"), bulks("2-0"), b"*0\r\n")
    region.line("XCLAIM s g b 0 1-0")
    assert pending(region) == array(row("1-0", "b", 0, I64_MAX), row("2-0", "b", 0, I64_MAX))


def test_a_waiting_reader_gets_it(region: Region) -> None:
    region.line("XREADGROUP GROUP g a STREAMS s >")
    waiting = region.connect()
    assert region.line("XREADGROUP GROUP g b CLAIM 100000 BLOCK 0 STREAMS s >", client=waiting) is None
    region.line("XNACK s g FAIL IDS 1 2-0")
    [reply] = region.late_replies(waiting)
    assert bulk("2-0") + bulks("f", "v") in reply


def test_an_acknowledgement_ends_it(region: Region) -> None:
    region.line("XNACK s g FAIL IDS 1 1-0")
    assert region.line("XACK s g 1-0") == ONE
    assert pending(region) == array(row("2-0", "a", 0, 1))


def test_it_is_local() -> None:
    one, two = grouped("1-0"), Region(2)
    sync(one, two)
    for each in (one, two):
        each.line("XREADGROUP GROUP g a STREAMS s >")
    one.line("XNACK s g FAIL IDS 1 1-0")
    sync(one, two)
    assert pending(two) == array(row("1-0", "a", 0, 1))
    assert group_of(one).pending.released_count() == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("FOO IDS 1 1-0", "ERR mode must be SILENT, FAIL, or FATAL"),
        ("FAIL RETRYCOUNT 1 FORCE", "ERR IDS option is required"),
        ("FAIL IDS 0 1-0", "ERR Number of IDs must be a positive integer"),
        ("FAIL IDS 2 1-0", "ERR The `numids` parameter must match the number of arguments"),
        ("FAIL IDS 1 1-0 2-0", "ERR syntax error"),
        ("FAIL IDS 1 x", "ERR Invalid stream ID specified as stream command argument"),
        ("FAIL IDS 1 1-0 RETRYCOUNT x", "ERR Invalid RETRYCOUNT option argument for XNACK"),
        ("FAIL IDS 1 1-0 RETRYCOUNT", "ERR syntax error"),
    ],
)
def test_refused(region: Region, options: str, text: str) -> None:
    assert region.line(f"XNACK s g {options}") == b"-%b\r\n" % text.encode()
