"""Memory that fills and is freed: at times a region of such a world may use no more than it does, or less. Its clients
free memory, or the limit is raised again after a while.

When everything else is healed, one region stays without memory until the others have all that it has: what it lacks
stops nothing that goes out.
"""

from __future__ import annotations

from random import Random

from simulations.machine import Machine
from simulations.settings import MEMORY
from simulations.world import World

SHARES = (1.0, 0.9, 0.5, 0.0)


class ShortMemory:
    """Limits the memory of the regions of one world, and removes the limits."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng

    def begin(self) -> None:
        self._world.plan(self._rng.randrange(1_000), self._limit)

    def _limit(self) -> None:
        world, rng = self._world, self._rng
        if world.adversary.healing:
            return
        number = rng.choice(sorted(world.machines))
        machine = world.machines[number]
        if machine.up:
            machine.memory_bytes_max = int(machine.used_bytes() * rng.choice(SHARES)) - 1
            world.injected[MEMORY] += 1
            world.log_event(f"fault {MEMORY} at {number}: {machine.memory_bytes_max} of {machine.used_bytes()} bytes")
            world.plan(rng.choice([50, 500, 2_000]), self._unlimit, number)
        world.plan(1 + rng.randrange(1_500), self._limit)

    def _unlimit(self, number: int) -> None:
        if not self._world.adversary.healing:
            self._world.machines[number].memory_bytes_max = None

    def keep_short(self) -> None:
        """Keep one region short of memory, which runs, and no other."""
        running = [number for number, machine in sorted(self._world.machines.items()) if machine.up]
        chosen = self._rng.choice(running)
        for number, machine in self._world.machines.items():
            machine.memory_bytes_max = -1 if number == chosen else None
        self._world.log_event(f"region {chosen} has no memory yet")

    def has_gone_out(self) -> bool:
        """Return whether the other regions have what the one without memory has."""
        machines = [machine for machine in self._world.machines.values() if machine.up]
        short = [machine for machine in machines if machine.memory_bytes_max is not None]
        return all(has_all_of(machine, one) for one in short for machine in machines)

    def restore(self) -> None:
        for machine in self._world.machines.values():
            machine.memory_bytes_max = None


def has_all_of(machine: Machine, other: Machine) -> bool:
    return machine.node.replica.applied.vector.descends(other.node.replica.applied.vector)
