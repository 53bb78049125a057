"""Who delivers: one region at a time, moves that repeat nothing, and a region that takes over from a silent one."""

from __future__ import annotations

import pytest

from tests.group_delivery import ALL, TAKEOVER_MS, ask, assert_refused, away, back, formed, read, say
from tests.state_transfers import assert_equal


def test_the_owner_delivers_and_others_answer_nil() -> None:
    cluster = formed("DELIVER OWNER region2")
    assert read(cluster, 1) == read(cluster, 3) == []
    assert read(cluster, 2) == ALL
    assert b"delivers" in say(cluster, 1, "CRDT.GROUP GET s g")


def test_each_region_delivers_what_it_wrote() -> None:
    cluster = formed("DELIVER ORIGIN")
    assert [read(cluster, number) for number in (1, 2, 3)] == [ALL[:3], ALL[3:6], ALL[6:]]
    say(cluster, 2, "XADD s 9-9 f v")
    cluster.live(200)
    assert [read(cluster, number) for number in (1, 2, 3)] == [[], ["9-9"], []]


def test_a_planned_move_repeats_nothing() -> None:
    cluster = formed("DELIVER OWNER 1")
    assert read(cluster, 1, 5) == ALL[:5]
    assert say(cluster, 1, "XACK s g 1-1 1-3 2-1 2-2") == b":4\r\n"
    assert say(cluster, 1, "CRDT.GROUP MOVE s g region3").startswith(b"-ERR 1 entry is pending, so the group was not")
    say(cluster, 1, "XACK s g 1-2")
    assert say(cluster, 1, "CRDT.GROUP MOVE s g region3") == b"+OK\r\n"
    assert read(cluster, 1) == []
    cluster.live(500)
    assert read(cluster, 3) == ALL[5:]
    assert_equal(cluster)


def test_a_move_waits_until_nothing_is_pending() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    assert ask(cluster, 1, "CRDT.GROUP MOVE s g 2 WAIT 5000") is None
    machine = cluster.machines[1]
    machine.connect(7, cluster.clock_ms(1))
    assert machine.execute(b"XREADGROUP GROUP g c STREAMS s >".split(), cluster.clock_ms(1), 7) == b"*-1\r\n", (
        "it moves"
    )
    machine.execute(b"XACK s g 1-1 1-2".split(), cluster.clock_ms(1), 7)
    cluster.live(200)
    assert cluster.pop_reply(1) == b"+OK\r\n"
    assert read(cluster, 2) == ALL[2:]


def test_a_move_that_waits_hears_the_others_first_after_a_pause() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    assert ask(cluster, 1, "CRDT.GROUP MOVE s g 2 WAIT 60000") is None
    machine = cluster.machines[1]
    machine.skew_ms = 5_000
    machine.connect(7, cluster.clock_ms(1))
    machine.execute(b"XACK s g 1-1 1-2".split(), cluster.clock_ms(1), 7)
    cluster.tick_one(1)
    assert cluster.pop_reply(1) is None, "another region may have taken over meanwhile"
    cluster.live(500)
    assert cluster.pop_reply(1) == b"+OK\r\n"
    assert read(cluster, 2) == ALL[2:]


def test_a_client_that_leaves_while_its_move_waits_moves_nothing() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    machine = cluster.machines[1]
    machine.connect(7, cluster.clock_ms(1))
    assert machine.execute(b"CRDT.GROUP MOVE s g 2 WAIT 60000".split(), cluster.clock_ms(1), 7) is None
    assert read(cluster, 1) == []
    machine.node.disconnect(7)
    assert read(cluster, 1) == ALL[2:]


@pytest.mark.parametrize("forced", ["", " FORCE"])
def test_a_group_that_was_moved_elsewhere_while_a_move_waits_is_not_moved_again(forced: str) -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    assert ask(cluster, 1, "CRDT.GROUP MOVE s g 3 WAIT 1000" + forced) is None
    assert say(cluster, 2, "CRDT.GROUP SET s g DELIVER OWNER 2") == b"+OK\r\n"
    cluster.live(200)
    machine = cluster.machines[1]
    machine.connect(7, cluster.clock_ms(1))
    if not forced:
        machine.execute(b"XACK s g 1-1 1-2".split(), cluster.clock_ms(1), 7)
    before = cluster.node(1).replica.applied.counter()
    cluster.live(1_500)
    reply = cluster.pop_reply(1)
    assert reply is not None and reply.startswith(b"-ERR another region has taken the group over")
    assert cluster.node(1).replica.applied.counter() == before, "nothing is told"
    assert read(cluster, 2) == (ALL if forced else ALL[2:])


def test_a_move_whose_wait_ends_changes_nothing() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 2)
    assert ask(cluster, 1, "CRDT.GROUP MOVE s g 2 WAIT 300") is None
    cluster.live(500)
    reply = cluster.pop_reply(1)
    assert reply is not None and reply.startswith(b"-ERR 2 entries are pending")
    assert read(cluster, 2) == [] and read(cluster, 1) == ALL[2:]


def test_force_leaves_pending_entries_behind() -> None:
    cluster = formed("DELIVER OWNER 1")
    read(cluster, 1, 3)
    say(cluster, 1, "XACK s g 1-2")
    assert say(cluster, 1, "CRDT.GROUP MOVE s g 2 FORCE") == b"+OK\r\n"
    cluster.live(500)
    assert read(cluster, 2) == ["1-1", *ALL[2:]]
    assert say(cluster, 1, "XACK s g 1-1") == b":1\r\n", "an acknowledgement always counts"
    cluster.live(200)
    assert b"1-1" not in say(cluster, 2, "XPENDING s g - + 10")
    for line in ("XREADGROUP GROUP g c STREAMS s 0", "XAUTOCLAIM s g d 0 0", "XCLAIM s g d 0 1-3"):
        assert b"1-3" not in say(cluster, 1, line), "it comes from elsewhere now"
    assert say(cluster, 1, "XGROUP SETID s g 0").startswith(b"-ERR another region delivers this group")


def test_a_move_sent_elsewhere_while_the_region_that_delivers_cannot_be_reached_names_it() -> None:
    cluster = formed("DELIVER OWNER 1")
    away(cluster, 1)
    reply = say(cluster, 2, "CRDT.GROUP MOVE s g 2")
    assert reply.startswith(b"-ERR region region1 (1) delivers this group and cannot be reached")
    assert say(cluster, 2, "CRDT.GROUP MOVE s g 2 FORCE") == b"+OK\r\n"
    back(cluster, 1)
    cluster.live(300)
    assert read(cluster, 1) == [] and read(cluster, 2) == ALL


def test_a_blocked_reader_sleeps_until_the_answer_can_change() -> None:
    """It is woken by the record, and by a region that takes over; nothing else makes it look again."""
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    assert ask(cluster, 2, "XREADGROUP GROUP g c BLOCK 60000 STREAMS s >") is None
    [waiter] = cluster.node(2).context.parking.all()
    cluster.live(500)
    assert waiter.deadline_ms == waiter.end_ms, "no clock wakes it before its own end"
    away(cluster, 1)
    cluster.live(3 * TAKEOVER_MS)
    reply = cluster.pop_reply(2)
    assert reply is not None and all(name.encode() in reply for name in ALL), (
        "a blocked reader makes its region take over"
    )


@pytest.mark.parametrize("properties", ["DELIVER OWNER 1 ORDER ALL", "ORDER ALL"])
def test_a_blocked_reader_is_woken_in_order(properties: str) -> None:
    cluster = formed(properties)
    read(cluster, 1, 2, "c")
    assert ask(cluster, 1, "XREADGROUP GROUP g d BLOCK 60000 STREAMS s >") is None
    cluster.live(200)
    machine = cluster.machines[1]
    machine.connect(7, cluster.clock_ms(1))
    machine.execute(b"XACK s g 1-1 1-2".split(), cluster.clock_ms(1), 7)
    cluster.live(200)
    reply = cluster.pop_reply(1)
    assert reply is not None and b"1-3" in reply


def test_a_region_with_a_reader_takes_over_from_a_silent_one() -> None:
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    assert read(cluster, 1, 4) == ALL[:4]
    say(cluster, 1, "XACK s g 1-1 1-2 1-3")
    cluster.live(200)
    away(cluster, 1)
    cluster.live(TAKEOVER_MS // 2)
    assert read(cluster, 2) == [], "it is not silent for long enough"
    cluster.live(TAKEOVER_MS)
    assert read(cluster, 2) == ALL[3:], "what was acknowledged does not come again"
    assert read(cluster, 3) == []
    say(cluster, 2, "XACK s g " + " ".join(ALL[3:]))
    back(cluster, 1)
    assert read(cluster, 1) == [], "first it has to know what happened"
    cluster.live(TAKEOVER_MS)
    assert read(cluster, 1) == [] and say(cluster, 1, "XPENDING s g").startswith(b"*4\r\n:0\r\n")
    assert_equal(cluster)


def test_a_region_that_delivers_goes_on_when_another_one_falls_silent() -> None:
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    say(cluster, 3, "XADD s 9-9 f v")
    cluster.live(100)
    away(cluster, 3)
    for _ in range(8):
        cluster.live(TAKEOVER_MS // 4)
        say(cluster, 1, "XADD s * f v")
        assert read(cluster, 1)


def test_without_a_reader_nobody_takes_over() -> None:
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    away(cluster, 1)
    cluster.live(3 * TAKEOVER_MS)
    back(cluster, 1)
    cluster.live(TAKEOVER_MS)
    assert read(cluster, 1) == ALL


def test_a_cut_between_two_of_three_moves_nothing() -> None:
    """Both reach the third one, so neither is silent."""
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    cluster.cut(1, 2)
    for _ in range(6):
        assert read(cluster, 2) == []
        cluster.live(TAKEOVER_MS // 2)
    assert read(cluster, 1) == ALL


@pytest.mark.parametrize("minutes", [1, 60])
def test_a_region_that_was_stopped_delivers_nothing_before_it_has_heard_the_others(minutes: int) -> None:
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    pairs = cluster._end(1, "kill")
    for _ in range(8):
        cluster.live(TAKEOVER_MS // 4)
        found = read(cluster, 2)
        if found:
            say(cluster, 2, "XACK s g " + " ".join(found))
    cluster.now_ms += 60_000 * minutes
    cluster._begin(1, pairs)
    assert read(cluster, 1) == []
    cluster.live(TAKEOVER_MS)
    assert read(cluster, 1) == []
    assert_equal(cluster)


def test_a_clock_that_is_set_forward_takes_nothing_over() -> None:
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    assert read(cluster, 2) == []
    cluster.machines[2].skew_ms = 3_600_000
    cluster.tick_one(2)
    assert read(cluster, 2) == []
    cluster.live(TAKEOVER_MS)
    assert read(cluster, 2) == [] and read(cluster, 1) == ALL


def test_a_suspended_region_hears_the_others_before_it_goes_on() -> None:
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    cluster.machines[1].skew_ms = 5_000
    assert read(cluster, 1) == [], "it may have lost its place meanwhile"
    cluster.live(500)
    assert read(cluster, 1) == ALL


def test_in_order_what_another_region_delivers_now_holds_up_nobody_here() -> None:
    cluster = formed("DELIVER OWNER 1 ORDER ALL")
    assert read(cluster, 1, 4, "c") == ALL[:4]
    say(cluster, 1, "XACK s g 1-1 1-2 1-3")
    say(cluster, 1, "CRDT.GROUP SET s g DELIVER ORIGIN")
    say(cluster, 1, "XADD s 8-8 f v")
    say(cluster, 1, "XADD s 9-9 f v")
    assert read(cluster, 1, 1, "d") == ["8-8"], "2-1 is pending, and comes from region 2"
    assert read(cluster, 1, 1, "e") == []
    assert b"8-8" in say(cluster, 1, "XAUTOCLAIM s g e 0 0")
    assert read(cluster, 1, 1, "e") == ["9-9"]
    for line in ("XREADGROUP GROUP g f CLAIM 0 STREAMS s >", "XCLAIM s g f 0 8-8 9-9"):
        assert b"8-8" in say(cluster, 1, line)


def test_in_order_one_consumer_holds_all_that_is_pending() -> None:
    cluster = formed("DELIVER OWNER 1 ORDER ALL")
    assert read(cluster, 1, 2, "c") == ALL[:2]
    assert read(cluster, 1, 2, "d") == []
    assert read(cluster, 1, 1, "c") == ALL[2:3]
    assert b"1-1" not in say(cluster, 1, "XCLAIM s g d 0 1-1"), "all or nothing"
    reply = say(cluster, 1, "XAUTOCLAIM s g d 0 0 COUNT 1")
    assert [reply.count(name.encode() + b"\r\n") for name in ALL[:3]] == [1, 1, 1]
    assert read(cluster, 1, 1, "c") == [] and read(cluster, 1, 1, "d") == ALL[3:4]
    say(cluster, 1, "XACK s g " + " ".join(ALL[:4]))
    assert read(cluster, 1, 1, "c") == ALL[4:5]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("CRDT.GROUP SET s g DELIVER NOWHERE", "ERR property DELIVER takes EVERYWHERE or ORIGIN or OWNER"),
        ("CRDT.GROUP SET s g DELIVER OWNER", "ERR property DELIVER OWNER takes a region"),
        ("CRDT.GROUP SET s g DELIVER OWNER mars", "ERR unknown region mars"),
        ("CRDT.GROUP SET s g DELIVER OWNER 9", "ERR unknown region 9"),
        ("CRDT.GROUP SET s g TAKEOVER 10", "ERR property TAKEOVER takes milliseconds, from 1000"),
        ("CRDT.GROUP SET s g ORDER SOME", "ERR property ORDER takes ANY or ALL"),
        ("CRDT.GROUP MOVE s g mars", "ERR unknown region mars"),
        ("CRDT.GROUP MOVE s g 2 SOON", "ERR syntax error"),
        ("CRDT.GROUP MOVE s g 2 WAIT -1", "ERR WAIT takes milliseconds, from 0"),
        ("CRDT.GROUP MOVE s none 2", "NOGROUP"),
    ],
)
def test_bad_input_changes_nothing(line: str, text: str) -> None:
    assert_refused(formed("DELIVER OWNER 1"), line, text)


def test_a_group_that_every_region_delivers_does_not_move() -> None:
    cluster = formed("ACKNOWLEDGE EXACT")
    assert say(cluster, 1, "CRDT.GROUP MOVE s g 2").startswith(b"-ERR every region delivers this group")
    assert read(cluster, 1) == read(cluster, 2) == ALL


@pytest.mark.parametrize("readers", [(2, 3), (3,)])
def test_one_of_several_regions_with_readers_takes_over(readers: tuple[int, ...]) -> None:
    """Without an order both would, and deliver the same until they hear of each other."""
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    for number in readers:
        assert read(cluster, number) == []
    away(cluster, 1)
    found: dict[int, list[str]] = {number: [] for number in readers}
    for _ in range(4 * TAKEOVER_MS // 100):
        cluster.tick(100)
        for number in readers:
            found[number] += read(cluster, number)
        cluster.sync()
    assert sorted(entry for entries in found.values() for entry in entries) == ALL
