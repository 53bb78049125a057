"""CRDT.REDRIVE: letters go back to their stream, once, and for their group alone."""

from __future__ import annotations

import pytest

from crdtstream.commands.redriving import PAGE_ENTRIES
from crdtstream.settings.config import Limits
from tests.commands.group_region import NILA, OK, ONE, ZERO, error, integer, sync
from tests.commands.harness import Region
from tests.commands.test_dead_letters import letters, poisoned, said, settle


def dead(origin: int = 1) -> Region:
    """The entries 1-1 to 3-1 of `poisoned`, all dead letters, and a group `h` that has processed them."""
    region = poisoned(origin, "MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "XGROUP CREATE s h 0")
    said(region, "XREADGROUP GROUP h c NOACK STREAMS s >")
    said(region, "XAUTOCLAIM s g c 0 0")
    assert letters(region) == 3
    return region


def test_a_letter_goes_back_for_its_group_alone() -> None:
    region = dead()
    assert said(region, "CRDT.REDRIVE s g COUNT 2") == integer(2)
    assert (letters(region), said(region, "XLEN s")) == (1, integer(5))
    assert said(region, "XREADGROUP GROUP h c STREAMS s >") == NILA, "it had processed them"
    reply = said(region, "XREADGROUP GROUP g c STREAMS s >")
    assert reply.count(b"v1") == reply.count(b"v2") == 1 and b"crdt-" not in reply and b"v3" not in reply
    assert said(region, "CRDT.REDRIVE s g") == ONE
    assert said(region, "CRDT.REDRIVE s g") == ZERO
    assert b"letters_redriven:3\r\n" in said(region, "INFO stats")


def test_it_goes_in_one_batch() -> None:
    region = dead()
    region.end_turn()
    said(region, "CRDT.REDRIVE s g COUNT 1")
    effects, _ = region.replica.opened()
    names = [type(effect).__name__ for effect in effects]
    assert names == ["EntriesAdded", "EntryNamed", "Acknowledged", "EntriesRemoved"]


def test_two_regions_bring_back_one_entry() -> None:
    one, two = dead(), Region(2)
    sync(one, two)
    assert said(one, "CRDT.REDRIVE s g") == said(two, "CRDT.REDRIVE s g") == integer(3)
    settle(one, two)
    assert said(one, "XRANGE s - +") == said(two, "XRANGE s - +")
    assert said(one, "XLEN s") == integer(6)
    assert letters(one) == letters(two) == 0
    for region in (one, two):
        assert said(region, "XREADGROUP GROUP h c STREAMS s >") == NILA


def test_other_letters_stay() -> None:
    region = dead()
    said(region, "XADD dead * crdt-source s")
    said(region, "XGROUP CREATE s i 0 CRDT MAXDELIVERIES 1 DEADLETTER dead")
    said(region, "XREADGROUP GROUP i c COUNT 1 STREAMS s >")
    said(region, "XAUTOCLAIM s i c 0 0")
    assert said(region, "CRDT.REDRIVE s g") == integer(3)
    assert letters(region) == 2


def test_letters_behind_many_others_are_found() -> None:
    region = Region()
    for number in range(PAGE_ENTRIES * 2 + 3):
        said(region, f"XADD dead {number + 1}-1 f v")
    for line in ("XADD s 1-1 f v", "XGROUP CREATE s g 0 CRDT MAXDELIVERIES 1 DEADLETTER dead"):
        said(region, line)
    said(region, "XREADGROUP GROUP g c STREAMS s >")
    said(region, "XAUTOCLAIM s g c 0 0")
    assert said(region, "CRDT.REDRIVE s g") == ONE


@pytest.mark.parametrize("count", ["0", "-1", "x", "10001"])
def test_counts_out_of_range(count: str) -> None:
    assert said(dead(), f"CRDT.REDRIVE s g COUNT {count}") == error("ERR COUNT must be a number from 1 to 10000")


def test_what_is_wrong_is_refused() -> None:
    region = dead()
    assert said(region, "CRDT.REDRIVE s g FOO") == error("ERR syntax error: CRDT.REDRIVE key group [COUNT n]")
    assert said(region, "CRDT.REDRIVE s h") == error(
        "ERR group 'h' has no dead-letter key: name it by CRDT.GROUP SET ... DEADLETTER, another key than the stream"
        " itself"
    )
    assert said(region, "CRDT.REDRIVE s x").startswith(b"-NOGROUP")
    assert letters(region) == 3


def test_the_user_needs_rights_to_both_keys() -> None:
    region = dead()
    said(region, "ACL SETUSER one on nopass +@all ~s")
    said(region, "ACL SETUSER two on nopass +@all ~s ~dead")
    said(region, "AUTH one x")
    denied = error("NOPERM No permissions to access a key")
    assert said(region, "CRDT.REDRIVE s g") == denied
    assert said(region, "CRDT.GROUP SET s g DEADLETTER dead") == denied
    assert said(region, "XGROUP CREATE s i 0 CRDT DEADLETTER dead") == denied
    said(region, "AUTH two x")
    assert said(region, "CRDT.GROUP SET s g DEADLETTER dead") == OK
    assert said(region, "CRDT.REDRIVE s g") == integer(3)


def test_memory_that_is_short_refuses_it() -> None:
    region = dead()
    region.context.standing.memory_short = True
    assert said(region, "CRDT.REDRIVE s g").startswith(b"-OOM")
    assert letters(region) == 3


def test_names_may_be_forgotten_meanwhile() -> None:
    one, two = Region(limits=Limits(names_max=1)), Region(2)
    sync(one, two)
    for line in ("XADD s 1-1 f v", "XGROUP CREATE s g 0 CRDT MAXDELIVERIES 1 DEADLETTER dead"):
        said(one, line)
    said(one, "XREADGROUP GROUP g c STREAMS s >")
    said(one, "XAUTOCLAIM s g c 0 0")
    sync(one, two)
    assert said(two, "CRDT.REDRIVE s g") == ONE
    settle(one, two)
    assert said(one, "CRDT.REDRIVE s g") == ZERO
    assert said(one, "XLEN s") == integer(2)
