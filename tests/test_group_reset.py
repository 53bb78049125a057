"""A group that begins again, in all regions: what comes again, and what two resets at one time choose."""

from __future__ import annotations

import re

import pytest

from simulations.cluster import Cluster
from simulations.state_checkers import Recovered
from tests.group_delivery import assert_refused, read, say
from tests.state_transfers import assert_equal, cut_log, settle
from tests.test_group_properties import formed

IDS = [f"{number}-1" for number in range(1, 7)]


def done() -> Cluster:
    """All is read and acknowledged in region 1, but 6-1."""
    cluster = formed()
    assert read(cluster, 1) == IDS
    say(cluster, 1, "XACK s g " + " ".join(IDS[:5]))
    cluster.sync()
    return cluster


def test_every_region_delivers_again_what_lies_above() -> None:
    cluster = done()
    assert (
        say(cluster, 2, "CRDT.GROUP RESET s g ID 3-1 DRYRUN") == b"*4\r\n$5\r\nagain\r\n:2\r\n$7\r\nskipped\r\n:0\r\n"
    )
    assert say(cluster, 2, "CRDT.GROUP RESET s g ID 3-1") == b"+OK\r\n"
    cluster.sync()
    assert read(cluster, 1) == read(cluster, 2) == IDS[3:]
    assert_equal(cluster)


def test_acknowledgements_of_before_do_not_count_after() -> None:
    """One region acknowledges what it got before it knew of the reset."""
    cluster = formed()
    assert read(cluster, 1) == IDS
    cluster.cut(1, 2)
    say(cluster, 2, "CRDT.GROUP RESET s g ID 0")
    say(cluster, 1, "XACK s g " + " ".join(IDS))
    cluster.heal(1, 2)
    cluster.sync()
    assert read(cluster, 2) == IDS
    say(cluster, 2, "XACK s g " + " ".join(IDS))
    cluster.sync()
    assert read(cluster, 1) == []
    assert_equal(cluster)


@pytest.mark.parametrize("others", ["", " 7-1"])
def test_an_acknowledgement_of_what_was_delivered_before_lets_it_come_again(others: str) -> None:
    cluster = formed()
    assert read(cluster, 1) == IDS
    say(cluster, 1, "XADD s 7-1 f v")
    say(cluster, 1, "CRDT.GROUP RESET s g ID 0")
    assert say(cluster, 1, "XACK s g 2-1" + others) == b":%d\r\n" % (2 if others else 1)
    assert b"2-1" not in say(cluster, 1, "XPENDING s g - + 10")
    assert read(cluster, 1) == [*IDS, *([] if others else ["7-1"])]


@pytest.mark.parametrize("whole", [False, True])
def test_what_lies_below_the_reset_of_another_create_does_not_come_again(whole: bool) -> None:
    """Both regions create the group, and one of them resets its create before it hears of the other one."""
    cluster = formed()
    cluster.cut(1, 2)
    say(cluster, 1, "XGROUP CREATE s h 0 CRDT ACKNOWLEDGE EXACT")
    assert read_of(cluster, 1, "h", 4) == IDS[:4]
    say(cluster, 2, "XGROUP CREATE s h 0")
    say(cluster, 2, "CRDT.GROUP RESET s h ID 3-1")
    if whole:
        cut_log(cluster, 2)
    cluster.heal(1, 2)
    settle(cluster)
    assert read_of(cluster, 1, "h", 100) == IDS[3:]
    assert_equal(cluster)


def read_of(cluster: Cluster, number: int, group: str, count: int) -> list[str]:
    reply = say(cluster, number, f"XREADGROUP GROUP {group} c COUNT {count} STREAMS s >")
    return re.findall(r"\d+-1(?=\r)", reply.decode())


@pytest.mark.parametrize("mode", ["CONTIGUOUS", "EXACT"])
def test_after_a_reset_nothing_is_left_for_a_start_to_tell(mode: str) -> None:
    """What lies below the start is told once more under the reset: at once, as the next start would."""
    cluster = formed()
    say(cluster, 2, f"CRDT.GROUP SET s g ACKNOWLEDGE {mode}")
    cluster.sync()
    assert read(cluster, 1) == IDS
    say(cluster, 1, "XACK s g " + " ".join(IDS[:5]))
    cluster.sync()
    say(cluster, 2, "CRDT.GROUP RESET s g ID 3-1")
    cluster.sync()
    Recovered().at_end(cluster)


def test_what_was_acknowledged_exactly_is_not_told_once_more_by_a_contiguous_group() -> None:
    """A start replays what was acknowledged while the group did so exactly, then the reset that voids it."""
    cluster = formed()
    say(cluster, 2, "CRDT.GROUP SET s g ACKNOWLEDGE EXACT")
    cluster.sync()
    assert read(cluster, 1) == IDS
    say(cluster, 1, "XACK s g " + " ".join(IDS[3:]))
    say(cluster, 1, "CRDT.GROUP SET s g ACKNOWLEDGE CONTIGUOUS")
    say(cluster, 1, "CRDT.GROUP RESET s g ID 0")
    assert read(cluster, 1) == IDS
    say(cluster, 1, "XACK s g " + " ".join(IDS[3:]))
    cluster.sync()
    Recovered().at_end(cluster)


@pytest.mark.parametrize("whole", [False, True])
def test_what_lies_below_a_reset_does_not_count_against_that_of_another_create(whole: bool) -> None:
    """Region 3 creates the group too, and region 2 does not know of that when it resets the group."""
    cluster = formed(3)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    say(cluster, 1, "XGROUP CREATE s h 0")
    say(cluster, 3, "XGROUP CREATE s h 0")
    cluster.sync()
    cluster.cut(1, 2)
    cluster.heal(1, 3)
    cluster.sync()
    assert read_of(cluster, 1, "h", 100) == IDS
    say(cluster, 1, "XACK s h " + " ".join(IDS))
    say(cluster, 1, "CRDT.GROUP RESET s h ID 3-1")
    assert read_of(cluster, 1, "h", 2) == IDS[3:5]
    say(cluster, 1, "XACK s h 4-1")
    say(cluster, 2, "CRDT.GROUP RESET s h ID 0")
    if whole:
        cut_log(cluster, 2)
    cluster.heal(1, 2)
    cluster.heal(2, 3)
    settle(cluster)
    assert read_of(cluster, 1, "h", 100) == IDS[:3] + IDS[4:]
    assert read_of(cluster, 3, "h", 100) == IDS[:3] + IDS[4:]
    assert_equal(cluster)


def test_a_create_that_was_not_reset_learns_what_was_acknowledged_below_the_start() -> None:
    cluster = formed()
    cluster.cut(1, 2)
    say(cluster, 1, "XGROUP CREATE s h 0")
    say(cluster, 2, "XGROUP CREATE s h 0")
    assert read_of(cluster, 1, "h", 100) == IDS
    say(cluster, 1, "XACK s h " + " ".join(IDS))
    say(cluster, 1, "CRDT.GROUP RESET s h ID 3-1")
    cluster.heal(1, 2)
    cluster.sync()
    assert read_of(cluster, 2, "h", 100) == IDS[3:]
    assert_equal(cluster)
    Recovered().at_end(cluster)


def test_of_two_resets_every_region_chooses_the_same() -> None:
    cluster = done()
    cluster.cut(1, 2)
    say(cluster, 1, "CRDT.GROUP RESET s g ID 1-1")
    say(cluster, 2, "CRDT.GROUP RESET s g ID 4-1")
    cluster.heal(1, 2)
    cluster.sync()
    assert read(cluster, 1) == read(cluster, 2) == IDS[4:]
    assert_equal(cluster)


def test_new_skips_what_the_region_has_seen() -> None:
    cluster = done()
    assert b"again\r\n:0\r\n$7\r\nskipped\r\n:1\r\n" in say(cluster, 2, "CRDT.GROUP RESET s g NEW DRYRUN")
    say(cluster, 2, "CRDT.GROUP RESET s g NEW")
    cluster.sync()
    assert read(cluster, 1) == read(cluster, 2) == []
    say(cluster, 1, "XADD s 7-1 f v")
    cluster.sync()
    assert read(cluster, 1) == read(cluster, 2) == ["7-1"]


def test_a_time_and_a_cursor_are_positions_too() -> None:
    cluster = done()
    say(cluster, 1, "CRDT.GROUP RESET s g TIME 5")
    cluster.sync()
    assert read(cluster, 2) == IDS[4:]
    reply = say(cluster, 1, "CRDT.XREAD COUNT 2 STREAMS s 0")
    cursor = reply.split(b"\r\n")[-2].decode()
    say(cluster, 1, f"CRDT.GROUP RESET s g CURSOR {cursor}")
    cluster.sync()
    assert read(cluster, 2) == IDS[2:]


def test_a_reset_survives_restarts_and_state_transfers() -> None:
    cluster = done()
    cluster.cut(1, 2)
    say(cluster, 1, "CRDT.GROUP RESET s g ID 3-1")
    cut_log(cluster, 1)
    cluster.restart(1)
    cluster.cut(1, 2)
    settle(cluster)
    assert read(cluster, 2) == IDS[3:]
    assert read(cluster, 1) == IDS[3:]
    assert_equal(cluster)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("CRDT.GROUP RESET s g", "ERR wrong number of arguments"),
        ("CRDT.GROUP RESET s g OLD", "ERR syntax error: CRDT.GROUP RESET"),
        ("CRDT.GROUP RESET s g ID", "ERR syntax error: CRDT.GROUP RESET"),
        ("CRDT.GROUP RESET s g ID x", "ERR Invalid stream ID"),
        ("CRDT.GROUP RESET s g TIME -1", "ERR TIME takes milliseconds since 1970"),
        ("CRDT.GROUP RESET s g CURSOR garbled", "ERR invalid cursor for 's'"),
        ("CRDT.GROUP RESET s g NEW NOW", "ERR syntax error: CRDT.GROUP RESET"),
        ("CRDT.GROUP RESET s none NEW", "NOGROUP"),
    ],
)
def test_bad_input_changes_nothing(line: str, text: str) -> None:
    assert_refused(formed(), line, text)
