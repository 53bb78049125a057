"""Causal histories over a few replicas, drawn as plain numbers: what joins are tested with.

`World.batches` lists every batch in the order in which it was made, which is a causal order of all of them. A replica
can be made again from its log (`World.clone`), so that a state can be used up by a join and still be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from crdtstream.core import effects as fx
from crdtstream.core.applying import StampedFact
from crdtstream.core.effects import Batch, Key, Position
from crdtstream.core.group_copy import copy_whole
from crdtstream.core.local_facts import (
    ConsumerDeleted,
    EntriesDelivered,
    PendingClaimed,
    PendingDropped,
    PositionRaised,
    PositionSet,
)
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY
from crdtstream.core.streams.properties import MAX_AGE, MAX_LENGTH
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.stream_copy import copy_stream
from crdtstream.core.streams.trimming import below, trimmable
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, previous_id
from crdtstream.core.values.origin_intervals import OriginIntervals
from crdtstream.core.whole_state import WholeState
from crdtstream.protocols.codec import decode_batch, encode_batch

KEYS: list[Key] = [(0, b"x"), (0, b"y")]
GROUPS = [b"g", b"h"]
CONSUMERS = [b"a", b"b"]

Step = tuple[str, int, int, int]
Logged = Callable[[Replica], None]
ALL = 10**6

WEIGHTS = {
    "add": 5,
    "del_entry": 2,
    "del_ref": 1,
    "trim": 1,
    "minid": 1,
    "del": 1,
    "create": 3,
    "destroy": 1,
    "read": 4,
    "noack": 1,
    "ack": 3,
    "set_position": 1,
    "raise": 1,
    "claim": 1,
    "force": 1,
    "del_consumer": 1,
    "set_id": 1,
    "expire": 1,
    "persist": 1,
    "limit": 2,
    "copy": 1,
    "sync": 5,
    "join": 1,
}
OPERATIONS = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
COLLECTING = [*OPERATIONS, "collect", "collect", "collect", "hear", "hear", "hear"]


def copied(batch: Batch) -> Batch:
    return decode_batch(encode_batch(batch))


def streams_of(replica: Replica) -> dict[Key, Stream]:
    return dict(replica.keyspace.streams())


def join(mine: Replica, theirs: Replica) -> Replica:
    """`theirs` is used up."""
    applied = theirs.applied
    mine.join(WholeState(streams_of(theirs), applied.vector.copy(), applied.contexts, applied.members))
    return mine


def missing(batches: list[Batch], known: VersionVector, wanted: VersionVector) -> list[Batch]:
    """What one vector covers and another does not, in causal order."""
    fit = [batch for batch in batches if wanted.contains(batch.origin, batch.last)]
    return [batch for batch in fit if not known.contains(batch.origin, batch.last)]


def deliver(batches: list[Batch], replica: Replica, wanted: VersionVector) -> Replica:
    for batch in missing(batches, replica.applied.vector, wanted):
        replica.apply_batch(copied(batch))
    return replica


def apply_copied(batch: Batch, replica: Replica) -> None:
    replica.apply_batch(copied(batch))


def replay_facts(facts: list[StampedFact], through: int, replica: Replica) -> None:
    replica.applied.replay_facts(facts, through)


def join_logged(origin: int, log: list[Logged], replica: Replica) -> None:
    join(replica, replayed(origin, log))


def collect(stable: VersionVector, replica: Replica) -> None:
    replica.keyspace.collect(stable, ALL)


def replayed(origin: int, log: list[Logged]) -> Replica:
    replica = Replica(origin)
    for act in log:
        act(replica)
    return replica


class World:
    """Replicas of these origins; in each a log of what was applied, from which it can be made again."""

    def __init__(self, origins: Sequence[int]) -> None:
        count = len(origins)
        self.origins = origins
        self.replicas = [Replica(origin) for origin in origins]
        self.batches: list[Batch] = []
        self.logs: list[list[Logged]] = [[] for _ in range(count)]
        # What each replica knows of the others' vectors, past the second gate.
        self.heard = [[VersionVector() for _ in range(count)] for _ in range(count)]
        self.now_ms = 0

    def run(self, history: list[Step]) -> None:
        for step in history:
            self.step(step)

    def step(self, step: Step) -> None:
        operation, number, a, b = step
        number, other = number % len(self.replicas), a % len(self.replicas)
        replica = self.replicas[number]
        self.now_ms += 1
        replica.keyspace.now_ms = self.now_ms
        if operation == "sync":
            self.sync(other, number, b % 4 + 1)
        elif operation == "join":
            self.join(number, other)
        elif operation == "hear":
            self.hear(number, other)
        elif operation == "collect":
            self.collect(number)
        else:
            perform(replica, operation, a, b)
            if b % 5:
                self.end_turn(number)

    def end_turn(self, number: int) -> None:
        replica = self.replicas[number]
        replica.acknowledge_all()
        taken = replica.drain()
        if taken.facts:
            self.logs[number].append(partial(replay_facts, taken.facts, taken.through))
        if taken.batch is not None:
            self.batches.append(taken.batch)
            self.logs[number].append(partial(apply_copied, taken.batch))

    def sync(self, source: int, target: int, most: int) -> None:
        """At most so many more batches of what the source has."""
        self.end_turn(target)
        self.end_turn(source)
        replica = self.replicas[target]
        for batch in missing(self.batches, replica.applied.vector, self.replicas[source].applied.vector)[:most]:
            apply_copied(batch, replica)
            self.logs[target].append(partial(apply_copied, batch))
        self.end_turn(target)

    def join(self, target: int, source: int) -> None:
        self.end_turn(target)
        join(self.replicas[target], self.clone(source))
        self.logs[target].append(partial(join_logged, self.origins[source], self.logs[source][:]))
        self.end_turn(target)

    def hear(self, number: int, other: int) -> None:
        told = self.replicas[other].applied.vector
        if self.replicas[number].applied.vector.descends(told):
            self.heard[number][other] = told.copy()

    def collect(self, number: int) -> None:
        self.end_turn(number)
        self.hear(number, number)
        stable = self.replicas[number].applied.vector
        for vector in self.heard[number]:
            stable = stable.meet(vector)
        collect(stable, self.replicas[number])
        self.logs[number].append(partial(collect, stable))

    def clone(self, number: int) -> Replica:
        """The replica between turns, made again."""
        self.end_turn(number)
        return replayed(self.origins[number], self.logs[number])


def perform(replica: Replica, operation: str, a: int, b: int) -> None:
    key = KEYS[a % len(KEYS)]
    stream = replica.keyspace.find(key)
    if operation == "add":
        ms = (stream.top[0] + 1) if stream is not None else 0
        replica.add_entry(key, (max(ms, b % 4 + 1), replica.applied.origin), [b"f", b"%d" % b])
    elif operation == "create":
        create(replica, key, GROUPS[a // 2 % 2], b)
    elif stream is not None:
        perform_on(replica, key, stream, operation, a // 2, b)


def create(replica: Replica, key: Key, group: bytes, b: int) -> None:
    stream = replica.keyspace.find(key)
    if stream is not None and group in stream.groups:
        return
    starts = [Position(), Position((2, 0)), Position() if stream is None else stream.seen_position()]
    replica.create_group(key, group, starts[b % 3], fx.UNKNOWN_ENTRIES_READ)


def perform_on(replica: Replica, key: Key, stream: Stream, operation: str, a: int, b: int) -> None:
    if operation == "del":
        replica.delete_stream(key)
    elif operation == "trim":
        replica.remove_entries(key, trimmable(stream, a % 4), True, None)
    elif operation == "minid":
        replica.remove_entries(key, below(stream, (a % 6, 0)), True, None)
    elif operation == "del_entry":
        ids = ids_of(stream)
        if ids:
            entry_id, origin, counter = ids[a % len(ids)]
            replica.remove_entries(key, {origin: [(counter, counter)]}, False, entry_id)
    elif operation == "del_ref":
        ids = ids_of(stream)
        if ids:
            entry_id, origin, counter = ids[a % len(ids)]
            references = {origin: [(previous_id(entry_id) or ID_MIN, entry_id)]}
            replica.remove_entries(key, {origin: [(counter, counter)]}, False, entry_id, references)
    elif operation == "set_id":
        last_id = (stream.top[0] + a % 3, stream.top[1] + 1)
        replica.set_id(key, last_id, b % 9 if b % 2 else None, (1, 1) if a % 2 else None)
    elif operation == "expire":
        replica.set_expiry(key, replica.keyspace.now_ms + b % 9)
    elif operation == "persist":
        replica.set_expiry(key, NO_EXPIRY)
    elif operation == "limit":
        name = (MAX_LENGTH, MAX_AGE)[a % 2]
        replica.set_stream_properties(key, {name: b"%d" % (b % 3)})
    elif operation == "copy":
        target = KEYS[1] if key == KEYS[0] else KEYS[0]
        (copy_whole if b % 2 else copy_stream)(replica, stream, target)
    elif stream.groups:
        on_group(replica, key, stream, operation, a, b)


def on_group(replica: Replica, key: Key, stream: Stream, operation: str, a: int, b: int) -> None:
    name = sorted(stream.groups)[a % len(stream.groups)]
    group = stream.groups[name]
    consumer = CONSUMERS[b % 2]
    pending = [(row.origin, row.entry_id) for row in group.pending.rows(ID_MIN, ID_MAX, -1, None)]
    if operation == "destroy":
        replica.destroy_group(key, name)
    elif operation in ("read", "noack"):
        delivery = group.next_entries(stream.chains, b % 4)
        if delivery.count:
            noack = operation == "noack"
            replica.record(
                EntriesDelivered(
                    key,
                    name,
                    consumer,
                    replica.keyspace.now_ms,
                    delivery.intervals,
                    noack,
                    delivery.count,
                    delivery.offer,
                )
            )
    elif operation == "ack" and pending:
        for origin, entry_id in pending[: b % 3] or [pending[a % len(pending)]]:
            below = previous_id(entry_id) or ID_MIN
            replica.record(PendingDropped(key, name, OriginIntervals(origin, below, entry_id)))
    elif operation == "claim" and pending:
        origin, entry_id = pending[b % len(pending)]
        replica.record(PendingClaimed(key, name, consumer, [(origin, entry_id, replica.keyspace.now_ms, 2)]))
    elif operation == "force" and stream.length:
        entry_id, origin, _ = ids_of(stream)[b % stream.length]
        replica.record(PendingClaimed(key, name, consumer, [(origin, entry_id, replica.keyspace.now_ms, 1)]))
    elif operation == "set_position":
        position = [Position(), Position((b % 6, 0)), stream.seen_position()][a % 3]
        replica.record(PositionSet(key, name, position, fx.UNKNOWN_ENTRIES_READ))
    elif operation == "raise":
        replica.record(PositionRaised(key, name, (b % 6, 0)))
    elif operation == "del_consumer":
        replica.record(ConsumerDeleted(key, name, consumer))


def ids_of(stream: Stream) -> list[tuple[EntryId, int, int]]:
    """(ID, origin, counter) of every live entry, ascending."""
    rows: list[tuple[EntryId, int, int]] = []
    for origin, tree in stream.trees.items():
        for part in tree.slices(ID_MIN, ID_MAX, -1, False):
            rows += [(part.block.id_at(at), origin, part.block.counter_at(at)) for at in range(part.low, part.high)]
    return sorted(rows)
