"""Rounds: load, one fault, healing, rest, agreement, and the checker's verdict on the recorded operations."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crdtstream.processes.waiting import ProcessError
from nemesis.checker import Anomaly, Record, check
from nemesis.cluster import PACKETS, ROOT, SERVING_S, Cluster, workplace
from nemesis.faults import FAULTS, Harm
from nemesis.history import Loss, Operation
from nemesis.load import GROUP, Load, held_by, range_of

WARM_UP_WRITES = 100
HEALED_WRITES = 100


@dataclass
class Row:
    """The result of one fault; `problems` is what kept the round from completing.

    `perished` counts acknowledged writes, and `undone` acknowledged removals, that were lost with a disk before other
    regions had them.
    """

    fault: str
    fsync: str
    where: str = ""
    seconds: float = 0.0
    written: int = 0
    healed_s: float = 0.0
    agreed_s: float = 0.0
    operations: int = 0
    perished: int = 0
    undone: int = 0
    agree: bool = False
    anomalies: list[Anomaly] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return self.agree and not self.anomalies and not self.problems

    def counts(self) -> Counter[str]:
        return Counter(each.kind for each in self.anomalies)

    def row(self) -> dict[str, Any]:
        return asdict(self) | {"counts": dict(self.counts())}


def rounds(
    fsync: str,
    faults: list[str],
    seconds: float,
    fault_s: float,
    seed: int,
    keep: Path,
    kind: str = PACKETS,
    source: Path = ROOT,
) -> Generator[Row, None, None]:
    """Yield one row for each fault, in an order drawn from the seed, repeatedly until the time is over; at
    least one.
    """
    chance = random.Random(f"{seed} {fsync}")
    end_s = time.monotonic() + seconds
    with (
        workplace() as directory,
        Cluster(directory, fsync, seed, kind, source) as cluster,
        loads_of(cluster, seed) as loads,
    ):
        number = 0
        while not number or time.monotonic() < end_s:
            waiting = chance.sample(faults, len(faults))
            while waiting and (not number or time.monotonic() < end_s):
                number += 1
                row = Round(cluster, loads, fsync, number).run(waiting.pop(), fault_s, chance)
                if not row.is_sound:
                    save(keep / f"{fsync}-{number}", row, cluster, loads)
                yield row
                if not row.agree:
                    return


@contextmanager
def loads_of(cluster: Cluster, seed: int) -> Iterator[dict[str, Load]]:
    loads = {name: Load(region, seed * 1000 + region.number) for name, region in cluster.regions.items()}
    for load in loads.values():
        load.start()
    try:
        yield loads
    finally:
        for load in loads.values():
            load.end()


class Round:
    """One fault, on its own keys."""

    def __init__(self, cluster: Cluster, loads: dict[str, Load], fsync: str, number: int) -> None:
        self._cluster = cluster
        self._loads = loads
        self._fsync = fsync
        self._orders, self._churn = f"orders-{number}", f"churn-{number}"

    def run(self, fault: str, fault_s: float, chance: random.Random) -> Row:
        row = Row(fault, self._fsync)
        try:
            self._run(row, fault_s, chance)
        except (AssertionError, ProcessError) as error:
            row.problems.append(str(error))
        row.problems += [f"the client of {name}: {load.error!r}" for name, load in self._loads.items() if load.error]
        return row

    def _run(self, row: Row, fault_s: float, chance: random.Random) -> None:
        cluster, loads = self._cluster, self._loads
        cluster.regions["east"].create_group(self._orders, GROUP)
        cluster.await_agreement()
        for load in loads.values():
            load.resume(self._orders, self._churn)
        self._await_writes(WARM_UP_WRITES)
        written, begun_s = self._written(), time.monotonic()
        harm = FAULTS[row.fault](cluster, chance)
        row.where = harm.where
        witnessed = [] if harm.loss is None else self._witness(harm.loss)
        self._hold(row, harm, fault_s * chance.uniform(0.5, 1.5))
        row.seconds = time.monotonic() - begun_s
        row.written = self._written() - written
        self._heal(row, harm)
        self._judge(row, witnessed, harm.loss)
        cluster.regions[chance.choice(list(cluster.regions))].ask("DEL", self._orders, self._churn)

    def _hold(self, row: Row, harm: Harm, fault_s: float) -> None:
        """Wait out the fault; regions that it does not affect must continue to accept writes."""
        time.sleep(fault_s)
        for name in harm.serving:
            try:
                self._loads[name].await_written(1, SERVING_S)
            except (AssertionError, ProcessError) as error:
                row.problems.append(f"meanwhile: {error}")

    def _heal(self, row: Row, harm: Harm) -> None:
        begun_s = time.monotonic()
        harm.undo()
        self._cluster.await_linked()
        self._await_writes(HEALED_WRITES)
        healed_s = time.monotonic()
        for load in self._loads.values():
            load.rest()
        row.healed_s = healed_s - begun_s
        self._cluster.await_agreement()
        row.agreed_s = time.monotonic() - healed_s
        row.agree = True

    def _witness(self, loss: Loss) -> list[Operation]:
        """Read what the other regions show after a disk is lost: it had reached them and must stay."""
        others = [region for region in self._cluster.regions.values() if region.number != loss.region]
        return [range_of(region, key) for region in others for key in (self._orders, self._churn)]

    def _judge(self, row: Row, witnessed: list[Operation], loss: Loss | None) -> None:
        for load in self._loads.values():
            load.drain()
        self._cluster.await_agreement()
        operations = self._operations()
        row.operations = len(operations)
        for key, drained in ((self._orders, True), (self._churn, False)):
            held = {region.number: held_by(region, key) for region in self._cluster.regions.values()}
            record = Record(key, [*operations, *witnessed], held, loss)
            row.anomalies += check(record, drained)
            row.perished += len(record.perished)
            row.undone += len(record.undone)
        if loss is not None:
            [region] = [each for each in self._cluster.regions.values() if each.number == loss.region]
            row.where += ", from a state" if region.took_state() else ", from logs"

    def _operations(self) -> list[Operation]:
        return [each for load in self._loads.values() for each in load.operations]

    def _await_writes(self, count: int) -> None:
        for load in self._loads.values():
            load.await_written(count, SERVING_S)

    def _written(self) -> int:
        return sum(load.written for load in self._loads.values())


def save(folder: Path, row: Row, cluster: Cluster, loads: dict[str, Load]) -> None:
    """Save everything needed to find the cause."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "row.json").write_text(json.dumps(row.row(), indent=1))
    with (folder / "history.jsonl").open("w") as history:
        for load in loads.values():
            history.writelines(json.dumps(each.row()) + "\n" for each in load.operations)
    for name, region in cluster.regions.items():
        (folder / f"{name}.log").write_text(region.log())
