"""Machines, the connections between them, and the events to come: one network for worlds, scenarios and tests.

A connection is opened and closed at each of its ends, keeps the order of its messages, and loses them when it closes.
Two connections may exist between a pair of regions for a while; messages of both arrive in any order. What moves, and
when, is decided by subclasses: a `World` plans everything at random times, a `Cluster` does what a test asks for at
once. Events at one moment happen in the order in which they were planned.

Replies to clients and effects of every region are kept for the checkers, which are watchers.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from zlib import crc32

from crdtstream.core.effects import Key, StreamDeleted
from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.partitions.values import Polled
from crdtstream.replication.wire_pb2 import Message
from crdtstream.scenarios.reply import Value, read_replies
from simulations.disk import Misses
from simulations.history import History, Violation
from simulations.letter_clients import LETTERS
from simulations.machine import CLIENT, Machine, Unanswered
from simulations.oracle import Expected, Oracle
from simulations.settings import Settings
from simulations.shard_refusals import Refused, WrongLink
from simulations.spill_clients import Transaction
from simulations.stream_clients import Delivery, Instance, Put, StreamClients
from simulations.workload import KEYS

START_MS = 2**33
ASKER = 1000
Pair = tuple[int, int]
T = TypeVar("T")


def address_of(number: int) -> str:
    return f"region{number}:1"


class Flow:
    """What is on its way to one end of a connection, in order. A world plans when it arrives: the last message at
    `arrival_ms`; `arrived` messages are there and not read yet, `held` wait until they are let through. If `pulled`,
    the other end will soon be asked for more.
    """

    __slots__ = ("arrival_ms", "arrived", "flying", "held", "pulled")

    def __init__(self) -> None:
        self.flying: deque[bytes] = deque()
        self.arrival_ms = self.arrived = self.held = 0
        self.pulled = False


class Connection:
    """The life of one link: the ends at which it is open, and the flow to each end."""

    def __init__(self, number: int, ends: Pair) -> None:
        self.number = number
        self.ends = ends
        self.joined: set[int] = set()
        self.flows = {end: Flow() for end in ends}

    @property
    def open(self) -> bool:
        return bool(self.joined)

    def other(self, end: int) -> int:
        return self.ends[1] if end == self.ends[0] else self.ends[0]


@dataclass
class Stop:
    """Why a process is down, and its previous fsync policy, its origin, and the origins of its region in its vector."""

    fault: str
    policy: str
    origin: int
    written: list[int]


class Watcher:
    """Observes the events of a network: the base of checkers and of the recorders for diagrams and scenarios. Bytes
    that were sent are the same object when they arrive, so `is` connects both ends of an arrow.
    """

    def looked(self, world: Network) -> None:
        """One planned event is over: faults may have begun or ended."""

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        """A client of region `number` has sent a command."""

    def put_off(self, world: Network, number: int, argv: list[bytes]) -> None:
        """A command waits for spilled blocks before it does anything; it is `asked` again once it runs."""

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        """A client of region `number` has received a reply."""

    def refused(self, world: Network, number: int, refused: Refused) -> None:
        """A client has asked a shard for what it must refuse."""

    def linked_wrongly(self, world: Network, link: WrongLink) -> None:
        """Two shards were linked that must not be."""

    def turned(self, world: Network, number: int) -> None:
        """A region has finished a turn."""

    def polled(self, world: Network, instance: Instance, polled: Polled) -> None:
        """An instance of a group knows which partitions it owns."""

    def putting(self, world: Network, value: bytes, put: Put) -> None:
        """A producer is about to send a message."""

    def delivered(self, world: Network, delivery: Delivery) -> None:
        """An instance of a group has read messages, or none."""

    def ticked(self, world: Network, number: int) -> None:
        """A region has handled a tick."""

    def synced(self, world: Network, number: int) -> None:
        """A region is about to sync its log."""

    def saving(self, world: Network, number: int) -> None:
        """A region is about to begin a checkpoint, or to continue it."""

    def saved(self, world: Network, number: int) -> None:
        """A region has completed a checkpoint."""

    def opened(self, world: Network, connection: Connection) -> None:
        """A connection between two regions was opened."""

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        """A message is being sent."""

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        """A message is about to be handled."""

    def closed(self, world: Network, connection: Connection, end: int, reason: str) -> None:
        """One end of a connection was closed."""

    def stopping(self, world: Network, number: int, fault: str) -> None:
        """A process is about to end."""

    def stopped(self, world: Network, number: int, fault: str) -> None:
        """A process has ended, with the consequences of the fault."""

    def started(self, world: Network, number: int, fault: str) -> None:
        """A process has recovered from its disk; `fault` is what had ended it."""


EVENTS = tuple(name for name in vars(Watcher) if not name.startswith("_"))


class Network:
    """Machines by number, and what happens between them. A subclass decides when."""

    # Which shard of their regions the machines are, and of how many.
    shard = 0
    shards = 1

    def __init__(self, settings: Settings, now_ms: int, pairs: list[Pair], seed: int = 0) -> None:
        self.seed = seed
        self.settings = settings
        self.now_ms = now_ms
        self.pairs = pairs
        # The streams of clients, and the key of their dead letters.
        self.keys = KEYS
        self.letters = LETTERS
        self.oracle = Oracle()
        self.history = History()
        self.trace: list[str] = []
        self.wire_checksum = 0
        self.statistics = {"commands": 0, "messages": 0, "bytes": 0, "connections": 0, "faults": 0}
        self.injected: Counter[str] = Counter()
        self.disks_lost: set[int] = set()
        self.stops: dict[int, Stop] = {}
        self.machines: dict[int, Machine] = {}
        # The clients of a partitioned stream, in worlds that have one.
        self.partitioned: StreamClients | None = None
        self.connections: dict[int, Connection] = {}
        self._events: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._planned = 0
        self._looks = 0
        # In worlds that spill.
        self.misses: Misses | None = None
        self._heard: dict[str, list[Callable[..., None]]] = {event: [] for event in EVENTS}

    def watch(self, watcher: Watcher) -> None:
        """Tell a watcher of the events whose method it overrides, and of no others."""
        for event, heard in self._heard.items():
            if getattr(type(watcher), event) is not getattr(Watcher, event):
                heard.append(getattr(watcher, event))

    def notify(self, event: str, *words: object) -> None:
        for hear in self._heard[event]:
            self.look(partial(hear, self, *words))

    def look(self, ask: Callable[[], T]) -> T:
        """Let the simulator look at what regions hold: it finds everything at once, and that counts for nothing."""
        misses = self.misses
        if misses is None or misses.looking:
            return ask()
        misses.looking = True
        try:
            return ask()
        finally:
            misses.looking = False

    @contextmanager
    def named_violations(self) -> Iterator[None]:
        """Let a violation say of which shard it is, where there are several."""
        try:
            yield
        except Violation as violation:
            if self.shards == 1 or violation.text.startswith("shard "):
                raise
            raise Violation(violation.checker, f"shard {self.shard}, {violation.text}") from violation

    # Events

    def plan(self, delay_ms: int, action: Callable[..., None], *words: object) -> None:
        self._planned += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._planned, action, words))

    def log_event(self, text: str) -> None:
        self.trace.append(f"{self.now_ms - START_MS} {text}")

    def run_until(self, done: Callable[[], bool], bound_ms: int) -> None:
        """Let events happen; raises Violation when time is over."""
        while not done():
            self.step(bound_ms)

    def step(self, bound_ms: int) -> None:
        """Let one event happen; raises Violation when time is over."""
        self.next_event(bound_ms)
        if self.now_ms > bound_ms:
            raise Violation("convergence", f"not quiet in time after everything was healed: {self.state()}")

    def next_ms(self) -> int:
        return self._events[0][0]

    def next_event(self, bound_ms: int) -> None:
        at_ms, _, action, words = heapq.heappop(self._events)
        self.now_ms = at_ms
        if at_ms <= bound_ms:
            action(*words)
            self.notify("looked")

    def state(self) -> str:
        return "; ".join(
            f"{number} {m.node.replica.applied.vector.as_dict()} {m.node.membership.waiting_for()}"
            for number, m in self.machines.items()
        )

    # What a subclass decides

    def wake(self, connection: Connection, sender: int) -> None:
        """This end of a connection may have something to send."""

    def lost(self, pair: Pair) -> None:
        """The last connection of a pair is gone."""

    def act(self, number: int, action: Callable[[], None]) -> None:
        """Perform an action of a process, which may end during it."""
        action()

    # Turns

    def clock_ms(self, number: int) -> int:
        return max(1, self.now_ms + self.machines[number].skew_ms)

    def turn(self, number: int) -> None:
        self.machines[number].perform()
        self.turned(number)

    def turned(self, number: int) -> None:
        """Finish a turn: let checkers look, wake connections."""
        self.notify("turned", number)
        self.machines[number].logged.clear()
        for connection in self.connections_of(number):
            self.wake(connection, number)

    def tick_one(self, number: int) -> None:
        self.machines[number].node.tick(self.clock_ms(number))
        self.turn(number)
        self.notify("ticked", number)

    # Connections

    def connections_of(self, number: int) -> list[Connection]:
        return [c for c in self.connections.values() if number in c.joined]

    def between(self, pair: Pair) -> list[Connection]:
        return [c for c in self.connections.values() if c.ends == pair]

    def connect(self, pair: Pair) -> Connection:
        """Connect two running regions, even if they are connected already."""
        self.statistics["connections"] += 1
        connection = Connection(self.statistics["connections"], pair)
        connection.joined.update(pair)
        self.connections[connection.number] = connection
        self.log_event(f"link {pair} opens")
        self.notify("opened", connection)
        for index, end in enumerate(pair):
            self.machines[end].node.link_opened(connection.number, index == 0, self.clock_ms(end))
            self.wake(connection, end)
        return connection

    def send_next(self, connection: Connection, sender: int) -> bool:
        """Send one message; False if the region has nothing to say."""
        machine = self.machines[sender]
        message = machine.node.outgoing(connection.number, machine.config.limits.message_bytes, self.clock_ms(sender))
        if message is None:
            return False
        data = message.SerializeToString(deterministic=True)
        self.wire_checksum = crc32(data, self.wire_checksum)
        self.statistics["messages"] += 1
        self.statistics["bytes"] += len(data)
        self.notify("sent", connection, sender, message, data)
        connection.flows[connection.other(sender)].flying.append(data)
        return True

    def receive_next(self, connection: Connection, receiver: int) -> None:
        """Receive the oldest message of a connection."""
        data = connection.flows[receiver].flying.popleft()
        message = Message.FromString(data)
        self.notify("received", connection, receiver, message, data)
        self.machines[receiver].node.receive(connection.number, message, self.clock_ms(receiver))
        self.turn(receiver)

    def close_end(self, connection: Connection, end: int, reason: str) -> None:
        """Close one end; a connection without any is forgotten."""
        if end not in connection.joined:
            return
        connection.joined.discard(end)
        self.notify("closed", connection, end, reason)
        if self.machines[end].up:
            self.machines[end].node.link_closed(connection.number, reason, self.clock_ms(end))
            self.act(end, lambda: self.turn(end))
        self.forget_closed()

    def forget_closed(self) -> None:
        for connection in [c for c in self.connections.values() if not c.joined]:
            del self.connections[connection.number]
            if not self.between(connection.ends):
                self.lost(connection.ends)

    # Processes

    def stopping(self, number: int, fault: str) -> None:
        """A process is about to end."""
        self.notify("stopping", number, fault)
        machine = self.machines[number]
        machine.up = machine.paused = False
        applied = machine.node.replica.applied
        written = [origin for origin in applied.vector.as_dict() if region_of(origin) == machine.config.region]
        self.stops[number] = Stop(fault, machine.config.fsync, applied.origin, written)

    def started(self, number: int) -> None:
        """A process has recovered from its disk."""
        stop, recovered = self.stops.pop(number), self.machines[number].node.replica.applied.vector
        for origin in stop.written:
            self.history.record_loss(origin, recovered.get(origin), stop.fault, stop.policy)
        self.notify("started", number, stop.fault)

    # Clients

    def command(self, number: int, client_id: int, argv: list[bytes]) -> None:
        """Let a client send a command, or a transaction."""
        for queued in [[b"MULTI"], *argv.queued] if isinstance(argv, Transaction) else ():
            self.command(number, client_id, queued)
        machine = self.machines[number]
        asked = Unanswered(argv, machine.node.replica.applied.vector.copy(), machine.creates_of(argv))
        machine.unanswered.setdefault(client_id, []).append(asked)
        self.notify("asked", number, argv)
        machine.node.execute(client_id, argv, self.clock_ms(number))
        asked.dot = machine.dot_after(argv)
        self.statistics["commands"] += 1
        self._put_off(number, client_id, asked)

    def _put_off(self, number: int, client_id: int, asked: Unanswered) -> None:
        """Note a command that waits for blocks, and so has done nothing yet."""
        machine = self.machines[number]
        if machine.waits_for_blocks(client_id):
            machine.put_off[client_id] = asked
            self.notify("put_off", number, asked.argv)

    def run_again(self, number: int) -> None:
        """Let commands that were put off run if their blocks were read."""
        machine = self.machines[number]
        again = {one: asked for one, asked in machine.put_off.items() if not machine.waits_for_blocks(one)}
        for client_id, asked in again.items():
            del machine.put_off[client_id]
            asked.seen, asked.creates = machine.node.replica.applied.vector.copy(), machine.creates_of(asked.argv)
            self.notify("asked", number, asked.argv)
        machine.node.serving.resume()
        for client_id, asked in again.items():
            asked.dot = machine.dot_after(asked.argv)
            self._put_off(number, client_id, asked)

    def execute(self, number: int, argv: list[bytes], client_id: int = CLIENT) -> bytes | None:
        """Run one command in a turn of its own; return its reply, or None if the client must wait."""
        self.command(number, client_id, argv)
        self.turn(number)
        return self.drain_replies(number, client_id)

    def drain_replies(self, number: int, client_id: int) -> bytes | None:
        """Take what a client was told, and note it."""
        machine = self.machines[number]
        told, asked = machine.pop_reply(client_id), machine.unanswered.get(client_id, [])
        for value in read_replies(told or b"") if asked else ():
            one = asked.pop(0)
            self.log_event(f"{number}> {b' '.join(one.argv).decode()} = {value}")
            self.notify("commanded", number, one.argv, value)
            self.history.record_command(number, one.argv, value, one.dot, one.seen, one.creates)
        if not asked:
            machine.unanswered.pop(client_id, None)
        return told

    def ask(self, number: int, *words: bytes) -> bytes:
        """Return the reply to a command that is not recorded in the history."""
        machine = self.machines[number]
        if ASKER not in machine.node.context.clients:
            machine.connect(ASKER, self.clock_ms(number))
        reply = self._answer(machine, list(words), self.clock_ms(number))
        assert reply is not None, words
        return reply

    def _answer(self, machine: Machine, argv: list[bytes], now_ms: int) -> bytes | None:
        """Let the region answer; blocks that it asks for are read now."""
        misses, reads_blocks = self.misses, machine.reads_blocks
        looking = misses is not None and misses.looking
        machine.reads_blocks = True
        if misses is not None:
            misses.looking = False
        reply = machine.execute(argv, now_ms, ASKER)
        if reply is None:
            machine.sync()
            reply = machine.pop_reply(ASKER)
        machine.reads_blocks = reads_blocks
        if misses is not None:
            misses.looking = looking
        return reply

    # Queries

    def quiet(self) -> bool:
        """Return whether every region serves, is a member, and has applied the same as the others, and no expiry is
        due.
        """
        self._looks += 1
        if self._looks % 16:
            return False
        vectors = [machine.node.replica.applied.vector for machine in self.machines.values()]
        return all(vector == vectors[0] for vector in vectors) and all(map(self._is_settled, self.machines.values()))

    def _is_settled(self, machine: Machine) -> bool:
        """Return whether a region is settled; of two processes with one region number, one must be a member."""
        node = machine.node
        ended = node.replica.applied.members.has_ended(node.replica.applied.origin)
        others = [one for one in self.machines.values() if one.config.region == machine.config.region]
        admitted = any(one.up and one.node.membership.admitted for one in others)
        belongs = machine.up and not ended and admitted
        return belongs and all(
            expires_ms >= self.now_ms for expires_ms in node.replica.keyspace.deadlines.times.values()
        )

    def expected(self) -> dict[Key, Expected]:
        """Return what every region must hold once all is quiet."""
        return self.oracle.expected(self.vector())

    def expired(self, key: Key) -> list[VersionVector]:
        """Return the vectors seen by those DELs of the key that were caused by its expiry."""
        late = self.oracle.late_effects(self.vector())
        return [context for _, context, effect in late if isinstance(effect, StreamDeleted) and effect.key == key]

    def vector(self) -> VersionVector:
        """Return the common applied vector once all is quiet."""
        return self.machines[1].node.replica.applied.vector

    def served(self) -> list[int]:
        """Return the regions that serve; a second process with one number may have to wait for ever."""
        return [number for number, machine in self.machines.items() if machine.node.membership.serving()]
