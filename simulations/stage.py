"""A cluster under the checkers of a world, for the `check` step of a scenario.

The regions are machines whose batches the oracle receives. A world that plans nothing holds them and the history, and
is passed to the checkers. They run after each step of the scenario, and `verify` runs one as at the end of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from crdtstream.config import Config
from crdtstream.core.effects import Key
from crdtstream.replication.wire_pb2 import Message
from simulations.adversary import Adversary
from simulations.checkers import all_checkers, watch
from simulations.checking import Sampled
from simulations.cluster import CLIENT, Cluster, Link, starts_of
from simulations.disk import SimulatedDisk
from simulations.history import Violation
from simulations.machine import Machine, Unanswered
from simulations.network import Connection, Network
from simulations.oracle import Expected, Oracle
from simulations.reply import read_replies
from simulations.settings import Settings
from simulations.world import World, creates_of, dot_after

STEP_MS = 100


class Shell(World):
    """A world whose machines are created and moved by a stage."""

    def __init__(self, settings: Settings, stage: Stage) -> None:
        super().__init__(0, Adversary, replace(settings, regions=0))
        self.settings = settings
        self.stage = stage
        self.oracle = stage.oracle
        self.machines = stage.machines

    def run_until(self, done: Callable[[], bool], bound_ms: int) -> None:
        """Let time pass, sync logs, and deliver everything."""
        while not done():
            if self.now_ms >= bound_ms:
                raise Violation("convergence", f"not in time: {self.state()}")
            self.stage.tick(STEP_MS)
            for machine in self.machines.values():
                machine.sync()
            self.stage.sync()
            self.now_ms = self.stage.now_ms

    def expected(self) -> dict[Key, Expected]:
        """Computed at each call, because a scenario continues after a check."""
        return self.oracle.expected(self.vector())


class Stage(Cluster):
    """Regions watched by checkers."""

    def __init__(
        self, regions: int, id_mode: str, fsync: str, pairs: list[tuple[int, int]], checked: list[str]
    ) -> None:
        self.oracle = Oracle()
        self.machines: dict[int, Machine] = {}
        self.checkers = {checker.name: checker for checker in all_checkers()}
        self.watching = [self.checkers[name] for name in checked]
        self.connections: dict[int, Connection] = {}
        self.world = Shell(Settings(regions, "mesh", id_mode, 0, (), 0, 0), self)
        self._fault = ""
        # Commands of the only client that have no reply yet.
        self._asked: dict[int, list[Unanswered]] = {}
        super().__init__(regions, id_mode, fsync, pairs)
        watch(self.world, self.watching)

    def region(self, number: int, config: Config, disk: SimulatedDisk | None = None) -> Machine:
        machine = Machine(config, self.oracle, self.now_ms, 0, 1000, number, disk, starts_of(number, config))
        self.machines[number] = machine
        return machine

    # Commands

    def execute(self, number: int, argv: list[bytes], client_id: int = CLIENT) -> bytes | None:
        return self.execute_turn(number, [argv])

    def execute_turn(self, number: int, commands: list[list[bytes]]) -> bytes | None:
        machine, asked = self.machines[number], self._asked.setdefault(number, [])
        for argv in commands:
            asked.append(Unanswered(argv, machine.node.replica.applied.vector.copy(), creates_of(machine, argv)))
            machine.node.execute(CLIENT, argv, self.now_ms)
            asked[-1].dot = dot_after(machine.node.replica, argv)
        machine.perform()
        return self.take_reply(number)

    def take_reply(self, number: int) -> bytes | None:
        reply, asked = super().take_reply(number), self._asked.setdefault(number, [])
        for value in read_replies(reply or b""):
            one = asked.pop(0)
            self.world.history.note(number, one.argv, value, one.dot, one.seen, one.creates)
        return reply

    def tick(self, milliseconds: int) -> None:
        super().tick(milliseconds)
        for number in self.machines:
            for hook in self.world.hooks.ticked:
                hook(self.world, number)

    # What moves

    def send(self, sender: int, receiver: int) -> bool:
        link = self.link(sender, receiver)
        flying = link.flying[sender]
        before = len(flying)
        sent = super().send(sender, receiver)
        if len(flying) > before:
            for hook in self.world.hooks.sent:
                hook(self.world, self.connections[link.number], sender, flying[-1])
        return sent

    def _deliver(self, link: Link, sender: int, message: Message) -> None:
        connection = self.connections.get(link.number)
        if connection is not None:
            receiver = connection.other(sender)
            for hook in self.world.hooks.received:
                hook(self.world, connection, receiver, message)
        super()._deliver(link, sender, message)

    def heal(self, a: int, b: int) -> None:
        if not self.link(a, b).open:
            self.world.statistics["connections"] += 1
            connection = Connection(self.world.statistics["connections"], (min(a, b), max(a, b)))
            self.connections[self.link(a, b).number] = connection
        super().heal(a, b)

    # Faults

    def kill(self, number: int) -> None:
        self._stop(number, "kill")
        super().kill(number)

    def lose_power(self, number: int, rng: Random, odds: float | None = None) -> None:
        self._stop(number, "power")
        super().lose_power(number, rng, odds)

    def lose_disk(self, number: int, incarnation: int) -> None:
        self._stop(number, "disk-loss")
        super().lose_disk(number, incarnation)

    def put_back(self, number: int) -> None:
        """Restart from the copy; what was done since the copy may be lost everywhere."""
        self._stop(number, "disk-loss")
        super().put_back(number)

    def stop(self, number: int) -> None:
        self._stop(number, "kill")
        super().stop(number)
        del self.machines[number]

    def _stop(self, number: int, fault: str) -> None:
        self._look()
        for hook in self.world.hooks.stopping:
            hook(self.world, number, fault)
        self._fault = fault

    def start(self, number: int) -> None:
        machine = self.machines[number]
        slot, policy = machine.node.replica.applied.slot, machine.config.fsync
        super().start(number)
        self._asked[number] = []
        recovered = machine.node.replica.applied.vector.get(slot)
        self.world.history.note_lost(slot, recovered, self._fault, policy)
        for hook in self.world.hooks.started:
            hook(self.world, number, self._fault)

    # Checks

    def check(self) -> None:
        """Run the watching checkers after each step; the structures are only checked by `check invariants`."""
        self._look()

    def _look(self) -> None:
        for number in self.machines:
            Network.turned(self.world, number)
            for checker in self.watching:
                if isinstance(checker, Sampled):
                    checker.look(self.world, number)

    def verify(self, name: str) -> None:
        """Run a checker as at the end of a run."""
        self._look()
        self.world.now_ms = self.now_ms
        self.checkers[name].at_end(self.world)
