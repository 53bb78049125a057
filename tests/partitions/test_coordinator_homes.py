"""Groups that two homes have coordinated without knowing of each other."""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.partitions.calls import (
    Answer,
    BookmarkReply,
    GroupCall,
    GroupReply,
    HomeCall,
    JoinCall,
    PollCall,
    PollReply,
    PutCall,
    PutReply,
    ResetCall,
    ResetReply,
    expect,
)
from crdtstream.partitions.coordinator import no_bookmark
from crdtstream.partitions.streams import UPKEEP_MS, UPKEEPS_AWAITED
from crdtstream.partitions.values import LATEST, TRIM_HORIZON, Bookmark, NewMessage, Polled, StreamSpec
from simulations.cluster import Cluster

RETENTION_MS = 20_000


@pytest.fixture
def regions() -> Cluster:
    """Region 1 is the home of one partition with three messages; region 2 has them."""
    cluster = Cluster(2, STRICT)
    cluster.node(1).partitions.create(StreamSpec("s", 1, RETENTION_MS))
    put(cluster, 1, b"a", b"b", b"c")
    cluster.sync()
    return cluster


def call(cluster: Cluster, number: int, made: HomeCall, kind: type[Answer]) -> Answer:
    streams = cluster.node(number).partitions
    asked = streams.submit(made)
    cluster.turn(number)
    return expect(dict(streams.drain_replies())[asked], kind)


def put(cluster: Cluster, number: int, *values: bytes) -> None:
    call(cluster, number, PutCall("s", [NewMessage(0, None, value) for value in values]), PutReply)


def join(cluster: Cluster, number: int, start: str) -> None:
    call(cluster, number, JoinCall("s", "g", start, 0, 50), BookmarkReply)


def poll(cluster: Cluster, number: int, bookmark: Bookmark, instance: str = "i") -> Polled:
    return call(cluster, number, PollCall("s", "g", instance, 1_000, bookmark, True), PollReply).polled


def commit(cluster: Cluster, number: int, offset: int) -> None:
    """Read up to this offset and commit it."""
    polled = poll(cluster, number, no_bookmark())
    poll(cluster, number, Bookmark(polled.generation, polled.epoch, polled.start, {0: offset}))


def committed(cluster: Cluster, number: int) -> int:
    return call(cluster, number, GroupCall("s", "g"), GroupReply).reservations[0].committed


def take_over(cluster: Cluster, number: int) -> None:
    cluster.node(number).partitions.take_over("s")
    cluster.turn(number)


def upkeep(cluster: Cluster) -> None:
    for _ in range(UPKEEPS_AWAITED + 2):
        cluster.tick(UPKEEP_MS)
        cluster.sync()


def test_two_homes_make_a_group_and_it_begins_at_the_earlier_start(regions: Cluster) -> None:
    """What one has committed does not reach back to where the other one began."""
    regions.cut(1, 2)
    take_over(regions, 2)
    join(regions, 1, LATEST)
    join(regions, 2, TRIM_HORIZON)
    put(regions, 1, b"d")
    commit(regions, 1, 3)
    regions.heal(1, 2)
    regions.sync()
    assert poll(regions, 2, no_bookmark()).positions == {0: 0}
    assert committed(regions, 2) == -1


def test_a_bookmark_from_before_two_homes_met_commits_nothing(regions: Cluster) -> None:
    regions.cut(1, 2)
    take_over(regions, 2)
    join(regions, 1, TRIM_HORIZON)
    join(regions, 2, LATEST)
    polled = poll(regions, 2, no_bookmark())
    regions.heal(1, 2)
    regions.sync()
    read = Bookmark(polled.generation, polled.epoch, polled.start, {0: 2})
    assert poll(regions, 2, read).positions == {0: 0}


def test_a_bookmark_of_a_group_that_another_home_has_made_commits_nothing(regions: Cluster) -> None:
    """Its epoch counts, and no group was reset: the name of the start alone tells the groups apart."""
    regions.cut(1, 2)
    take_over(regions, 2)
    join(regions, 1, LATEST)
    polled = poll(regions, 1, no_bookmark())
    join(regions, 2, TRIM_HORIZON)
    read = Bookmark(polled.generation, polled.epoch, polled.start, {0: 2})
    assert poll(regions, 2, read).positions == {0: 0}
    assert committed(regions, 2) == -1


def test_the_later_of_two_resets_counts(regions: Cluster) -> None:
    join(regions, 1, TRIM_HORIZON)
    regions.sync()
    regions.cut(1, 2)
    take_over(regions, 2)
    for _ in range(2):
        call(regions, 1, ResetCall("s", "g", LATEST, 0), ResetReply)
    call(regions, 2, ResetCall("s", "g", TRIM_HORIZON, 0), ResetReply)
    regions.heal(1, 2)
    regions.sync()
    assert poll(regions, 2, no_bookmark()).positions == {0: 3}


def test_a_former_home_replaces_no_commit_that_the_new_one_has_taken_over(regions: Cluster) -> None:
    join(regions, 1, TRIM_HORIZON)
    commit(regions, 1, 1)
    regions.sync()
    regions.cut(1, 2)
    take_over(regions, 2)
    put(regions, 2, b"d")
    commit(regions, 2, 1)
    assert committed(regions, 2) == 1
    commit(regions, 1, 2)
    regions.heal(1, 2)
    regions.sync()
    assert committed(regions, 2) == 2


def test_a_former_home_drops_no_group_that_is_used(regions: Cluster) -> None:
    """There nobody has used it for the retention, but nobody would: the clients have gone to the new home."""
    join(regions, 1, TRIM_HORIZON)
    commit(regions, 1, 1)
    regions.sync()
    regions.cut(1, 2)
    take_over(regions, 2)
    assert committed(regions, 2) == 1
    regions.node(1).partitions.tick(regions.now_ms)
    for _ in range(3):
        regions.now_ms += RETENTION_MS // 2
        call(regions, 2, PollCall("s", "g", "i", 1_000, no_bookmark(), True), PollReply)
        regions.tick(UPKEEP_MS)
    assert regions.node(1).partitions.state("s").groups() == []
    regions.heal(1, 2)
    regions.sync()
    assert regions.node(1).partitions.state("s").groups() == ["g"]
    assert committed(regions, 2) == 1


def test_a_group_that_vanished_and_came_back_repeats_no_generation(regions: Cluster) -> None:
    """Within an epoch a generation has one owner for each partition."""
    join(regions, 1, TRIM_HORIZON)
    before = poll(regions, 1, no_bookmark())
    regions.now_ms += 2 * RETENTION_MS
    upkeep(regions)
    assert regions.node(1).partitions.state("s").groups() == []
    join(regions, 1, TRIM_HORIZON)
    after = poll(regions, 1, no_bookmark(), "other")
    assert after.epoch == before.epoch and after.generation > before.generation


def test_a_group_that_another_home_has_kept_repeats_no_generation(regions: Cluster) -> None:
    """The home dropped it when its clock was set far ahead; what another one had written meanwhile brings it back."""
    join(regions, 1, TRIM_HORIZON)
    before = poll(regions, 1, no_bookmark())
    regions.sync()
    regions.cut(1, 2)
    state = regions.node(2).partitions.state("s")
    state.write_start("g", state.starts_of("g")[0])
    regions.turn(2)
    regions.now_ms += 2 * RETENTION_MS
    upkeep(regions)
    assert regions.node(1).partitions.state("s").groups() == []
    regions.heal(1, 2)
    regions.sync()
    after = poll(regions, 1, no_bookmark(), "other")
    assert after.epoch == before.epoch and after.generation > before.generation


def test_a_home_does_not_know_the_epoch_of_a_bookmark(regions: Cluster) -> None:
    """The instance has read in a region that knows of a newer home: nothing of that is taken for what is here."""
    join(regions, 1, TRIM_HORIZON)
    polled = poll(regions, 1, no_bookmark())
    unknown = Bookmark(polled.generation, (9, 258), polled.start, {0: 2})
    assert poll(regions, 1, unknown).positions == {0: 0}
    assert committed(regions, 1) == -1
