"""One seed gives one trace, seeds differ, and invariants hold while faults of every kind happen."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from crdtstream.core.entry_id import STRICT
from simulations.checkers import run_checked
from simulations.settings import FAULTS, TOPOLOGIES, Settings
from simulations.workload import PROFILES
from simulations.world import TICK_MS, World

TRACE = "import sys; from simulations.world import World; w = World({}); w.run(); sys.stdout.write('\\n'.join(w.trace))"


def traced(seed: int) -> list[str]:
    world = World(seed)
    run_checked(world)
    return world.trace


@pytest.mark.parametrize("seed", [1, 7, 23, 40, 61])
def test_one_seed_gives_one_trace(seed: int) -> None:
    assert traced(seed) == traced(seed)


def test_a_trace_does_not_depend_on_the_order_of_hashes() -> None:
    traces = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run([sys.executable, "-c", TRACE.format(11)], capture_output=True, env=environment, check=True)
        traces.append(ran.stdout)
    assert traces[0] == traces[1] and len(traces[0]) > 1000


def test_seeds_differ() -> None:
    assert traced(1) != traced(2)


@pytest.mark.parametrize("tens", range(100, 300, 10))
def test_invariants_hold(tens: int) -> None:
    for seed in range(tens, tens + 10):
        run_checked(World(seed))


@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_that_is_killed_while_it_is_new_comes_back(seed: int) -> None:
    """Every origin is born, nobody is admitted, and all processes end."""
    world = World(seed, Settings(3, "mesh", STRICT, 2_000, (), 100, 20))
    for number in world.machines:
        world.plan(TICK_MS, world.tick, number)
    for pair in world.pairs:
        world.plan_dial(pair)
    machines = world.machines.values()
    world.run_until(lambda: all(machine.node.birth.origin for machine in machines), world.now_ms + 5_000)
    for number in world.machines:
        world.nemesis.stop(number, "kill")
    for number in world.machines:
        world.nemesis.start(number)
    world.run_until(world.quiet, world.now_ms + 5_000)


def test_everything_is_drawn() -> None:
    drawn = [World(seed).settings for seed in range(200)]
    assert {fault for settings in drawn for fault in settings.faults} == set(FAULTS)
    assert {settings.topology for settings in drawn} == set(TOPOLOGIES)
    assert {settings.profile for settings in drawn} == set(PROFILES)
    assert {settings.regions for settings in drawn} == set(range(2, 8))


def test_every_kind_of_fault_happens_and_leads_to_something() -> None:
    traces = [line for seed in range(100, 140) for line in traced(seed)]
    assert {line.split()[2] for line in traces if line.split()[1] == "fault"} == set(FAULTS)
    text = "\n".join(traces)
    for outcome in (
        "refuses to start",
        "gets no reply",
        "ends: in the middle of writing",
        "ends: in the middle of syncing",
        "ends: the log failed",
        "ends while it starts",
        "The disk of this region takes no more",
    ):
        assert outcome in text, outcome
    cuts = re.findall(r"has a checkpoint, its log begins at (\d+)", text)
    assert any(int(first) > 1 for first in cuts), "no log was cut"
