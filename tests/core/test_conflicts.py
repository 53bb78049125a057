"""What is recorded as a conflict: the same in every region, and nothing where one saw the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.core.conflicts import (
    ADDS_SURVIVED,
    CREATED_TWICE,
    CREATION_LOST,
    CREATION_VOID,
    EXPIRIES_SET,
    GAP,
    IDS_SET,
    KINDS,
)
from crdtstream.core.effects import Batch
from crdtstream.core.values.causality import Dot, VersionVector
from tests.commands.stream_region import Region
from tests.core.histories import KEYS, OPERATIONS, Step, World
from tests.effort import examples

KEY = (0, b"s")
STEPS = st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 2), st.integers(0, 11), st.integers(0, 11))
Row = tuple[str, bytes, Dot, Dot, int]


@pytest.fixture
def regions() -> tuple[Region, Region, Region]:
    """Three regions that have an entry and a group."""
    made = Region(1), Region(2), Region(3)
    made[0].say("XADD s 1-0 f v")
    made[0].create_group()
    share(made)
    return made


def share(regions: tuple[Region, ...]) -> None:
    """Every region hears every other one."""
    for one in regions:
        for other in regions:
            if one is not other:
                one.hear(other)


def seen(region: Region, key: bytes = b"s") -> list[Row]:
    found = region.replica.applied.conflicts.since((0, key), 0)
    return [(one.kind, one.group, one.effect, one.other, one.count) for one in found]


def kinds(region: Region) -> list[str]:
    return [kind for kind, *_ in seen(region)]


def test_adds_that_a_delete_had_not_seen(regions: tuple[Region, Region, Region]) -> None:
    east, west, north = regions
    east.say("DEL s")
    west.say("XADD s 2-0 f v")
    west.say("XADD s 3-0 f v")
    deleted, added = (1, east.replica.applied.counter()), (2, west.replica.applied.counter())
    north.hear(west)
    north.hear(east)
    share(regions)
    for region in regions:
        assert seen(region) == [(ADDS_SURVIVED, b"", deleted, added, 2)]
        assert region.replica.applied.conflicts.counts[ADDS_SURVIVED] == 1


def test_more_adds_beside_one_delete_are_one_conflict(regions: tuple[Region, Region, Region]) -> None:
    east, west, _ = regions
    east.say("DEL s")
    for entry_id in ("2-0", "3-0"):
        west.say(f"XADD s {entry_id} f v")
        east.hear(west)
    ((kind, _, _, last, count),) = seen(east)
    assert (kind, last, count) == (ADDS_SURVIVED, (2, west.replica.applied.counter()), 2)


def test_what_follows_a_delete_is_no_conflict(regions: tuple[Region, Region, Region]) -> None:
    east, west, _ = regions
    east.say("DEL s")
    west.hear(east)
    west.say("XADD s 2-0 f v")
    west.create_group()
    west.say("EXPIRE s 100")
    share(regions)
    east.say("DEL s")
    share(regions)
    assert [seen(region) for region in regions] == [[], [], []]


@pytest.mark.parametrize("removal", ["XGROUP DESTROY s h", "DEL s"])
def test_a_creation_that_a_delete_had_not_seen(regions: tuple[Region, Region, Region], removal: str) -> None:
    east, west, north = regions
    for region in regions:
        region.create_group(name=b"h")
    share(regions)
    for region in regions:
        region.replica.applied.conflicts.clear()
    east.say(removal)
    west.say("XGROUP DESTROY s h")
    west.create_group(name=b"h")
    destroyed, created = (1, east.replica.applied.counter()), (2, west.replica.applied.counter())
    north.hear(east)
    share(regions)
    for region in regions:
        assert (CREATION_LOST, b"h", destroyed, created, 1) in seen(region)
        assert region.replica.keyspace.known(KEY) is None or b"h" not in region.stream().groups


def test_a_group_that_two_regions_created(regions: tuple[Region, Region, Region]) -> None:
    east, west, north = regions
    east.create_group(name=b"h")
    west.create_group(name=b"h")
    share(regions)
    assert seen(east) == [(CREATED_TWICE, b"h", (2, 1), (1, east.replica.applied.counter()), 1)]
    assert seen(west) == [(CREATED_TWICE, b"h", (1, east.replica.applied.counter()), (2, 1), 1)]
    assert kinds(north) == [CREATED_TWICE]


def test_a_creation_of_an_origin_that_had_ended(regions: tuple[Region, Region, Region]) -> None:
    east, west, north = regions
    east.replica.evict_member(2)
    west.create_group(name=b"h")
    north.hear(west)
    share(regions)
    for region in regions:
        assert kinds(region) == [CREATION_VOID]
        assert seen(region)[0][1] == b"h"


def test_ids_and_expiries_that_two_regions_set(regions: tuple[Region, Region, Region]) -> None:
    east, west, north = regions
    for _ in range(3):
        east.say("EXPIRE s 100")
        west.say("EXPIRE s 200")
        share(regions)
    east.say("XSETID s 5-0")
    west.say("XSETID s 6-0")
    share(regions)
    assert kinds(east) == kinds(west) == kinds(north) == [EXPIRIES_SET, IDS_SET]
    assert seen(east)[0][4] == 3, "a pair of origins is one conflict"
    assert seen(east)[1][2:4] == ((2, west.replica.applied.counter()), (1, east.replica.applied.counter()))


def test_an_expiry_that_is_voided_is_no_conflict(regions: tuple[Region, Region, Region]) -> None:
    east, west, _ = regions
    east.say("EXPIRE s 100")
    share(regions)
    west.say("PERSIST s")
    share(regions)
    assert [seen(region) for region in regions] == [[], [], []]


def test_conflicts_are_found_by_key(regions: tuple[Region, Region, Region]) -> None:
    east, west, _ = regions
    west.say("XADD t 1-0 f v")
    share(regions)
    for name in ("s", "t"):
        east.say(f"DEL {name}")
        west.say(f"XADD {name} 9-0 f v")
    share(regions)
    assert len(seen(east)) == len(seen(east, b"t")) == 1
    assert seen(east, b"u") == []


def test_a_whole_state_leaves_a_gap() -> None:
    world = World((1, 2))
    world.run([("add", 0, 0, 1), ("add", 1, 0, 1), ("join", 0, 1, 0)])
    applied = world.replicas[0].applied
    assert [one.kind for one in applied.conflicts.since((0, b"x"), 0)] == [GAP]
    assert applied.conflicts.counts[GAP] == 1


# The ring


def conflict_numbers(region: Region) -> list[int]:
    return [one.number for one in region.replica.applied.conflicts.since(KEY, 0)]


def test_the_oldest_are_dropped(regions: tuple[Region, Region, Region]) -> None:
    conflicts = regions[0].replica.applied.conflicts
    conflicts.limit(3)
    for counter in range(1, 6):
        conflicts.record(ADDS_SURVIVED, KEY, (2, counter), (3, 1))
    assert conflict_numbers(regions[0]) == [3, 4, 5]
    assert (conflicts.dropped, conflicts.last, conflicts.counts[ADDS_SURVIVED]) == (2, 5, 5)
    conflicts.limit(1)
    assert conflict_numbers(regions[0]) == [5]
    assert [one.number for one in conflicts.since(KEY, 5)] == []
    conflicts.limit(0)
    conflicts.record(IDS_SET, KEY, (2, 1), (3, 1))
    assert conflict_numbers(regions[0]) == [] and conflicts.dropped == 6
    conflicts.check()


def test_what_happens_again_is_numbered_again(regions: tuple[Region, Region, Region]) -> None:
    conflicts = regions[0].replica.applied.conflicts
    for other in (3, 4, 3):
        conflicts.record(ADDS_SURVIVED, KEY, (2, 1), (other, 1), count=2)
    assert conflict_numbers(regions[0]) == [2, 3]
    assert [one.count for one in conflicts.since(KEY, 0)] == [2, 4]
    assert conflicts.dropped == 0


def test_a_start_forgets_what_it_replayed(regions: tuple[Region, Region, Region]) -> None:
    applied = regions[0].replica.applied
    applied.conflicts.record(IDS_SET, KEY, (2, 1), (3, 1))
    applied.end_replay()
    assert seen(regions[0]) == [] and set(applied.conflicts.counts.values()) == {0}


def test_every_kind_is_counted() -> None:
    assert list(Region().replica.applied.conflicts.counts) == list(KINDS)


# Laws


def contexts_of(batches: list[Batch]) -> Callable[[Dot], VersionVector]:
    """What the origin of each dot had seen."""
    known: dict[int, list[tuple[int, VersionVector]]] = {}
    for batch in batches:
        rows = known.setdefault(batch.origin, [])
        context = rows[-1][1].copy() if rows else VersionVector()
        context.merge(batch.context)
        rows.append((batch.last, context))

    def context_of(dot: Dot) -> VersionVector:
        context = next(context for last, context in known[dot[0]] if dot[1] <= last).copy()
        context.advance(dot[0], dot[1] - 1)
        return context

    return context_of


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=20, max_size=60))
def test_what_is_recorded_met_without_having_seen_each_other(history: list[Step]) -> None:
    world = World((1, 2, 3))
    world.run(history)
    for number in range(3):
        world.end_turn(number)
    context_of = contexts_of(world.batches)
    for replica in world.replicas:
        replica.applied.conflicts.check()
        for key in KEYS:
            for one in replica.applied.conflicts.since(key, 0):
                if one.kind not in (GAP, CREATION_VOID):
                    assert not context_of(one.effect).contains(*one.other), one.kind
                    assert not context_of(one.other).contains(*one.effect), one.kind
