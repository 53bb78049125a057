"""The order of one producer's messages, no matter which region numbers them: what waits for what."""

from __future__ import annotations

import pytest

from crdtstream.core.values.causality import VersionVector
from crdtstream.partitions.calls import (
    HeartbeatCall,
    PollCall,
    PollReply,
    PutCall,
    PutReply,
    RefusalReply,
    ToldVector,
    expect,
    pack_reply,
)
from crdtstream.partitions.order import (
    BEHIND,
    NOT_REACHED,
    Forwarded,
    HeldCall,
    HomesHeard,
    covers,
    must_wait,
    origins_of,
)
from crdtstream.partitions.streams import UPKEEP_MS
from crdtstream.partitions.values import UNREACHABLE, UNWRITABLE, NewMessage, Refused, Stamp
from crdtstream.settings.config import Limits
from tests.partitions.region_streams import HOUR_MS, NOTHING_READ, STREAM, Regions, code_of, read_to

TOLD = PutReply([Stamp(0, 3, 1_000)], ToldVector((7, 12), 2))


def split(regions: Regions, count: int = 3) -> None:
    """Region 2 takes over while region 1 goes on numbering: `count` messages of region 1 are stale."""
    regions.put(1, b"before")
    regions.cut(1, 2)
    for index in range(count):
        regions.put(1, b"old%d" % index)
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    regions.put(2, b"new")
    regions.heal(1, 2)


def order_of(regions: Regions, number: int) -> list[bytes]:
    return [value for _, value in regions.values(number)]


def live(regions: Regions) -> None:
    """Time for an upkeep, and for what it causes."""
    for _ in range(4):
        regions.tick(UPKEEP_MS // 2)
        regions.sync()


def test_what_the_old_home_had_comes_before_its_producers_new_messages() -> None:
    regions = Regions(2)
    split(regions)
    regions.sync()
    assert regions.streams(1).home(STREAM) == 2
    call = regions.submit(1, PutCall(STREAM, [NewMessage(0, None, b"next")]))
    regions.sync()
    assert call not in regions.replies(1), "it waits: nothing is numbered again yet"
    live(regions)
    assert isinstance(regions.replies(1)[call], PutReply)
    assert order_of(regions, 1) == [b"before", b"new", b"old0", b"old1", b"old2", b"next"]
    assert order_of(regions, 2) == order_of(regions, 1)


def test_a_put_that_waited_for_too_long_was_not_sent() -> None:
    regions = Regions(2, limits=Limits(segment_bytes_max=1 << 16, forward_timeout_ms=100))
    split(regions)
    regions.sync()
    call = regions.submit(1, PutCall(STREAM, [NewMessage(0, None, b"next")]))
    regions.tick(200)
    assert regions.replies(1)[call] == BEHIND
    live(regions)
    assert b"next" not in order_of(regions, 2)


def test_a_clock_that_is_set_forward_ends_no_wait() -> None:
    regions = Regions(2)
    split(regions)
    regions.sync()
    call = regions.submit(1, PutCall(STREAM, [NewMessage(0, None, b"next")]))
    regions.machines[1].skew_ms = HOUR_MS
    regions.tick_one(1)
    assert call not in regions.replies(1), "it goes on to wait"
    live(regions)
    assert isinstance(regions.replies(1)[call], PutReply)


def test_every_process_of_the_home_has_to_have_what_is_here() -> None:
    """Either may get the call, whichever of two is the home."""
    regions = Regions(2)
    regions.put(2, b"before")
    regions.join(2)
    regions.tick(UPKEEP_MS)
    regions.sync()
    state, progress = regions.streams(2).state(STREAM), regions.node(2).exchange.progress
    vector = regions.node(2).replica.applied.vector
    call = PutCall(STREAM, [NewMessage(0, None, b"next")])
    heartbeat = HeartbeatCall(STREAM, "g", "i", 30_000, NOTHING_READ)
    for one in (call, heartbeat):
        assert not must_wait(state, one, [1], progress, vector, HomesHeard())
        for homes in ([1, 0x101], [0x101, 1]):
            assert must_wait(state, one, homes, progress, vector, HomesHeard())
    assert origins_of(regions.node(2).exchange.sessions(), 1) == [1]


def test_a_region_that_does_not_know_the_epoch_of_the_home_yet_waits_for_it() -> None:
    """What region 2 has is in place for region 2 alone: the home came back without it, and had raised an epoch before
    it took it in. Region 2 hears that the home has it before it has room for that epoch.
    """
    regions = Regions(3)
    regions.put(1, b"before")
    regions.sync()
    regions.cut(1, 3)
    regions.cut(2, 3)
    regions.put(2, b"old")
    old = regions.node(1).replica.applied.counter()
    regions.cut(1, 2)
    regions.lose_disk(1, 1)
    regions.heal(1, 3)
    live(regions)
    regions.put(1, b"new")
    regions.node(2).writable(False)
    regions.heal(1, 2)
    regions.sync()
    regions.tick(200)
    regions.sync()
    assert regions.node(1).replica.applied.vector.contains(1, old), "the home has it"
    assert regions.node(2).exchange.waiting()[0] > 0 and order_of(regions, 2) == [b"before", b"old"]
    calls = [regions.submit(2, PutCall(STREAM, [NewMessage(0, None, b"next")])) for _ in range(2)]
    regions.sync()
    assert b"next" not in order_of(regions, 1)
    regions.node(2).writable(True)
    for _ in range(2):
        live(regions)
    replies = regions.replies(2)
    assert all(isinstance(replies[call], PutReply) for call in calls)
    assert order_of(regions, 2) == [b"before", b"new", b"old"] + [b"next"] * len(calls)


def test_other_partitions_and_other_calls_do_not_wait() -> None:
    regions = Regions(2)
    split(regions)
    regions.sync()
    assert regions.put(1, b"elsewhere", partition=1)[0].offset == 0
    assert regions.join(1).offsets == {}


def test_what_waits_is_carried_out_here_once_this_region_is_the_home_again() -> None:
    regions = Regions(2)
    split(regions)
    regions.sync()
    call = regions.submit(1, PutCall(STREAM, [NewMessage(0, None, b"next")]))
    regions.streams(1).take_over(STREAM)
    regions.turn(1)
    live(regions)
    assert isinstance(regions.replies(1)[call], PutReply)
    live(regions)
    assert order_of(regions, 2) == [b"before", b"new", b"old0", b"old1", b"old2", b"next"]


def test_a_home_that_was_taken_back_numbers_its_old_messages_first() -> None:
    """Its own producers go on at once: nothing of theirs may come before what they were told of."""
    regions = Regions(2)
    split(regions)
    regions.sync()
    regions.streams(1).take_over(STREAM)
    regions.turn(1)
    call = regions.submit(1, PutCall(STREAM, [NewMessage(0, None, b"next")]))
    assert call not in regions.replies(1), "not every region knows the epoch, so the old messages have no place yet"
    live(regions)
    assert isinstance(regions.replies(1)[call], PutReply)
    assert order_of(regions, 1) == [b"before", b"new", b"old0", b"old1", b"old2", b"next"]


def test_a_home_that_cannot_number_again_refuses_in_the_end() -> None:
    """Region 2 is alive, and is not told of the epoch."""
    regions = Regions(2, limits=Limits(segment_bytes_max=1 << 16, forward_timeout_ms=100))
    split(regions)
    regions.sync()
    regions.streams(1).take_over(STREAM)
    regions.turn(1)
    call = regions.submit(1, PutCall(STREAM, [NewMessage(0, None, b"next")]))
    regions.tick(200)
    with pytest.raises(Refused, match="numbering again") as caught:
        expect(regions.replies(1)[call], PutReply)
    assert caught.value.code == UNWRITABLE


@pytest.mark.interpreted
def test_a_home_with_much_to_number_again_does_it_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtstream.partitions.renumbering.MESSAGES_MAX", 2)
    regions = Regions(2)
    split(regions, 5)
    regions.sync()
    counted = []
    for _ in range(8):
        regions.tick(UPKEEP_MS // 2)
        regions.sync()
        counted.append(regions.streams(2).renumbered)
    assert {2, 4, 5} <= set(counted)
    assert order_of(regions, 1)[2:] == [b"old%d" % index for index in range(5)]


# Replies


def forwarded() -> Forwarded:
    found = Forwarded()
    found.record(5, HeldCall(1, PutCall(STREAM, []), 300))
    return found


def test_a_reply_waits_until_its_messages_are_here() -> None:
    waiting = forwarded()
    waiting.receive(5, pack_reply(TOLD))
    assert waiting.drain(100, lambda _: False) == []
    ((number, reply),) = waiting.drain(200, lambda reply: reply.told == TOLD.told)
    assert (number, pack_reply(reply)) == (1, pack_reply(TOLD))
    assert waiting.drain(200, lambda _: True) == []


def test_a_reply_does_not_wait_longer_than_for_the_home() -> None:
    waiting = forwarded()
    waiting.receive(5, pack_reply(TOLD))
    assert [(number, pack_reply(one)) for number, one in waiting.drain(300, lambda _: False)] == [(1, pack_reply(TOLD))]


@pytest.mark.parametrize(
    "reply", [PutReply([], None), RefusalReply(UNREACHABLE, "text")], ids=["earlier release", "refusal"]
)
def test_other_replies_are_handed_on_at_once(reply: PutReply | RefusalReply) -> None:
    waiting = forwarded()
    waiting.receive(5, pack_reply(reply))
    assert waiting.drain(0, lambda _: False) == [(1, reply)]


def test_without_a_reply_and_with_one_that_cannot_be_read() -> None:
    waiting = forwarded()
    waiting.receive(5, None)
    assert waiting.drain(0, lambda _: False) == [(1, NOT_REACHED)]
    waiting.record(6, HeldCall(2, PutCall(STREAM, []), 300))
    waiting.receive(6, b"\xff\xff")
    ((number, reply),) = waiting.drain(0, lambda _: False)
    assert number == 2 and code_of(reply) == UNREACHABLE


def test_dots_that_a_vector_covers() -> None:
    vector = VersionVector({3: 10})
    assert covers(vector, [(3, 10)]) and not covers(vector, [(3, 11)]) and not covers(vector, [(3, 1), (4, 1)])


def test_a_forwarded_put_is_answered_once_it_can_be_read_there() -> None:
    regions = Regions(2)
    call = regions.submit(2, PutCall(STREAM, [NewMessage(0, None, b"a")]))
    regions.sync()
    assert regions.values(2) == [(0, b"a")]
    assert isinstance(regions.replies(2)[call], PutReply)


# Commits


def commit(regions: Regions, number: int, offset: int) -> None:
    """Instance i, called through this region, has read up to this offset and commits it."""
    polled = regions.poll(number, "i")
    regions.commit(number, "i", read_to(polled, {0: offset}))


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [(1, None, 1), (2, None, 2), (4, None, 2), (1, 3, 3), (5, 3, 3)],
    ids=["below", "last below", "beyond", "at the new home", "at both"],
)
def test_what_was_committed_below_the_start_stays_committed(old: int, new: int | None, left: int) -> None:
    """The epoch of region 2 begins at 3; the group had committed `old` at region 1, and `new` at region 2."""
    regions = Regions(2)
    regions.put(1, b"a", b"b", b"c")
    regions.join(1)
    regions.sync()
    regions.cut(1, 2)
    regions.put(1, b"d", b"e", b"f")
    commit(regions, 1, old)
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    regions.put(2, b"x")
    if new is not None:
        commit(regions, 2, new)
    regions.heal(1, 2)
    live(regions)
    live(regions)
    assert [regions.committed(number)[0] for number in (1, 2)] == [left, left]
    assert order_of(regions, 1) == [b"a", b"b", b"c", b"x", b"d", b"e", b"f"]


def test_a_group_call_waits_until_the_home_has_its_commits() -> None:
    """Else an instance that comes through the old home would read again what it has committed there."""
    regions = Regions(2)
    regions.put(1, b"a", b"b", b"c")
    regions.join(1)
    regions.sync()
    regions.cut(1, 2)
    commit(regions, 1, 1)
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    regions.heal(1, 2)
    regions.carry(2, 1)
    assert regions.streams(1).home(STREAM) == 2
    call = regions.submit(1, PollCall(STREAM, "g", "i", 30_000, NOTHING_READ, True))
    regions.sync()
    live(regions)
    assert expect(regions.replies(1)[call], PollReply).polled.positions[0] == 2
