"""The clients of regions with several shards: they know all shards of their region, and often ask the wrong one.

What is to run in one shard is sent to another one before, which must refuse it and name the right one; then the client
goes there. Some requests have keys of two hash slots, and are refused wherever they arrive. Shards move to other
addresses meanwhile, and for a while nobody may know where one is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from crdtstream.connections.shards import ShardAddress, ShardMap, map_of
from crdtstream.scenarios.reply import Value, read_replies, show
from simulations.machine import Machine
from simulations.property_clients import Argv
from simulations.shard_refusals import (
    NAMES,
    SHARDS,
    Refused,
    answers_expected,
    keys_in,
    requests_of,
    slot_of,
    with_two_slots,
)
from simulations.world import World

STRAY = 2000
ASTRAY_ODDS = 0.4
TWO_SLOTS_ODDS = 0.3
MOVE_ODDS = 0.03
UNKNOWN_ODDS = 0.3
BLOCK_ODDS = 0.5


class ShardClients:
    """The clients of all regions of a run, and where they reach the shards of each."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        # The shards of one run, once they are there.
        self.worlds: Sequence[World] = ()
        self._addresses: dict[int, list[ShardAddress]] = {}
        self._epochs: dict[int, int] = {}

    def map_for(self, number: int, shard: int) -> ShardMap:
        """Return the map of this region as one of its shards has it."""
        addresses = self._addresses.setdefault(number, [address_of(number, shard, 7000) for shard in range(SHARDS)])
        return map_of("world", number, shard, addresses, self._epochs.setdefault(number, 1))

    def addresses_of(self, number: int) -> list[str]:
        """Return where clients reach the shards of this region; an empty text where nobody knows."""
        return [f"{one.host}:{one.port}" if one.port else "" for one in self._addresses[number]]

    def go_astray(self, world: World, number: int, argv: Argv) -> None:
        """Perhaps ask another shard before this one runs a command."""
        rng = self._rng
        if not keys_in(argv) or rng.random() >= ASTRAY_ODDS:
            return
        other = rng.choice([one for one in self.worlds if one is not world])
        if rng.random() < MOVE_ODDS:
            self._move(number)
        if rng.random() < TWO_SLOTS_ODDS:
            argv = self._with_two_slots(other)
        elif argv[0] == b"XREADGROUP" and b"BLOCK" not in argv and rng.random() < BLOCK_ODDS:
            argv = [*argv[:4], b"BLOCK", b"40", *argv[4:]]
        if other.runs(number):
            other.now_ms = max(other.now_ms, world.now_ms)
            other.act(number, lambda: self._ask(other, number, argv))

    def _move(self, number: int) -> None:
        """Let a shard of this region move, or let nobody know where it is."""
        shard = self._rng.randrange(SHARDS)
        port = 0 if self._rng.random() < UNKNOWN_ODDS else 7000 + self._rng.randrange(1000)
        self._addresses[number][shard] = address_of(number, shard, port)
        self._epochs[number] += 1
        for world in self.worlds:
            world.machines[number].follow_shards(self.map_for(number, world.shard))

    def _with_two_slots(self, world: World) -> Argv:
        own = self._rng.choice(world.keys)
        others = [name for one in self.worlds for name in (*one.keys, *NAMES) if slot_of(name) != slot_of(own)]
        return with_two_slots(self._rng, own, self._rng.choice(others))

    def _ask(self, world: World, number: int, argv: Argv) -> None:
        """Send a command to a shard that must refuse it."""
        expected = answers_expected(argv, world.shard, self.addresses_of(number))
        values: list[Value] = []

        def ask() -> None:
            values.extend(answers(world.machines[number], argv, world.clock_ms(number)))

        changed = logs_during(world, number, ask)
        refused = Refused(argv, expected, values, changed)
        for one, value in zip(requests_of(argv), refused.values, strict=False):
            world.log_event(f"{number}> {b' '.join(one).decode()} = {show(value)}")
        world.injected[expected[-1].split()[0]] += 1
        world.notify("refused", number, refused)
        world.turn(number)


def logs_during(world: World, number: int, action: Callable[[], None]) -> bool:
    """Return whether a machine logs anything in this action; what is due anyway is done before, and on disk, for which
    every reply would wait.
    """
    machine = world.machines[number]
    machine.node.tick(world.clock_ms(number))
    world.turn(number)
    if machine.wants_sync:
        world.sync_one(number)
    before = machine.log.last_position
    action()
    machine.perform()
    return machine.log.last_position > before


def answers(machine: Machine, argv: Argv, now_ms: int) -> list[Value]:
    """Return what a client is told at once that has no other command."""
    if STRAY not in machine.node.context.clients:
        machine.connect(STRAY, now_ms)
    told = [machine.execute(one, now_ms, STRAY) for one in requests_of(argv)]
    return [value for data in told for value in read_replies(data or b"")]


def address_of(number: int, shard: int, port: int) -> ShardAddress:
    return ShardAddress(f"region{number}-shard{shard}", port, 0)
