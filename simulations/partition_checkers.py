"""Checkers of partitioned streams: their sequences, what clients were told, and the rules of groups."""

from __future__ import annotations

from itertools import pairwise

from crdtstream.core.values.causality import Dot
from crdtstream.partitions.coordinator import GroupMembership
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.ownership import NOBODY
from crdtstream.partitions.state import Start, StreamState
from crdtstream.partitions.streams import UPKEEP_MS
from crdtstream.partitions.values import AT_TIME, LATEST, UNCOMMITTED, PartitionMessage, Polled
from simulations.checking import Checker, Sampled
from simulations.history_checkers import may_be_lost
from simulations.network import Network
from simulations.partition_oracle import Known, known_of
from simulations.stream_clients import STREAM, Delivery, Instance, StreamClients

ALL = 1 << 40
SLACK_MS = 3 * UPKEEP_MS


def state_in(world: Network, number: int) -> StreamState | None:
    """The stream as a region sees it, if there is one."""
    streams = world.machines[number].node.partitions
    return streams.state(STREAM) if world.partitioned is not None and streams.ids() else None


def memberships_in(world: Network, number: int) -> dict[str, GroupMembership]:
    return {} if world.partitioned is None else world.machines[number].node.partitions.memberships(STREAM)


def messages_of(state: StreamState, partition: int) -> list[PartitionMessage]:
    return state.partitions()[partition].read(0, ALL, ALL)


def known_at_end(world: Network, clients: StreamClients) -> Known:
    return known_of(world.oracle, clients.spec, world.vector())


def is_aged(known: Known, value: bytes) -> bool:
    """True if a home has removed a message of this content for its age."""
    return any(one.trimmed for dot in known.dots.get(value, []) for one in known.removals.get(dot, []))


class OneSequence(Checker):
    """All regions agree on the home, and on the messages of each partition and their offsets: those that the line of
    the highest epoch numbered, without a hole, at times that do not fall. While regions differ in what they know, two
    that know the same highest epoch never read different messages at one offset.
    """

    name = "one sequence"

    def __init__(self) -> None:
        self._read: dict[tuple[Epoch, int, int], bytes] = {}

    def delivered(self, world: Network, delivery: Delivery) -> None:
        for partition, message in delivery.messages:
            known = self._read.setdefault((delivery.epoch, partition, message.offset), message.value)
            if known != message.value:
                text = f"{partition}:{message.offset} under {delivery.epoch} is {known!r}, and {message.value!r}"
                self.fail(f"{text} in region {delivery.number}")
        for one, other in pairwise(delivery.messages):
            if one[0] == other[0] and (one[1].offset >= other[1].offset or one[1].time_ms > other[1].time_ms):
                self.fail(f"region {delivery.number} reads {one[0]}:{one[1].offset} before {other[1].offset}")

    def at_end(self, world: Network) -> None:
        clients, state = world.partitioned, state_in(world, 1)
        if clients is None or state is None:
            return
        known = known_at_end(world, clients)
        for number in world.machines:
            self._compare(world, number, self._expected(known, clients))

    def _expected(self, known: Known, clients: StreamClients) -> list[list[tuple[int, bytes, int]]]:
        found: list[list[tuple[int, bytes, int]]] = [[] for _ in range(clients.spec.partitions)]
        for dot, one in known.numbered.items():
            if known.lives(dot):
                found[one.partition].append((one.entry_id[1], one.value, one.time_ms))
        return [sorted(rows) for rows in found]

    def _compare(self, world: Network, number: int, expected: list[list[tuple[int, bytes, int]]]) -> None:
        state = state_in(world, number)
        assert state is not None, f"region {number} does not have the stream"
        for partition, rows in enumerate(expected):
            held = [(one.offset, one.value, one.time_ms) for one in messages_of(state, partition)]
            if held != rows:
                self.fail(f"region {number} has {held} in {partition}, expected {rows}")
            if any(one[2] > other[2] for one, other in pairwise(held)):
                self.fail(f"region {number}, partition {partition}: times fall: {held}")


class Dense(Checker):
    """Every offset below the next one was given to a message; it is there unless a home removed it."""

    name = "dense offsets"

    def at_end(self, world: Network) -> None:
        clients, state = world.partitioned, state_in(world, 1)
        if clients is None or state is None:
            return
        known = known_at_end(world, clients)
        given = {(one.partition, dot[0], one.entry_id) for dot, one in known.numbered.items()}
        line = known.line()
        for partition, found in enumerate(state.partitions()):
            ends = [starts[partition] for _, starts in line[1:]] + [found.next_offset()]
            for (epoch, starts), end in zip(line, ends, strict=True):
                for offset in range(starts[partition], end):
                    if (partition, epoch[1], (epoch[0], offset)) not in given:
                        self.fail(f"{partition}:{offset} of epoch {epoch} was given to no message")


class NoLostMessage(Checker):
    """A message that was answered can be read in the end, unless it was removed for its age, or its machine lost it
    before any other region had it.
    """

    name = "lost message"

    def at_end(self, world: Network) -> None:
        clients = world.partitioned
        if clients is None:
            return
        known = known_at_end(world, clients)
        made = known_of(world.oracle, clients.spec)
        for value, put in clients.told.puts.items():
            dots = known.dots.get(value, [])
            if not put.answered or any(known.lives(dot) for dot in dots) or is_aged(known, value):
                continue
            if dots or not any(may_be_lost(world, dot) for dot in made.dots.get(value, [])):
                self.fail(f"{value!r} in {put.partition}: answered and gone, it was {dots}")


class KeptForRetention(Checker):
    """No message is removed before its retention is over by the clock of the region that removes it, and none stays
    much longer.
    """

    name = "retention"

    def at_end(self, world: Network) -> None:
        clients, state = world.partitioned, state_in(world, 1)
        if clients is None or state is None:
            return
        known, retention_ms = known_at_end(world, clients), clients.spec.retention_ms
        for dot, removals in known.removals.items():
            one = known.numbered[dot]
            early = [one.clock_ms for one in removals if one.clock_ms - retention_ms <= known.numbered[dot].time_ms]
            if all(removal.trimmed for removal in removals) and len(early) == len(removals):
                self.fail(f"{one.value!r} of {one.time_ms} was removed at {early}, before {retention_ms} ms")
        for partition in range(clients.spec.partitions):
            for message in messages_of(state, partition):
                if message.time_ms < world.now_ms - retention_ms - SLACK_MS:
                    self.fail(f"{partition}:{message.offset} of {message.time_ms} is still there")


class OneOwner(Checker):
    """Within an epoch and a generation no partition has two owners; every partition has one after a call, shares differ
    by one at most, and nobody owns two while another owns none.
    """

    name = "one owner"

    def __init__(self) -> None:
        self._owned: dict[tuple[str, Epoch, int], dict[int, str]] = {}

    def polled(self, world: Network, instance: Instance, polled: Polled) -> None:
        owners = self._owned.setdefault((instance.group, polled.epoch, polled.generation), {})
        for partition in polled.positions:
            owner = owners.setdefault(partition, instance.name)
            if owner != instance.name:
                self.fail(f"{partition} of {instance.group} belongs to {owner} and {instance.name} in {polled.epoch}")

    def turned(self, world: Network, number: int) -> None:
        for group, membership in memberships_in(world, number).items():
            ownership = membership.ownership
            if ownership.instances:
                self._check_shares(f"region {number}, {group}", ownership.owners, list(ownership.instances))

    def _check_shares(self, where: str, owners: list[str], names: list[str]) -> None:
        if NOBODY in owners:
            self.fail(f"{where}: nobody owns {owners.index(NOBODY)}")
        shares = [owners.count(name) for name in names]
        if sum(shares) != len(owners):
            self.fail(f"{where}: an instance that left owns a partition: {owners}, {names}")
        if max(shares) - min(shares) > 1:
            self.fail(f"{where}: shares of {shares}")


class SilentOwner(Checker):
    """After a call no owner of a partition has been silent for longer than its timeout, by the clock of the home."""

    name = "silent owner"

    def __init__(self) -> None:
        self._until_ms: dict[tuple[int, str], dict[str, int]] = {}

    def turned(self, world: Network, number: int) -> None:
        clients = world.partitioned
        if clients is None:
            return
        timeouts = {one.name: one.timeout_ms for one in clients.instances}
        now_ms = world.machines[number].node.context.now_ms
        for group, membership in memberships_in(world, number).items():
            until_ms = {name: one.until_ms for name, one in membership.ownership.instances.items()}
            before = self._until_ms.get((number, group), {})
            self._until_ms[(number, group)] = until_ms
            # Only a call moves it. A clock that was set back may show any time that is left without one.
            if not any(at != before.get(name) and at == now_ms + timeouts[name] for name, at in until_ms.items()):
                continue
            for name in membership.ownership.owners:
                if name == NOBODY:
                    continue
                left_ms = until_ms[name] - now_ms
                if not 0 < left_ms <= timeouts[name]:
                    self.fail(f"region {number}, {group}: {name} stays {left_ms} of {timeouts[name]} ms")


class NothingSkipped(Sampled):
    """What lies between the start of a group and its committed offset was delivered to an instance, in every region at
    any time, unless a home removed it for its age, of which this region need not know yet. In the end everything was
    delivered that was sent after a group began, or that is not older than its start.
    """

    name = "skipped message"

    def __init__(self) -> None:
        super().__init__()
        self._began_ms: dict[tuple[str, Dot], int] = {}
        # As a start was first written. A home whose epoch does not count may write it again further back.
        self._made: dict[tuple[str, Dot], Start] = {}
        self._looked: dict[tuple[int, int], int] = {}

    def turned(self, world: Network, number: int) -> None:
        if world.partitioned is not None and world.machines[number].logged:
            self._record_starts(world, number)
        super().turned(world, number)

    def _record_starts(self, world: Network, number: int) -> None:
        state = state_in(world, number)
        if state is None or self._looked.get((number, world.machines[number].starts)) == state.version():
            return
        self._looked[(number, world.machines[number].starts)] = state.version()
        for group in state.groups():
            for start in state.starts_of(group):
                self._began_ms.setdefault((group, start.name), world.now_ms)
                self._made.setdefault((group, start.name), start)

    def look(self, world: Network, number: int) -> None:
        clients, state = world.partitioned, state_in(world, number)
        if clients is None or state is None:
            return
        for group in state.groups():
            starts = state.starts_of(group)
            if len(starts) == 1:
                self._check_committed(world, number, group, starts[0])

    def _check_committed(self, world: Network, number: int, group: str, start: Start) -> None:
        clients, state = world.partitioned, state_in(world, number)
        assert clients is not None and state is not None
        told = clients.told.delivered.get((group, start.name), set())
        # A home whose epoch does not count has moved the start back to where its own messages begin. Messages that
        # others had numbered between there and the real start of the group are not promised.
        rewritten = not state.epochs.counts(start.epoch)
        for partition in range(clients.spec.partitions):
            committed = state.committed(group, partition, start)
            made = self._made.get((group, start.name), start)
            first = max(first_of(state, partition, start), first_of(state, partition, made))
            for message in messages_of(state, partition) if committed != UNCOMMITTED else []:
                within = first <= message.offset <= committed
                missed = within and message.time_ms >= start.time_ms and message.value not in told
                if missed and rewritten and self._was_before(clients, group, start, message.value):
                    continue
                if missed and not is_aged(known_of(world.oracle, clients.spec), message.value):
                    where = f"region {number}, {group}: {partition}:{message.offset} {message.value!r}"
                    self.fail(f"{where} lies before {committed}, and was delivered to nobody")

    def at_end(self, world: Network) -> None:
        super().at_end(world)
        clients, state = world.partitioned, state_in(world, 1)
        if clients is None or state is None:
            return
        for group in state.groups():
            for start in state.starts_of(group):
                self._check_all(clients, state, group, start)

    def _was_before(self, clients: StreamClients, group: str, start: Start, value: bytes) -> bool:
        """True if a group that begins with later messages began after this one was sent."""
        began_ms = self._began_ms.get((group, start.name), 0)
        return start.kind == LATEST and clients.told.puts[value].sent_ms <= began_ms

    def _check_all(self, clients: StreamClients, state: StreamState, group: str, start: Start) -> None:
        told = clients.told.delivered.get((group, start.name), set())
        for partition in range(clients.spec.partitions):
            for message in messages_of(state, partition):
                before = self._was_before(clients, group, start, message.value)
                early = start.kind == AT_TIME and message.time_ms < start.time_ms
                if not before and not early and message.value not in told:
                    self.fail(f"{group} never got {partition}:{message.offset} {message.value!r} since {start.kind}")


def first_of(state: StreamState, partition: int, start: Start) -> int:
    """The offset at which a group begins, as far as later epochs have left it valid."""
    return state.epochs.clamp_offset(partition, start.offsets[partition], start.epoch) if start.offsets else 0


class CommitsRise(Checker):
    """What a home has committed for a group does not fall while it coordinates the group since one start. What it has
    adopted may: a former home that does not know of the epoch may drop the group, and then some is read again. An
    answered reset counts, and nothing from before it.
    """

    name = "commits"

    def __init__(self) -> None:
        self._committed: dict[tuple[int, str], tuple[GroupMembership, Dot, list[int]]] = {}
        self._looked: dict[tuple[int, int], int] = {}

    def turned(self, world: Network, number: int) -> None:
        memberships = memberships_in(world, number)
        state = state_in(world, number) if memberships and world.machines[number].logged else None
        if state is None or self._looked.get((number, world.machines[number].starts)) == state.version():
            return
        self._looked[(number, world.machines[number].starts)] = state.version()
        for group, membership in memberships.items():
            starts = state.starts_of(group)
            if (
                len(starts) == 1
                and state.epochs.current() == membership.epoch
                and starts[0].name == membership.start.name
            ):
                self._check_group(world, number, group, membership, state)

    def _check_group(
        self, world: Network, number: int, group: str, membership: GroupMembership, state: StreamState
    ) -> None:
        name = membership.start.name
        now = [own_commit(state, group, at, membership) for at in range(state.spec.partitions)]
        # A group that the home has dropped may come back as another home has written it: that is another membership.
        known, known_name, before = self._committed.get((number, group), (membership, name, now))
        falls = any(one < other for one, other in zip(now, before, strict=True))
        if known is membership and known_name == name and falls:
            self.fail(f"region {number}, {group}: committed {before}, then {now}")
        self._committed[(number, group)] = (membership, name, now)

    def at_end(self, world: Network) -> None:
        clients = world.partitioned
        if clients is None:
            return
        made = known_of(world.oracle, clients.spec)
        for group, count in clients.told.resets.items():
            if count > len(made.resets.get(group.encode(), ())):
                self.fail(f"{count} resets of {group} were answered, and the regions made {made.resets}")
        self._compare(world, clients)

    def _compare(self, world: Network, clients: StreamClients) -> None:
        states = [state for state in [state_in(world, number) for number in world.machines] if state is not None]
        rows = [self._row(state, clients.spec.partitions) for state in states]
        if any(row != rows[0] for row in rows):
            self.fail(f"regions differ: {rows}")

    def _row(self, state: StreamState, partitions: int) -> list[object]:
        """The home and the groups as a region sees them in the end."""
        named = [(group, start) for group in state.groups() for start in state.starts_of(group)]
        rows: list[object] = [state.home(), state.epochs.current()]
        rows += [
            (group, start.kind, start.resets, [state.committed(group, at, start) for at in range(partitions)])
            for group, start in named
        ]
        return rows


class GroupsStay(Checker):
    """A group that its home coordinates is there until the home drops it: a former home, which does not know of the
    epoch, cannot drop it because nobody uses it there.
    """

    name = "dropped group"

    def turned(self, world: Network, number: int) -> None:
        memberships = memberships_in(world, number)
        state = state_in(world, number) if memberships and world.machines[number].logged else None
        if state is None or not state.is_numbering():
            return
        epoch = state.epochs.current()
        for group, membership in memberships.items():
            if membership.epoch == epoch and not state.starts_of(group):
                self.fail(f"region {number}, {group}: dropped under {epoch} by another region")


def own_commit(state: StreamState, group: str, partition: int, membership: GroupMembership) -> int:
    """The last offset that the home of this membership has committed itself."""
    commits = state.commits(group, partition, membership.start)
    return max([offset for offset, epoch in commits if epoch == membership.epoch], default=UNCOMMITTED)


def partition_checkers() -> list[Checker]:
    return [
        OneOwner(),
        SilentOwner(),
        NothingSkipped(),
        CommitsRise(),
        GroupsStay(),
        NoLostMessage(),
        OneSequence(),
        Dense(),
        KeptForRetention(),
    ]
