"""The faults of a world, and how long they last.

    cut, clog, slow   a link; when it is clogged in one direction or both, messages wait
    double            a second connection beside the first: messages arrive twice, and in any order
    kill              the process ends; what it appended is kept
    power             unsynced writes are lost, page by page
    torn              power fails during a write, a sync, a recovery or a checkpoint
    disk-error        a write or a sync fails, which ends the process
    rot               a killed process finds a flipped bit, and an empty disk at the next start if it cannot start with
                      it; in a running process a bit is flipped in the part of the log that is kept for peers only, and
                      the process must continue
    disk-loss         the machine returns empty, while the others run and know its origin
    disk-full         another program fills the volume, and frees it some time later; a world may also have small
                      volumes from beginning to end
    pause, clock      the process stands still; the clock jumps, far beyond 2^32 and 2^53 and back
    evict             another region evicts this one, which is linked, cut off or down; it returns by itself
    put-back          a process is killed, and starts on a copy of its directory that was made some time before

Faults come in clusters: some follow the previous one within milliseconds. A restarted process may have another fsync
policy. In some worlds every link flaps: it is lost after a few messages (`flapping`); in some, memory fills
(`short_memory`). A region may be late (`join`):
the others begin without it. And a second process may have the number of the first region (`twin`), on a copy of its
disk or on an empty one.
"""

from __future__ import annotations

from dataclasses import replace

from crdtstream.core.values.causality import origin_name, region_of
from crdtstream.settings.config import FSYNC_POLICIES
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogDamaged, LogError
from crdtstream.storage.segment import FormatUnknown
from simulations.disk import PowerLost
from simulations.flapping import Flapping
from simulations.history import Violation
from simulations.machine import Machine
from simulations.network import Stop, Watcher
from simulations.parting import Parting
from simulations.settings import COPY, DELIVERING, FAULTS_OF_LINKS, FLAPPING, MEMORY, SPILLING, Settings
from simulations.short_memory import ShortMemory
from simulations.spilling import Spilling
from simulations.world import World

SKEWS_MS = (0, -5_000, 5_000, -(2**33), 2**32, 2**53, 2**60)
FULL_MS = 600
GOES_ON_MS = 200
LATE = "join"
POWERLESS = ("power", "torn", "disk-error")
FORGETTING = ("disk-loss", "rot", "put-back")


def draw_world(
    seed: int,
    settings: Settings | None = None,
    recorder: Watcher | None = None,
    partitioned: bool | None = None,
    properties: bool | None = None,
    delivering: bool | None = None,
    spilling: bool | None = None,
) -> World:
    """The world of a seed, with its adversary; `partitioned` and what follows take the place of what the seed says."""
    return equipped(World(seed, Adversary, settings, recorder, partitioned, properties, delivering, spilling))


def equipped(world: World) -> World:
    """Add what only some worlds have, and what brings faults of its own."""
    if world.settings.flapping:
        world.watch(Flapping(world, world.draw.of(FLAPPING)))
    if world.settings.spilling:
        world.watch(Spilling(world, world.draw.of(SPILLING)))
    if world.workload.has_large:
        world.enlarge_volumes()
    if world.settings.short_memory:
        world.memory = ShortMemory(world, world.draw.of(MEMORY))
    if world.settings.delivering and world.settings.faults:
        Parting(world, world.draw.of(DELIVERING)).begin()
    return world


class Adversary:
    """Draws faults for a world until everything is healed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.healing = False
        self.rotten: dict[int, list[str]] = {}

    def begin(self) -> None:
        if self.world.settings.late:
            self._keep_out(self.world.settings.regions)
        if self.world.settings.twin:
            self._keep_out(self.world.settings.regions + 1)
        if "put-back" in self.world.settings.faults:
            self._keep_copies()
        if self.world.settings.faults:
            self.world.plan(self.world.settings.fault_interval_ms, self._fault)

    def _keep_out(self, number: int) -> None:
        """Keep a region out: it does not exist yet, and the others do not know it."""
        machine = self.world.machines[number]
        machine.up = False
        machine.lose_disk()
        self.world.stops[number] = Stop(LATE, machine.config.fsync, 0, [])
        self.world.injected[LATE] += 1
        self.world.log_event(f"region {number} is not there yet")
        self.world.notify("stopped", number, LATE)
        self.world.plan(self.world.rng.randrange(self.world.settings.duration_ms), self._let_in, number)

    def _let_in(self, number: int) -> None:
        """Let the region start once there is a cluster to join."""
        meant = range(1, self.world.settings.regions + 1)
        machines = [self.world.machines[other] for other in meant if other != number]
        if all(is_in_cluster(one) for one in machines if one.up) and machines[0].up and self._may_be_heard(number):
            if number <= self.world.settings.regions:
                self._make_known(number)
            elif self.world.settings.twin == COPY:
                self.world.machines[number].start_from_copy(machines[0])
                if 1 in self.rotten:
                    self.rotten[number] = list(self.rotten[1])
            self.start(number)
        else:
            self.world.plan(50, self._let_in, number)

    def _may_be_heard(self, number: int) -> bool:
        """False for a copy while none of its neighbours runs: documented as unsafe, since the copy and the original
        may admit themselves without ever hearing of each other.
        """
        world = self.world
        neighbours = [low + high - number for low, high in world.pairs if number in (low, high)]
        return number <= world.settings.regions or any(world.runs(other) for other in neighbours)

    def _keep_copies(self) -> None:
        """Copy a random directory from time to time."""
        world = self.world
        if not self.healing:
            world.plan(200 + world.rng.randrange(600), self._keep_copies)
            number = world.rng.choice(sorted(world.machines))
            if world.runs(number):
                world.machines[number].keep_copy()

    def _fault(self) -> None:
        """Inject one fault and plan the next."""
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
        elif fault == "put-back" and world.machines[number].copied is None:
            return
        elif world.runs(number) and (fault not in FORGETTING or self._others_know(number)):
            self._count(fault, number, lasts_ms)
            self._fault_of_machine(fault, number, lasts_ms)

    def _count(self, fault: str, number: int, lasts_ms: int) -> None:
        self.world.statistics["faults"] += 1
        self.world.injected[fault] += 1
        self.world.log_event(f"fault {fault} at {number} for {lasts_ms} ms")

    def _others_know(self, number: int) -> bool:
        """Return whether a region may lose its disk: every other region runs, has a sound disk, and knows this origin,
        since two disks lost at once could lose both. Each of the others must also remain a member after a power loss:
        if all were new again, and had met what others did, none could found a cluster.
        """
        machines = self.world.machines
        origin = machines[number].node.replica.applied.origin
        region = machines[number].config.region
        others = [machine for machine in machines.values() if machine.config.region != region]
        sound = not self.world.settings.spares(number) and all(other == number for other in self.rotten)
        return sound and all(m.up and knows(m, origin) and is_established(m) for m in others)

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
        """Close the older connection."""
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
            machine.disk.capacity_bytes = machine.disk.used_bytes()
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
        """Rot a part of the log that is kept for peers only, as soon as there is one."""
        world = self.world
        where = world.machines[number].rot_old(world.rng) if world.runs(number) else ""
        if where:
            world.log_event(f"rot while region {number} runs: {where}")
        elif not self.healing:
            world.plan(50, self._rot_old, number)

    # Evictions

    def _evict(self, number: int, lasts_ms: int) -> None:
        """Let another region evict this one, soon after it was cut off or went down, or unexpectedly. While cut off, it
        continues until it learns of the eviction, and creates groups that count for nothing.
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
        origin = world.machines[number].node.replica.applied.origin
        # Documented as unsafe where two processes have one number: each side may hold the other for gone.
        may = not self.healing and not world.settings.twin
        if may and world.runs(evictor) and machine.node.membership.serving():
            word = world.rng.choice([b"%d" % number, origin_name(origin).encode()])
            world.act(evictor, lambda: world.execute(evictor, [b"CRDT.EVICT", word, b"FORCE"]))

    def _make_groups(self, number: int) -> None:
        world = self.world
        if world.runs(number) and world.machines[number].node.membership.serving() and not self.healing:
            world.act(number, lambda: world.execute_all(number, world.workload.draw_rebirth()))

    def _make_room(self, number: int) -> None:
        machine = self.world.machines[number]
        machine.disk.capacity_bytes = machine.volume_bytes

    def crashed(self, number: int, fault: str, reason: str) -> None:
        """Handle a process that ended by itself."""
        self.world.log_event(f"region {number} ends: {reason}")
        if fault == "damage":
            raise Violation("rot", f"region {number} ends for damage while it runs: {reason}")
        self.stop(number, fault)
        self.world.plan(self.world.rng.randrange(10, 300), self.start, number)

    def _is_rotten(self, number: int, reason: str) -> bool:
        """Return whether the reported damage is in a file with a flipped bit."""
        return any(where and where.split()[0] in reason for where in self.rotten.get(number, []))

    def _lose_disk(self, number: int) -> None:
        self.world.machines[number].lose_disk()
        self.world.disks_lost.add(number)
        self.rotten.pop(number, None)
        self.world.stops[number].fault = "disk-loss"

    def stop(self, number: int, fault: str) -> None:
        """End a process. Peers notice a killed process soon, and a dead machine only by its silence."""
        world = self.world
        machine = world.machines[number]
        world.stopping(number, fault)
        world.forget_unanswered(number)
        world.notify("stopped", number, fault)
        for connection in world.connections_of(number):
            connection.joined.discard(number)
            if fault in ("kill", "rot", "put-back"):
                world.plan(world.rng.randrange(50), world.close_end, connection, connection.other(number), "reset")
        if fault in POWERLESS:
            machine.disk.crash(world.rng)
        elif fault == "put-back":
            machine.put_back()
        elif fault == "disk-loss":
            self._lose_disk(number)
        elif fault == "rot":
            where = machine.rot(world.rng)
            self.rotten.setdefault(number, []).append(where)
            world.log_event(f"rot: {where or 'nothing there'}")

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
        recovered = machine.node.replica.applied.vector
        world.log_event(
            f"region {number} starts as {origin_name(machine.node.birth.origin)} with {recovered.as_dict()}"
        )
        world.started(number)
        world.forget_closed()
        world.act(number, lambda: world.turn(number))

    def _make_known(self, number: int) -> None:
        """Add a late region to the configuration of its neighbours, for their next start."""
        for pair in [pair for pair in self.world.pairs if number in pair]:
            for end in pair:
                machine = self.world.machines[end]
                machine.config = replace(machine.config, peers=self.world.peers_of(end))

    def _recover(self, number: int) -> bool:
        """Start from the disk; False if the machine must be started once more."""
        world = self.world
        machine = world.machines[number]
        try:
            machine.start(world.clock_ms(number))
        except (LogDamaged, FormatUnknown) as error:
            self._replace_lost(number, error)
        except (PowerLost, DiskError, LogError) as error:
            world.log_event(f"region {number} ends while it starts: {error}")
            self.world.stops[number].fault = "power"
            machine.disk.crash(world.rng)
            world.plan(world.rng.randrange(10, 100), self.start, number)
            return False
        return True

    def _replace_lost(self, number: int, error: Exception) -> None:
        """Do what the error tells the operator when a start stops because of damage: start with an empty directory."""
        world = self.world
        if not self._is_rotten(number, str(error)):
            where = ", ".join(self.rotten.get(number, [])) or "no place"
            raise Violation("rot", f"region {number} does not start, rotten at {where}: {error}")
        world.log_event(f"region {number} refuses to start: {error}")
        self._lose_disk(number)
        world.machines[number].start(world.clock_ms(number))

    def heal_everything(self) -> None:
        world = self.world
        self.healing = True
        world.log_event("everything is healed")
        world.cut.clear()
        world.slow.clear()
        for direction in sorted(world.clogged):
            world.unclog(direction)
        for number, machine in world.machines.items():
            world.resume(number)
            machine.skew_ms = 0
            machine.disk.heal()
            self._make_room(number)
            if machine.up or self.world.stops[number].fault != LATE:
                self.start(number)


def knows(machine: Machine, origin: int) -> bool:
    """Return whether the region counts that origin as a member."""
    return machine.node.replica.applied.members.is_joined(origin) or origin in machine.node.birth.founders


def is_in_cluster(machine: Machine) -> bool:
    """Return whether the region serves, and knows of a cluster: one may serve at once, before there is any."""
    node = machine.node
    known = node.replica.applied.members.origins() or node.birth.founders
    return node.membership.serving() and bool(known)


def is_established(machine: Machine) -> bool:
    """Return whether the region serves and has on its disk that an origin of its region was a member."""
    node = machine.node
    durable, members = node.exchange.view.durable_vector, node.replica.applied.members
    own = [origin for origin in members.joined() if region_of(origin) == machine.config.region]
    joins = [join for origin in own for join in members.joins_of(origin)]
    return node.membership.serving() and any(durable.contains(*join) for join in joins)
