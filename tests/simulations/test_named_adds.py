"""Clients that name their adds, and a world of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from crdtstream.core.effects import Batch, EntryNamed
from crdtstream.core.replica import Replica
from crdtstream.core.values.entry_id import STRICT
from simulations.adversary import draw_world
from simulations.checkers import run_checked
from simulations.cluster import Cluster
from simulations.history import Added, Violation
from simulations.history_checkers import NoLostWrite
from simulations.name_oracle import acknowledged_by_name, ids_by_name, strangers_add, survivors, survivors_by_dot
from simulations.named_adds import NAMES, PRODUCERS, with_names
from simulations.settings import COPY, Settings, draw_settings
from simulations.world import World

KEY = (0, b"x")
CALM = Settings(2, "mesh", STRICT, 400, (), 100, 1_000_000, serving_at_once=False)
NAMED = replace(CALM, properties=True, named=True, retention=False, delivering=False)


@pytest.mark.parametrize("line", ["XADD x * f v", "XADD x MAXLEN 5 * f v"])
def test_adds_get_names(line: str) -> None:
    argv, rng = line.encode().split(), Random(1)
    sent = [with_names(rng, argv)[0] for _ in range(2_000)]
    named = [one for one in sent if one != argv]
    assert 0 < len(named) < len(sent)
    assert {tuple(one[:2] + one[5:]) for one in named} == {tuple(argv)}
    assert {(one[2], one[3], int(one[4])) for one in named} == {
        (b"IDMP", producer, name) for producer in PRODUCERS for name in range(NAMES)
    }


@pytest.mark.parametrize("line", ["XADD x 5-1 f v", "XADD x 5 f *", "XDEL x 1-1"])
def test_nothing_else_is_changed(line: str) -> None:
    argv = line.encode().split()
    assert all(with_names(Random(seed), argv) == [argv] for seed in range(20))


def test_a_region_whose_damaged_disk_was_replaced_may_add_as_a_stranger() -> None:
    """It serves at once, and the others may have forgotten the names of what it had added."""
    world = draw_world(1, replace(NAMED, serving_at_once=True))
    assert not strangers_add(world)
    world.disks_lost.add(1)
    assert strangers_add(world)


def test_a_repeat_adds_nothing_though_its_region_acknowledged_before_it() -> None:
    """The region has no entry of its own; where blocks are spilled, what it had read takes a dot before the add."""
    cluster = Cluster(2, STRICT, checked=["unique IDs"])
    named = b"XADD x IDMP p 1 * f v".split()
    for argv in (named, b"XGROUP CREATE x g 0".split()):
        cluster.execute(1, argv)
    cluster.sync()
    cluster.node(2).replica.reads.on = True
    before = cluster.node(2).replica.applied.counter()
    cluster.execute_turn(2, [b"XREADGROUP GROUP g a NOACK STREAMS x >".split(), named])
    assert cluster.node(2).replica.applied.counter() > before
    assert [added.region for added in cluster.history.added] == [1]
    cluster.execute(2, b"XADD x IDMP p 2 * f v".split())
    cluster.execute(2, b"XADD x IDMP p 2 * f v".split())
    assert [added.region for added in cluster.history.added] == [1, 2]
    cluster.checkers["unique IDs"].at_end(cluster)


class Writer:
    """A region that adds to one key under one name."""

    def __init__(self, world: World, origin: int) -> None:
        self.replica = Replica(origin)
        self._world = world

    def add(self, ms: int) -> Batch:
        self.replica.add_entry(KEY, (ms, 1), [b"f", b"v"])
        self.replica.name_entry(EntryNamed(KEY, b"p", b"1", 0))
        return self._told()

    def remove(self, origin: int, counter: int) -> Batch:
        self.replica.remove_entries(KEY, {origin: [(counter, counter)]}, False, None)
        return self._told()

    def _told(self) -> Batch:
        batch = self.replica.drain().batch
        assert batch is not None
        self._world.oracle.record(batch)
        return batch


@pytest.mark.parametrize("twin", ["", COPY])
def test_where_strangers_add_an_add_may_be_lost_to_one_that_a_client_removed(twin: str) -> None:
    """The third one had seen the first, and not the second. A region that has forgotten the first takes it for
    lost to the second, which is removed.
    """
    world = draw_world(1, replace(NAMED, twin=twin))
    first, second, third = (Writer(world, 1_000 + at) for at in range(3))
    batches = [first.add(10), second.add(20)]
    third.replica.apply_batch(batches[0])
    batches.append(third.add(30))
    for batch in batches[1:]:
        first.replica.apply_batch(batch)
    removals = [first.remove(origin, 1) for origin in (1_000, 1_001, 1_002)]
    for batch in [*batches, *removals]:
        world.machines[1].node.replica.apply_batch(batch)
    world.history.added.append(Added(3, KEY, (30, 1), (1_002, 1)))
    world.history.removals.append((KEY, second.replica.applied.vector))
    if twin:
        NoLostWrite().at_end(world)
        world.history.removals.clear()
    with pytest.raises(Violation, match="answered and gone"):
        NoLostWrite().at_end(world)


def test_what_two_regions_brought_back_from_one_letter_has_one_name() -> None:
    world = draw_world(1, replace(NAMED, named=False, letters=True))
    for batch in [Writer(world, 1_000).add(10), Writer(world, 1_001).add(20)]:
        world.machines[1].node.replica.apply_batch(batch)
    assert ids_by_name(world, KEY, {(20, 1)}) == {(10, 1), (20, 1)}
    assert acknowledged_by_name(world, KEY, {(20, 1)}) == {(10, 1)}


@pytest.mark.parametrize("seed", [0, 3])
def test_one_entry_stays_for_one_name(seed: int) -> None:
    settings = replace(draw_settings(Random(seed)), named=True, retention=False, delivering=False, spilling=False)
    world = draw_world(seed, settings, properties=True)
    run_checked(world)
    losses = survivors(world)
    assert sum(map(len, losses.values())) == len(survivors_by_dot(world)) > 0
    for key, mine in losses.items():
        ids = {lost.entry_id for lost in mine}
        assert acknowledged_by_name(world, key, ids) >= {survivor.entry_id for survivor in mine.values()}
        assert ids_by_name(world, key, ids) >= ids | acknowledged_by_name(world, key, ids)
