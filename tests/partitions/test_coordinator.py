"""Groups at their home: positions, commits, rebalances, resets, and groups that nobody uses."""

from __future__ import annotations

import pytest

from crdtstream.partitions.calls import GroupCall, HomeCall, JoinCall, PollCall, RefusalReply, ResetCall, ResetReply
from crdtstream.partitions.values import INVALID, LIMIT, UNKNOWN_GROUP, Bookmark, Refused
from tests.partitions.region_streams import HOUR_MS, NOTHING_READ, STREAM, TIMEOUT_MS, Regions, read_to


@pytest.fixture
def regions() -> Regions:
    return Regions()


def refused(regions: Regions, call: HomeCall) -> Refused:
    with pytest.raises(Refused) as raised:
        regions.reply_to(1, call, RefusalReply)
    return raised.value


def test_a_group_begins_at_the_oldest_message(regions: Regions) -> None:
    regions.put(1, b"a", b"b")
    regions.join(1)
    assert regions.poll(1, "A").positions == {0: 0, 1: 0}
    assert regions.committed(1) == [-1, -1]
    assert regions.owners(1) == ["A", "A"]


def test_a_group_begins_behind_what_was_there(regions: Regions) -> None:
    regions.put(1, b"a", b"b")
    regions.join(1, start="LATEST")
    regions.put(1, b"c")
    assert regions.poll(1, "A").positions == {0: 2, 1: 0}


def test_a_group_begins_at_a_time(regions: Regions) -> None:
    regions.put(1, b"a")
    regions.live(1_000)
    regions.put(1, b"b")
    regions.join(1, start="AT_TIME", time_ms=regions.now_ms - 500)
    assert regions.poll(1, "A").positions == {0: 1, 1: 0}


def test_the_start_of_a_group_that_exists_is_ignored(regions: Regions) -> None:
    regions.put(1, b"a")
    regions.join(1)
    regions.join(1, start="LATEST")
    assert regions.poll(1, "A").positions[0] == 0


def test_the_next_poll_commits_what_the_previous_one_read(regions: Regions) -> None:
    regions.put(1, *[b"m"] * 300)
    regions.join(1)
    polled = regions.poll(1, "A")
    polled = regions.poll(1, "A", read_to(polled, {0: 99}))
    assert polled.positions == {0: 100, 1: 0}
    assert regions.committed(1) == [99, -1]


def test_without_commits_a_poll_goes_on_and_another_instance_repeats(regions: Regions) -> None:
    regions.put(1, *[b"m"] * 300)
    regions.join(1)
    polled = regions.poll(1, "A", commits=False)
    polled = regions.poll(1, "A", read_to(polled, {0: 99}), commits=False)
    assert polled.positions == {0: 100, 1: 0}
    regions.live(TIMEOUT_MS + 1_000)
    assert regions.poll(1, "B").positions == {0: 0, 1: 0}


def test_a_new_owner_starts_after_the_latest_commit(regions: Regions) -> None:
    regions.put(1, *[b"m"] * 300)
    regions.join(1)
    polled = regions.poll(1, "A")
    polled = regions.poll(1, "A", read_to(polled, {0: 99}))
    regions.live(TIMEOUT_MS + 1_000)
    assert regions.poll(1, "B").positions == {0: 100, 1: 0}
    # A comes back with messages that it has processed: B owns both partitions, then they share.
    late = regions.poll(1, "A", read_to(polled, {0: 199, 1: -1}))
    assert len(late.positions) == 1
    assert regions.committed(1) == [199, -1]


def test_a_partition_that_moved_is_read_from_its_commit_again(regions: Regions) -> None:
    regions.put(1, *[b"m"] * 10)
    regions.join(1)
    before = regions.poll(1, "A", commits=False)
    stood = read_to(before, {0: 4, 1: -1})
    regions.poll(1, "B")
    regions.live(TIMEOUT_MS - 1_000)
    regions.poll(1, "A", stood, commits=False)
    regions.live(2_000)
    # B is gone: A gets its partition back, but has not owned it all the time.
    again = regions.poll(1, "A", stood, commits=False)
    kept = set(again.positions) - {at for at, offset in again.positions.items() if offset == 0}
    assert set(again.positions) == {0, 1}
    assert len(kept) <= 1


def test_commit_and_heartbeat(regions: Regions) -> None:
    regions.put(1, *[b"m"] * 10)
    regions.join(1)
    polled = regions.poll(1, "A", commits=False)
    kept = regions.heartbeat(1, "A", read_to(polled, {0: 4}))
    assert (kept.offsets, regions.committed(1)) == ({0: 4}, [-1, -1])
    after = regions.commit(1, "A", kept)
    assert (after.offsets, regions.committed(1)) == ({}, [4, -1])
    assert regions.poll(1, "A", after).positions == {0: 5, 1: 0}
    # An older bookmark takes nothing back.
    regions.commit(1, "A", read_to(polled, {0: 2}))
    assert regions.committed(1) == [4, -1]


def test_a_heartbeat_keeps_a_slow_instance(regions: Regions) -> None:
    regions.join(1)
    polled = regions.poll(1, "A")
    for _ in range(4):
        regions.live(TIMEOUT_MS // 2)
        regions.heartbeat(1, "A", read_to(polled, {}))
    assert regions.poll(1, "B").positions.keys() == {1}
    assert regions.owners(1) == ["A", "B"]


def test_a_reset_moves_everybody_and_voids_what_was_read(regions: Regions) -> None:
    regions.put(1, *[b"m"] * 10)
    regions.join(1)
    polled = regions.poll(1, "A")
    polled = regions.poll(1, "A", read_to(polled, {0: 4}))
    regions.reply_to(1, ResetCall(STREAM, "g", "TRIM_HORIZON", 0), ResetReply)
    assert regions.committed(1) == [-1, -1]
    again = regions.poll(1, "A", read_to(polled, {0: 9}))
    assert (again.positions, regions.committed(1)) == ({0: 0, 1: 0}, [-1, -1])
    assert regions.poll(1, "A", read_to(again, {0: 3})).positions == {0: 4, 1: 0}


def test_an_instance_beyond_the_partitions_owns_nothing(regions: Regions) -> None:
    regions.join(1)
    for name in ("A", "B"):
        regions.poll(1, name)
    assert regions.poll(1, "C").positions == {}
    regions.live(TIMEOUT_MS - 1_000)
    for name in ("B", "C"):
        regions.poll(1, name)
    regions.live(2_000)
    assert len(regions.poll(1, "C").positions) == 1


def test_a_group_that_nobody_uses_vanishes_after_the_retention() -> None:
    regions = Regions()
    regions.join(1)
    regions.poll(1, "A")
    regions.now_ms += 23 * HOUR_MS
    regions.live(2_000)
    assert regions.owners(1) == ["A", "A"]
    regions.now_ms += 2 * HOUR_MS
    regions.live(2_000)
    assert refused(regions, GroupCall(STREAM, "g")).code == UNKNOWN_GROUP
    regions.node(1).check()


def test_refusals_say_what_to_do(regions: Regions) -> None:
    regions.join(1, "g")
    assert refused(regions, JoinCall(STREAM, "h", "LATEST", 0, 1)).code == LIMIT
    assert refused(regions, JoinCall(STREAM, "h", "SOON", 0, 0)).code == INVALID
    assert refused(regions, JoinCall(STREAM, "", "LATEST", 0, 0)).code == INVALID
    assert refused(regions, PollCall(STREAM, "none", "A", 1, NOTHING_READ, True)).code == UNKNOWN_GROUP
    assert refused(regions, PollCall(STREAM, "g", "A", 0, NOTHING_READ, True)).code == INVALID
    assert refused(regions, PollCall(STREAM, "g", "", 1, NOTHING_READ, True)).code == INVALID
    assert "create a group cursor" in refused(regions, GroupCall(STREAM, "none")).text


def test_a_restart_of_the_home_keeps_commits_and_forgets_instances() -> None:
    regions = Regions()
    regions.put(1, *[b"m"] * 10)
    regions.join(1)
    polled = regions.poll(1, "A")
    regions.poll(1, "A", read_to(polled, {0: 4}))
    regions.machines[1].sync()
    regions.restart(1)
    assert (regions.committed(1), regions.owners(1)) == ([4, -1], ["", ""])
    # The bookmark of before still commits, and A goes on behind that.
    assert regions.poll(1, "A", read_to(polled, {0: 7})).positions == {0: 8, 1: 0}


def test_a_bookmark_beyond_a_takeover_counts_only_as_far_as_it_is_valid() -> None:
    regions = Regions(3)
    regions.put(1, b"a", b"b")
    regions.join(1)
    regions.cut(1, 2)
    regions.cut(1, 3)
    regions.put(1, b"c", b"d")
    polled = regions.poll(1, "A")
    stood = read_to(polled, {0: 3})
    regions.poll(1, "A", stood)
    assert regions.committed(1) == [3, -1]
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    regions.put(2, b"e")
    regions.heal(1, 2)
    regions.heal(1, 3)
    regions.live(3_000)
    assert regions.committed(3) == [1, -1]
    assert regions.poll(3, "A", stood).positions == {0: 2, 1: 0}
    assert [value for _, value in regions.values(3)] == [b"a", b"b", b"e", b"c", b"d"]


def test_a_bookmark_of_partitions_that_do_not_exist_commits_nothing(regions: Regions) -> None:
    regions.join(1)
    polled = regions.poll(1, "A")
    regions.commit(1, "A", Bookmark(polled.generation, polled.epoch, polled.start, {7: 4}))
    assert regions.committed(1) == [-1, -1]
