"""Worlds that spill: what the runtime does beside the turns of a region that spills, at random times.

Blocks are sealed early, because worlds add few entries; what is in a checkpoint is spilled soon, and checkpoints are
taken as often as the region asks for them. Half of what is asked of an open file is not there at once: then it is read
after a while, as on a thread, unless the process has ended, and comes back between two turns. The checkpoint may be
another one by then, and the file without a name.
"""

from __future__ import annotations

from random import Random

from crdtstream.connections.blocks.reads import BlockRead
from simulations.disk import Misses
from simulations.machine import Machine
from simulations.network import Network, Watcher
from simulations.spill_checkers import Waiting, waiting_in
from simulations.world import TICK_MS, World

SEAL_ODDS = 0.3
DELAYS_MS = (0, 1, 5, 40, 150)
COSTS = (1, 100, 20_000)


class Spilling(Watcher):
    """The spilling of all regions of one world."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._waiting: dict[int, set[Waiting]] = {}
        world.workload.spilling = rng
        world.misses = Misses(rng)
        for machine in world.machines.values():
            machine.misses = machine.disk.misses = world.misses
            machine.reads_blocks = False

    def ticked(self, world: Network, number: int) -> None:
        world.plan(self._rng.randrange(TICK_MS), self._walk, number, world.machines[number].starts)

    def turned(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        waiting = {*waiting_in(machine)} if machine.node.replica.reads.on else set[Waiting]()
        for kind, *_ in waiting - self._waiting.get(number, set()):
            machine.happened[f"{kind} waits for blocks"] += 1
        self._waiting[number] = waiting
        for block_read in machine.node.context.block_reads.drain():
            world.plan(self._rng.choice(DELAYS_MS), self._read, number, machine.starts, block_read)

    def _walk(self, number: int, starts: int) -> None:
        world, machine = self._world, self._world.machines[number]
        if machine.starts == starts and world.runs(number):
            world.act(number, lambda: self._spill(machine))
            if machine.node.context.saving.requested and machine.checkpointer.capture is None:
                world.save_soon(number, starts)

    def _spill(self, machine: Machine) -> None:
        """Seal some blocks, and let the region spill what it has to."""
        spilling, rng = machine.node.context.spilling, self._rng
        machine.sums = not machine.sums
        before = spilling.walk.spills
        machine.seal_some(rng, SEAL_ODDS)
        spilling.step(rng.choice(COSTS), machine.log.appended_bytes)
        machine.happened["spill"] += spilling.walk.spills - before

    def _read(self, number: int, starts: int, block_read: BlockRead) -> None:
        """Read these blocks; a process that stands still sees them later."""
        machine = self._world.machines[number]
        if machine.starts != starts or not machine.up:
            return
        if machine.paused:
            self._world.plan(TICK_MS, self._read, number, starts, block_read)
        else:
            self._world.act(number, lambda: self._finish(number, block_read))

    def _finish(self, number: int, block_read: BlockRead) -> None:
        misses = self._world.misses
        assert misses is not None
        misses.on_thread = True
        found = block_read.read()
        misses.on_thread = False
        # What was read for a request is there at once when it runs now.
        misses.found_at.update((one.file_name(), one.offset) for one in [*block_read.held, *block_read.handles])
        block_read.finish(found)
        self._world.run_again(number)
        self._world.turn(number)
