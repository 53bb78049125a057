"""What the checkers of retention take for a limit, and that a world with limits passes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from crdtstream.core import effects as fx
from crdtstream.core.streams.properties import ACKED_ONLY, MAX_AGE, MAX_BYTES, MAX_LENGTH, YES, RetentionLimits
from crdtstream.core.values.causality import VersionVector
from simulations.adversary import draw_world
from simulations.checkers import run_checked
from simulations.oracle import Row
from simulations.retention_checkers import HeldEntry, exceeds, limits_of, registers_of
from simulations.settings import draw_settings

KEY = (0, b"x")
HELD: list[HeldEntry] = [((10, 1), 1, 1, 30), ((20, 2), 2, 1, 30), ((30, 1), 1, 2, 30)]


def row(origin: int, counter: int, seen: dict[int, int], effect: fx.Effect) -> Row:
    return (origin, counter), VersionVector(seen), effect


def test_a_register_survives_what_has_not_seen_it() -> None:
    first = row(1, 1, {}, fx.StreamPropertiesSet(KEY, 1, {MAX_LENGTH: b"5", MAX_AGE: b"1000"}))
    second = row(2, 1, {}, fx.StreamPropertiesSet(KEY, 1, {MAX_LENGTH: b"6"}))
    later = row(1, 2, {1: 1, 2: 1}, fx.StreamPropertiesSet(KEY, 2, {MAX_LENGTH: b"7"}))
    deleted = row(2, 2, {2: 1}, fx.StreamDeleted(KEY, {}))
    both = registers_of([first, second])
    assert [one[1] for one in both if one[0] == MAX_LENGTH] == [1, 2]
    assert limits_of(both).fields() == (1000, 0, 6, False), "the highest origin"
    assert [one[4] for one in registers_of([first, second, later])] == [b"1000", b"7"]
    assert [one[1] for one in registers_of([first, second, deleted])] == [1, 1]


@pytest.mark.parametrize(
    ("values", "now_ms", "expected"),
    [
        ({MAX_AGE: b"15"}, 30, [1]),
        ({MAX_AGE: b"10"}, 30, [1]),
        ({MAX_LENGTH: b"1"}, 0, [1, 2]),
        ({MAX_BYTES: b"60"}, 0, [1]),
        ({MAX_BYTES: b"59"}, 0, [1, 2]),
        ({ACKED_ONLY: YES}, 0, [1, 2, 3]),
        ({ACKED_ONLY: YES, MAX_LENGTH: b"2"}, 0, [1]),
        ({}, 10**9, []),
    ],
)
def test_what_exceeds_a_limit(values: dict[bytes, bytes], now_ms: int, expected: list[int]) -> None:
    limits = RetentionLimits(values)
    found = [at for at, one in enumerate(HELD, 1) if exceeds(limits, HELD, (one[1], one[2]), now_ms)]
    assert found == expected


@pytest.mark.parametrize("seed", [3, 7])
def test_invariants_hold_where_streams_have_limits(seed: int) -> None:
    settings = replace(draw_settings(Random(seed)), retention=True, partitioned=False)
    world = draw_world(seed, settings, properties=True)
    run_checked(world)
    removed = [machine.node.replica.keyspace.retained.removed for machine in world.machines.values()]
    assert sum(entries for counts in removed for entries, _ in counts.values()) > 0
