"""Checkers that compare what regions hold: with each other, with the specification, and with what they held before."""

from __future__ import annotations

from crdtstream.core.effects import Key
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.region.node import Node
from crdtstream.scenarios.reply import read_reply
from crdtstream.storage.restore import open_storage
from simulations.checking import Checker, Sampled
from simulations.machine import SALT, Machine
from simulations.network import Network
from simulations.oracle import Expected, actual
from simulations.portrait import lasting


class Invariants(Sampled):
    """Every structure of every node passes its own check."""

    name = "invariants"

    def look(self, world: Network, number: int) -> None:
        try:
            world.machines[number].node.check()
            world.machines[number].log.check()
        except AssertionError as error:
            self.fail(f"region {number}: {error}")


class DamageIsRot(Checker):
    """No region reports an undamaged record as unreadable."""

    name = "damage"

    def turned(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        for damage in machine.log.damages:
            if damage.file not in machine.flipped:
                self.fail(f"region {number}: {damage}")


class Convergence(Checker):
    """All regions have the same digest, hold the same groups with the same runs, and reply alike."""

    name = "convergence"

    def at_end(self, world: Network) -> None:
        for words in ([b"CRDT.DIGEST"], *([b"XRANGE", key, b"-", b"+"] for key in world.keys)):
            answers = {number: world.ask(number, *words) for number in world.served()}
            if len(set(answers.values())) > 1:
                shown = {number: read_reply(answer) for number, answer in answers.items()}
                self.fail(f"{b' '.join(words).decode()}: {shown}")
        for key in world.keys:
            self._compare_groups(world, key)

    def _compare_groups(self, world: Network, key: bytes) -> None:
        held = {number: held_of(world, number, (0, key)) for number in world.machines}
        first = held[1]
        for number, other in held.items():
            if (other.groups, other.runs) != (first.groups, first.runs):
                self.fail(f"{key!r}: region 1 has {first.groups} {first.runs}, {number} {other.groups} {other.runs}")


class AuditsAgree(Checker):
    """Whenever regions compared the sums of their state at equal vectors, the sums were equal."""

    name = "audit"

    def at_end(self, world: Network) -> None:
        for number, machine in world.machines.items():
            audit = machine.node.exchange.audit
            if audit.differences:
                told = [notice.text for notice in machine.node.notices if "same vector" in notice.text]
                self.fail(f"region {number} differed from a peer {audit.differences} times: {told}")


def held_of(world: Network, number: int, key: Key) -> Expected:
    return actual(world.machines[number].node.replica.keyspace.databases[key[0]].get(key[1]) or Stream())


class ObservedRemove(Checker):
    """Exactly those entries live that no effect which had seen them has removed."""

    name = "observed remove"

    def at_end(self, world: Network) -> None:
        for key, expected in sorted(world.expected().items()):
            for number in world.machines:
                held = held_of(world, number, key)
                if held.entries != expected.entries:
                    lost, extra = expected.entries - held.entries, held.entries - expected.entries
                    self.fail(f"region {number}, {key}: lost {sorted(lost)}, too many {sorted(extra)}")


class DeleteWins(Checker):
    """A group exists exactly if its create follows every destroy and every DEL."""

    name = "delete wins"

    def at_end(self, world: Network) -> None:
        for key, expected in sorted(world.expected().items()):
            for number in world.machines:
                held = held_of(world, number, key)
                if held.groups != expected.groups:
                    self.fail(f"region {number}, {key}: groups {held.groups}, expected {expected.groups}")


class UnionOfRuns(Checker):
    """The runs of a create are those acknowledged under it, and dead creates have none."""

    name = "runs"

    def at_end(self, world: Network) -> None:
        for key, expected in sorted(world.expected().items()):
            wanted = {
                dot: {origin: run for origin, run in known.items() if run} for dot, known in expected.runs.items()
            }
            for number in world.machines:
                held = held_of(world, number, key)
                if held.runs != wanted:
                    self.fail(f"region {number}, {key}: runs {held.runs}, expected {wanted}")


class NoResurrection(Sampled):
    """A dot that a region's vector covers and its tree lacks never lives there again."""

    name = "resurrection"

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[int, tuple[int, VersionVector, set[tuple[Key, int, int]]]] = {}

    def look(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        live = live_dots(machine.node.replica.keyspace.databases[0])
        starts, vector, before = self._before.get(number, (0, VersionVector(), set()))
        if starts == machine.starts:
            for key, origin, counter in sorted(live - before):
                if vector.contains(origin, counter):
                    self.fail(f"region {number}, {key}: {(origin, counter)} was gone and lives again")
        self._before[number] = (machine.starts, machine.node.replica.applied.vector.copy(), live)


def live_dots(streams: dict[bytes, Stream]) -> set[tuple[Key, int, int]]:
    return {
        ((0, name), origin, counter)
        for name, stream in streams.items()
        for origin, tree in stream.trees.items()
        for low, high in tree.counter_ranges()
        for counter in range(low, high + 1)
    }


class Recovered(Checker):
    """A killed process recovers everything that it had, including local state; so would one of the regions
    at the end.
    """

    name = "recovery"

    def __init__(self) -> None:
        self._before: dict[int, dict[str, object]] = {}

    def stopping(self, world: Network, number: int, fault: str) -> None:
        self._before.pop(number, None)
        node = world.machines[number].node
        # What waits for spilled blocks is not told yet, and told after the start.
        if fault in ("kill", "rot") and not node.awaits_blocks():
            self._before[number] = kept(node)

    def started(self, world: Network, number: int, fault: str) -> None:
        before, node = self._before.pop(number, None), world.machines[number].node
        if before is not None and fault in ("kill", "rot") and not node.awaits_blocks():
            self._compare(number, before, kept(node))

    def at_end(self, world: Network) -> None:
        number = 1 + world.seed % len(world.machines)
        machine = world.machines[number]
        self._compare(number, kept(machine.node), kept(started_again(machine)))

    def _compare(self, number: int, before: dict[str, object], after: dict[str, object]) -> None:
        for part, value in before.items():
            if after[part] != value:
                self.fail(f"region {number}, {part}: had {value}, has {after[part]}")


def started_again(machine: Machine) -> Node:
    """Start another node from the same disk, without writing what it would log."""
    now_ms = machine.node.context.now_ms
    node = Node(machine.config, now_ms)
    log, _ = open_storage(machine.disk, node, salt=SALT, segment_bytes_max=machine.config.limits.segment_bytes_max)
    node.start(log, machine.seed() + 1, now_ms)
    node.ready()
    return node


def kept(node: Node) -> dict[str, object]:
    """Return what a log preserves; its position advances, and births of other origins may be received again."""
    held = lasting(node)
    return {part: held[part] for part in ("vector", "databases", "deadlines")}
