"""One region's replica behind its commands, without a node: what the tests of stream commands drive."""

from __future__ import annotations

from crdtstream.commands.dispatch import dispatch
from crdtstream.connections.client import Client
from crdtstream.core.effects import Batch, Position
from crdtstream.core.groups.group import Group
from crdtstream.core.local_facts import EntriesDelivered, PendingDropped
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, LIBERAL, EntryId
from crdtstream.settings.config import Limits
from tests.commands.harness import Argument, encoded
from tests.commands.harness import Region as PlainRegion


class Region(PlainRegion):
    """A region whose turns end when a test says so; `batches` are what it has prepared, for others to apply."""

    def __init__(self, origin: int = 1, id_mode: str = LIBERAL, limits: Limits | None = None) -> None:
        super().__init__(origin, id_mode, limits)
        self.replica.keyspace.now_ms = 1_000
        self.batches: list[Batch] = []

    def new_client(self, protocol: int = 2) -> Client:
        client = self.connect()
        client.protocol = protocol
        return client

    def call(self, *argv: Argument, client: Client | None = None) -> bytes | None:
        return dispatch(self.context, client or self.client, [encoded(argument) for argument in argv])

    def say(self, line: str) -> bytes | None:
        return self.call(*line.split())

    def stream(self, name: bytes = b"s") -> Stream:
        stream = self.replica.keyspace.find((0, name))
        assert stream is not None
        stream.check()
        return stream

    def close_turn(self) -> dict[int, bytes]:
        """Send what was prepared, wake who waits: replies by client."""
        self.replica.acknowledge_all()
        taken = self.replica.drain()
        if taken.batch is not None:
            taken.batch.check()
            self.batches.append(taken.batch)
        self.check()
        woken: dict[int, bytes] = {}
        for waiter in self.context.parking.waiting_for(self.replica.changed.drain_touched()):
            reply = waiter.serve(self.context)
            if reply is not None:
                self.context.parking.leave(waiter.client.id)
                woken[waiter.client.id] = reply
        return woken

    def hear(self, other: Region) -> dict[int, bytes]:
        """Apply all that the other region prepared and this one lacks."""
        self.close_turn()
        other.close_turn()
        for batch in other.batches:
            if batch.first > self.replica.applied.vector.get(batch.origin):
                self.replica.apply_batch(batch)
        return self.close_turn()

    # Groups, where their commands are not what is tested

    def group(self, name: bytes = b"g", key: bytes = b"s") -> Group:
        return self.stream(key).groups[name]

    def create_group(self, start: EntryId = ID_MIN, name: bytes = b"g", key: bytes = b"s", read: int = -1) -> None:
        self.replica.create_group((0, key), name, Position(start), read)

    def read_group(self, entries_read: int, count: int = -1, name: bytes = b"g", key: bytes = b"s") -> int:
        stream = self.stream(key)
        delivery = stream.groups[name].next_entries(stream.chains, count)
        if delivery.count:
            intervals, now_ms = delivery.intervals, self.context.now_ms
            fact = EntriesDelivered((0, key), name, b"c", now_ms, intervals, False, entries_read, delivery.offer)
            self.replica.record(fact)
        return delivery.count

    def acknowledge_group(self, name: bytes = b"g", key: bytes = b"s") -> None:
        pending = self.group(name, key).pending
        ids = sorted({row.entry_id for row in pending.rows(ID_MIN, ID_MAX, -1, None)})
        self.replica.record(PendingDropped((0, key), name, pending.find(ids)[0]))
