"""Adds that regions made under one name at the same time: one stays everywhere, and no acknowledgement gets lost."""

from __future__ import annotations

from random import Random

import pytest

from crdtstream.core.conflicts import ADDED_TWICE
from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Key
from crdtstream.core.names.register import NamedAdd, losses_of
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import EntryId
from tests.core.histories import KEYS, Step, ids_of
from tests.core.names.named_histories import FORGETTING, OPERATIONS, Made, NamedWorld
from tests.effort import examples

ORIGINS = range(1, 4)
KEY: Key = KEYS[0]
SEEDS = range(examples(150))
STEPS = 60
# A group that all regions know, without which little is acknowledged.
OPENING: list[Step] = [("name", 0, 0, 0), ("create", 0, 0, 0), ("sync", 1, 0, 9), ("sync", 2, 0, 9)]


def world_of(seed: int, operations: list[str]) -> NamedWorld:
    """A long history, healed. Hypothesis draws short ones, in which little is acknowledged and then lost."""
    chance = Random(seed)
    numbers = [(chance.randrange(3), chance.randrange(12), chance.randrange(12)) for _ in range(STEPS)]
    return healed(OPENING + [(chance.choice(operations), *one) for one in numbers])


def healed(history: list[Step]) -> NamedWorld:
    world = NamedWorld(ORIGINS)
    world.run(history)
    world.heal()
    for replica in world.replicas:
        replica.check()
    return world


def losses_among(made: list[Made]) -> dict[Dot, Dot]:
    """The survivor of each lost add, by all that each had seen."""
    adds = [NamedAdd(dot, entry_id, 0, list(seen.items())) for entry_id, dot, seen in made]
    return {lost.dot: survivor.dot for lost, survivor in losses_of(sorted(adds, key=NamedAdd.order))}


def held(replica: Replica, key: Key) -> set[Dot]:
    stream = replica.keyspace.known(key)
    return set() if stream is None else {(origin, counter) for _, origin, counter in ids_of(stream)}


def acked(replica: Replica, key: Key, dots: dict[Dot, EntryId]) -> dict[bytes, set[Dot]]:
    """Of these entries those that each group has acknowledged."""
    stream = replica.keyspace.known(key)
    found: dict[bytes, set[Dot]] = {}
    for name, group in {} if stream is None else stream.groups.items():
        runs = group.acked
        found[name] = {dot for dot, one in dots.items() if dot[0] in runs and runs[dot[0]].contains(one)}
    return found


@pytest.mark.parametrize("operations", [OPERATIONS, FORGETTING])
def test_one_of_concurrent_adds_stays_in_all_regions(operations: list[str]) -> None:
    lost = 0
    for seed in SEEDS:
        world = world_of(seed, operations)
        assert len({digest_replica(replica) for replica in world.replicas}) == 1, seed
        for (key, _), made in world.made.items():
            dots, losses = {dot for _, dot, _ in made}, losses_among(made)
            lost += len(losses)
            for replica in world.replicas:
                assert dots & held(replica, key) == dots - set(losses), seed
    assert lost > len(SEEDS)


def test_what_is_acknowledged_is_acknowledged_of_the_survivor() -> None:
    """And nothing else: no survivor is acknowledged unless a consumer acknowledged it, or what was lost to it."""
    passed_on = 0
    for seed in range(3 * len(SEEDS)):
        world = world_of(seed, FORGETTING if seed % 3 == 0 else OPERATIONS)
        for (key, _), made in world.made.items():
            dots, losses = {dot: entry_id for entry_id, dot, _ in made}, losses_among(made)
            for name, found in acked(world.replicas[0], key, dots).items():
                by_hand = {dot for dot, one in dots.items() if (key, name, dot[0], one) in world.acknowledged}
                assert found & held(world.replicas[0], key) <= {losses.get(dot, dot) for dot in by_hand}, seed
                wanted = {losses[dot] for dot in by_hand if dot in losses}
                assert wanted <= found, seed
                passed_on += len(wanted)
    assert passed_on


def test_a_region_without_the_name_agrees() -> None:
    """Beyond `names_max` a region does not see that two adds met; the others remove what is lost for it."""
    for seed in SEEDS:
        chance = Random(seed)
        world = NamedWorld(ORIGINS)
        world.replicas[2].keyspace.named.names_max = 0
        numbers = [(chance.randrange(3), chance.randrange(12), chance.randrange(12)) for _ in range(STEPS)]
        world.run([(chance.choice(["name", "sync"]), *one) for one in numbers])
        world.heal()
        assert len({digest_replica(replica) for replica in world.replicas}) == 1, seed
        assert world.replicas[2].keyspace.named.held == 0


def test_a_region_records_what_it_saw_meet() -> None:
    world = healed([("name", 0, 0, 0), ("name", 1, 0, 0)])
    for replica in world.replicas:
        (conflict,) = replica.applied.conflicts.since(KEY, 0)
        assert conflict.kind == ADDED_TWICE
        assert {conflict.effect, conflict.other} == {(1, 1), (2, 1)}
        assert held(replica, KEY) == {conflict.effect}
    assert sum(replica.keyspace.named.removed for replica in world.replicas) >= 1


def test_a_delete_that_saw_only_the_survivor_removes_the_name() -> None:
    world = NamedWorld(ORIGINS)
    world.run([("name", 0, 0, 0), ("name", 1, 0, 2), ("del", 0, 0, 1)])
    world.heal()
    assert all(not held(replica, KEY) for replica in world.replicas)


def test_a_removed_survivor_is_remembered() -> None:
    """It was consumed and removed before the other one arrives, which would be delivered otherwise."""
    world = NamedWorld(ORIGINS)
    world.run([("name", 0, 0, 0), ("del_entry", 0, 0, 1), ("name", 1, 0, 2)])
    world.heal()
    assert all(not held(replica, KEY) for replica in world.replicas)


def test_forgotten_names_leave_nothing_behind() -> None:
    world = healed([("name", 0, 0, 0), ("name", 1, 0, 0), ("name", 2, 1, 1)])
    for _ in range(2):
        for number in range(3):
            for other in range(3):
                world.hear(number, other)
            world.forget(number)
    for replica in world.replicas:
        named = replica.keyspace.named
        assert (named.held, named.met) == (0, {})
        named.check()
