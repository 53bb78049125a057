"""One simulated run: everything that happens follows from one seed.

The nodes, logs, checkpoints, sessions and codecs are the production code; clients, network, disks and clocks are
simulated. A run has two phases. In the first, clients write and read while faults come and go (`adversary`). In the
second, every fault is healed, the clients stop, and the regions must agree within a limit of virtual time.

Virtual time is in milliseconds. The trace is the run as text; two runs of one seed have identical traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Protocol

from crdtstream.config import ALWAYS, FSYNC_POLICIES, Config
from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.effects import Key, StreamDeleted
from crdtstream.core.replica import Replica
from crdtstream.replication.wire_pb2 import Message
from simulations.history import History
from simulations.machine import Machine, Unanswered
from simulations.network import START_MS, Connection, Network, Pair, address_of
from simulations.oracle import Expected, Oracle
from simulations.recorder import Recorder
from simulations.reply import read_reply
from simulations.settings import Settings, draw_limits, draw_settings
from simulations.workload import Workload

__all__ = ["START_MS", "Connection", "Pair", "World"]

ASKER = 1000
TICK_MS = 50
QUIET_BOUND_MS = 20_000
CHECKPOINT_STEP_MS = 5
SERVES_AT_ONCE_ODDS = 0.2


class Faults(Protocol):
    """What a world knows of the adversary that injects its faults."""

    healing: bool
    injected: Counter[str]
    disks_lost: set[int]

    def begin(self) -> None: ...

    def stop(self, number: int, fault: str) -> None: ...

    def start(self, number: int) -> None: ...

    def crashed(self, number: int, fault: str, reason: str) -> None: ...

    def heal_everything(self) -> None: ...


class Hooks:
    """Who looks at a run while it goes on."""

    def __init__(self) -> None:
        self.turned: list[Callable[[World, int], None]] = []
        self.sent: list[Callable[[World, Connection, int, Message], None]] = []
        self.received: list[Callable[[World, Connection, int, Message], None]] = []
        self.stopping: list[Callable[[World, int, str], None]] = []
        self.started: list[Callable[[World, int, str], None]] = []
        self.ticked: list[Callable[[World, int], None]] = []


class World(Network):
    """A run; `run` raises Violation when an invariant does not hold. `adversary.draw_world` makes one from its seed."""

    def __init__(
        self,
        seed: int,
        adversary: Callable[[World], Faults],
        settings: Settings | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        rng = Random(seed)
        super().__init__(seed, rng, settings or draw_settings(rng))
        self.recorder = recorder or Recorder()
        self.hooks = Hooks()
        self.oracle = Oracle()
        self.history = History()
        self.adversary = adversary(self)
        # From a source of its own: what else a seed draws stays as it was before there was this setting.
        self._serves_at_once = Random(f"serves at once {seed}").random() < SERVES_AT_ONCE_ODDS
        self.workload = Workload(rng, self.settings.profile, self.settings.id_mode)
        self.machines = {number: self._machine(number) for number in range(1, self.settings.regions + 1)}
        if self.settings.twin:
            self._add_twin(self.settings.regions + 1)
        self._looks = 0
        self._expected: dict[Key, Expected] | None = None

    def _machine(self, number: int) -> Machine:
        absent = self.settings.regions if self.settings.late and number < self.settings.regions else 0
        peers = tuple(peer for peer in self.peers_of(number) if peer != address_of(absent))
        config = Config(
            name=f"region{number}",
            region=number,
            cluster="world",
            id_mode=self.settings.id_mode,
            fsync=ALWAYS if self.settings.spares(number) else self.rng.choice(FSYNC_POLICIES),
            peers=peers,
            incarnation=0 if self._serves_at_once else None,
            limits=draw_limits(self.rng, self.settings.log_retention_bytes),
        )
        return Machine(config, self.oracle, self.now_ms, self.rng.choice([0, 5, 20]), self.rng.choice([200, 1000]))

    def _add_twin(self, number: int) -> None:
        """Add a process with the number of region 1, linked to some of its neighbours, that does not run yet."""
        neighbours = [low + high - 1 for low, high in self.pairs if 1 in (low, high)]
        linked = self.rng.sample(neighbours, self.rng.randrange(1, len(neighbours) + 1))
        self.pairs = [*self.pairs, *((other, number) for other in sorted(linked))]
        original = self.machines[1].config
        config = replace(original, name="twin", peers=tuple(address_of(other) for other in sorted(linked)))
        self.machines[number] = Machine(config, self.oracle, self.now_ms, 0, 1000, number)

    def run(self) -> None:
        """Run both phases."""
        for number in self.machines:
            self.plan(self.rng.randrange(TICK_MS), self.tick, number)
            self.plan(self.rng.randrange(self.machines[number].sync_interval_ms), self._sync, number)
            self.plan(self.rng.randrange(200), self._command, number)
            if self.settings.checkpoint_interval_ms:
                self.plan(self.rng.randrange(self.settings.checkpoint_interval_ms), self._save, number)
        for pair in self.pairs:
            self.plan_dial(pair)
        self.adversary.begin()
        end_ms = START_MS + self.settings.duration_ms
        self.run_until(lambda: self.now_ms >= end_ms, end_ms + QUIET_BOUND_MS)
        self.adversary.heal_everything()
        self.run_until(self.quiet, self.now_ms + QUIET_BOUND_MS)
        self.note(f"quiet, {self.statistics} wire {self.wire_checksum:08x}")

    def quiet(self) -> bool:
        """Return whether every region serves, is a member, and has applied the same as the others, and no expiry is
        due.
        """
        self._looks += 1
        if self._looks % 16:
            return False
        vectors = [machine.node.replica.applied.vector for machine in self.machines.values()]
        return all(vector == vectors[0] for vector in vectors) and all(map(self._is_settled, self.machines.values()))

    def _is_settled(self, machine: Machine) -> bool:
        """Return whether a region is settled; of two processes with one region number, one must be a member."""
        node = machine.node
        ended = node.replica.applied.members.has_ended(node.replica.applied.slot)
        others = [one for one in self.machines.values() if one.config.region == machine.config.region]
        admitted = any(one.up and one.node.membership.admitted for one in others)
        belongs = machine.up and not ended and admitted
        return belongs and all(
            expires_ms >= self.now_ms for expires_ms in node.replica.keyspace.deadlines.times.values()
        )

    # What happens

    def looked(self) -> None:
        self.recorder.looked(self)

    def crashed(self, number: int, fault: str, reason: str) -> None:
        self.adversary.crashed(number, fault, reason)

    def opened(self, connection: Connection) -> None:
        self.recorder.opened(self, connection)

    def sent(self, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        for hook in self.hooks.sent:
            hook(self, connection, sender, message)
        self.recorder.sent(self, connection, sender, data)

    def arrived(self, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        self.recorder.arrived(self, connection, receiver, data)
        for hook in self.hooks.received:
            hook(self, connection, receiver, message)

    def closed(self, connection: Connection, end: int, reason: str) -> None:
        self.recorder.closed(self, connection, end, reason)

    # Turns

    def turned(self, number: int) -> None:
        self._take_replies(number)
        machine = self.machines[number]
        if machine.wants_sync and not machine.sync_planned:
            machine.sync_planned = True
            self.plan(machine.sync_wait_ms, self._sync_soon, number, machine.starts)
        for hook in self.hooks.turned:
            hook(self, number)
        super().turned(number)

    def _sync_soon(self, number: int, starts: int) -> None:
        machine = self.machines[number]
        if machine.starts != starts:
            return
        machine.sync_planned = False
        if self.runs(number):
            self._sync_now(number)

    def _sync(self, number: int) -> None:
        interval_ms = self.machines[number].sync_interval_ms
        self.plan(interval_ms // 2 + self.rng.randrange(interval_ms), self._sync, number)
        if self.runs(number):
            self._sync_now(number)

    def _sync_now(self, number: int) -> None:
        self.recorder.synced(self, number)
        self.act(number, lambda: self._sync_one(number))

    def _sync_one(self, number: int) -> None:
        self.machines[number].sync()
        self.turned(number)

    def tick(self, number: int) -> None:
        self.plan(TICK_MS, self.tick, number)
        if self.runs(number):
            self.act(number, lambda: self._tick_one(number))

    def _tick_one(self, number: int) -> None:
        machine = self.machines[number]
        machine.look_for_room()
        machine.node.tick(self.clock_ms(number))
        self.turn(number)
        for hook in self.hooks.ticked:
            hook(self, number)
        for connection in self.connections_of(number):
            self.obey_verdict(connection, number)

    def _save(self, number: int) -> None:
        """Continue a checkpoint: the next step soon, or a new checkpoint later."""
        done = [True]
        if self.runs(number) and self.machines[number].node.membership.serving():
            self.act(number, lambda: self._save_one(number, done))
        interval_ms = self.settings.checkpoint_interval_ms
        self.plan(1 + self.rng.randrange(2 * interval_ms) if done[0] else CHECKPOINT_STEP_MS, self._save, number)

    def _save_one(self, number: int, done: list[bool]) -> None:
        done[0] = self.machines[number].save(self.rng.randrange(1, 12))
        if done[0]:
            self.note(f"region {number} has a checkpoint, its log begins at {self.machines[number].log.first_position}")
            self.recorder.saved(self, number)
        self.turned(number)

    # Clients

    def _command(self, number: int) -> None:
        """Run the commands of one turn, and plan the next one."""
        if self.adversary.healing:
            return
        count = self.rng.randrange(1, self.settings.turn_commands_max + 1)
        self.plan(1 + self.rng.randrange(2 * self.settings.command_interval_ms) * count, self._command, number)
        if self.runs(number) and self.machines[number].node.membership.serving():
            self.act(number, lambda: self._execute_some(number, count))

    def _execute_some(self, number: int, count: int) -> None:
        machine = self.machines[number]
        machine.look_for_room()
        while count > 0 and machine.idle_client() is not None:
            for argv in self.workload.draw(machine.node.replica):
                self._take_command(number, argv)
                count -= 1
        self.turn(number)

    def execute(self, number: int, argv: list[bytes]) -> None:
        """Run one command in a turn of its own."""
        self._take_command(number, argv)
        self.turn(number)

    def execute_all(self, number: int, commands: list[list[bytes]]) -> None:
        for argv in commands:
            self.execute(number, argv)

    def _take_command(self, number: int, argv: list[bytes]) -> None:
        machine = self.machines[number]
        client_id = machine.idle_client()
        if client_id is None:
            return
        replica = machine.node.replica
        asked = Unanswered(argv, replica.applied.vector.copy(), creates_of(machine, argv))
        machine.unanswered[client_id] = asked
        self.recorder.asked(self, number, argv)
        machine.node.execute(client_id, argv, self.clock_ms(number))
        asked.dot = dot_after(replica, argv)
        self.statistics["commands"] += 1

    def _take_replies(self, number: int) -> None:
        machine = self.machines[number]
        if not machine.replies:
            return
        for client_id in sorted(machine.replies):
            asked = machine.unanswered.pop(client_id, None)
            reply = machine.take_reply(client_id)
            if asked is not None and reply is not None:
                value = read_reply(reply)
                self.note(f"{number}> {b' '.join(asked.argv).decode()} = {value}")
                self.recorder.commanded(self, number, asked.argv, value)
                self.history.note(number, asked.argv, value, asked.dot, asked.seen, asked.creates)

    def forget_unanswered(self, number: int) -> None:
        """Settle the commands of an ended process: sent replies count, all others may or may not have happened."""
        machine = self.machines[number]
        self._take_replies(number)
        for client_id in sorted(machine.unanswered):
            asked = machine.unanswered[client_id]
            self.note(f"{number}> {b' '.join(asked.argv).decode()} gets no reply")
            self.history.note_unanswered(asked.argv, asked.dot, asked.seen, asked.creates)
        machine.unanswered.clear()

    # Queries

    def expected(self) -> dict[Key, Expected]:
        """Return what every region must hold once the run is quiet."""
        if self._expected is None:
            self._expected = self.oracle.expected(self.vector())
        return self._expected

    def expired(self, key: Key) -> list[VersionVector]:
        """Return the vectors seen by those DELs of the key that were caused by its expiry."""
        late = self.oracle.late_effects(self.vector())
        return [context for _, context, effect in late if isinstance(effect, StreamDeleted) and effect.key == key]

    def vector(self) -> VersionVector:
        """Return the common applied vector once the run is quiet."""
        return self.machines[1].node.replica.applied.vector

    def served(self) -> list[int]:
        """Return the regions that serve; a second process with one number may have to wait for ever."""
        return [number for number, machine in self.machines.items() if machine.node.membership.serving()]

    def ask(self, number: int, *words: bytes) -> bytes:
        """Return the reply to a command that is not recorded in the history."""
        machine = self.machines[number]
        if ASKER not in machine.node.context.clients:
            machine.connect(ASKER, self.clock_ms(number))
        reply = machine.execute(list(words), self.clock_ms(number), ASKER)
        if reply is None:
            machine.sync()
            reply = machine.take_reply(ASKER)
        assert reply is not None, words
        return reply


def dot_after(replica: Replica, argv: list[bytes]) -> Dot:
    """Return the own origin's last dot; after an XADD that of its entry, which a trim may follow."""
    stream = replica.keyspace.known((0, argv[1])) if argv[0] == b"XADD" else None
    tree = None if stream is None else stream.trees.get(replica.applied.slot)
    last_id = None if tree is None else tree.last_id()
    return (
        replica.applied.slot,
        replica.applied.counter() if tree is None or last_id is None else tree.counter_of(last_id),
    )


def creates_of(machine: Machine, argv: list[bytes]) -> list[Dot]:
    """Return the create dots under which a read or acknowledgement is made, unless its key is due to expire."""
    name = argv[0]
    if name not in (b"XREADGROUP", b"XACK"):
        return []
    key, group_name = (argv[-2], argv[2]) if name == b"XREADGROUP" else (argv[1], argv[2])
    stream = machine.node.replica.keyspace.known((0, key))
    group = None if stream is None else stream.groups.get(group_name)
    return [] if group is None else sorted(group.creates)
