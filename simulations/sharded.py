"""Runs whose regions have several shards: a world for each shard, under one time, and clients that know them all.

A shard is a whole node with its own disk, links and faults, and is linked to the same shard of other regions only. So
the shards of a run are worlds of their own (`world`), with an oracle, a history and checkers for each. What ties them
together is what ties the processes of a region: its map, the clients that follow it (`shard_clients`), and greetings of
shards that must not be linked (`wrong_links`). The event that comes next in any of the worlds happens next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from crdtstream.connections.shards import ShardMap
from simulations.adversary import Adversary, draw_world, equipped
from simulations.draw import Draw, named
from simulations.network import START_MS
from simulations.settings import SHARDED, Settings, complete, decided, draw_settings
from simulations.shard_clients import ShardClients
from simulations.shard_refusals import SHARDS, draw_keys
from simulations.world import Phase, World
from simulations.wrong_links import WrongLinks


class ShardWorld(World):
    """One shard of all regions."""

    shards = SHARDS

    def __init__(self, seed: int, settings: Settings, shard: int, clients: ShardClients, trace: list[str]) -> None:
        self.shard = shard
        self._shard_clients = clients
        super().__init__(seed, Adversary, settings)
        self.trace = trace

    def draw_keys(self) -> tuple[tuple[bytes, ...], bytes]:
        return draw_keys(self.draw.of(SHARDED), self.shard, self.settings.has_letters)

    def map_for(self, number: int) -> ShardMap | None:
        return self._shard_clients.map_for(number, self.shard)

    def log_event(self, text: str) -> None:
        self.trace.append(f"{self.now_ms - START_MS} shard {self.shard}: {text}")

    def notify(self, event: str, *words: object) -> None:
        """Let the checkers of this shard know, whichever shard's event it is that happens."""
        with self.named_violations():
            super().notify(event, *words)

    def _run_command(self, number: int, argv: list[bytes]) -> None:
        self._shard_clients.go_astray(self, number, argv)
        super()._run_command(number, argv)


class Sharded:
    """A run with several shards in each region; each has its part of the commands and of the faults."""

    def __init__(self, seed: int, settings: Settings) -> None:
        self.seed = seed
        self.settings = settings
        self.trace: list[str] = []
        rng = Draw(seed).of(SHARDED)
        clients = ShardClients(rng)
        part = replace(
            settings,
            command_interval_ms=settings.command_interval_ms * SHARDS,
            fault_interval_ms=settings.fault_interval_ms * SHARDS,
        )
        self.worlds = [ShardWorld(seed, part, shard, clients, self.trace) for shard in range(SHARDS)]
        for world in self.worlds:
            equipped(world)
        clients.worlds = self.worlds
        self._wrong_links = WrongLinks(rng, self.worlds)

    @property
    def statistics(self) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for world in self.worlds:
            totals.update(world.statistics)
        return dict(totals)

    @property
    def injected(self) -> Counter[str]:
        return sum((world.injected for world in self.worlds), Counter({"several shards": 1}))

    def run(self) -> None:
        """Run all shards: the next event is that of the shard whose next event is the first."""
        self.trace.append(f"0 {named(self.seed)}, {SHARDS} shards in each region")
        lanes = [Lane(world) for world in self.worlds]
        self._wrong_links.begin()
        while left := [lane for lane in lanes if not lane.ended]:
            min(left, key=lambda lane: lane.world.next_ms()).step()


class Lane:
    """How far the run of one shard is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._phases: Iterator[Phase] = world.phases()
        self._phase = next(self._phases, None)

    @property
    def ended(self) -> bool:
        return self._phase is None

    def step(self) -> None:
        """Let one event happen, and go on to what has to come about next."""
        assert self._phase is not None
        with self.world.named_violations():
            self.world.step(self._phase[1])
            while self._phase is not None and self._phase[0]():
                self._phase = next(self._phases, None)


Run = World | Sharded


def draw_run(
    seed: int,
    settings: Settings | None = None,
    partitioned: bool | None = None,
    properties: bool | None = None,
    delivering: bool | None = None,
    spilling: bool | None = None,
    sharded: bool | None = None,
) -> Run:
    """Draw what a seed runs: a world, or, for a tenth of the seeds, several shards. `partitioned` and what follows take
    the place of what the seed says. A partitioned stream is in regions of one shard only.
    """
    drawn = decided(
        settings or draw_settings(Random(seed)),
        partitioned=partitioned,
        properties=properties,
        delivering=delivering,
        spilling=spilling,
        sharded=sharded,
    )
    drawn = complete(drawn, Draw(seed))
    if not drawn.sharded or (partitioned and not sharded):
        return draw_world(seed, settings, None, partitioned, properties, delivering, spilling)
    return Sharded(seed, replace(drawn, partitioned=False, sharded=True))
