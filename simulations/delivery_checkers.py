"""Which region gives entries to consumers, and when, in groups that one region delivers at a time (docs/queues.md)."""

from __future__ import annotations

from crdtstream.core.groups.properties import ALL, ORDER, TAKEOVER, TAKEOVER_MS, value_of
from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.replication.wire_pb2 import Message
from crdtstream.scenarios.reply import Value
from simulations.checking import Checker
from simulations.group_commands import (
    CLAIMS,
    Asked,
    WatchesGroups,
    deliverer_of,
    given,
    has_one_deliverer,
    live_pending,
)
from simulations.machine import Machine
from simulations.network import Connection, Network

# A process that stands still for longer notices it, in milliseconds.
PAUSE_MS = 800
# By how much a region may misjudge a time: it looks at each tick, and a clock that is set adds a step.
SLACK_MS = 300
FOR_EVER_MS = 1 << 62


class DeliversByRecord(WatchesGroups):
    """A region gives its consumers only entries that the records let it deliver, be they new, claimed or read again."""

    name = "one deliverer"

    def replied(self, world: Network, asked: Asked, value: Value) -> None:
        if not has_one_deliverer(asked.registers):
            return
        region = world.machines[asked.number].config.region
        for entry in asked.gives(value):
            if deliverer_of(asked.registers, entry[0]) != region:
                self.fail(f"region {asked.number} gives {entry} to {asked.argv}, with {asked.registers}")


class Heard:
    """What one process has heard of another region: when its last sign of life came; after a silence of `gap_ms` the
    vector `awaited` of the origin `told_by` must be applied.
    """

    def __init__(self) -> None:
        self.at_ms = -1
        self.gap_ms = 0
        self.awaited: VersionVector | None = None
        self.told_by = 0
        self.lives: dict[int, int] = {}

    def misses(self, vector: VersionVector, gap_ms: int) -> bool:
        """Return whether this vector lacks something of a region that was silent for longer."""
        return self.awaited is not None and self.gap_ms > gap_ms and not vector.descends(self.awaited)


class Ear:
    """What one process has heard since it started, and since its last pause."""

    def __init__(self, machine: Machine, now_ms: int) -> None:
        self.starts = machine.starts
        self.skew_ms = machine.skew_ms
        self.skews = 0
        self.since_ms = self.last_ms = now_ms
        self.regions: dict[int, Heard] = {}

    def wake(self, machine: Machine, now_ms: int) -> None:
        """The process does something. A pause in which its clock was set may go unnoticed."""
        if machine.skew_ms != self.skew_ms:
            self.skew_ms, self.skews = machine.skew_ms, self.skews + 1
        elif now_ms - self.last_ms > PAUSE_MS:
            self.since_ms, self.skews = now_ms, 0
            for heard in self.regions.values():
                heard.at_ms = -1
        self.last_ms = now_ms

    def look(self, machine: Machine, now_ms: int, made: dict[tuple[int, int], int]) -> None:
        """Take in the signs of life that came until this tick; one that was made before this region listened tells
        nothing.
        """
        applied = machine.node.replica.applied
        for origin, _, vector, life in machine.node.exchange.progress.rows():
            heard = self.regions.setdefault(region_of(origin), Heard())
            if life > heard.lives.get(origin, 0) and made.get((origin, life), now_ms) >= self.since_ms:
                heard.lives[origin] = life
                gap_ms = FOR_EVER_MS if heard.at_ms < 0 else now_ms - heard.at_ms
                if gap_ms > PAUSE_MS:
                    heard.gap_ms, heard.awaited, heard.told_by = max(gap_ms, heard.gap_ms), vector.copy(), origin
                heard.at_ms = now_ms
        for heard in self.regions.values():
            done = heard.awaited is not None and applied.vector.descends(heard.awaited)
            # What an ended origin had may be lost.
            if done or applied.members.has_ended(heard.told_by):
                heard.awaited, heard.gap_ms = None, 0


class HearsFirst(WatchesGroups):
    """Where one region delivers at a time, it delivers only once it has heard every other one since its start and since
    each pause, or has waited for it as long as a takeover takes; and after a silence as long as that, only with what
    the other one had.
    """

    name = "heard first"

    def __init__(self) -> None:
        super().__init__()
        self._ears: dict[int, Ear] = {}
        self._missing: dict[int, str] = {}
        # When each sign of life was made.
        self._made: dict[tuple[int, int], int] = {}

    def _ear(self, world: Network, number: int) -> Ear:
        machine = world.machines[number]
        ear = self._ears.get(number)
        if ear is None or ear.starts != machine.starts:
            ear = self._ears[number] = Ear(machine, world.now_ms)
        ear.wake(machine, world.now_ms)
        return ear

    def started(self, world: Network, number: int, fault: str) -> None:
        self._ear(world, number)

    def ticked(self, world: Network, number: int) -> None:
        node = world.machines[number].node
        self._made.setdefault((node.replica.applied.origin, node.exchange.view.life), world.now_ms)
        self._ear(world, number).look(world.machines[number], world.now_ms, self._made)

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        self._ear(world, receiver)

    def about(self, world: Network, asked: Asked) -> None:
        self._missing[id(asked)] = ""
        if has_one_deliverer(asked.registers):
            self._missing[id(asked)] = self._missing_of(world, asked)

    def _missing_of(self, world: Network, asked: Asked) -> str:
        """Say for what the region must wait; empty for nothing."""
        ear, machine = self._ear(world, asked.number), world.machines[asked.number]
        applied, exchange = machine.node.replica.applied, machine.node.exchange
        wanted_ms = value_of(asked.registers, TAKEOVER)
        takeover_ms = max(int(wanted_ms or TAKEOVER_MS), 4 * machine.config.limits.heartbeat_ms)
        counted = {region_of(one) for one in applied.members.counted(applied.origin, exchange.birth.founders_left())}
        for region in sorted(counted - {machine.config.region}):
            heard = ear.regions.get(region)
            waited_ms = world.now_ms - ear.since_ms + SLACK_MS * (1 + ear.skews)
            if heard is None or heard.at_ms < 0:
                if waited_ms < takeover_ms:
                    return f"has not heard region {region}, for {world.now_ms - ear.since_ms} ms"
            elif world.now_ms - heard.at_ms < takeover_ms and heard.misses(applied.vector, takeover_ms + SLACK_MS):
                return f"has not applied what region {region} had: {heard.awaited}, after {heard.gap_ms} ms"
        return ""

    def replied(self, world: Network, asked: Asked, value: Value) -> None:
        missing = self._missing.pop(id(asked))
        if missing and given(asked.argv, value):
            self.fail(f"region {asked.number} gives {value} to {asked.argv}, and {missing}")


class OneConsumer(WatchesGroups):
    """In order, only the consumer that holds all live pending entries of its region gets new ones, and a claim takes
    all or none.
    """

    name = "one consumer"

    def __init__(self) -> None:
        super().__init__()
        self._others: dict[int, dict[tuple[int, tuple[int, int]], bytes]] = {}

    def about(self, world: Network, asked: Asked) -> None:
        for one in self._asked[asked.number]:
            # What comes later in the turn may change who holds what a claim took.
            if one.group is asked.group and one.argv[0] in CLAIMS:
                self._others.pop(id(one), None)
        if value_of(asked.registers, ORDER) == ALL and (asked.is_new or asked.argv[0] in CLAIMS):
            self._others[id(asked)] = live_pending(asked.stream, asked.group)

    def replied(self, world: Network, asked: Asked, value: Value) -> None:
        held = self._others.pop(id(asked), None)
        if held is None or not given(asked.argv, value):
            return
        consumer = asked.argv[3]
        if not asked.is_new:
            held = live_pending(asked.stream, asked.group)
        region = world.machines[asked.number].config.region
        others = {entry: name for entry, name in held.items() if name != consumer}
        if has_one_deliverer(asked.registers):
            # What comes from another region is no part of the order here.
            others = {one: name for one, name in others.items() if deliverer_of(asked.registers, one[0]) == region}
        if others:
            self.fail(f"region {asked.number}: {asked.argv} gets {given(asked.argv, value)}, and others hold {others}")


class DeliverersAgree(Checker):
    """While all regions are up and linked, none waits for another one, and all say alike who delivers."""

    name = "deliverers agree"

    def at_end(self, world: Network) -> None:
        for number in world.served():
            for key, stream in world.machines[number].node.replica.keyspace.streams():
                for name, group in sorted(stream.groups.items()):
                    if not has_one_deliverer(group.properties):
                        continue
                    awaited = world.machines[number].node.delivering.awaited(group)
                    if awaited:
                        self.fail(f"region {number}, {key} {name!r}: waits for regions {awaited}")
                    for origin in stream.trees:
                        told, wanted = group.rules.deliverer(region_of(origin)), deliverer_of(group.properties, origin)
                        if told != wanted:
                            self.fail(f"region {number}, {key} {name!r}: says {told} for {origin}, expected {wanted}")
