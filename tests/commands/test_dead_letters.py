"""Poison entries: when a claim moves one to the dead-letter key, what the letter says, and what is never moved."""

from __future__ import annotations

import pytest

from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.names.duplicates import remove_all_lost
from crdtstream.core.names.letters import HOPS_MAX, TRAILER
from tests.commands.group_region import NILA, OK, ONE, ZERO, array, bulk, bulks, error, group_of, integer, sync
from tests.commands.harness import Region

CLAIMS = (
    "XCLAIM s g d 0 1-1",
    "XAUTOCLAIM s g d 0 0",
    "XREADGROUP GROUP g d CLAIM 0 STREAMS s >",
)


def said(region: Region, line: str) -> bytes:
    return region.line(line) or b""


def poisoned(origin: int = 1, limit: str = "MAXDELIVERIES 2 DEADLETTER dead") -> Region:
    """Entries 1-1 to 3-1, all read once by `c`."""
    region = Region(origin)
    for number in (1, 2, 3):
        said(region, f"XADD s {number}-1 f v{number}")
    assert said(region, f"XGROUP CREATE s g 0 CRDT {limit}") == OK
    assert b"3-1" in said(region, "XREADGROUP GROUP g c STREAMS s >")
    return region


def letters(region: Region) -> int:
    return int(said(region, "XLEN dead")[1:])


def settle(*regions: Region) -> None:
    for _ in range(3):
        sync(*regions)
        for region in regions:
            remove_all_lost(region.replica, DeferredWork(region.replica))
    sync(*regions)


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_claim_after_the_last_delivery_moves_the_entry(claim: str) -> None:
    region = poisoned()
    assert b"v1" in said(region, claim), "delivery 2 is allowed"
    assert letters(region) == 0
    assert b"v1" not in said(region, claim)
    assert b"v1" in said(region, "XRANGE dead - +")
    assert b"1-1" not in said(region, "XPENDING s g - + 10")
    assert said(region, "XACK s g 1-1") == ZERO
    assert said(region, "XLEN s") == integer(3), "the entry stays in its stream"
    region.check()


def test_a_letter_says_where_it_came_from() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    assert said(region, "XCLAIM s g d 0 2-1") == array()
    values = ("s", "g", "2-1", "1", "1", "1")
    trailer = [word for name, value in zip(TRAILER, values, strict=True) for word in (name.decode(), value)]
    assert bulks("f", "v2", *trailer) in said(region, "XRANGE dead - +")
    assert b"letters_written:1\r\n" in said(region, "INFO stats")


def test_reads_of_the_history_do_not_count() -> None:
    region = poisoned()
    for _ in range(9):
        assert b"v1" in said(region, "XREADGROUP GROUP g c STREAMS s 0")
    assert b"v1" in said(region, "XCLAIM s g d 0 1-1"), "a restart poisons nothing"
    assert letters(region) == 0


def test_justid_delivers_nothing_and_retrycount_sets_the_count() -> None:
    region = poisoned()
    assert said(region, "XCLAIM s g d 0 1-1 RETRYCOUNT 2 JUSTID") == bulks("1-1")
    for _ in range(3):
        assert said(region, "XCLAIM s g d 0 1-1 JUSTID") == bulks("1-1")
    assert said(region, "XCLAIM s g d 0 2-1 RETRYCOUNT 3") == array()
    assert letters(region) == 1


def test_one_id_that_is_named_twice_is_one_letter() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    assert said(region, "XCLAIM s g d 0 1-1 1-1 FORCE") == array()
    assert letters(region) == 1


def test_without_both_properties_nothing_is_moved() -> None:
    region = Region()
    said(region, "XADD s 1-1 f v")
    refused = (
        "ERR MAXDELIVERIES needs a dead-letter key, because nothing is dropped: set DEADLETTER too, or MAXDELIVERIES 0"
    )
    assert said(region, "XGROUP CREATE s g 0 CRDT MAXDELIVERIES 1") == error(refused)
    said(region, "XGROUP CREATE s g 0 CRDT DEADLETTER dead")
    said(region, "XREADGROUP GROUP g c STREAMS s >")
    for _ in range(5):
        assert b"1-1" in said(region, "XCLAIM s g c 0 1-1")
    assert letters(region) == 0
    assert said(region, "CRDT.GROUP SET s g MAXDELIVERIES 5") == OK
    assert said(region, "CRDT.GROUP SET s g MAXDELIVERIES 0") == OK
    assert region.run("CRDT.GROUP", "SET", "s", "g", "DEADLETTER", "") == OK
    assert said(region, "CRDT.GROUP SET s g MAXDELIVERIES 5") == error(refused)


def test_what_is_wrong_is_refused_and_changes_nothing() -> None:
    region = poisoned()
    itself = "ERR the dead-letter key is the stream itself: give DEADLETTER another key"
    assert said(region, "CRDT.GROUP SET s g DEADLETTER s") == error(itself)
    bounds = "ERR property MAXDELIVERIES takes a number from 1 to 1000000, or 0 for no limit"
    for text in ("-1", "x", "1000001", ""):
        assert region.run("CRDT.GROUP", "SET", "s", "g", "MAXDELIVERIES", text) == error(bounds)
    assert said(region, "CRDT.GROUP SET s g DEADLETTER") == error(
        "ERR wrong number of arguments for 'crdt.group|set' command"
    )
    both = "CRDT.GROUP SET s g MAXDELIVERIES 3 DEADLETTER"
    assert said(region, both) == error('ERR property DEADLETTER takes the key of a stream, or "" for none')
    told = bulk("maxdeliveries") + integer(2) + bulk("deadletter") + bulk("dead")
    assert told in said(region, "CRDT.GROUP GET s g")
    assert told in said(region, "XINFO GROUPS s")


def test_xnack_fatal_moves_at_once() -> None:
    region = poisoned(limit="DEADLETTER dead")
    said(region, "XDEL s 2-1")
    assert said(region, "XNACK s g FATAL IDS 3 1-1 2-1 9-9") == integer(2)
    assert letters(region) == 1
    assert b"1-1" not in said(region, "XPENDING s g - + 10")
    assert b"2-1" not in said(region, "XPENDING s g - + 10"), "what is gone just leaves"
    assert said(region, "XNACK s g FAIL IDS 1 3-1") == ONE
    assert letters(region) == 1


def test_what_is_gone_just_leaves() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "XDEL s 1-1 2-1 3-1")
    said(region, "XAUTOCLAIM s g d 0 0")
    assert (letters(region), group_of(region).pending.count) == (0, 0)


def test_two_groups_make_two_letters() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "XGROUP CREATE s h 0 CRDT MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "XREADGROUP GROUP h c STREAMS s >")
    said(region, "XCLAIM s g d 0 1-1")
    said(region, "XCLAIM s h d 0 1-1")
    assert letters(region) == 2


@pytest.mark.parametrize("acknowledge", ["CONTIGUOUS", "EXACT"])
def test_the_acknowledgement_goes_with_the_letter(acknowledge: str) -> None:
    """Else the letter replicates and the acknowledgement does not: a second letter."""
    one, two = poisoned(limit=f"ACKNOWLEDGE {acknowledge} MAXDELIVERIES 1 DEADLETTER dead"), Region(2)
    sync(one, two)
    said(one, "XCLAIM s g d 0 3-1")
    effects, _ = one.replica.opened()
    assert [type(effect).__name__ for effect in effects] == ["EntriesAdded", "EntryNamed", "Acknowledged"]
    settle(one, two)
    assert b"3-1" not in said(two, "XREADGROUP GROUP g c STREAMS s >")
    assert said(one, "XLEN dead") == said(two, "XLEN dead") == ONE


def test_two_regions_make_one_letter() -> None:
    one, two = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead"), Region(2)
    sync(one, two)
    said(two, "XREADGROUP GROUP g c STREAMS s >")
    for region in (one, two):
        said(region, "XCLAIM s g d 0 2-1")
        assert letters(region) == 1
    settle(one, two)
    assert said(one, "XRANGE dead - +") == said(two, "XRANGE dead - +")
    assert letters(one) == 1


def test_a_letter_is_written_again_only_after_a_reset() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "XCLAIM s g d 0 1-1")
    region.replica.keyspace.now_ms += 10**9
    said(region, "XCLAIM s g d 0 1-1 FORCE")
    said(region, "XCLAIM s g d 0 1-1")
    assert letters(region) == 1, "its name is known, whatever the duration"
    assert b"1-1" not in said(region, "XPENDING s g - + 10")
    said(region, "CRDT.GROUP RESET s g ID 0")
    said(region, "XREADGROUP GROUP g c STREAMS s >")
    said(region, "XCLAIM s g d 0 1-1")
    assert letters(region) == 2


def test_a_letter_of_letters_ends_after_so_many_hops() -> None:
    region = Region()
    said(region, "XADD a 1-1 f v")
    for name, other in (("a", "b"), ("b", "a")):
        said(region, f"XGROUP CREATE {name} g 0 MKSTREAM CRDT MAXDELIVERIES 1 DEADLETTER {other}")
    for hop in range(HOPS_MAX + 3):
        name = "ab"[hop % 2]
        said(region, f"XREADGROUP GROUP g c STREAMS {name} >")
        said(region, f"XAUTOCLAIM {name} g c 0 0")
    assert int(said(region, "XLEN a")[1:]) + int(said(region, "XLEN b")[1:]) == 1 + HOPS_MAX
    assert b"crdt-hops\r\n$2\r\n16" in said(region, "XAUTOCLAIM a g c 0 0"), "it is delivered, and stays pending"
    assert b"letters_refused:0\r\n" not in said(region, "INFO stats")


def test_short_memory_delivers_what_cannot_be_moved() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    region.context.standing.memory_short = True
    assert b"v1" in said(region, "XCLAIM s g d 0 1-1")
    region.context.standing.memory_short = False
    assert said(region, "XCLAIM s g d 0 1-1") == array()
    assert letters(region) == 1


def test_an_old_region_is_named_and_nothing_is_moved_meanwhile() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    region.neighbours.formats[2] = 3
    assert said(region, "CRDT.GROUP SET s g DEADLETTER other").startswith(b"-ERR region (2) cannot read properties")


def test_a_stream_that_got_the_name_of_its_dead_letter_key_keeps_its_entries() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "COPY s dead")
    group = b"".join([said(region, "XREADGROUP GROUP g c STREAMS dead >"), said(region, "XAUTOCLAIM dead g c 0 0")])
    assert b"v1" in group
    assert letters(region) == 3


def test_an_ordered_claim_moves_a_whole_chain_or_nothing() -> None:
    region = poisoned(limit="ORDER ALL MAXDELIVERIES 1 DEADLETTER dead")
    assert said(region, "XCLAIM s g d 0 1-1") == array()
    assert letters(region) == 0
    said(region, "XAUTOCLAIM s g d 0 0 COUNT 1")
    assert letters(region) == 3
    assert said(region, "XREADGROUP GROUP g d CLAIM 0 STREAMS s >") == NILA


def test_a_transaction_moves_too() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    for line in ("MULTI", "XCLAIM s g d 0 1-1", "XCLAIM s g d 0 2-1", "XLEN dead"):
        said(region, line)
    assert said(region, "EXEC") == array(array(), array(), integer(2))


def test_a_letter_takes_no_room_of_a_transaction() -> None:
    region = Region()
    region.replica.budget.fit(16 << 10, 0, 0)
    region.run("XADD", "s", "1-1", "f", "v" * 6_000)
    said(region, "XGROUP CREATE s g 0 CRDT MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "XREADGROUP GROUP g c STREAMS s >")
    region.end_turn()
    said(region, "MULTI")
    said(region, "XCLAIM s g d 0 1-1")
    region.run("XADD", "x", "1-1", "f", "v" * 8_000)
    assert said(region, "EXEC") == array(array(), bulk("1-1")), "it stays pending"
    region.end_turn()
    assert (letters(region), group_of(region).pending.count) == (0, 1)
    assert said(region, "XCLAIM s g d 0 1-1") == array()
    assert letters(region) == 1


def test_reader_goes_on_past_poison() -> None:
    region = poisoned(limit="MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "XADD s 4-1 f v4")
    assert b"v4" in said(region, "XREADGROUP GROUP g d COUNT 1 CLAIM 0 STREAMS s >")
    assert letters(region) == 3
