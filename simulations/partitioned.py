"""The clients of a partitioned stream in a world: producers, instances of groups, operators.

They call any running region, wait for the reply as long as its process lives, stall, die, and come back through
another region with the bookmark that they had. As in the runtime, a reply counts once the turn of its
machine is performed, and is durable if `fsync` is `always`.

When everything is healed, producers and operators stop, instances no longer die, and they read on until nothing is
left. Then they call only the home and the regions that are linked to it: any other region would have to take over, then
the former home would take over again, and so on.

All of this has a random source of its own, so worlds without a partitioned stream are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from crdtstream.core.effects import Key
from crdtstream.core.values.entry_id import ID_MIN, mint
from crdtstream.partitions.calls import (
    BookmarkReply,
    CommitCall,
    HeartbeatCall,
    HomeCall,
    HomeReply,
    JoinCall,
    PollCall,
    PollReply,
    PutCall,
    RefusalReply,
    ResetCall,
    ResetReply,
    call_row,
    expect,
    refusal_of,
    reply_row,
)
from crdtstream.partitions.keys import partition_key
from crdtstream.partitions.reading import read_polled
from crdtstream.partitions.state import StreamState
from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.partitions.values import (
    AT_TIME,
    STARTS,
    UNKNOWN_GROUP,
    Bookmark,
    NewMessage,
    Polled,
    Refused,
    StreamSpec,
)
from simulations.network import START_MS, Network, Watcher
from simulations.stream_clients import STREAM, Delivery, Instance, Put, StreamClients

FOREVER_MS = 1 << 46
GROUPS_MAX = 50
PATIENT_MS = 5_000
CLOCK_MS_MAX = 1 << 40
NO_REPLY = RefusalReply("no reply", "the process ended")
MISSING = (UNKNOWN_GROUP, "unknown stream")
Done = Callable[[HomeReply], None]


@dataclass
class Pending:
    """A call without a reply: at which start of which machine, and from which position of the log it counts."""

    number: int
    starts: int
    done: Done
    reply: HomeReply | None = None
    position: int = 0


class Partitioned(StreamClients, Watcher):
    """The clients of one stream. `kinds` says where each group begins."""

    def __init__(self, world: Network, rng: Random, is_healing: Callable[[], bool]) -> None:
        retention_ms = rng.choice([FOREVER_MS, FOREVER_MS, 900, 2_500])
        super().__init__(StreamSpec(STREAM, rng.choice([1, 2, 3, 5]), retention_ms))
        self.world = world
        self.rng = rng
        self._is_healing = is_healing
        self.kinds = {f"g{index}": rng.choice(STARTS) for index in range(rng.choice([1, 1, 2]))}
        self.times = {group: START_MS + rng.randrange(3_000) for group in self.kinds}
        self.operated_ms = rng.choice([0, 300, 1_000, 3_000])
        self._pending: dict[tuple[int, int], Pending] = {}
        self._named = 0
        self._moment = 0
        world.watch(self)

    def begin(self) -> None:
        plan, rng = self.world.plan, self.rng
        plan(0, self._create)
        for _ in range(rng.choice([1, 2, 3])):
            plan(rng.randrange(200), self._produce, rng.choice([30, 100, 300]))
        for group in self.kinds:
            for _ in range(rng.choice([1, 2, 3, 4, 6])):
                plan(rng.randrange(600), self._come, group)
        if self.operated_ms:
            plan(rng.randrange(self.operated_ms), self._operate)

    @property
    def healing(self) -> bool:
        return self._is_healing()

    def _runs(self, number: int) -> bool:
        machine = self.world.machines[number]
        return machine.up and not machine.paused

    def streams_of(self, number: int) -> PartitionedStreams:
        return self.world.machines[number].node.partitions

    # Calls

    def call(self, number: int, call: HomeCall, done: Done) -> None:
        self.told.calls += 1
        self.world.log_event(f"{number}> {shown(call_row(call))}")
        self._slice(number, lambda: self._submit(number, call, done), done)

    def _submit(self, number: int, call: HomeCall, done: Done) -> None:
        asked = self.streams_of(number).submit(call)
        self._pending[(number, asked)] = Pending(number, self.world.machines[number].starts, done)

    def _slice(self, number: int, work: Callable[[], None], done: Done) -> None:
        """Run work between two commands, in a turn of its own; `done` hears of a refusal."""
        self.world.act(number, lambda: self._turn(number, work, done))

    def _turn(self, number: int, work: Callable[[], None], done: Done) -> None:
        machine = self.world.machines[number]
        reply: HomeReply | None = NO_REPLY
        try:
            machine.look_for_room()
            machine.node.begin_slice(self.world.clock_ms(number))
            reply = refused_by(work)
            machine.node.end_slice()
            self.world.turn(number)
        finally:
            # The process may end before it hears of the work, or after it refused it.
            if reply is not None:
                self._answer(done, reply)

    def _answer(self, done: Done, reply: HomeReply) -> None:
        self.world.plan(0, done, reply)

    def turned(self, world: Network, number: int) -> None:
        """Take the replies that came, and hand on those that count."""
        machine = world.machines[number]
        for asked, reply in self.streams_of(number).drain_replies():
            pending = self._pending.get((number, asked))
            if pending is not None:
                pending.reply, pending.position = reply, machine.log.last_position
        holds = machine.node.outputs.holds
        for key, pending in list(self._pending.items()):
            durable = not holds or pending.position <= machine.log.synced_position
            if key[0] == number and pending.reply is not None and durable:
                del self._pending[key]
                self._answer(pending.done, pending.reply)

    def stopping(self, world: Network, number: int, fault: str) -> None:
        """What was asked of this process stays without a reply."""
        for key in [key for key in self._pending if key[0] == number]:
            self._answer(self._pending.pop(key).done, NO_REPLY)

    def _region(self) -> int | None:
        """A machine that runs; while everything is healed, the home or one that is linked to it."""
        numbers = [number for number in sorted(self.world.machines) if self._runs(number)]
        if self.healing:
            numbers = self._reaching(numbers)
        return self.rng.choice(numbers) if numbers else None

    def _reaching(self, numbers: list[int]) -> list[int]:
        """Return the home among these machines, and those that are linked to it. If two processes have the number of
        the home, only the home is called, because each would take over from the other.
        """
        world = self.world
        serving = [number for number in numbers if world.machines[number].node.membership.serving()]
        holding = [number for number in serving if self.streams_of(number).ids()]
        if not holding:
            return serving[:1]
        head = max(holding, key=lambda number: self.streams_of(number).epoch(STREAM))
        _, origin = self.streams_of(head).epoch(STREAM)
        region = self.streams_of(head).home(STREAM)
        meant = [number for number, machine in world.machines.items() if machine.config.region == region]
        homes = [number for number in serving if world.machines[number].node.replica.applied.origin == origin]
        if not homes or len(meant) > 1:
            return homes or [number for number in serving if number in meant]
        linked = [one.other(homes[0]) for one in world.connections_of(homes[0]) if len(one.joined) == 2]
        return [number for number in serving if number == homes[0] or number in linked]

    # The stream

    def _create(self) -> None:
        """Create the stream through a region, until one has it."""
        number = self._region()
        held = [one for one, machine in self.world.machines.items() if machine.up and self.streams_of(one).ids()]
        if not held:
            self.world.plan(100, self._create)
            if number is not None and self.world.machines[number].node.membership.serving():
                self.world.log_event(f"{number}> create {self.spec.partitions} {self.spec.retention_ms}")
                self._slice(number, lambda: self.streams_of(number).create(self.spec), ignore)

    # Producers

    def _produce(self, interval_ms: int) -> None:
        if self.healing:
            return
        self.world.plan(1 + self.rng.randrange(2 * interval_ms), self._produce, interval_ms)
        number = self._region()
        if number is not None and self.rng.random() < 0.1:
            self._add_by_redis(number)
        elif number is not None:
            messages = [self._message() for _ in range(self.rng.choice([1, 1, 2, 5]))]
            for one in messages:
                self._record_sent(one.value, Put(one.partition, self.world.now_ms, number=number))
            self.call(number, PutCall(STREAM, messages), lambda reply: self._was_put(messages, reply))

    def _add_by_redis(self, number: int) -> None:
        """A client of the Redis port adds a message, with an ID of its own; it counts once the home has numbered it."""
        message = self._message()
        partition, value = message.partition, message.value
        known = self.streams_of(number).ids() and self.world.machines[number].node.membership.serving()
        # Above an ID from a clock that is wrong by millennia no epoch has room, and an operator has to help.
        if not known or self.world.clock_ms(number) > CLOCK_MS_MAX:
            return
        self._record_sent(value, Put(partition, self.world.now_ms, number=number))
        self.world.log_event(f"{number}> XADD to partition {partition}: {value.decode()}")
        self._slice(number, lambda: self._add(number, partition_key(STREAM, partition), value), ignore)

    def _add(self, number: int, key: Key, value: bytes) -> None:
        replica = self.world.machines[number].node.replica
        stream = replica.keyspace.find(key)
        entry_id = mint(replica.keyspace.now_ms, ID_MIN if stream is None else stream.top, replica.residue)
        if entry_id is not None and self.world.machines[number].node.context.standing.writable:
            replica.add_entry(key, entry_id, [b"value", value])

    def _message(self) -> NewMessage:
        self._named += 1
        return NewMessage(self.rng.randrange(self.spec.partitions), self.rng.choice([None, b"k"]), b"m%d" % self._named)

    def _was_put(self, messages: list[NewMessage], reply: HomeReply) -> None:
        self.world.log_event(f"put {[one.value.decode() for one in messages]} = {show(reply)}")
        for one in messages:
            put = self.told.puts[one.value]
            put.answered, put.answered_at = not isinstance(reply, RefusalReply), self._next_moment()
            put.answered_ms = self.world.now_ms

    def _record_sent(self, value: bytes, put: Put) -> None:
        put.sent_at = self._next_moment()
        self.told.puts[value] = put
        self.world.notify("putting", value, put)

    def _next_moment(self) -> int:
        self._moment += 1
        return self._moment

    # Instances

    def _come(self, group: str) -> None:
        """A new instance joins the group."""
        self._named += 1
        timeout_ms = self.rng.choice([60, 200, 600, 2_000])
        commits = self.rng.random() < 0.7
        instance = Instance(group, f"i{self._named}", 1, timeout_ms, commits)
        self.instances.append(instance)
        self._move(instance)
        self._step(instance)

    def _move(self, instance: Instance) -> None:
        instance.at = self._region() or instance.at

    def _step(self, instance: Instance) -> None:
        """What the instance does next, and when it does something again."""
        if instance.gone:
            return
        if self.healing:
            # Groups come to rest.
            instance.timeout_ms = PATIENT_MS
        rng = self.rng
        draw = 1.0 if self.healing else rng.random()
        stall_ms = rng.choice([300, 1_000]) if draw < 0.04 else 0
        self.world.plan(10 + rng.randrange(120) + stall_ms, self._step, instance)
        if draw < 0.06:
            self._move(instance)
        elif draw < 0.08:
            self._die(instance)
            return
        if self.healing and instance.at not in self._reaching(sorted(self.world.machines)):
            self._move(instance)
        if not instance.busy and self._runs(instance.at):
            self._ask(instance)

    def _die(self, instance: Instance) -> None:
        """Die, as the runtime of a consumer that is replaced by another one later."""
        instance.gone = True
        self.world.log_event(f"{instance.name} dies")
        self.world.plan(self.rng.randrange(1_000), self._come, instance.group)

    def _ask(self, instance: Instance) -> None:
        instance.busy = True
        if instance.bookmark is None:
            kind, time_ms = self.kinds[instance.group], self.times[instance.group]
            joining = JoinCall(STREAM, instance.group, kind, time_ms, GROUPS_MAX)
            self.call(instance.at, joining, lambda reply: self._joined(instance, reply))
            return
        kind = self.rng.choice(["poll"] * 4 + ["heartbeat"] + ["commit"] * (1 if instance.commits else 3))
        at, bookmark = instance.at, instance.bookmark
        if kind == "poll":
            polling = PollCall(STREAM, instance.group, instance.name, instance.timeout_ms, bookmark, instance.commits)
            self.call(at, polling, lambda reply: self._polled(instance, at, bookmark, reply))
        else:
            made = HeartbeatCall if kind == "heartbeat" else CommitCall
            moving = made(STREAM, instance.group, instance.name, instance.timeout_ms, bookmark)
            self.call(at, moving, lambda reply: self._moved_on(instance, kind, reply))

    def _joined(self, instance: Instance, reply: HomeReply) -> None:
        instance.busy = False
        self.world.log_event(f"{instance.name} joins {show(reply)}")
        if isinstance(reply, BookmarkReply):
            instance.bookmark = reply.bookmark

    def _moved_on(self, instance: Instance, kind: str, reply: HomeReply) -> None:
        instance.busy = False
        self.world.log_event(f"{instance.name} {kind} {show(reply)}")
        if isinstance(reply, RefusalReply):
            self._refused(instance, reply)
        else:
            instance.bookmark = expect(reply, BookmarkReply).bookmark

    def _refused(self, instance: Instance, reply: RefusalReply) -> None:
        if reply.code in MISSING:
            instance.bookmark = None
        elif self.rng.random() < 0.2:
            self._move(instance)

    def _polled(self, instance: Instance, at: int, before: Bookmark, reply: HomeReply) -> None:
        self.world.log_event(f"{instance.name} poll {show(reply)}")
        if isinstance(reply, RefusalReply):
            instance.busy = False
            self._refused(instance, reply)
            return
        polled = expect(reply, PollReply).polled
        self.world.notify("polled", instance, polled)
        self.world.plan(self.rng.randrange(20), self._look, instance, at, before, polled)

    def _look(self, instance: Instance, at: int, before: Bookmark, polled: Polled) -> None:
        """Read what the poll gave, in the region that was asked."""
        if instance.gone or not self._runs(at):
            instance.busy = False
        else:
            self._slice(at, lambda: self._read(instance, at, before, polled), lambda _: self._free(instance))

    def _free(self, instance: Instance) -> None:
        instance.busy = False

    def _read(self, instance: Instance, at: int, before: Bookmark, polled: Polled) -> None:
        count_max = self.rng.choice([1, 4, 100])
        order = sorted(polled.positions)
        self.rng.shuffle(order)
        found, after = read_polled(self.streams_of(at), STREAM, polled, before, order, count_max, 1 << 20)
        delivery = Delivery(at, instance, after.epoch, polled.start, found)
        self._named += 1
        key = (at, -self._named)
        pending = Pending(at, self.world.machines[at].starts, lambda reply: self._took(delivery, polled, after, reply))
        # As for a call: what was read counts once it is durable under `always`.
        pending.reply, pending.position = ResetReply(None), self.world.machines[at].node.last_position
        self._pending[key] = pending

    def _took(self, delivery: Delivery, polled: Polled, after: Bookmark, reply: HomeReply) -> None:
        instance = delivery.instance
        instance.busy = False
        if isinstance(reply, RefusalReply) or instance.gone:
            return
        instance.bookmark = after
        instance.drained = None
        knows = self.streams_of(delivery.number).knows(STREAM, polled.epoch)
        if not delivery.messages and knows:
            instance.drained = polled
        told = self.told.delivered.setdefault((instance.group, delivery.start), set())
        told.update(message.value for _, message in delivery.messages)
        names = [f"{at}:{one.offset}={one.value.decode()}" for at, one in delivery.messages]
        self.world.log_event(f"{instance.name} reads at {delivery.number} under {delivery.epoch}: {names}")
        self.world.notify("delivered", delivery)

    # Operators

    def _operate(self) -> None:
        """Take a home over, or move a group."""
        if self.healing:
            return
        self.world.plan(self.rng.randrange(2 * self.operated_ms), self._operate)
        number = self._region()
        if number is None:
            return
        if self.rng.random() < 0.6:
            self.world.log_event(f"{number}> take over")
            self._slice(number, lambda: self.streams_of(number).take_over(STREAM), ignore)
        else:
            self._reset(number, self.rng.choice(sorted(self.kinds)))

    def _reset(self, number: int, group: str) -> None:
        kind = self.rng.choice(STARTS)
        time_ms = self.world.now_ms - self.rng.randrange(1_000) if kind == AT_TIME else 0
        self.call(number, ResetCall(STREAM, group, kind, time_ms), lambda reply: self._was_reset(group, reply))

    def _was_reset(self, group: str, reply: HomeReply) -> None:
        self.world.log_event(f"reset {group} {show(reply)}")
        if not isinstance(reply, RefusalReply):
            self.told.resets[group] = self.told.resets.get(group, 0) + 1

    # The end

    def settled(self) -> bool:
        """True if nothing is stale and the instances of every group have just read nothing of all partitions."""
        if not self.streams_of(1).ids():
            return True
        state = self.world.machines[1].node.partitions.state(STREAM)
        if any(one.has_stale() for one in state.partitions()):
            return False
        return all(self._is_drained(group, state) for group in self.kinds)

    def _is_drained(self, group: str, state: StreamState) -> bool:
        epoch = state.epochs.current()
        live = [one for one in self.instances if one.group == group and not one.gone]
        drained = [one.drained for one in live if one.drained is not None and one.drained.epoch == epoch]
        newest = max([polled.generation for polled in drained], default=0)
        positions = [item for polled in drained if polled.generation == newest for item in polled.positions.items()]
        # What was numbered again in the meantime is not read yet.
        left = any(state.partitions()[at].read(position, 1, 1) for at, position in positions)
        return len(positions) == self.spec.partitions and not left


def refused_by(work: Callable[[], None]) -> HomeReply | None:
    """Run the work; return its refusal, or None where the reply comes later."""
    try:
        work()
    except Refused as error:
        return refusal_of(error)
    return None


def ignore(reply: HomeReply) -> None:
    """Nobody waits for this."""


def show(reply: HomeReply) -> str:
    return shown(reply_row(reply))


def shown(row: list[object]) -> str:
    return str(row).replace(" ", "")
