"""Virtual time, and the connections between the machines of a world.

Events at one moment happen in the order in which they were planned. Connections are dialled again after a delay;
messages keep their order within a connection and are lost with it. Two connections may exist between a pair of regions
for a while; messages of both arrive in any order. A side is pulled `pull_ms` after it may have something to send, so
that what accumulates in a busy moment is sent as one message.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from zlib import crc32

from crdtstream.replication.wire_pb2 import Message
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogDamaged, LogError
from simulations.disk import PowerLost
from simulations.history import Violation
from simulations.machine import Machine
from simulations.settings import Settings, pairs_of

START_MS = 2**33
Pair = tuple[int, int]


def address_of(number: int) -> str:
    return f"region{number}:1"


class Connection:
    """The life of one link: two directions, each in order."""

    def __init__(self, number: int, ends: Pair) -> None:
        self.number = number
        self.ends = ends
        self.arrivals_ms = dict.fromkeys(ends, 0)
        self.busy = dict.fromkeys(ends, False)
        self.open = dict.fromkeys(ends, True)
        self.held: dict[int, list[bytes]] = {end: [] for end in ends}
        self.arrived: dict[int, deque[bytes]] = {end: deque() for end in ends}

    def other(self, end: int) -> int:
        return self.ends[1] if end == self.ends[0] else self.ends[0]


class Network:
    """Machines, their connections, and the events to come; a world overrides the methods that hear what happens."""

    def __init__(self, seed: int, rng: Random, settings: Settings) -> None:
        self.seed = seed
        self.rng = rng
        self.settings = settings
        self.now_ms = START_MS
        self.trace: list[str] = []
        self.wire_checksum = 0
        self.statistics = {"commands": 0, "messages": 0, "bytes": 0, "connections": 0, "faults": 0}
        self.pairs = pairs_of(settings.topology, settings.regions)
        self.cut: set[Pair] = set()
        self.clogged: set[Pair] = set()
        self.slow: set[Pair] = set()
        self.machines: dict[int, Machine] = {}
        self.connections: dict[int, Connection] = {}
        self._dialling: set[Pair] = set()
        self._events: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._planned = 0

    # Events

    def plan(self, delay_ms: int, action: Callable[..., None], *words: object) -> None:
        self._planned += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._planned, action, words))

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now_ms - START_MS} {text}")

    def run_until(self, done: Callable[[], bool], bound_ms: int) -> None:
        while not done():
            at_ms, _, action, words = heapq.heappop(self._events)
            self.now_ms = at_ms
            if at_ms > bound_ms:
                raise Violation("convergence", f"not quiet in time after everything was healed: {self.state()}")
            action(*words)
            self.looked()

    def state(self) -> str:
        return "; ".join(
            f"{number} {m.node.replica.applied.vector.as_dict()} {m.node.membership.waiting_for()}"
            for number, m in self.machines.items()
        )

    # What happens

    def looked(self) -> None:
        """One planned event is over."""

    def crashed(self, number: int, fault: str, reason: str) -> None:
        """The process has ended by itself."""

    def opened(self, connection: Connection) -> None:
        """Two regions are joined by a connection."""

    def sent(self, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        """A message left."""

    def arrived(self, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        """A message is about to be received."""

    def closed(self, connection: Connection, end: int, reason: str) -> None:
        """One end of a connection is gone."""

    # A machine's turns

    def clock_ms(self, number: int) -> int:
        return max(1, self.now_ms + self.machines[number].skew_ms)

    def runs(self, number: int) -> bool:
        machine = self.machines[number]
        return machine.up and not machine.paused

    def act(self, number: int, action: Callable[[], None]) -> None:
        """Perform an action of a process, which may end during it."""
        try:
            action()
        except PowerLost as error:
            self.crashed(number, "power", str(error))
        except LogDamaged as error:
            self.crashed(number, "damage", str(error))
        except (DiskError, LogError) as error:
            self.crashed(number, "disk-error", str(error))

    def turn(self, number: int) -> None:
        self.machines[number].perform()
        self.turned(number)

    def turned(self, number: int) -> None:
        """Finish a turn: wake connections."""
        self.machines[number].logged.clear()
        for connection in self.connections_of(number):
            self._wake(connection, number)

    # Connections

    def connections_of(self, number: int) -> list[Connection]:
        return [c for c in self.connections.values() if number in c.ends and c.open[number]]

    def peers_of(self, number: int) -> tuple[str, ...]:
        """Return the addresses of the neighbours that are meant to exist."""
        neighbours = [low + high - number for low, high in self.pairs if number in (low, high)]
        return tuple(address_of(other) for other in neighbours if other <= self.settings.regions)

    def between(self, pair: Pair) -> list[Connection]:
        return [c for c in self.connections.values() if c.ends == pair]

    def plan_dial(self, pair: Pair) -> None:
        if pair not in self._dialling:
            self._dialling.add(pair)
            self.plan(20 + self.rng.randrange(200), self._dial, pair)

    def _dial(self, pair: Pair) -> None:
        self._dialling.discard(pair)
        if self.between(pair):
            return
        if pair in self.cut or not all(self.runs(end) for end in pair):
            self.plan_dial(pair)
        else:
            self.connect(pair)

    def connect(self, pair: Pair) -> None:
        """Connect two running regions, even if they are connected already."""
        self.statistics["connections"] += 1
        connection = Connection(self.statistics["connections"], pair)
        self.connections[connection.number] = connection
        self.note(f"link {pair} opens")
        self.opened(connection)
        for index, end in enumerate(pair):
            other = pair[1 - index]
            self.machines[end].node.peer_met(address_of(other), self.machines[other].config.region)
            self.machines[end].node.link_opened(connection.number, index == 0, self.clock_ms(end))
            self._wake(connection, end)

    def _wake(self, connection: Connection, sender: int) -> None:
        """Plan a pull: this side may have something to send."""
        if not connection.busy[sender]:
            connection.busy[sender] = True
            self.plan(self.settings.pull_ms, self._pull, connection, sender)

    def _pull(self, connection: Connection, sender: int) -> None:
        connection.busy[sender] = False
        if connection.open[sender] and self.runs(sender):
            self.act(sender, lambda: self._pull_one(connection, sender))

    def _pull_one(self, connection: Connection, sender: int) -> None:
        machine = self.machines[sender]
        message = machine.node.outgoing(connection.number, machine.config.limits.message_bytes, self.clock_ms(sender))
        if message is None:
            self.obey_verdict(connection, sender)
            return
        data = message.SerializeToString(deterministic=True)
        self.wire_checksum = crc32(data, self.wire_checksum)
        self.statistics["messages"] += 1
        self.statistics["bytes"] += len(data)
        self.sent(connection, sender, message, data)
        self._send(connection, sender, data)
        self._wake(connection, sender)

    def _send(self, connection: Connection, sender: int, data: bytes) -> None:
        receiver = connection.other(sender)
        if (sender, receiver) in self.clogged:
            connection.held[sender].append(data)
            return
        delay_ms = 1 + self.rng.randrange(400 if connection.ends in self.slow else 20)
        arrival_ms = max(connection.arrivals_ms[receiver], self.now_ms + delay_ms)
        connection.arrivals_ms[receiver] = arrival_ms
        self.plan(arrival_ms - self.now_ms, self._arrive, connection, receiver, data)

    def _arrive(self, connection: Connection, receiver: int, data: bytes) -> None:
        connection.arrived[receiver].append(data)
        self._read(connection, receiver)

    def _read(self, connection: Connection, receiver: int) -> None:
        """Deliver messages that have arrived; a paused machine reads them later, in the same order."""
        arrived = connection.arrived[receiver]
        while arrived and connection.open[receiver] and not self.machines[receiver].paused:
            data = arrived.popleft()
            self.act(receiver, partial(self._receive, connection, receiver, data))

    def resume(self, number: int) -> None:
        self.machines[number].paused = False
        for connection in self.connections_of(number):
            self._read(connection, number)

    def _receive(self, connection: Connection, receiver: int, data: bytes) -> None:
        machine = self.machines[receiver]
        machine.look_for_room()
        message = Message.FromString(data)
        self.arrived(connection, receiver, message, data)
        machine.node.receive(connection.number, message, self.clock_ms(receiver))
        self.turn(receiver)
        self.obey_verdict(connection, receiver)

    def unclog(self, direction: Pair) -> None:
        self.clogged.discard(direction)
        sender = direction[0]
        for connection in self.between((min(direction), max(direction))):
            held, connection.held[sender] = connection.held[sender], []
            for data in held:
                self._send(connection, sender, data)

    def obey_verdict(self, connection: Connection, end: int) -> None:
        reason = self.machines[end].node.link_verdict(connection.number) if connection.open[end] else None
        if reason is not None:
            self.note(f"link {connection.ends} is closed by {end}: {reason}")
            self.close_end(connection, end, reason)
            self.plan(1 + self.rng.randrange(30), self.close_end, connection, connection.other(end), "closed by peer")

    def close_end(self, connection: Connection, end: int, reason: str) -> None:
        if not connection.open[end]:
            return
        connection.open[end] = False
        self.closed(connection, end, reason)
        if self.machines[end].up:
            self.machines[end].node.link_closed(connection.number, reason, self.clock_ms(end))
            self.act(end, lambda: self.turn(end))
        self.forget_closed()

    def forget_closed(self) -> None:
        """Drop connections that are closed on both sides; a pair without any left dials again."""
        for connection in [c for c in self.connections.values() if not any(c.open.values())]:
            del self.connections[connection.number]
            if not self.between(connection.ends):
                self.plan_dial(connection.ends)

    def lose_connections(self, pair: Pair) -> None:
        for connection in self.between(pair):
            for end in pair:
                self.plan(self.rng.randrange(30), self.close_end, connection, end, "connection lost")
