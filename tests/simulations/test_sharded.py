"""Regions with several shards: one seed gives one trace, clients find their shard, and all invariants hold."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream.core.values.entry_id import STRICT
from simulations.__main__ import app
from simulations.adversary import draw_world
from simulations.checkers import run_checked
from simulations.history import Violation
from simulations.network import Network, Watcher
from simulations.settings import Settings
from simulations.shard_refusals import REFUSALS, SHARDS, shard_of
from simulations.sharded import Sharded, draw_run
from simulations.sweeping import run_seed
from tests.effort import INTERPRETED

TRACE = """
import sys
from simulations.sharded import draw_run
run = draw_run(9, sharded=True)
run.run()
sys.stdout.write("\\n".join(run.trace))
"""
# One of the tenth.
SHARDED_SEED = 11
CALM = Settings(2, "mesh", STRICT, 400, (), 100, 1_000_000)


def sharded(seed: int, settings: Settings | None = None) -> Sharded:
    run = draw_run(seed, settings, sharded=True)
    assert isinstance(run, Sharded)
    return run


def finished(seed: int) -> Sharded:
    run = sharded(seed)
    run_checked(run)
    return run


@pytest.mark.parametrize("tens", range(0, 30, 10) if INTERPRETED else range(30, 40, 10))
def test_invariants_hold_where_regions_have_several_shards(tens: int) -> None:
    for seed in range(tens, tens + 10):
        finished(seed)


def test_a_tenth_of_all_runs_has_several_shards() -> None:
    several = [seed for seed in range(400) if isinstance(draw_run(seed), Sharded)]
    assert 25 <= len(several) <= 55
    assert not any(isinstance(draw_run(seed, partitioned=True), Sharded) for seed in several[:3])
    assert all(isinstance(draw_run(seed, sharded=False), type(draw_world(seed))) for seed in several[:3])


def test_one_seed_gives_one_trace_where_regions_have_several_shards() -> None:
    assert finished(8).trace == finished(8).trace


def test_its_trace_does_not_depend_on_the_order_of_hashes() -> None:
    traces = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run([sys.executable, "-c", TRACE], capture_output=True, env=environment, check=True)
        traces.append(ran.stdout)
    assert traces[0] == traces[1] and len(traces[0]) > 1000


def test_a_run_with_one_shard_is_what_its_seed_was_before_any_had_several() -> None:
    alone, drawn = draw_world(3), draw_run(3, sharded=False)
    alone.run()
    drawn.run()
    assert alone.trace == drawn.trace


def test_each_shard_is_a_world_of_its_own_with_a_part_of_everything() -> None:
    settings = replace(
        CALM, regions=3, duration_ms=3_000, faults=("kill",), fault_interval_ms=300, command_interval_ms=5
    )
    run = sharded(4, settings)
    run_checked(run)
    first, second = run.worlds
    assert run.statistics["commands"] == first.statistics["commands"] + second.statistics["commands"]
    assert [world.settings.command_interval_ms for world in run.worlds] == [SHARDS * 5] * SHARDS
    assert min(world.statistics["commands"] for world in run.worlds) > 5
    assert all(world.injected["kill"] for world in run.worlds)
    disks = [machine.disk for world in run.worlds for machine in world.machines.values()]
    assert len({id(disk) for disk in disks}) == len(disks) == 3 * SHARDS
    for world in run.worlds:
        held = {key for machine in world.machines.values() for key, _ in machine.node.replica.keyspace.streams()}
        assert held and {shard_of(name) for _, name in held} == {world.shard}


def test_a_trace_names_the_shard_of_each_event_in_the_order_of_time() -> None:
    run = sharded(8)
    run.run()
    trace = run.trace[1:]
    assert {line.split()[1:3] == ["shard", "0:"] for line in trace} == {False, True}
    assert all(line.split()[1] == "shard" for line in trace)
    times = [int(line.split()[0]) for line in trace]
    assert times == sorted(times)


def test_clients_meet_every_refusal_and_shards_that_must_not_be_linked() -> None:
    injected: Counter[str] = sum((finished(seed).injected for seed in (8, 9, 11)), Counter())
    assert all(injected[kind] for kind in (*REFUSALS, "EXECABORT", "wrong link")), injected
    assert injected["several shards"] == 3


def test_a_sweep_counts_them() -> None:
    outcome = run_seed(SHARDED_SEED)
    assert not outcome.violation
    assert outcome.injected["several shards"] == 1
    assert not run_seed(SHARDED_SEED, sharded=False).injected.get("several shards")


def test_each_shard_has_a_diagram_and_lines_of_the_trace(tmp_path: Path) -> None:
    report = tmp_path / "run.html"
    ran = CliRunner().invoke(app, ["--seed", str(SHARDED_SEED), "--trace", "--report", str(report)])
    assert ran.exit_code == 0, ran.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-shard-0.html", "run-shard-1.html"]
    assert " shard 0: " in ran.output and " shard 1: " in ran.output and "2 shards each" in ran.output


class Objects(Watcher):
    """Holds that no region of shard 1 may end a turn."""

    def turned(self, world: Network, number: int) -> None:
        if world.shard == 1:
            raise Violation("turns", f"region {number}")


def test_a_violation_names_its_shard_once() -> None:
    run = sharded(8)
    for world in run.worlds:
        world.watch(Objects())
    with pytest.raises(Violation, match=r"^turns: shard 1, region \d$"):
        run.run()
    (alone,) = draw_world(3, CALM).worlds
    with pytest.raises(Violation, match=r"^turns: region 1$"), alone.named_violations():
        raise Violation("turns", "region 1")
