"""Plays scenario texts on simulated machines: every step of the format (crdtstream/scenarios/text.py).

What the texts say happens at once, and structures are checked after each line. A command `stream ...` is a call to a
partitioned stream: see simulations/stream_calls.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from crdtstream.core.values.causality import region_of
from crdtstream.scenarios.reply import read_reply, show_reply
from crdtstream.scenarios.text import CARRIES, CHECKS, WAITS, Line, ScenarioError, ScenarioText
from simulations.checkers import all_checkers
from simulations.cluster import Cluster
from simulations.scenario_shards import Shards
from simulations.settings import pairs_of
from simulations.shard_checkers import HoldsOwnKeys, LinksEqualShards, RefusesWithoutEffect, Routes
from simulations.stream_calls import StreamCalls

KEYS_MAX = 1_000
CHECKERS = [checker.name for checker in all_checkers()]
# They know how many shards worlds have, and hear what the clients of worlds are refused.
OF_SHARDED_WORLDS = [checker.name for checker in (HoldsOwnKeys, Routes, RefusesWithoutEffect, LinksEqualShards)]


class Scenario(ScenarioText):
    """A scenario that `run` plays."""

    def clusters(self) -> list[Cluster]:
        """Return a cluster for each shard."""
        checked = [self._checker(line) for line in self.lines if line.step[:1] == [CHECKS]]
        absent = tuple(int(number) for number in self.settings["absent"].split())
        id_mode, fsync = self.settings["id-mode"], self.settings["fsync"]
        return [
            Cluster(
                self.regions,
                id_mode,
                fsync,
                pairs_of(self.settings["topology"], self.regions),
                absent=absent,
                checked=checked,
                shard=shard,
                shards=self.shards,
            )
            for shard in range(self.shards)
        ]

    def _checker(self, line: Line) -> str:
        name = line.step[1]
        if name not in CHECKERS:
            raise line.error(f"no checker is called {name!r}: use one of {', '.join(CHECKERS)}")
        if self.shards > 1 and name in OF_SHARDED_WORLDS:
            raise line.error(
                f"{name!r} is checked in worlds only: show what a shard refuses as a reply, as in `1.0> ...`"
            )
        return name

    def run(self) -> list[Cluster]:
        """Play it; return the cluster of each shard."""
        shards, stream_calls = Shards(self.clusters()), StreamCalls()
        made: dict[int, int] = {}
        for line in self.lines:
            if line.expected is not None:
                before = own_counter(shards, line.region)
                line.actual = self._execute(shards, line, stream_calls)
                made[line.region] = own_counter(shards, line.region) - before
            elif line.turn is not None:
                shards.execute_turn(line, [self._argv(line, command) for command in line.turn])
            elif line.step[:1] == ["effects"]:
                self._compare_effects(shards, line, made)
            elif line.step:
                self._step(shards, line)
            for cluster in shards.clusters:
                cluster.check()
        return shards.clusters

    def _execute(self, shards: Shards, line: Line, stream_calls: StreamCalls) -> list[str]:
        if line.command.startswith("stream "):
            return [stream_calls.execute(shards.only(line), line.region, line.command.split()[1:])]
        reply = shards.execute(line, self._argv(line, line.command)) if line.command else shards.pop_reply(line)
        return WAITS if reply is None else show_reply(read_reply(reply))

    def _argv(self, line: Line, command: str) -> list[bytes]:
        return [word.encode() for word in line.words(command)]

    def _compare_effects(self, shards: Shards, line: Line, made: dict[int, int]) -> None:
        _, [number, count] = shards.named(line)
        if made[number] != count:
            raise line.error(f"the last command of region {number} made {made[number]} effects, not {count}")

    def _step(self, shards: Shards, line: Line) -> None:
        name, *words = line.step
        if name == CHECKS:
            for cluster in shards.clusters:
                with cluster.named_violations():
                    cluster.verify(words[0])
            return
        if name not in STEPS and name not in REQUIREMENTS:
            raise line.error(f"no step is called {name!r}")
        clusters, numbers = shards.named(line)
        if name in REQUIREMENTS:
            REQUIREMENTS[name](clusters, *numbers)
        for cluster in clusters if name in STEPS else ():
            STEPS[name](cluster, *numbers)


def own_counter(shards: Shards, number: int) -> int:
    """How many effects the region of this machine has made, in all its origins and shards."""
    machines = [cluster.machines[number] for cluster in shards.clusters if number in cluster.machines]
    vectors = [(machine.config.region, machine.node.replica.applied.vector.as_dict()) for machine in machines]
    return sum(
        counter for region, vector in vectors for origin, counter in vector.items() if region_of(origin) == region
    )


def _clock(cluster: Cluster, time_ms: int) -> None:
    cluster.tick(time_ms - cluster.now_ms)


def _skew(cluster: Cluster, number: int, ahead_ms: int) -> None:
    cluster.machines[number].skew_ms = ahead_ms


def _power_loss(cluster: Cluster, number: int) -> None:
    cluster.lose_power(number, random.Random(0), odds=0.0)


def _room(cluster: Cluster, number: int, writable: bool) -> None:
    cluster.node(number).writable(writable)
    cluster.turn(number)


def _collect(cluster: Cluster, number: int) -> None:
    node = cluster.node(number)
    node.replica.keyspace.collect(node.exchange.stable(), KEYS_MAX)


def _remembers(clusters: list[Cluster], number: int, wanted: int) -> None:
    keyspaces = [cluster.node(number).replica.keyspace for cluster in clusters]
    streams = [stream for keyspace in keyspaces for database in keyspace.databases for stream in database.values()]
    count = sum(len(counters) for stream in streams for counters in (stream.deleted, *stream.destroyed.values()))
    if count != wanted:
        raise ScenarioError(f"region {number} remembers {count} tombstones, not {wanted}")


def _differ(clusters: list[Cluster], one: int, other: int) -> None:
    digests = [[cluster.execute(number, [b"CRDT.DIGEST"]) for number in (one, other)] for cluster in clusters]
    if all(here == there for here, there in digests):
        raise ScenarioError(f"the digests of regions {one} and {other} are equal")


STEPS: dict[str, Callable[..., object]] = {
    "sync": Cluster.sync,
    CARRIES: Cluster.carry,
    "cut": Cluster.cut,
    "heal": Cluster.heal,
    "send": Cluster.send,
    "arrive": Cluster.arrive,
    "fsync": lambda cluster, number: cluster.machines[number].sync(),
    "checkpoint": lambda cluster, number: cluster.machines[number].checkpoint(),
    "cut-log": lambda cluster, number: cluster.machines[number].cut_log(),
    "kill": Cluster.restart,
    "power-loss": _power_loss,
    "disk-loss": Cluster.lose_disk,
    "disk-full": partial(_room, writable=False),
    "disk-room": partial(_room, writable=True),
    "copy": Cluster.copy,
    "put-back": Cluster.put_back,
    "twin": Cluster.twin,
    "clone": Cluster.clone,
    "new": Cluster.add,
    "stop": Cluster.stop,
    "clock": _clock,
    "skew": _skew,
    "pass": Cluster.live,
    "collect": _collect,
}
# What must hold of all shards together.
REQUIREMENTS: dict[str, Callable[..., object]] = {"remembers": _remembers, "differ": _differ}
