"""What goes wrong in a world, and for how long.

    cut, clog, slow   a link; clogged in one direction or both: what was sent waits
    double            a second connection beside the first: what is sent arrives twice, and in any order
    kill              the process ends; what it appended stays
    power             unsynced writes are lost, page by page
    torn              power goes in the middle of a write, a sync, a recovery or a checkpoint
    disk-error        a write or a sync fails, which ends the process
    rot               a killed process finds a flipped bit, and an empty disk next time where it cannot start with it;
                      one that runs has a bit flipped in what of its log is there for peers alone, and must go on
    disk-loss         the machine comes back empty, while the others run and know its origin
    disk-full         no new segment, no checkpoint
    pause, clock      the process stands still; the clock jumps, far beyond 2^32 and 2^53 and back
    evict             another region evicts this one, which is linked, cut off or down; it comes back by itself

Faults come in clusters: some follow the one before within milliseconds. A process that starts again may have another
fsync policy. And a region may be late (`join`): the others begin without it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crdtstream.config import FSYNC_POLICIES
from crdtstream.core.causality import incarnation_of, region_of
from crdtstream.core.members import Members
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogDamaged, LogError
from crdtstream.storage.segment import FormatUnknown
from simulations.disk import PowerLost
from simulations.history import Violation
from simulations.settings import FAULTS_OF_LINKS

if TYPE_CHECKING:
    from simulations.machine import Machine
    from simulations.world import World

SKEWS_MS = (0, -5_000, 5_000, -(2**33), 2**32, 2**53, 2**60)
FULL_MS = 600
GOES_ON_MS = 200
LATE = "join"
POWERLESS = ("power", "torn", "disk-error")


@dataclass
class Stop:
    """Why a process is down, and what it was: its fsync policy, its slot, and the slots of its region that it held."""

    fault: str
    policy: str
    slot: int
    written: list[int]


class Nemesis:
    """Draws faults for a world until it is told to heal everything."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.healing = False
        self.injected: Counter[str] = Counter()
        self.rotten: dict[int, list[str]] = {}
        self.stops: dict[int, Stop] = {}
        self.disks_lost: set[int] = set()

    def begin(self) -> None:
        if self.world.settings.late:
            self._keep_out(self.world.settings.regions)
        if self.world.settings.faults:
            self.world.plan(self.world.settings.fault_interval_ms, self._fault)

    def _keep_out(self, number: int) -> None:
        """The region is not there yet, and the others do not know of it."""
        machine = self.world.machines[number]
        machine.up = False
        machine.lose_disk()
        self.stops[number] = Stop(LATE, machine.config.fsync, 0, [])
        self.injected[LATE] += 1
        self.world.note(f"region {number} is not there yet")
        self.world.recorder.stopped(self.world, number, LATE)
        self.world.plan(self.world.rng.randrange(self.world.settings.duration_ms), self._let_in, number)

    def _let_in(self, number: int) -> None:
        """Once there is a cluster to join."""
        others = [machine for other, machine in self.world.machines.items() if other != number]
        if all(machine.up and machine.node.birth.serving() for machine in others):
            self._make_known(number)
            self.start(number)
        else:
            self.world.plan(50, self._let_in, number)

    def _fault(self) -> None:
        """One fault, and the next one planned."""
        world = self.world
        if self.healing:
            return
        soon = world.rng.random() < 0.3
        world.plan(1 + world.rng.randrange(40 if soon else 2 * world.settings.fault_interval_ms), self._fault)
        fault = world.rng.choice(world.settings.faults)
        number = world.rng.choice(sorted(world.machines))
        lasts_ms = world.rng.choice([world.rng.randrange(10, 100), world.rng.randrange(50, 1500)])
        if fault in FAULTS_OF_LINKS:
            self._count(fault, number, lasts_ms)
            self._fault_of_link(fault, world.rng.choice(world.pairs), lasts_ms)
        elif fault == "evict":
            self._evict(number, lasts_ms)
        elif world.runs(number) and (fault not in ("disk-loss", "rot") or self._others_know(number)):
            self._count(fault, number, lasts_ms)
            self._fault_of_machine(fault, number, lasts_ms)

    def _count(self, fault: str, number: int, lasts_ms: int) -> None:
        self.world.statistics["faults"] += 1
        self.injected[fault] += 1
        self.world.note(f"fault {fault} at {number} for {lasts_ms} ms")

    def _others_know(self, number: int) -> bool:
        """A disk may be lost while every other region runs, has a sound disk, and knows this origin: two lost at once
        may forget both. And each of them would still be a member after a power loss: where all are new again, and have
        met what others did, nobody may found a cluster.
        """
        machines = self.world.machines
        slot = machines[number].node.replica.slot
        others = [machine for other, machine in machines.items() if other != number]
        sound = not self.world.settings.spares(number) and all(other == number for other in self.rotten)
        return sound and all(m.up and slot in m.node.birth.known and is_established(m) for m in others)

    # Links

    def _fault_of_link(self, fault: str, pair: tuple[int, int], lasts_ms: int) -> None:
        world = self.world
        if fault == "cut":
            world.cut.add(pair)
            world.lose_connections(pair)
            world.plan(lasts_ms, world.cut.discard, pair)
        elif fault == "slow":
            world.slow.add(pair)
            world.plan(lasts_ms, world.slow.discard, pair)
        elif fault == "double":
            if world.between(pair) and pair not in world.cut and all(world.runs(end) for end in pair):
                world.connect(pair)
                world.plan(lasts_ms, self._leave_one, pair)
        else:
            directions = [pair, (pair[1], pair[0])]
            for direction in world.rng.choice([directions, directions[:1], directions[1:]]):
                world.clogged.add(direction)
                world.plan(lasts_ms, world.unclog, direction)

    def _leave_one(self, pair: tuple[int, int]) -> None:
        """The older connection goes."""
        for connection in self.world.between(pair)[:-1]:
            for end in pair:
                self.world.close_end(connection, end, "a second connection")

    # Machines

    def _fault_of_machine(self, fault: str, number: int, lasts_ms: int) -> None:
        world = self.world
        machine = world.machines[number]
        if fault == "pause":
            machine.paused = True
            world.plan(lasts_ms, world.resume, number)
        elif fault == "clock":
            machine.skew_ms = world.rng.choice([*SKEWS_MS, world.rng.randrange(-2000, 2000)])
        elif fault == "disk-full":
            machine.disk.capacity_bytes = 0
            world.plan(FULL_MS + lasts_ms, self._make_room, number)
        elif fault == "torn":
            machine.disk.lose_power_at(world.rng.randrange(6), world.rng)
        elif fault == "rot" and world.rng.random() < 0.5:
            self._rot_old(number)
        elif fault == "disk-error":
            world.rng.choice([machine.disk.fail_next_append, machine.disk.fail_next_sync])()
        else:
            self.stop(number, fault)
            world.plan(lasts_ms, self.start, number)

    def _rot_old(self, number: int) -> None:
        """As soon as there is such a part."""
        world = self.world
        where = world.machines[number].rot_old(world.rng) if world.runs(number) else ""
        if where:
            world.note(f"rot while region {number} runs: {where}")
        elif not self.healing:
            world.plan(50, self._rot_old, number)

    # Evictions

    def _evict(self, number: int, lasts_ms: int) -> None:
        """Another region evicts this one, soon after it was cut off or went down, or all of a sudden. Cut off, it goes
        on before it hears of it, and makes groups that count for nothing.
        """
        world = self.world
        if world.settings.spares(number):
            return
        self._count("evict", number, lasts_ms)
        how = world.rng.choice(["linked", "cut", "kill"])
        if how == "cut":
            for pair in [pair for pair in world.pairs if number in pair]:
                self._fault_of_link("cut", pair, lasts_ms + GOES_ON_MS)
            world.plan(lasts_ms + GOES_ON_MS // 2, self._make_groups, number)
        elif how == "kill" and world.runs(number):
            self._fault_of_machine("kill", number, lasts_ms)
        evictors = [other for other in world.machines if other != number]
        world.plan(world.rng.randrange(lasts_ms), self._expel, number, world.rng.choice(evictors))

    def _expel(self, number: int, evictor: int) -> None:
        world = self.world
        machine = world.machines[evictor]
        slot = world.machines[number].node.replica.slot
        may = not self.healing and self._leaves_the_keeper(slot, machine.node.replica.vector.get(slot))
        if may and world.runs(evictor) and machine.node.birth.serving():
            word = world.rng.choice([b"%d" % number, b"%d.%d" % (number, incarnation_of(slot))])
            world.act(evictor, lambda: world.execute(evictor, [b"CRDT.EVICT", word, b"FORCE"]))

    def _leaves_the_keeper(self, slot: int, through: int) -> bool:
        """What this origin did beyond `through` has not made the keeper a member, nor who made it one."""
        world = self.world
        members = Members()
        for machine in world.machines.values():
            members.join(machine.node.replica.members)
        members.apply_evicted(slot, through)
        return not members.is_evicted(world.machines[world.settings.keeper].node.replica.slot)

    def _make_groups(self, number: int) -> None:
        world = self.world
        if world.runs(number) and world.machines[number].node.birth.serving() and not self.healing:
            world.act(number, lambda: world.execute_all(number, world.workload.draw_rebirth()))

    def _make_room(self, number: int) -> None:
        self.world.machines[number].disk.capacity_bytes = None

    def crashed(self, number: int, fault: str, reason: str) -> None:
        """The process has ended by itself."""
        self.world.note(f"region {number} ends: {reason}")
        if fault == "damage":
            raise Violation("rot", f"region {number} ends for damage while it runs: {reason}")
        self.stop(number, fault)
        self.world.plan(self.world.rng.randrange(10, 300), self.start, number)

    def _is_rotten(self, number: int, reason: str) -> bool:
        """The damage is told of a file in which a bit was flipped."""
        return any(where and where.split()[0] in reason for where in self.rotten.get(number, []))

    def _lose_disk(self, number: int) -> None:
        self.world.machines[number].lose_disk()
        self.disks_lost.add(number)
        self.rotten.pop(number, None)
        self.stops[number].fault = "disk-loss"

    def stop(self, number: int, fault: str) -> None:
        """The process is gone; peers notice a killed one soon, and a dead machine by its silence."""
        world = self.world
        machine = world.machines[number]
        for hook in world.hooks.stopping:
            hook(world, number, fault)
        machine.up = False
        machine.paused = False
        replica = machine.node.replica
        written = [slot for slot in replica.vector.as_dict() if region_of(slot) == number]
        self.stops[number] = Stop(fault, machine.config.fsync, replica.slot, written)
        world.forget_unanswered(number)
        world.recorder.stopped(world, number, fault)
        for connection in world.connections_of(number):
            connection.open[number] = False
            if fault in ("kill", "rot"):
                world.plan(world.rng.randrange(50), world.close_end, connection, connection.other(number), "reset")
        if fault in POWERLESS:
            machine.lose_power(world.rng, None)
        elif fault == "disk-loss":
            self._lose_disk(number)
        elif fault == "rot":
            where = machine.rot(world.rng)
            self.rotten.setdefault(number, []).append(where)
            world.note(f"rot: {where or 'nothing there'}")

    def start(self, number: int) -> None:
        world = self.world
        machine = world.machines[number]
        if machine.up:
            return
        self._make_room(number)
        if world.rng.random() < 0.15 and not world.settings.spares(number):
            machine.config = replace(machine.config, fsync=world.rng.choice(FSYNC_POLICIES))
        if not self._recover(number):
            return
        machine.up = True
        recovered = machine.node.replica.vector
        stop = self.stops.pop(number)
        for slot in stop.written:
            world.history.note_lost(slot, recovered.get(slot), stop.fault, stop.policy)
        if machine.node.replica.slot == stop.slot:
            world.oracle.forget_above(stop.slot, recovered.get(stop.slot))
        world.note(f"region {number} starts as {machine.node.birth.origin} with {recovered.as_dict()}")
        world.recorder.started(world, number)
        for hook in world.hooks.started:
            hook(world, number, stop.fault)
        world.forget_closed()
        world.act(number, lambda: world.turn(number))

    def _make_known(self, number: int) -> None:
        """The neighbours of a late region are told of it, for the next time that they start."""
        for pair in [pair for pair in self.world.pairs if number in pair]:
            for end in pair:
                machine = self.world.machines[end]
                machine.config = replace(machine.config, peers=self.world.peers_of(end))

    def _recover(self, number: int) -> bool:
        """False when the machine has to be started once more."""
        world = self.world
        machine = world.machines[number]
        try:
            machine.start(world.clock_ms(number))
        except (LogDamaged, FormatUnknown) as error:
            self._take_as_lost(number, error)
        except (PowerLost, DiskError, LogError) as error:
            world.note(f"region {number} ends while it starts: {error}")
            self.stops[number].fault = "power"
            machine.lose_power(world.rng, None)
            world.plan(world.rng.randrange(10, 100), self.start, number)
            return False
        return True

    def _take_as_lost(self, number: int, error: Exception) -> None:
        """What the operator is told to do when a start stops for damage: begin with an empty directory."""
        world = self.world
        if not self._is_rotten(number, str(error)):
            where = ", ".join(self.rotten.get(number, [])) or "no place"
            raise Violation("rot", f"region {number} does not start, rotten at {where}: {error}")
        world.note(f"region {number} refuses to start: {error}")
        self._lose_disk(number)
        world.machines[number].start(world.clock_ms(number))

    def heal_everything(self) -> None:
        world = self.world
        self.healing = True
        world.note("everything is healed")
        world.cut.clear()
        world.slow.clear()
        for direction in sorted(world.clogged):
            world.unclog(direction)
        for number, machine in world.machines.items():
            world.resume(number)
            machine.skew_ms = 0
            machine.disk.heal()
            if machine.up or self.stops[number].fault != LATE:
                self.start(number)


def is_established(machine: Machine) -> bool:
    """It serves, and has on its disk that it has been at work or was admitted."""
    node = machine.node
    durable = node.exchange.durable_vector
    own = node.birth.own_slots()
    joins = filter(None, map(node.replica.members.sponsor_of, own))
    return node.birth.serving() and (any(map(durable.get, own)) or any(durable.contains(*join) for join in joins))
