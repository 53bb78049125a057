"""Links between shards that must not be linked: a wrong address among the peers, or a region with other shards.

Such a link lives for one moment: one end greets, the other one must refuse, and neither has anything of other regions
afterwards that it did not have before.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from crdtstream.core.values.causality import region_of
from crdtstream.replication.wire_pb2 import Message
from simulations.machine import Machine
from simulations.shard_refusals import WrongLink
from simulations.world import World

FIRST_LINK = 1 << 30
MESSAGES_MAX = 8
INTERVAL_MS = 400
# How many shards a region says to have that was founded with others: 0 is what one of one shard says.
OTHER_COUNTS = (0, 3, 4)


class WrongLinks:
    """What opens such links between the shards of one run."""

    def __init__(self, rng: Random, worlds: Sequence[World]) -> None:
        self._rng = rng
        self._worlds = worlds
        self._count = 0

    def begin(self) -> None:
        for world in self._worlds:
            world.plan(self._rng.randrange(INTERVAL_MS), self._dial_some, world)

    def _dial_some(self, world: World) -> None:
        if world.adversary.healing:
            return
        world.plan(1 + self._rng.randrange(2 * INTERVAL_MS), self._dial_some, world)
        count = self._rng.choice([None, None, *OTHER_COUNTS])
        other = world if count is not None else self._rng.choice([one for one in self._worlds if one is not world])
        caller, called = self._rng.choice(sorted(world.machines)), self._rng.choice(sorted(other.machines))
        regions = world.machines[caller].config.region, other.machines[called].config.region
        if regions[0] != regions[1] and world.runs(caller) and other.runs(called):
            other.now_ms = max(other.now_ms, world.now_ms)
            self._count += 1
            Dial(world, caller, other, called, FIRST_LINK + self._count).refused(count)


class Dial:
    """One of them, from a machine of one shard to one of another region."""

    def __init__(self, world: World, caller: int, other: World, called: int, link: int) -> None:
        self._world, self._caller = world, caller
        self._other, self._called = other, called
        self._link = link
        self._hello: list[Message] = []
        self._replies: list[Message] = []
        ends = f"region {caller} of shard {world.shard} and region {called} of shard {other.shard}"
        self._found = WrongLink(ends)

    def refused(self, count: int | None) -> None:
        """Greet, and say to have so many shards; tell the checkers what came of it, unless a process ended."""
        world, other = self._world, self._other
        world.act(self._caller, lambda: self._greet(count))
        other.act(self._called, self._answer)
        world.act(self._caller, self._receive_replies)
        if len(self._found.reasons) == 2:
            world.log_event(f"wrong link between {self._found.ends}: {self._found.reasons[0]}")
            world.injected["wrong link"] += 1
            world.notify("linked_wrongly", self._found)

    def _greet(self, count: int | None) -> None:
        self._open(self._world, self._caller, True)
        self._hello = self._drain(self._world, self._caller)
        for message in self._hello:
            if count is not None:
                message.hello.shards = count
                self._found.ends += f" of {count}"

    def _answer(self) -> None:
        if self._hello:
            self._open(self._other, self._called, False)
            self._replies = self._receive(self._other, self._called, self._hello)
            self._found.said = [name.name for one in self._replies for name, _ in one.ListFields()]

    def _receive_replies(self) -> None:
        if self._world.machines[self._caller].up:
            self._receive(self._world, self._caller, self._replies)

    def _open(self, world: World, number: int, dialled: bool) -> None:
        world.machines[number].node.link_opened(self._link, dialled, world.clock_ms(number))

    def _receive(self, world: World, number: int, messages: list[Message]) -> list[Message]:
        """Let an end receive these, and close the link there; return what it has said."""
        machine, node = world.machines[number], world.machines[number].node
        before = of_others(machine)
        for message in messages:
            node.receive(self._link, message, world.clock_ms(number))
        said = self._drain(world, number)
        machine.perform()
        self._found.changed |= of_others(machine) != before
        self._found.reasons.append(node.link_verdict(self._link))
        node.link_closed(self._link, "a wrong link", world.clock_ms(number))
        world.turn(number)
        return said

    def _drain(self, world: World, number: int) -> list[Message]:
        machine, found = world.machines[number], list[Message]()
        while len(found) < MESSAGES_MAX:
            bytes_max = machine.config.limits.message_bytes
            message = machine.node.outgoing(self._link, bytes_max, world.clock_ms(number))
            if message is None:
                break
            found.append(message)
        return found


def of_others(machine: Machine) -> dict[int, int]:
    """Return what a machine has of other regions; what its own region makes may be due at any time."""
    vector = machine.node.replica.applied.vector.as_dict()
    return {origin: counter for origin, counter in vector.items() if region_of(origin) != machine.config.region}
