"""`python -m nemesis.shards`: shards of two regions are moved between machines, killed and restarted under load; exits
with 1 if anything is wrong.

Each region has two machines, between which its shards move: two supervisors with ports and directories of their own.
Producers and consumers use both regions (shard_load.py). A pause is the longest add to the shard that was under way
between the beginning of an event and the moment when the shard served again, as a client sees it with its repetitions.

    lost       an add that was answered, whose entry is not in both regions
    doubled    an add whose entry is there twice
    skipped    an entry that no consumer of a group acknowledged
    again      an entry that came to a consumer after its acknowledgement was answered, or twice as new
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.clients import client_of, creates
from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.machines import SplitRegion
from crdtstream.processes.waiting import until
from nemesis.cold import all_of
from nemesis.shard_load import Clients, Consumed

FAILURE = 1
SHARDS = 2
# The keys of shard 0 and of shard 1.
KEYS = ("b", "a")
MOVE, KILL, RESTART = "move", "kill -9", "restart"
# Adds of each producer between two events.
BETWEEN = 10
# Consumers may lag behind, and are given so long to read the rest.
CONSUMED_S = 300.0


@dataclass
class Findings:
    """What the checker found, and the pauses of each kind of event in milliseconds."""

    pauses_ms: dict[str, list[float]] = field(default_factory=lambda: {MOVE: [], KILL: [], RESTART: []})
    added: int = 0
    repeats: int = 0
    lost: list[bytes] = field(default_factory=list)
    doubled: list[bytes] = field(default_factory=list)
    skipped: list[bytes] = field(default_factory=list)
    again: list[bytes] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return self.added > 0 and not (self.lost or self.doubled or self.skipped or self.again)


class Drill:
    """Two regions and their clients."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.regions = [SplitRegion(number, directory, SHARDS) for number in (1, 2)]
        self.clients = Clients()
        self.findings = Findings()
        self._random = random.Random(seed)

    def start(self) -> None:
        east, west = self.regions
        for region, other in ((east, west), (west, east)):
            region.start(other.address)
        for region in self.regions:
            region.await_serving()
            for shard, key in enumerate(KEYS):
                ask = partial(region.of(shard).ask_shard, shard)
                until(partial(creates, ask, key, region.name), f"the group of {region.name} is created")
        for region in self.regions:
            places = [(machine.host, machine.port + shard) for machine in region.machines for shard in range(SHARDS)]
            for key in KEYS:
                self.clients.add_producers(places, key, region.name)
                self.clients.add_consumer(places, key, region.name)

    # Events

    def run(self, moves: int, kills: int) -> Iterator[str]:
        """Let events happen in a random order, then restart all shards one by one; yield what happened."""
        kinds = [MOVE] * moves + [KILL] * kills
        self._random.shuffle(kinds)
        for kind in kinds:
            yield self._happen(kind, self._random.choice(self.regions), self._random.randrange(SHARDS))
        for region in self.regions:
            for shard in range(SHARDS):
                yield self._happen(RESTART, region, shard)

    def _happen(self, kind: str, region: SplitRegion, shard: int) -> str:
        self._await_progress()
        begun_s = time.monotonic()
        {MOVE: self._move, KILL: self._kill, RESTART: self._restart}[kind](region, shard)
        done_s = time.monotonic()
        # Operations are recorded once they are answered.
        self._await_progress()
        pause_ms = max(
            each.pause_ms(begun_s, done_s)
            for each in self.clients.produced
            if (each.region, each.key) == (region.name, KEYS[shard])
        )
        self.findings.pauses_ms[kind].append(pause_ms)
        return f"{kind} of shard {shard} of {region.name}: {pause_ms:.0f} ms"

    def _await_progress(self) -> None:
        """Wait until every producer has added some more."""
        wanted = [count + BETWEEN for count in self.clients.progress()]

        def is_there() -> bool:
            return all(count >= least for count, least in zip(self.clients.progress(), wanted, strict=True))

        until(is_there, lambda: f"producers go on: {self.clients.progress()}, {wanted} are wanted{self._logs()}")

    def _move(self, region: SplitRegion, shard: int) -> None:
        region.move(shard)
        if shard == 0:
            (other,) = [each for each in self.regions if each is not region]
            other.dial(region.address)

    def _kill(self, region: SplitRegion, shard: int) -> None:
        killed = region.of(shard).process_of(shard)
        os.kill(killed, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{killed}").exists(), "it has ended")
        region.of(shard).await_shard(shard)

    def _restart(self, region: SplitRegion, shard: int) -> None:
        region.restart(shard)

    # What is left in the end

    def check(self) -> Findings:
        self.clients.end_producing()
        added = [entry_id for each in self.clients.produced for entry_id in each.ids.values()]
        until(self._is_consumed, self._behind, CONSUMED_S)
        self.clients.stop()
        east, west = self.regions
        until(lambda: east.digests() == west.digests(), lambda: f"equal digests{self._logs()}")
        found = self.findings
        found.added = len(added)
        found.repeats = sum(each.repeats for each in self.clients.produced)
        for region in self.regions:
            for shard, key in enumerate(KEYS):
                self.compare(key, entries_of(region, shard, key))
        return found

    def _is_consumed(self) -> bool:
        # The sets are compared only once they may be equal: the consumers run in this process.
        wanted: Counter[str] = Counter()
        for each in self.clients.produced:
            wanted[each.key] += len(each.ids)
        may_be = all(len(consumed.acknowledged) >= wanted[consumed.key] for consumed in self.clients.consumed)
        return may_be and not any(self._left())

    def _behind(self) -> str:
        failures = [each.failure for each in self.clients.consumed]
        return f"consumers read all, {self._left()} are left, their last failures are {failures}{self._logs()}"

    def _left(self) -> list[int]:
        return [len(self._unread(each)) for each in self.clients.consumed]

    def _unread(self, consumed: Consumed) -> set[bytes]:
        """What no consumer of its group has acknowledged, of what was added to its region."""
        produced = [each for each in self.clients.produced if each.key == consumed.key]
        return {entry_id for each in produced for entry_id in each.ids.values()} - consumed.acknowledged

    def compare(self, key: str, entries: list[tuple[bytes, bytes]]) -> None:
        found, there = self.findings, dict(entries)
        tokens = Counter(there.values())
        found.doubled += [token for token, count in tokens.items() if count > 1]
        for produced in self.clients.produced:
            if produced.key == key:
                found.lost += [token for token, entry_id in produced.ids.items() if there.get(entry_id) != token]
        for consumed in self.clients.consumed:
            if consumed.key == key:
                found.skipped += self._unread(consumed)
                found.again += consumed.again
                found.again += [entry_id for entry_id, count in consumed.delivered.items() if count > 1]

    def _logs(self) -> str:
        return "".join(region.logs() for region in self.regions)

    def stop(self) -> None:
        for region in self.regions:
            region.stop()


def entries_of(region: SplitRegion, shard: int, key: str) -> list[tuple[bytes, bytes]]:
    """The IDs and tokens of a stream."""
    host, port = region.place_of(shard)
    with client_of(port, host=host) as client:
        return list(all_of(client, key))


def drilled(directory: Path, moves: int, kills: int, seed: int) -> Iterator[str | Findings]:
    """What happened, one after the other, and at last what was found."""
    drill = Drill(directory, seed)
    try:
        drill.start()
        yield from drill.run(moves, kills)
        yield drill.check()
    finally:
        drill.clients.abandon()
        drill.stop()


def table_of(findings: Findings) -> Table:
    table = Table("event", "times", "median pause ms", "max")
    for kind, pauses in findings.pauses_ms.items():
        if pauses:
            table.add_row(kind, str(len(pauses)), f"{statistics.median(pauses):.0f}", f"{max(pauses):.0f}")
    return table


def main(
    moves: Annotated[int, typer.Option(min=0, help="How many times a shard is moved to another machine.")] = 50,
    kills: Annotated[int, typer.Option(min=0, help="How many times the process of a shard is killed.")] = 50,
    seed: Annotated[int, typer.Option(help="Of which shard it is, and in which order.")] = 1,
) -> None:
    """Move and kill shards under load."""
    console = Console()
    with TemporaryDirectory(prefix="shards-") as directory:
        for found in drilled(Path(directory), moves, kills, seed):
            if isinstance(found, str):
                console.print(found)
            else:
                console.print(table_of(found), f"{found.added} adds, {found.repeats} attempts that were repeated")
                for name in ("lost", "doubled", "skipped", "again"):
                    console.print(f"{name}: {len(getattr(found, name))}", getattr(found, name)[:3] or "")
                if not found.is_sound:
                    raise typer.Exit(FAILURE)


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
