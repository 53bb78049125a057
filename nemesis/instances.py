"""`python -m nemesis.instances`: instances of a group that come, stall and die while messages arrive; exits with 1 if
a message was skipped.

Producers fill a stream with 16 partitions through the OCI gateway of one region, or of two. For each number of
instances another group reads it. Meanwhile instances stall for longer than their timeout and continue with their old
cursor, die and are replaced, and others join. At the end the load stops, and the group reads until nothing is left.
Every accepted message must have been delivered.

A rebalance is a change of owners between two looks at the group. The time to takeover is from the end of a silent
instance's timeout until no partition is its own any more; it includes the time until the next call. Repeats are
deliveries beyond the first.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from nemesis.gateway_client import GatewayClient, decoded

PARTITIONS = 16
TIMEOUT_MS = 1_500
BATCH = 50
LIMIT = 500
LOOK_S = 0.02
IDLE_S = 0.02
LOAD_PAUSE_S = 0.02
DRAIN_S = 120.0
FAILURE = 1
STALLS, DIES = "stalls", "dies"

progress = Console(stderr=True)


@dataclass
class Outcome:
    """What happened to one group; `skipped` must be 0."""

    instances: int
    accepted: int = 0
    delivered: int = 0
    repeats: int = 0
    skipped: int = 0
    stalls: int = 0
    deaths: int = 0
    joins: int = 0
    rebalances: int = 0
    takeover_ms: list[int] = field(default_factory=list)

    @property
    def takeover_ms_max(self) -> int:
        return max(self.takeover_ms, default=0)


class Load:
    """A thread that puts messages until it is told to stop; `accepted` are the values whose offset it was told."""

    def __init__(self, port: int, stream: str) -> None:
        self._client = GatewayClient(port)
        self._stream = stream
        self._thread = threading.Thread(target=self._run, name="load")
        self._ending = threading.Event()
        self.accepted: set[bytes] = set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        number = 0
        while not self._ending.wait(LOAD_PAUSE_S):
            values = [b"%d" % one for one in range(number, number + BATCH)]
            number += BATCH
            for value, result in zip(values, self._client.put(self._stream, values), strict=True):
                if "offset" in result:
                    self.accepted.add(value)


class Instance:
    """A thread that reads as one instance; `seen` counts what it was given."""

    def __init__(self, port: int, stream: str, group: str, name: str) -> None:
        self.name = name
        self.seen: Counter[bytes] = Counter()
        self.silent_s = 0.0
        self._client = GatewayClient(port)
        self._stream, self._group = stream, group
        self._thread = threading.Thread(target=self._run, name=name)
        self._ending = threading.Event()
        self._held = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def stall(self) -> None:
        self.silent_s = time.monotonic()
        self._held.set()

    def go_on(self) -> None:
        self._held.clear()

    def stop(self) -> None:
        """Stop as a killed process does: without a word, and what was read last is not committed."""
        self.silent_s = time.monotonic()
        self._ending.set()

    def join(self) -> None:
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        cursor = ""
        while not self._ending.is_set():
            if self._held.is_set():
                self._ending.wait(IDLE_S)
                continue
            try:
                cursor = self._read(cursor)
            except (OSError, HTTPException):
                self._ending.wait(IDLE_S)

    def _read(self, cursor: str) -> str:
        cursor = cursor or self._client.group_cursor(self._stream, self._group, self.name, TIMEOUT_MS)
        answer = self._client.get(self._stream, cursor, LIMIT)
        if answer.next_cursor == "":
            self._ending.wait(IDLE_S)
            return ""
        self.seen.update(decoded(row["value"]) for row in answer.body)
        if not answer.body:
            self._ending.wait(IDLE_S)
        return answer.next_cursor


class Look:
    """A thread that looks at the group: rebalances, and when a silent instance has lost its partitions."""

    def __init__(self, port: int, stream: str, group: str, outcome: Outcome) -> None:
        self._client = GatewayClient(port)
        self._stream, self._group, self._outcome = stream, group, outcome
        self._thread = threading.Thread(target=self._run, name="look")
        self._ending = threading.Event()
        self.owners: list[str] = []
        self.silent: dict[str, float] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._ending.wait(LOOK_S):
            try:
                owners = self._client.owners(self._stream, self._group)
            except (OSError, HTTPException, KeyError, TypeError):
                continue
            self._outcome.rebalances += bool(self.owners) and owners != self.owners
            self.owners = owners
            for name, since_s in list(self.silent.items()):
                if name not in owners:
                    late_s = time.monotonic() - since_s - TIMEOUT_MS / 1000
                    self._outcome.takeover_ms.append(round(1000 * max(0.0, late_s)))
                    del self.silent[name]


class Group:
    """The instances of one group, and the faults that happen to them."""

    def __init__(self, ports: list[int], stream: str, count: int, chance: random.Random) -> None:
        self.outcome = Outcome(count)
        self.name = f"group-{count}"
        self._ports, self._stream, self._chance = ports, stream, chance
        self._made = 0
        self.all: list[Instance] = []
        self.live: list[Instance] = [self._join() for _ in range(count)]
        self.look = Look(ports[0], stream, self.name, self.outcome)
        self.look.start()

    def _join(self) -> Instance:
        self._made += 1
        instance = Instance(self._chance.choice(self._ports), self._stream, self.name, f"i{self._made}")
        self.all.append(instance)
        instance.start()
        return instance

    def fault(self, ending: threading.Event) -> None:
        """One instance stalls beyond its timeout, or dies and is replaced."""
        victim = self._chance.choice(self.live)
        kind = self._chance.choice((STALLS, DIES))
        owned = victim.name in self.look.owners
        victim.stall() if kind == STALLS else victim.stop()
        if owned and len(self.live) > 1:
            self.look.silent[victim.name] = victim.silent_s
        ending.wait(TIMEOUT_MS / 1000 * self._chance.uniform(1.2, 2.0))
        if kind == STALLS:
            self.outcome.stalls += 1
            self.look.silent.pop(victim.name, None)
            victim.go_on()
        else:
            self.outcome.deaths += 1
            self.outcome.joins += 1
            self.live.remove(victim)
            self.live.append(self._join())

    def has_all(self, accepted: set[bytes]) -> bool:
        return accepted <= self.seen().keys()

    def seen(self) -> Counter[bytes]:
        total: Counter[bytes] = Counter()
        for instance in self.all:
            total.update(dict(instance.seen))
        return total

    def stop(self, accepted: set[bytes]) -> None:
        for instance in self.all:
            instance.stop()
        for instance in self.all:
            instance.join()
        self.look.stop()
        seen, outcome = self.seen(), self.outcome
        outcome.accepted, outcome.delivered = len(accepted), sum(seen.values())
        outcome.repeats = sum(count - 1 for count in seen.values())
        outcome.skipped = len(accepted - seen.keys())


def run(directory: Path, counts: tuple[int, ...], seconds: float, seed: int, regions: int = 1) -> list[Outcome]:
    with regions_in(directory) as owned:
        made, ports = owned.make(*range(1, regions + 1)), [free_port() for _ in range(regions)]
        for region, port in zip(made, ports, strict=True):
            region.start(*[peer for peer in made if peer is not region], oci_port=port, oci_limits="off")
        for region in made:
            region.await_serving()
            region.await_admitted()
        return [one_group(made, ports, count, seconds, random.Random(f"{seed} {count}")) for count in counts]


def one_group(
    regions: list[RegionProcess], ports: list[int], count: int, seconds: float, chance: random.Random
) -> Outcome:
    client = GatewayClient(ports[0])
    stream = client.create_stream(f"load-{count}", PARTITIONS)
    until(lambda: all(is_known(port, stream) for port in ports), lambda: f"{stream} is known to {regions}")
    load = Load(chance.choice(ports), stream)
    load.start()
    group = Group(ports, stream, count, chance)
    ending = threading.Event()
    until_s = time.monotonic() + seconds
    try:
        while time.monotonic() < until_s:
            group.fault(ending)
        load.stop()
        until(lambda: group.has_all(load.accepted), lambda: f"{group.name} reads everything", DRAIN_S)
    finally:
        load.stop()
        group.stop(load.accepted)
        client.close()
    return group.outcome


def is_known(port: int, stream: str) -> bool:
    client = GatewayClient(port)
    try:
        return client.call("GET", f"/streams/{stream}").status == 200
    finally:
        client.close()


def table_of(outcomes: list[Outcome]) -> Table:
    table = Table(title=f"{PARTITIONS} partitions, timeout {TIMEOUT_MS} ms")
    columns = ("instances", "accepted", "delivered", "repeats", "skipped", "stalls", "deaths", "rebalances")
    for name in (*columns, "takeovers", "takeover ms, median", "max"):
        table.add_column(name, justify="right")
    for one in outcomes:
        times = sorted(one.takeover_ms)
        median = str(times[len(times) // 2]) if times else "-"
        table.add_row(*[str(getattr(one, name)) for name in columns], str(len(times)), median, str(one.takeover_ms_max))
    return table


def main(
    seconds: Annotated[float, typer.Option(min=1, help="How long faults happen to each group.")] = 20,
    counts: Annotated[str, typer.Option(help="Numbers of instances, separated by commas.")] = "1,2,4,8,16,20",
    regions: Annotated[int, typer.Option(min=1, max=5, help="Regions whose gateways the clients use.")] = 1,
    seed: Annotated[int, typer.Option(help="Determines the faults and their victims.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Let instances of groups come, stall and die, and report what their groups delivered."""
    numbers = tuple(int(number) for number in counts.split(","))
    with TemporaryDirectory(prefix="instances-") as directory:
        outcomes = run(Path(directory), numbers, seconds, seed, regions)
    if as_json:
        json.dump([asdict(one) for one in outcomes], sys.stdout, indent=2)
    else:
        Console(width=190).print(table_of(outcomes))
    if any(one.skipped for one in outcomes):
        raise typer.Exit(FAILURE)


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
