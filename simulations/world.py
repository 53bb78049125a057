"""One simulated run: everything that happens follows from one seed.

The nodes, logs, checkpoints, sessions and codecs are the production code; clients, network, disks and clocks are
simulated. A run has two phases. In the first, clients write and read while faults come and go (`adversary`). In the
second, every fault is healed, the clients stop, and the regions must agree within a limit of virtual time.

Virtual time is in milliseconds. The trace is the run as text; two runs of one seed have identical traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, Self

from crdtstream.connections.shards import ShardMap
from crdtstream.core.effects import Key
from crdtstream.settings.config import ALWAYS, FSYNC_POLICIES, Config, Limits
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogDamaged, LogError
from simulations.delivery_clients import DeliveryClients
from simulations.disk import PowerLost
from simulations.draining import all_heard
from simulations.draw import Draw, named
from simulations.machine import Machine
from simulations.named_adds import draw_names
from simulations.network import START_MS, Watcher, address_of
from simulations.oracle import Expected
from simulations.partitioned import Partitioned
from simulations.random_links import RandomLinks
from simulations.retention_clients import draw_retention
from simulations.settings import (
    BOUNDS,
    DELIVERING,
    LETTERS,
    NAMES,
    PACKING,
    PARTITIONED,
    PROPERTIES,
    REFERENCES,
    RETENTION,
    SPILLING,
    VOLUMES,
    Settings,
    complete,
    decided,
    draw_bounds,
    draw_forwarding,
    draw_intervals,
    draw_limits,
    draw_packing,
    draw_settings,
    draw_spilling,
    draw_volume,
    enlarged,
    pairs_of,
)
from simulations.workload import Workload

TICK_MS = 50
# Narrow windows and short messages make some worlds slow; a state transfer that stopped is kept for a minute.
QUIET_BOUND_MS = 300_000
CHECKPOINT_STEP_MS = 5
WRITES_BOUND_MS = 30_000
# In which a region has heard all others, or has found them silent.
HEARD_BOUND_MS = 10_000
NOTICED_MS = 500
SHORT_MS = 200
# What has to come about, and until when.
Phase = tuple[Callable[[], bool], int]


class Faults(Protocol):
    """The part of `adversary.Adversary` that a world uses."""

    healing: bool

    def begin(self) -> None: ...

    def stop(self, number: int, fault: str) -> None: ...

    def start(self, number: int) -> None: ...

    def crashed(self, number: int, fault: str, reason: str) -> None: ...

    def heal_everything(self) -> None: ...


class Memories(Protocol):
    """The part of `short_memory.ShortMemory` that a world uses."""

    def begin(self) -> None: ...

    def keep_short(self) -> None: ...

    def has_gone_out(self) -> bool: ...

    def restore(self) -> None: ...


class World(RandomLinks):
    """A run; `run` raises Violation when an invariant does not hold. `adversary.draw_world` makes one from its seed.

    It is one shard of its regions, usually the only one, whatever `sharded` says: `sharded.Sharded` runs several.
    """

    def __init__(
        self,
        seed: int,
        adversary: Callable[[World], Faults],
        settings: Settings | None = None,
        recorder: Watcher | None = None,
        partitioned: bool | None = None,
        properties: bool | None = None,
        delivering: bool | None = None,
        spilling: bool | None = None,
    ) -> None:
        self.draw = draw = Draw(seed, self.shard)
        self.rng = draw.common
        settings = settings or draw_settings(self.rng)
        settings = decided(
            settings, partitioned=partitioned, properties=properties, delivering=delivering, spilling=spilling
        )
        settings = complete(settings, draw)
        pairs = pairs_of(settings.topology, settings.regions)
        super().__init__(settings, pairs, seed)
        self.keys, self.letters = self.draw_keys()
        if recorder is not None:
            self.watch(recorder)
        self.adversary = adversary(self)
        self.workload = Workload(
            self.rng,
            settings.profile,
            settings.id_mode,
            references=draw.of(REFERENCES) if settings.references else None,
            bounds=draw.of(BOUNDS) if settings.bounded else None,
            properties=draw.of(PROPERTIES) if settings.properties else None,
            retention=draw.of(RETENTION) if settings.has_limits else None,
            names=draw.of(NAMES) if settings.has_names else None,
            letters=draw.of(LETTERS) if settings.has_letters else None,
            streams=self.keys,
            letters_key=self.letters,
        )
        if settings.delivering:
            self.workload.delivering = DeliveryClients(draw.of(DELIVERING), settings.regions)
        self.machines = {number: self._machine(number) for number in range(1, self.settings.regions + 1)}
        if settings.small_volumes:
            for machine in self.machines.values():
                machine.volume_bytes = machine.disk.capacity_bytes = draw_volume(draw.of(VOLUMES))
        self._short_from_ms = dict.fromkeys(self.machines, 0)
        if self.settings.twin:
            self._add_twin(self.settings.regions + 1)
        self.memory: Memories | None = None
        self._expected: dict[Key, Expected] | None = None
        self._clients: Partitioned | None = None
        if self.settings.partitioned:
            self.partitioned = self._clients = Partitioned(self, draw.of(PARTITIONED), lambda: self.adversary.healing)

    def draw_keys(self) -> tuple[tuple[bytes, ...], bytes]:
        """Return the streams that clients use, and the key of their dead letters."""
        return self.keys, self.letters

    def map_for(self, number: int) -> ShardMap | None:
        """Return the shards of a region as it knows them; None if it has one."""
        return None

    def enlarge_volumes(self) -> None:
        """Let small volumes hold whole states with large entries."""
        for machine in self.machines.values():
            machine.volume_bytes = machine.disk.capacity_bytes = enlarged(machine.volume_bytes)

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
            incarnation=0 if self.settings.serving_at_once else None,
            limits=self._limits(),
            shards=self.shards,
            shard=str(self.shard) if self.shards > 1 else "",
        )
        wait_ms, interval_ms = self.rng.choice([0, 5, 20]), self.rng.choice([200, 1000])
        return Machine(
            config,
            self.now_ms,
            oracle=self.oracle,
            sync_wait_ms=wait_ms,
            sync_interval_ms=interval_ms,
            busy=True,
            shards=self.map_for(number),
        )

    def _limits(self) -> Limits:
        """Draw the limits of a region; those of a part come from its source."""
        settings = self.settings
        limits = draw_limits(self.rng, settings.log_retention_bytes)
        if settings.partitioned:
            limits = draw_forwarding(self.draw.of(PARTITIONED), limits)
        if settings.bounded:
            limits = draw_bounds(self.draw.of(BOUNDS), limits)
        if settings.properties:
            limits = draw_intervals(self.draw.of(PROPERTIES), limits)
        if settings.has_limits:
            limits = draw_retention(self.draw.of(RETENTION), limits)
        if settings.has_names:
            limits = draw_names(self.draw.of(NAMES), limits)
        if settings.packing:
            limits = draw_packing(self.draw.of(PACKING), limits)
        return draw_spilling(self.draw.of(SPILLING), limits) if settings.spilling else limits

    def _add_twin(self, number: int) -> None:
        """Add a process with the number of region 1, linked to some of its neighbours, that does not run yet."""
        neighbours = [low + high - 1 for low, high in self.pairs if 1 in (low, high)]
        linked = self.rng.sample(neighbours, self.rng.randrange(1, len(neighbours) + 1))
        self.pairs = [*self.pairs, *((other, number) for other in sorted(linked))]
        original = self.machines[1].config
        config = replace(original, name="twin", peers=tuple(address_of(other) for other in sorted(linked)))
        shards = self.map_for(number)
        self.machines[number] = Machine(
            config, self.now_ms, number=number, oracle=self.oracle, busy=True, shards=shards
        )

    def peers_of(self, number: int) -> tuple[str, ...]:
        """Return the addresses of the neighbours that are meant to exist."""
        neighbours = [low + high - number for low, high in self.pairs if number in (low, high)]
        return tuple(address_of(other) for other in neighbours if other <= self.settings.regions)

    @property
    def worlds(self) -> list[Self]:
        """The shards of this run."""
        return [self]

    def run(self) -> None:
        """Run both phases."""
        for done, bound_ms in self.phases():
            self.run_until(done, bound_ms)

    def _begin(self) -> None:
        self.log_event(named(self.seed))
        for number in self.machines:
            self.plan(self.rng.randrange(TICK_MS), self.tick, number)
            self.plan(self.rng.randrange(self.machines[number].sync_interval_ms), self._sync, number)
            self.plan(self.rng.randrange(200), self._command, number)
            if self.settings.checkpoint_interval_ms:
                self.plan(self.rng.randrange(self.settings.checkpoint_interval_ms), self._save, number)
        for pair in self.pairs:
            self.plan_dial(pair)
        self.adversary.begin()
        if self.memory is not None:
            self.memory.begin()
        if self._clients is not None:
            self._clients.begin()

    def phases(self) -> Iterator[Phase]:
        """Begin a run; yield what has to come about next, and until when."""
        self._begin()
        end_ms = START_MS + self.settings.duration_ms
        yield lambda: self.now_ms >= end_ms, end_ms + QUIET_BOUND_MS
        self.adversary.heal_everything()
        if self.memory is not None:
            self.memory.keep_short()
            yield self.memory.has_gone_out, self.now_ms + QUIET_BOUND_MS
            self.memory.restore()
        yield self.quiet, self.now_ms + QUIET_BOUND_MS
        yield self._all_write, self.now_ms + WRITES_BOUND_MS
        if self.settings.delivering:
            yield from self._let_hear()
        self.log_event(f"quiet, {self.statistics} wire {self.wire_checksum:08x}")

    def _let_hear(self) -> Iterator[Phase]:
        """Let all regions hear each other; pauses that ended just now have to be noticed first."""
        noticed_ms = self.now_ms + NOTICED_MS
        yield lambda: self.now_ms >= noticed_ms, noticed_ms + TICK_MS
        end_ms = self.now_ms + HEARD_BOUND_MS
        yield lambda: all_heard(self) or self.now_ms >= end_ms, end_ms + TICK_MS
        yield self.quiet, self.now_ms + QUIET_BOUND_MS

    def _all_write(self) -> bool:
        """Return whether every region accepts writes: all have all effects, so every log can be shortened."""
        return all(machine.node.standing.writable for machine in self.machines.values() if machine.up)

    def quiet(self) -> bool:
        return super().quiet() and (self._clients is None or self._clients.settled())

    def expected(self) -> dict[Key, Expected]:
        if self._expected is None:
            self._expected = super().expected()
        return self._expected

    # Turns

    def act(self, number: int, action: Callable[[], None]) -> None:
        try:
            action()
        except PowerLost as error:
            self.adversary.crashed(number, "power", str(error))
        except LogDamaged as error:
            self.adversary.crashed(number, "damage", str(error))
        except (DiskError, LogError) as error:
            self.adversary.crashed(number, "disk-error", str(error))

    def turned(self, number: int) -> None:
        machine = self.machines[number]
        for client_id in sorted(machine.replies):
            self.drain_replies(number, client_id)
        if machine.wants_sync and not machine.sync_planned:
            machine.sync_planned = True
            self.plan(machine.sync_wait_ms, self._sync_soon, number, machine.starts)
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
        self.act(number, lambda: self.sync_one(number))

    def sync_one(self, number: int) -> None:
        self.notify("synced", number)
        self.machines[number].sync()
        self.turned(number)

    def tick(self, number: int) -> None:
        self.plan(TICK_MS, self.tick, number)
        if self.runs(number):
            self.act(number, lambda: self.tick_one(number))

    def tick_one(self, number: int) -> None:
        self.machines[number].look_for_room()
        self._free_room(number)
        if self.settings.packing:
            self.machines[number].rest(self.draw.of(PACKING))
        super().tick_one(number)
        for connection in self.connections_of(number):
            self._obey_verdict(connection, number)

    def _free_room(self, number: int) -> None:
        """Do what the runtime does when room is short: shorten the log, and take a checkpoint."""
        machine = self.machines[number]
        if machine.checkpointer.capture is not None or not (machine.room.full or machine.node.membership.serving()):
            return
        machine.shorten_log()
        if machine.room.is_short() and self.now_ms >= self._short_from_ms.get(number, 0):
            self._short_from_ms[number] = self.now_ms + SHORT_MS
            self.save_soon(number, machine.starts)

    def save_soon(self, number: int, starts: int) -> None:
        """Take a checkpoint, step by step, unless the process ends meanwhile."""
        machine, done = self.machines[number], [False]
        if machine.starts != starts:
            return
        if self.runs(number):
            self.act(number, lambda: self._save_one(number, done))
        if machine.starts == starts and machine.checkpointer.capture is not None:
            self.plan(CHECKPOINT_STEP_MS, self.save_soon, number, starts)

    def _save(self, number: int) -> None:
        """Continue a checkpoint: the next step soon, or a new checkpoint later."""
        done = [True]
        if self.runs(number) and self.machines[number].node.membership.serving():
            self.act(number, lambda: self._save_one(number, done))
        interval_ms = self.settings.checkpoint_interval_ms
        self.plan(1 + self.rng.randrange(2 * interval_ms) if done[0] else CHECKPOINT_STEP_MS, self._save, number)

    def _save_one(self, number: int, done: list[bool]) -> None:
        self.notify("saving", number)
        done[0] = self.machines[number].save(self.rng.randrange(1, 12))
        if done[0]:
            self.log_event(
                f"region {number} has a checkpoint, its log begins at {self.machines[number].log.first_position}"
            )
            self.notify("saved", number)
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
            for argv in self.look(lambda: self.workload.draw(machine.node.replica)):
                self._run_command(number, argv)
                count -= 1
        self.turn(number)

    def execute(self, number: int, argv: list[bytes], client_id: int = 0) -> None:
        """Run one command in a turn of its own, of a client without another command."""
        self._run_command(number, argv)
        self.turn(number)

    def execute_all(self, number: int, commands: list[list[bytes]]) -> None:
        for argv in commands:
            self.execute(number, argv)

    def _run_command(self, number: int, argv: list[bytes]) -> None:
        client_id = self.machines[number].idle_client()
        if client_id is not None:
            self.command(number, client_id, argv)

    def forget_unanswered(self, number: int) -> None:
        """Settle the commands of an ended process: sent replies count, all others may or may not have happened."""
        machine = self.machines[number]
        for client_id in sorted(machine.replies):
            self.drain_replies(number, client_id)
        for client_id in sorted(machine.unanswered):
            for asked in machine.unanswered[client_id]:
                self.log_event(f"{number}> {b' '.join(asked.argv).decode()} gets no reply")
                self.history.record_unanswered(asked.argv, asked.dot, asked.seen, asked.creates)
        machine.unanswered.clear()
