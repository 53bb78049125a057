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
from simulations.settings import pairs_of
from simulations.stream_calls import StreamCalls

KEYS_MAX = 1_000
CHECKERS = [checker.name for checker in all_checkers()]


class Scenario(ScenarioText):
    """A scenario that `run` plays."""

    def cluster(self) -> Cluster:
        pairs = pairs_of(self.settings["topology"], self.regions)
        checked = [self._checker(line) for line in self.lines if line.step[:1] == [CHECKS]]
        absent = tuple(int(number) for number in self.settings["absent"].split())
        id_mode, fsync = self.settings["id-mode"], self.settings["fsync"]
        return Cluster(self.regions, id_mode, fsync, pairs, absent=absent, checked=checked)

    def _checker(self, line: Line) -> str:
        name = line.step[1]
        if name not in CHECKERS:
            raise line.error(f"no checker is called {name!r}: use one of {', '.join(CHECKERS)}")
        return name

    def run(self) -> Cluster:
        cluster, stream_calls = self.cluster(), StreamCalls()
        made: dict[int, int] = {}
        for line in self.lines:
            if line.expected is not None:
                before = own_counter(cluster, line.region)
                line.actual = self._execute(cluster, line, stream_calls)
                made[line.region] = own_counter(cluster, line.region) - before
            elif line.turn is not None:
                cluster.execute_turn(line.region, [self._argv(line, command) for command in line.turn])
            elif line.step[:1] == ["effects"]:
                self._compare_effects(line, made)
            elif line.step:
                self._step(cluster, line)
            cluster.check()
        return cluster

    def _execute(self, cluster: Cluster, line: Line, stream_calls: StreamCalls) -> list[str]:
        if line.command.startswith("stream "):
            return [stream_calls.execute(cluster, line.region, line.command.split()[1:])]
        if line.command:
            reply = cluster.execute(line.region, self._argv(line, line.command))
        else:
            reply = cluster.pop_reply(line.region)
        return WAITS if reply is None else show_reply(read_reply(reply))

    def _argv(self, line: Line, command: str) -> list[bytes]:
        return [word.encode() for word in line.words(command)]

    def _compare_effects(self, line: Line, made: dict[int, int]) -> None:
        number, count = map(int, line.step[1:])
        if made[number] != count:
            raise line.error(f"the last command of region {number} made {made[number]} effects, not {count}")

    def _step(self, cluster: Cluster, line: Line) -> None:
        name, *words = line.step
        if name == CHECKS:
            cluster.verify(words[0])
        elif name in STEPS:
            STEPS[name](cluster, *map(int, words))
        else:
            raise line.error(f"no step is called {name!r}")


def own_counter(cluster: Cluster, number: int) -> int:
    """How many effects the region of this machine has made, in all its origins."""
    machine = cluster.machines[number]
    vector = machine.node.replica.applied.vector.as_dict()
    return sum(counter for origin, counter in vector.items() if region_of(origin) == machine.config.region)


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


def _remembers(cluster: Cluster, number: int, wanted: int) -> None:
    streams = [stream for database in cluster.node(number).replica.keyspace.databases for stream in database.values()]
    count = sum(len(counters) for stream in streams for counters in (stream.deleted, *stream.destroyed.values()))
    if count != wanted:
        raise ScenarioError(f"region {number} remembers {count} tombstones, not {wanted}")


def _differ(cluster: Cluster, one: int, other: int) -> None:
    if cluster.execute(one, [b"CRDT.DIGEST"]) == cluster.execute(other, [b"CRDT.DIGEST"]):
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
    "remembers": _remembers,
    "differ": _differ,
}
