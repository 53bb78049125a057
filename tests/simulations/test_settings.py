"""Settings are drawn from a seed, and topologies are what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from simulations.adversary import draw_world
from simulations.draw import Draw
from simulations.mutations import complaint
from simulations.settings import (
    COPY,
    EXTRAS,
    LARGE_VOLUMES,
    Settings,
    complete,
    draw_forwarding,
    draw_limits,
    draw_settings,
    enlarged,
    pairs_of,
)

# A seed whose entries are small unless it is asked for others.
SMALL = 1


def test_topologies() -> None:
    assert pairs_of("mesh", 3) == [(1, 2), (1, 3), (2, 3)]
    assert pairs_of("hub", 3) == [(1, 2), (1, 3)]
    assert pairs_of("line", 3) == [(1, 2), (2, 3)]
    assert pairs_of("ring", 4) == [(1, 2), (2, 3), (3, 4), (1, 4)]
    assert pairs_of("ring", 2) == [(1, 2)]


def test_one_seed_draws_one_world() -> None:
    assert draw_settings(Random(5)) == draw_settings(Random(5))


def test_a_longer_run_can_be_drawn() -> None:
    assert draw_settings(Random(5), 9_000).duration_ms == 9_000


def test_regions_differ_in_their_limits() -> None:
    rng = Random(1)
    assert len({draw_limits(rng).message_bytes for _ in range(20)}) > 1


def test_nothing_but_the_limits_of_forwarding_is_drawn_for_a_partitioned_stream() -> None:
    limits = draw_limits(Random(1))
    drawn = [draw_forwarding(Random(seed), limits) for seed in range(20)]
    assert len({one.takeover_ms for one in drawn}) == 3
    assert {replace(one, forward_timeout_ms=5_000, takeover_ms=60_000) for one in drawn} == {limits}


def test_volumes_are_larger_where_entries_are() -> None:
    assert enlarged(None) is None and enlarged(1 << 18) == LARGE_VOLUMES << 18
    settings = replace(draw_settings(Random(1)), faults=(), small_volumes=True)
    small, large = draw_world(SMALL, settings), draw_world(SMALL, replace(settings, bounded=True))
    assert not small.workload.has_large and large.workload.has_large, "choose another seed"
    volumes = [machine.volume_bytes for machine in small.machines.values()]
    assert [enlarged(each) for each in volumes] == [machine.volume_bytes for machine in large.machines.values()]
    assert all(machine.disk.capacity_bytes == machine.volume_bytes for machine in large.machines.values())


def test_what_settings_leave_open_is_drawn_and_nothing_else() -> None:
    left_open = draw_settings(Random(1))
    drawn = complete(left_open, Draw(1))
    assert all(getattr(left_open, name) is None and getattr(drawn, name) in (False, True) for name in EXTRAS)
    for decided in (False, True):
        settings = deciding(left_open, dict.fromkeys(EXTRAS, decided))
        assert complete(settings, Draw(1)) == settings


def deciding(settings: Settings, decided: Mapping[str, Any]) -> Settings:
    return replace(settings, **decided)


def test_no_fault_of_a_world_without_faults_is_drawn() -> None:
    calm, twins = (replace(draw_settings(Random(1)), faults=(), twin=""), replace(draw_settings(Random(1)), twin=COPY))
    assert not any(complete(calm, Draw(seed)).flapping or complete(calm, Draw(seed)).short_memory for seed in range(50))
    assert not any(complete(twins, Draw(seed)).short_memory for seed in range(50))


@pytest.mark.parametrize("decided", [False, True])
def test_a_part_that_is_decided_shifts_no_other(decided: bool) -> None:
    left_open = draw_settings(Random(1))
    for name in EXTRAS:
        drawn = complete(left_open, Draw(4))
        assert complete(deciding(left_open, {name: decided}), Draw(4)) == deciding(drawn, {name: decided})


@pytest.mark.parametrize(("seed", "focus"), [(20, {"bounded": True}), (60_025, {"partitioned": True})])
def test_a_state_fits_beside_what_is_there(seed: int, focus: Mapping[str, Any]) -> None:
    """On a volume without room for it a region gave the state up again and again, and the world was never quiet."""
    assert complaint(seed, focus=focus) is None
