"""Causal histories with named adds: what each of them had seen, by its dot, beside the replicas of `World`."""

from __future__ import annotations

from collections.abc import Sequence

from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.effects import Key
from crdtstream.core.local_facts import PendingDropped
from crdtstream.core.names.adding import add_named
from crdtstream.core.names.duplicates import acknowledge_lost, remove_all_lost
from crdtstream.core.names.register import AddName
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, id_below
from crdtstream.core.values.origin_intervals import OriginIntervals
from tests.core.histories import KEYS, Step, World

Use = tuple[Key, AddName]
# One named add: its ID, its dot and what it had seen.
Made = tuple[EntryId, Dot, VersionVector]

OPERATIONS = ["name"] * 5 + ["sync"] * 5 + ["join", "create", "read", "read", "ack", "ack", "add"]
FORGETTING = [*OPERATIONS, "hear", "hear", "hear", "forget", "forget"]


class NamedWorld(World):
    """`made` are the named adds, `acknowledged` the entries that consumers acknowledged by their ID."""

    def __init__(self, origins: Sequence[int]) -> None:
        super().__init__(origins)
        self.made: dict[Use, list[Made]] = {}
        self.acknowledged: set[tuple[Key, bytes, int, EntryId]] = set()

    def step(self, step: Step) -> None:
        operation, number, a, b = step
        if operation == "name":
            self.now_ms += 1
            self.add_named(number % len(self.replicas), a, b)
        elif operation == "ack":
            self.acknowledge(number % len(self.replicas), a, b)
        elif operation == "forget":
            self.forget(number % len(self.replicas))
        else:
            super().step(step)

    def acknowledge(self, number: int, a: int, b: int) -> None:
        """XACK of some entries that consumers of a region hold, as the command does it."""
        replica = self.replicas[number]
        held = self.held(number)[a : a + b % 3 + 1]
        for key, name, origin, entry_id in held:
            acknowledge_lost(replica, key, name, [entry_id])
            replica.record(PendingDropped(key, name, OriginIntervals(origin, id_below(entry_id), entry_id)))
        self.acknowledged |= set(held)
        if b % 5:
            self.end_turn(number)

    def held(self, number: int) -> list[tuple[Key, bytes, int, EntryId]]:
        """What consumers of a region hold."""
        return [
            (key, name, row.origin, row.entry_id)
            for key, stream in self.replicas[number].keyspace.streams()
            for name, group in stream.groups.items()
            for row in group.pending.rows(ID_MIN, ID_MAX, -1, None)
        ]

    def add_named(self, number: int, a: int, b: int) -> None:
        replica, key, name = self.replicas[number], KEYS[a % len(KEYS)], (b"p", b"%d" % (b % 2))
        replica.keyspace.now_ms = self.now_ms
        stream = replica.keyspace.find(key)
        ms = stream.top[0] + 1 if stream is not None else b % 4 + 1
        seen = replica.applied.vector.copy()
        entry_id = (ms, replica.applied.origin)
        add_named(replica, key, entry_id, [b"f", b"v"], name)
        dot = (replica.applied.origin, replica.applied.counter() - 1)
        self.made.setdefault((key, name), []).append((entry_id, dot, seen))
        if b % 5:
            self.end_turn(number)

    def end_turn(self, number: int) -> None:
        replica = self.replicas[number]
        remove_all_lost(replica, DeferredWork(replica))
        super().end_turn(number)

    def forget(self, number: int) -> None:
        self.end_turn(number)
        self.hear(number, number)
        stable = self.replicas[number].applied.vector
        for vector in self.heard[number]:
            stable = stable.meet(vector)
        self.replicas[number].keyspace.named.forget(stable, 100, 100, 10**9)

    def heal(self) -> None:
        """Deliver everything to every replica, and what they prepare then."""
        for _ in range(3):
            for target in range(len(self.replicas)):
                for source in range(len(self.replicas)):
                    self.sync(source, target, len(self.batches) + 100)
