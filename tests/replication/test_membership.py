"""Membership: who admits whom, when clients are served, and a region's life after an eviction."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from crdtstream.config import Limits
from crdtstream.core.causality import VersionVector
from crdtstream.core.entry_id import STRICT
from crdtstream.protocols import codec
from simulations.cluster import Cluster, Region
from simulations.reply import ReplyError, read_reply

ALL = 1_000


def run(cluster: Cluster, number: int, text: str) -> object:
    return read_reply(cluster.execute(number, text.encode().split()) or b"")


def sync_disks(cluster: Cluster) -> None:
    cluster.sync()
    for region in cluster.regions.values():
        region.sync()
    cluster.sync()


def rows(cluster: Cluster, number: int) -> list[tuple[int, int]]:
    """Who joined, by whom."""
    return [(slot, sponsor) for slot, sponsor, _ in cluster.node(number).replica.members.rows()]


def mesh_of_new(count: int, pairs: list[tuple[int, int]] | None = None) -> Cluster:
    """New directories that know nothing but each other's addresses, or those of the pairs that they are in."""
    numbers = range(1, count + 1)
    cluster = Cluster(count, STRICT, absent=tuple(numbers), pairs=pairs)
    base = Cluster(1, STRICT).regions[1].config
    for number in numbers:
        near = [a if b == number else b for a, b in cluster.pairs if number in (a, b)]
        peers = tuple(f"region{other}:1" for other in near)
        config = replace(base, name=f"region{number}", region=number, incarnation=None, peers=peers)
        cluster.regions[number] = Region(config, cluster.now_ms)
        for other in near:
            cluster.node(number).peer_met(f"region{other}:1", other)
    return cluster


def test_regions_that_meet_admit_each_other() -> None:
    cluster = Cluster(3, STRICT)
    cluster.sync()
    for number in (1, 2, 3):
        assert cluster.node(number).replica.members.joined() == [1, 2, 3]
    before = rows(cluster, 1)
    cluster.cut(1, 2)
    cluster.heal(1, 2)
    cluster.sync()
    assert rows(cluster, 1) == before, "each admits another once"


def test_new_regions_found_a_cluster_together() -> None:
    cluster = mesh_of_new(3)
    assert all("waits to hear" in cluster.node(number).birth.waiting_for() for number in (1, 2, 3))
    for pair in cluster.pairs:
        cluster.heal(*pair)
    cluster.sync()
    for number in (1, 2, 3):
        assert cluster.node(number).birth.serving()
        assert cluster.node(number).replica.members.joined() == [1, 2, 3]
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") == "OK"


def test_a_line_of_new_regions_is_founded_once_all_have_met() -> None:
    """Were it sooner, both ends could found clusters of their own, and one forget what the other never had."""
    cluster = mesh_of_new(4, [(1, 2), (2, 3), (3, 4)])
    cluster.heal(1, 2)
    cluster.heal(2, 3)
    cluster.sync()
    for number in (1, 2):
        assert "a new cluster begins when all its regions have met" in cluster.node(number).birth.waiting_for()
        assert cluster.node(number).replica.vector.total() == 0
    cluster.heal(3, 4)
    cluster.sync()
    for number in (1, 2, 3, 4):
        assert cluster.node(number).birth.serving()
        assert cluster.node(number).birth.latest() == [1, 2, 3, 4]


def test_a_new_region_serves_once_its_sponsor_has_admitted_it() -> None:
    cluster = Cluster(3, STRICT, absent=(3,))
    cluster.sync()
    cluster.node(2).writable(False)
    cluster.add(3, 2)
    cluster.sync()
    assert "until another region admits" in cluster.node(3).birth.waiting_for()
    assert str(run(cluster, 3, "XLEN x")).count("LOADING") == 1
    cluster.node(2).writable(True)
    cluster.tick(100)
    cluster.sync()
    assert cluster.node(3).birth.serving() and run(cluster, 3, "XLEN x") == 0
    assert cluster.node(1).replica.members.joined() == [1, 2, 3]
    assert (3, 2) in rows(cluster, 1) and (3, 1) not in rows(cluster, 1)


def test_a_region_that_comes_back_creates_no_group_before_it_is_admitted() -> None:
    """It may have been evicted meanwhile; all else it serves."""
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 2)
    cluster.lose_power(1, random.Random(0), odds=0.0)
    assert cluster.node(1).replica.slot == 257
    assert isinstance(run(cluster, 1, "XADD x * f v"), str)
    refused = run(cluster, 1, "XGROUP CREATE x g 0")
    assert isinstance(refused, ReplyError) and refused.text.startswith("TRYAGAIN")
    cluster.heal(1, 2)
    cluster.sync()
    assert run(cluster, 1, "XGROUP CREATE x g 0") == "OK"


def test_a_region_alone_comes_back_without_anybody() -> None:
    cluster = Cluster(1, STRICT)
    cluster.lose_power(1, random.Random(0), odds=0.0)
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") == "OK"


def test_the_last_region_evicts_the_others_and_needs_nobody() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 2)
    cluster.lose_power(1, random.Random(0), odds=0.0)
    assert isinstance(run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM"), ReplyError)
    assert run(cluster, 1, "CRDT.EVICT 2") == ["2.0", cluster.node(1).replica.vector.get(2)]
    cluster.tick(100)
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") == "OK"


def test_an_evicted_region_goes_on_as_a_new_origin_and_hands_over_its_tail() -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    run(cluster, 3, "XADD x * f tail")
    run(cluster, 3, "XGROUP CREATE x void 0")
    run(cluster, 1, "CRDT.EVICT 3")
    cluster.heal(1, 3)
    cluster.sync()
    assert not cluster.link(1, 3).open, "it greets anew"
    assert cluster.node(3).replica.slot == 259
    assert run(cluster, 3, "XLEN x") == 1, "it never stopped"
    assert run(cluster, 3, "XINFO GROUPS x") == []
    assert isinstance(run(cluster, 3, "XGROUP CREATE x g 0"), ReplyError)
    cluster.heal(1, 3)
    cluster.sync()
    assert run(cluster, 3, "XGROUP CREATE x g 0") == "OK"
    cluster.sync()
    for number in (1, 2):
        assert run(cluster, number, "XLEN x") == 1
        assert cluster.node(number).replica.members.joined() == [1, 2, 259]


def test_an_eviction_that_was_logged_and_not_obeyed_is_obeyed_at_the_start() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 2)
    run(cluster, 1, "CRDT.EVICT 2")
    log = cluster.regions[1].log
    _, kind, payload = log.read(log.last_position, 1 << 16)[-1]
    assert kind == codec.BATCH
    cluster.regions[2].log.append([(kind, payload)])
    cluster.regions[2].log.sync()
    cluster.restart(2)
    assert cluster.node(2).replica.slot == 258
    cluster.heal(1, 2)
    cluster.sync()
    assert cluster.node(1).replica.members.joined() == [1, 258]


def test_nobody_talks_to_an_origin_that_another_one_follows() -> None:
    """Its old process may live on in a copy, or its last messages be on their way."""
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 3)
    cluster.node(1).replica.join_member(259)
    cluster.regions[1].perform()
    cluster.sync()
    assert not cluster.link(2, 3).open


def test_where_nobody_is_left_who_could_admit_a_region_the_incarnation_stands_in() -> None:
    """R1 evicted R2 and lost its disk: neither may vouch for the other."""
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    run(cluster, 2, "XADD x * f v")
    run(cluster, 1, "CRDT.EVICT 2 FORCE")
    cluster.sync()
    cluster.heal(1, 2)
    cluster.cut(1, 2)
    region = cluster.regions[1]
    region.config = replace(region.config, incarnation=None, peers=("region2:1",))
    region.lose_disk()
    region.start(cluster.now_ms)
    cluster.node(1).peer_met("region2:1", 2)
    cluster.heal(1, 2)
    cluster.sync()
    assert cluster.node(1).replica.slot == 257 and cluster.node(2).replica.slot == 258
    assert "--incarnation N stands in" in cluster.node(1).birth.waiting_for()
    region.config = replace(region.config, incarnation=1)
    cluster.restart(1)
    cluster.sync()
    for number, group in ((1, "g"), (2, "h")):
        assert run(cluster, number, f"XGROUP CREATE x {group} 0") == "OK"
    cluster.sync()
    assert run(cluster, 1, "CRDT.DIGEST") == run(cluster, 2, "CRDT.DIGEST")


def test_regions_that_evict_each_other_wait_for_a_third() -> None:
    """Each may have forgotten what the other must follow, so neither vouches for the other, and neither is alone."""
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    for a, b in cluster.pairs:
        cluster.cut(a, b)
    run(cluster, 1, "CRDT.EVICT 2")
    run(cluster, 2, "CRDT.EVICT 1")
    for _ in range(3):
        cluster.heal(1, 2)
        cluster.sync()
        cluster.tick(100)
    before = cluster.node(1).replica.vector.total()
    assert [cluster.node(number).replica.slot for number in (1, 2)] == [257, 258]
    for number in (1, 2):
        assert isinstance(run(cluster, number, "XGROUP CREATE x g 0 MKSTREAM"), ReplyError)
        cluster.tick(100)
        cluster.sync()
    assert cluster.node(1).replica.vector.total() == before, "nobody repeats what is worth nothing"
    cluster.heal(1, 3)
    cluster.heal(2, 3)
    cluster.sync()
    for number, group in ((1, "g"), (2, "h"), (3, "i")):
        assert run(cluster, number, f"XGROUP CREATE x {group} 0 MKSTREAM") == "OK"
    cluster.sync()
    assert len({str(run(cluster, number, "CRDT.DIGEST")) for number in (1, 2, 3)}) == 1


# Stability


def test_who_was_never_heard_of_keeps_everything_and_who_is_evicted_nothing() -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    assert cluster.node(1).exchange.stable().total() > 0
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    run(cluster, 1, "XADD x * f v")
    sync_disks(cluster)
    behind = cluster.node(1).exchange.stable()
    run(cluster, 2, "CRDT.EVICT 3")
    sync_disks(cluster)
    ahead = cluster.node(1).exchange.stable()
    assert ahead.descends(behind) and ahead.get(1) > behind.get(1)
    config = replace(cluster.node(1).config, peers=("a:1", "b:1", "c:1"))
    cluster.node(1).exchange.config = config
    assert cluster.node(1).exchange.stable() == VersionVector(), "three are configured, two were ever met"


def test_collection_runs_with_the_ticks_in_slices() -> None:
    cluster = Cluster(2, STRICT, limits=Limits(collected_keys_max=4))
    for number in range(10):
        run(cluster, 1, f"XADD k{number} * f v")
        run(cluster, 1, f"DEL k{number}")
    sync_disks(cluster)
    counts = []
    for _ in range(4):
        counts.append(len(cluster.node(2).replica.databases[0]))
        cluster.tick(100)
    assert counts == [10, 6, 2, 0]
    assert cluster.node(2).replica.collection.waiting == {}


# What is held back


def held_back(cluster: Cluster, number: int, slot: int) -> int:
    return cluster.node(number).membership.held_back(slot)


def test_what_a_region_holds_back_grows_until_it_has_it_or_is_evicted() -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    assert held_back(cluster, 1, 2) == held_back(cluster, 1, 3) == 0
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    for _ in range(600):
        run(cluster, 1, f"XADD x * f {'v' * 100}")
    sync_disks(cluster)
    assert held_back(cluster, 1, 2) == 0
    kept = held_back(cluster, 1, 3)
    assert kept > 60_000
    info = str(run(cluster, 1, "INFO replication"))
    assert f"held_back_bytes={kept}" in info and "held_back_bytes=0" in info
    run(cluster, 1, f"XADD x * f {'v' * 1000}")
    sync_disks(cluster)
    assert held_back(cluster, 1, 3) > kept + 1000
    cluster.heal(1, 3)
    cluster.sync()
    sync_disks(cluster)
    assert held_back(cluster, 1, 3) == 0


@pytest.mark.parametrize(("limit", "kept"), [(0, True), (1 << 17, False), (1 << 30, True)])
def test_the_log_is_kept_for_who_is_gone_up_to_a_limit(limit: int, kept: bool) -> None:
    cluster = Cluster(2, STRICT, limits=Limits(segment_bytes_max=1 << 16, log_retention_bytes=limit))
    sync_disks(cluster)
    cluster.cut(1, 2)
    for _ in range(300):
        run(cluster, 1, f"XADD x * f {'v' * 1000}")
    region = cluster.regions[1]
    region.sync()
    region.checkpoint()
    assert (region.log.first_position == 1) == kept
    if not kept:
        assert region.log.byte_count() <= limit + (1 << 16)
    cluster.heal(1, 2)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 300
    region.sync()
    cluster.restart(1)
    assert run(cluster, 1, "XLEN x") == 300
