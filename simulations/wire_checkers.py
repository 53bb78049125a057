"""Checkers of the messages between regions, and of the order in which batches are applied."""

from __future__ import annotations

from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols import codec
from crdtstream.replication.values.wire_values import to_vector
from crdtstream.replication.wire_pb2 import Message, Part
from crdtstream.settings.config import ALWAYS
from simulations.checking import Checker
from simulations.machine import Machine
from simulations.network import Connection, Network


class OriginOrder(Checker):
    """Every region applies each origin's batches without a gap, and each after its context."""

    name = "origin order"

    def __init__(self) -> None:
        self._applied: dict[int, VersionVector] = {}

    def started(self, world: Network, number: int, fault: str) -> None:
        """Note the recovered vector. A start may prepare a batch at once (an acknowledgement kept back by the crash),
        which is checked with its turn.
        """
        machine = world.machines[number]
        recovered = machine.node.replica.applied.vector.as_dict()
        for batch in reversed(machine.logged):
            if not isinstance(batch, VersionVector):
                recovered[batch.origin] = batch.first - 1
        self._applied[number] = VersionVector({origin: counter for origin, counter in recovered.items() if counter})

    def turned(self, world: Network, number: int) -> None:
        applied = self._applied.setdefault(number, VersionVector())
        for batch in world.machines[number].logged:
            if isinstance(batch, VersionVector):
                applied.merge(batch)
                continue
            if batch.first != applied.get(batch.origin) + 1:
                self.fail(f"region {number}: {batch.origin}:{batch.first} after {applied.get(batch.origin)}")
            if not applied.descends(batch.context):
                self.fail(f"region {number}: {batch.origin}:{batch.first} before {batch.context.as_dict()}")
            applied.advance(batch.origin, batch.last)


class NoEcho(Checker):
    """On one connection no batch is sent twice, or back to the peer that sent it."""

    name = "echo"

    def __init__(self) -> None:
        self._sent: dict[tuple[int, int], dict[bytes, int]] = {}
        self._received: dict[tuple[int, int], set[bytes]] = {}

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        restart = message.batches.restart
        sent = self._sent.setdefault((connection.number, sender), {})
        received = self._received.get((connection.number, sender), set())
        for payload in message.batches.payloads:
            if payload in received:
                self._complain(payload, f"{sender} sends back to {connection.other(sender)}")
            if sent.get(payload) == restart:
                self._complain(payload, f"{sender} sends again to {connection.other(sender)}")
            sent[payload] = restart

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        self._received.setdefault((connection.number, receiver), set()).update(message.batches.payloads)

    def _complain(self, payload: bytes, how: str) -> None:
        header = codec.decode_header(payload)
        self.fail(f"{how}: {header.origin}:{header.first}")


class SyncedFirst(Checker):
    """With the policy `always`, a region sends only batches that it has on its disk, and answers a call of another
    region once it has on its disk what was logged in the turn of the call.
    """

    name = "synced first"

    def __init__(self) -> None:
        self._served: dict[int, list[tuple[int, int]]] = {}
        self._positions: dict[tuple[int, int, int], int] = {}

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        if message.calls:
            self._served[receiver] = [(connection.number, call.number) for call in message.calls]

    def turned(self, world: Network, number: int) -> None:
        for link, call in self._served.pop(number, ()):
            self._positions[(number, link, call)] = world.machines[number].log.last_position

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        machine = world.machines[sender]
        if machine.config.fsync != ALWAYS:
            return
        for answer in message.answers:
            position = self._positions.get((sender, connection.number, answer.number), 0)
            if machine.log.synced_position < position:
                self.fail(
                    f"region {sender} answers a call of {position}, and has {machine.log.synced_position} on disk"
                )
        durable = machine.node.exchange.view.durable_vector
        for payload in message.batches.payloads:
            header = codec.decode_header(payload)
            if not durable.contains(header.origin, header.last):
                self.fail(
                    f"region {sender} sends {header.origin}:{header.last}, and has {durable.get(header.origin)} on disk"
                )


class ResumesFromLog(Checker):
    """No state is offered to a peer whose Hello covered everything that the log has lost, unless the log has a batch
    that is larger than what the peer takes.
    """

    name = "resume"

    def __init__(self) -> None:
        self._greeted: dict[tuple[int, int], VersionVector] = {}

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        if message.HasField("hello"):
            self._greeted[(connection.number, receiver)] = to_vector(message.hello.vector)

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        if not message.HasField("offer") or not message.offer.vector:
            return
        missing = missing_in_log(world.machines[sender])
        greeted = self._greeted.get((connection.number, sender), VersionVector())
        peer = connection.other(sender)
        taken = world.machines[peer].config.limits.batch_bytes_max
        if greeted.descends(missing) and not has_larger(world.machines[sender], greeted, taken):
            self.fail(
                f"{sender} offers its state to {peer}, which has {greeted.as_dict()}: {missing.as_dict()} is gone"
            )


class PartsGoOn(Checker):
    """Of a batch in parts, nothing is sent again to a peer that held it when it greeted, and nothing twice over one
    connection. What counts is what the peer still holds then, whatever its Hello says: it may have dropped what it had
    received, for lack of room. After a restart (`Links.restart`) parts are sent again, once, from the first byte if
    need be, for the same reason.
    """

    name = "parts"

    def __init__(self) -> None:
        self._greeted: dict[tuple[int, int], dict[bytes, int]] = {}
        # The restart of each batch over a connection, and where the last part that was sent ends.
        self._sent: dict[tuple[int, int], dict[bytes, tuple[int, int]]] = {}

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        if message.HasField("hello"):
            rows = world.machines[sender].node.exchange.view.assemblies.rows()
            held = {row.batch.SerializeToString(): row.held_bytes for row in rows}
            self._greeted[(connection.number, sender)] = held
        if message.HasField("part"):
            self._check_part(connection, sender, message.part)

    def _check_part(self, connection: Connection, sender: int, part: Part) -> None:
        peer, name = connection.other(sender), part.batch.SerializeToString()
        sent = self._sent.setdefault((connection.number, sender), {})
        restart, through = sent.get(name, (part.restart, 0))
        if restart == part.restart and part.offset_bytes < through:
            self.fail(f"{sender} sends byte {part.offset_bytes} of a batch to {peer} again, after {through} bytes")
        sent[name] = (part.restart, part.offset_bytes + len(part.payload))
        held = self._greeted.get((connection.number, peer), {}).get(name, 0)
        if not part.restart and part.offset_bytes < held < part.batch.size_bytes:
            self.fail(f"{sender} sends byte {part.offset_bytes} of a batch to {peer}, which has {held} bytes of it")


class Fitting(Checker):
    """What a region sends, the other one takes: no message is larger than the receiver's limit, and no link is closed
    for the size of anything. No batch is larger than the smallest limit that its region knew.
    """

    name = "bounds"

    def __init__(self) -> None:
        self._limits: dict[int, int] = {}

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        if message.HasField("hello") or message.HasField("met") or message.HasField("links"):
            return  # lists of origins, which cannot be parted
        taken = world.machines[connection.other(sender)].config.limits.message_bytes_max
        if len(data) > taken:
            self.fail(f"{sender} sends {len(data)} bytes to {connection.other(sender)}, which takes {taken}")

    def closed(self, world: Network, connection: Connection, end: int, reason: str) -> None:
        if "exceed" in reason and "_bytes_max" in reason and "inbox_bytes_max" not in reason:
            self.fail(f"the link {connection.ends} is closed at {end}: {reason}")

    def turned(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        limit = machine.node.replica.budget.limit
        known = max(limit, self._limits.get(number, limit))
        self._limits[number] = limit
        # Another process of the region may have known of no limit.
        own = machine.node.replica.applied.origin
        for batch in machine.logged:
            if not isinstance(batch, VersionVector) and batch.origin == own:
                size = len(codec.encode_batch(batch))
                if size > known:
                    self.fail(f"region {number} writes a batch of {size} bytes, and knows of the limit {known}")


def has_larger(machine: Machine, known: VersionVector, bytes_max: int) -> bool:
    """Return whether the log has a batch of more bytes that this vector does not cover."""
    position = machine.log.first_position
    while position <= machine.log.last_position:
        records = machine.log.read(position, 1 << 16)
        if not records:
            return True
        for number, kind, payload in records:
            position = number + 1
            if kind == codec.BATCH and len(payload) > bytes_max:
                header = codec.decode_header(payload)
                if not known.contains(header.origin, header.last):
                    return True
    return False


def missing_in_log(machine: Machine) -> VersionVector:
    """Return what the region has and its log no longer holds: effects before the last contiguous batches of each
    origin.
    """
    missing = VersionVector()
    told = VersionVector()
    first = position = machine.log.first_position
    while position <= machine.log.last_position:
        records = machine.log.read(position, 1 << 16)
        if machine.log.first_position != first:
            return missing_in_log(machine)
        for number, kind, payload in records:
            position = number + 1
            if kind == codec.BATCH:
                header = codec.decode_header(payload)
                if header.first != told.get(header.origin) + 1:
                    missing.advance(header.origin, header.first - 1)
                told.advance(header.origin, header.last)
    for origin, counter in machine.node.replica.applied.vector.items():
        if told.get(origin) < counter:
            missing.advance(origin, counter)
    return missing
