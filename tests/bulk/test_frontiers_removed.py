"""A caller that acknowledges a position is told which entries above it were removed before it had them."""

from __future__ import annotations

import pytest

from crdtstream.bulk.frontiers import Advancing
from tests.commands.stream_region import Region

KEY = (0, b"s")
REMOVALS = {
    "DEL": ["DEL s"],
    "UNLINK": ["UNLINK s"],
    "PEXPIRE": ["PEXPIRE s 0"],
    "FLUSHALL": ["FLUSHALL"],
    "RENAME": ["RENAME s other"],
    "RENAME over it": ["XADD other 9-1 f v", "RENAME other s"],
    "XTRIM": ["XTRIM s MAXLEN 0"],
    "DEL, and made again": ["DEL s", "XADD s 9-1 f v"],
    "DEL, and the group made again": ["DEL s", "XGROUP CREATE s g 0 MKSTREAM", "XADD s 9-1 f v"],
}


def region_of(count: int) -> tuple[Region, list[int]]:
    """A region with a group and so many entries, and their seqs."""
    region = Region()
    region.say("XGROUP CREATE s g 0 MKSTREAM")
    for number in range(1, count + 1):
        region.say(f"XADD s {number}-1 f v")
    region.close_turn()
    tree = region.stream().trees[1]
    return region, [tree.counter_of((number, 1)) for number in range(1, count + 1)]


def told(region: Region, seqs: dict[int, int]) -> dict[int, int]:
    advancing = Advancing(b"g", b"job", {KEY: seqs})
    assert advancing.create(region.context)
    while advancing.step(region.context):
        region.check()
    region.close_turn()
    return advancing.removed.get(KEY, {})


@pytest.mark.parametrize("commands", REMOVALS.values(), ids=REMOVALS)
def test_what_was_removed_above_a_position(commands: list[str]) -> None:
    region, seqs = region_of(5)
    assert told(region, {1: seqs[1]}) == {}
    for command in commands:
        region.say(command)
    region.close_turn()
    assert told(region, {1: seqs[2]}) == {1: seqs[4]}
    assert told(region, {1: seqs[4]}) == {}, "it had read them all"


def test_single_entries_and_streams_that_never_were_are_no_loss() -> None:
    region, seqs = region_of(5)
    region.say("XDEL s 4-1 5-1")
    region.close_turn()
    assert told(region, {1: seqs[2], 2: 7}) == {}
    advancing = Advancing(b"g", b"job", {(0, b"none"): {1: seqs[2]}})
    assert not advancing.step(region.context)
    assert advancing.removed == {}


def test_origins_are_told_apart_and_others_are_not_spoken_of() -> None:
    one, two = Region(1), Region(2)
    one.say("XADD s 1-1 f v")
    two.hear(one)
    two.say("XADD s 2-1 f v")
    one.hear(two)
    first, second = (one.stream().trees[origin].last_counter() for origin in (1, 2))
    one.say("DEL s")
    one.close_turn()
    assert told(one, {1: first, 2: 0}) == {2: second}
    assert told(one, {1: 0}) == {1: first}


def test_an_expiry_that_has_passed_is_told_before_it_is_collected() -> None:
    region, seqs = region_of(3)
    region.say("PEXPIRE s 10")
    region.close_turn()
    region.replica.keyspace.now_ms += 20
    assert told(region, {1: seqs[0]}) == {1: seqs[2]}
