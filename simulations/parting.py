"""Partings: a region is cut off from all others, or stands still, for longer than a takeover takes."""

from __future__ import annotations

from random import Random

from simulations.world import World

PARTED = "parted"
LASTS_MS = (1_100, 2_200)


class Parting:
    """Parts regions of one world until its adversary heals."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng

    def begin(self) -> None:
        self._world.plan(self._rng.randrange(1_200), self._part)

    def _part(self) -> None:
        world, rng = self._world, self._rng
        if world.adversary.healing:
            return
        number, lasts_ms = rng.choice(sorted(world.machines)), rng.randrange(*LASTS_MS)
        world.plan(lasts_ms + rng.randrange(1_500), self._part)
        if not world.runs(number):
            return
        world.injected[PARTED] += 1
        world.statistics["faults"] += 1
        if rng.random() < 0.3:
            world.log_event(f"region {number} stands still for {lasts_ms} ms")
            world.machines[number].paused = True
            world.plan(lasts_ms, world.resume, number)
            return
        world.log_event(f"region {number} is cut off for {lasts_ms} ms")
        for pair in [pair for pair in world.pairs if number in pair]:
            world.cut.add(pair)
            world.lose_connections(pair)
            world.plan(lasts_ms, world.cut.discard, pair)
