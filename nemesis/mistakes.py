"""`python -m nemesis.mistakes`: mistakes with data directories and region numbers, on real processes.

Each is made on three linked regions. A write is acknowledged when its client received a reply. At the end every
region must hold each acknowledged write under the ID that its client received, and all digests must be equal; the time
until then is the healing time.

    restored    a directory is replaced by a copy that was made while the region was stopped
    snapshot    the same with a copy of the running directory, and kill -9
    copied      a process runs on a copy beside the original; both are written to
    incarnation a lost disk, and `--incarnation 0` left in the unit file
    mistyped    a new region with an empty directory and a region number that is in use
    forged      a Hello that claims origins of another region
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import grpc
import redis
import typer
from rich.console import Console
from rich.table import Table

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector, origin_of
from crdtstream.core.values.entry_id import STRICT
from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.region import RegionProcess, Regions, regions_in
from crdtstream.processes.waiting import ProcessError, until
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication import wire_pb2_grpc as wire_grpc
from crdtstream.replication.links.greeting import make_hello
from crdtstream.replication.origins.birth import Birth
from crdtstream.runtime.links.envelope import EnvelopePacker
from crdtstream.settings.config import Config

KEY = "log"
HEAL_S = 60.0
WAITING = "LOADING"
USED_NUMBER = "is in use"


@dataclass
class Outcome:
    """What came of one mistake, made once."""

    mistake: str
    acknowledged: int
    missing: int
    digests: int
    heal_s: float

    @property
    def held(self) -> bool:
        return self.missing == 0 and self.digests == 1


@dataclass
class Stage:
    """Three regions, and the replies to their clients."""

    regions: Regions
    directory: Path
    fsync: str
    all: list[RegionProcess] = field(default_factory=list)
    acknowledged: dict[bytes, bytes] = field(default_factory=dict)
    written: int = 0

    def begin(self) -> None:
        self.all = self.regions.make(1, 2, 3)
        for region in self.all:
            self.start(region)
        for region in self.all:
            region.await_serving()
        self.write(self.all[0], 10)
        self.write(self.all[1], 10)
        self.regions.await_agreement()

    def start(self, region: RegionProcess, **settings: object) -> None:
        region.start(*[other for other in self.all if other is not region], fsync=self.fsync, **settings)

    def write(self, region: RegionProcess, count: int) -> None:
        with region.client() as client:
            for _ in range(count):
                value = b"%s %d" % (region.name.encode(), self.written)
                self.written += 1
                self.acknowledged[client.execute_command("XADD", KEY, "*", "v", value)] = value

    def replace_directory(self, region: RegionProcess, copy: Path) -> None:
        shutil.rmtree(region.data)
        shutil.copytree(copy, region.data)

    def copy_of(self, region: RegionProcess) -> Path:
        """Copy the directory under a new name; what changes during the copy is inconsistent, as with `cp`."""
        target = self.directory / f"copy-of-{region.name}-{self.written}"
        shutil.copytree(region.data, target, ignore=shutil.ignore_patterns("*.lock", "lock"))
        return target

    def missing(self) -> int:
        """Count acknowledged writes that a region lacks."""
        lacking: set[bytes] = set()
        for region in self.all:
            held = {row[0]: row[1][1] for row in region.ask("XRANGE", KEY, "-", "+")}
            lacking |= {entry_id for entry_id, value in self.acknowledged.items() if held.get(entry_id) != value}
        return len(lacking)

    def digests(self) -> set[bytes]:
        return {region.digest() for region in self.all}

    def healed(self) -> bool:
        try:
            return len(self.digests()) == 1 and self.missing() == 0
        except redis.RedisError:
            return False


def restored(stage: Stage) -> None:
    region = stage.all[0]
    region.terminate()
    copy = stage.copy_of(region)
    start_and_write(stage, region, 20)
    stage.regions.await_agreement()
    region.terminate()
    stage.replace_directory(region, copy)
    start_and_write(stage, region, 25)


def snapshot(stage: Stage) -> None:
    region = stage.all[0]
    copy = stage.copy_of(region)
    stage.write(region, 20)
    stage.regions.await_agreement()
    region.kill()
    stage.replace_directory(region, copy)
    start_and_write(stage, region, 25)


def start_and_write(stage: Stage, region: RegionProcess, count: int) -> None:
    stage.start(region)
    region.await_serving()
    stage.write(region, count)


def copied(stage: Stage) -> None:
    """Run a copy beside the original; the copy is stopped in the end, and the original continues."""
    region = stage.all[0]
    twin = twin_of(stage, region)
    shutil.copytree(stage.copy_of(region), twin.data)
    twin.start(*stage.all[1:], fsync=stage.fsync)
    twin.await_serving()
    stage.write(region, 10)
    stage.write(twin, 10)
    stage.write(region, 10)
    until(lambda: twin.digest() == region.digest(), lambda: f"both agree{twin.log_end()}")
    twin.kill()
    stage.write(region, 10)
    region.create_group(KEY, "g")


def incarnation(stage: Stage) -> None:
    region = stage.all[0]
    region.kill()
    shutil.rmtree(region.data)
    stage.start(region, incarnation=0)
    region.await_serving()
    stage.write(region, 25)


def mistyped(stage: Stage) -> None:
    """Start a region with a number in use: it must wait, with a reason, while the other region continues."""
    region = stage.all[0]
    newcomer = twin_of(stage, region)
    newcomer.start(stage.all[2], fsync=stage.fsync)
    until(lambda: USED_NUMBER in newcomer.state(), lambda: f"the newcomer waits{newcomer.log_end()}")
    stage.write(region, 10)
    region.create_group(KEY, "g")
    region.kill()
    stage.start(region)
    region.await_serving()
    stage.write(region, 10)
    newcomer.kill()


def forged(stage: Stage) -> None:
    region = stage.all[2]
    greet(stage.all[1], region.number)
    stage.write(region, 10)
    region.kill()
    stage.start(region)
    region.await_serving()
    stage.write(region, 10)


MISTAKES: dict[str, Callable[[Stage], None]] = {
    "restored": restored,
    "snapshot": snapshot,
    "copied": copied,
    "incarnation": incarnation,
    "mistyped": mistyped,
    "forged": forged,
}


def twin_of(stage: Stage, region: RegionProcess) -> RegionProcess:
    """Return a process with the same region number, in its own directory."""
    twin = RegionProcess(region.number, stage.directory, "twin")
    stage.regions.running.append(twin)
    return twin


def greet(receiver: RegionProcess, number: int) -> None:
    """Claim that the tenth origin of that region has made many effects, and leave."""
    birth = Birth(Config(name="forger", region=9, cluster="tests", id_mode=STRICT), Replica(origin_of(9, 1)))
    birth.counts = {origin_of(number, 7): 9, birth.origin: 0}
    birth.founders = {origin_of(number, 7): None}
    config = Config(name="forger", region=9, cluster="tests", id_mode=STRICT)
    hello = make_hello(config, birth, VersionVector({origin_of(number, 7): 1_000}), [])
    with grpc.insecure_channel(receiver.address) as channel:
        call = wire_grpc.ReplicationStub(channel).Exchange(iter([EnvelopePacker().pack(wire.Message(hello=hello))]))
        try:
            for _ in call:
                break
        except grpc.RpcError:
            return  # rejected, as expected


def make(mistake: str, fsync: str) -> Outcome:
    with TemporaryDirectory(prefix="mistakes-") as directory, regions_in(Path(directory)) as regions:
        stage = Stage(regions, Path(directory), fsync)
        stage.begin()
        MISTAKES[mistake](stage)
        stage.regions.running = stage.all[:]
        began_s = time.monotonic()
        try:
            until(stage.healed, "healed", HEAL_S)
        except ProcessError:
            return Outcome(mistake, len(stage.acknowledged), stage.missing(), len(stage.digests()), HEAL_S)
        return Outcome(mistake, len(stage.acknowledged), 0, 1, time.monotonic() - began_s)


def main(
    times: Annotated[int, typer.Option(min=1, help="How many times each mistake is made.")] = 3,
    fsync: Annotated[str, typer.Option(help="Policy of the regions.")] = "everysec",
    mistake: Annotated[str, typer.Option(help="One mistake by name; all by default.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Restore, copy and mistype regions by mistake, on real processes."""
    if mistake and mistake not in MISTAKES:
        raise typer.BadParameter(f"no mistake {mistake!r}; there are: {', '.join(MISTAKES)}")
    outcomes = [make(name, fsync) for name in ([mistake] if mistake else MISTAKES) for _ in range(times)]
    if as_json:
        print(json.dumps([outcome.__dict__ for outcome in outcomes]))
    else:
        Console().print(table_of(outcomes))
    if not all(outcome.held for outcome in outcomes):
        raise typer.Exit(1)


def table_of(outcomes: list[Outcome]) -> Table:
    table = Table("mistake", "acknowledged", "missing somewhere", "digests", "seconds to heal")
    for outcome in outcomes:
        table.add_row(
            outcome.mistake,
            str(outcome.acknowledged),
            str(outcome.missing),
            "equal" if outcome.digests == 1 else str(outcome.digests),
            f"{outcome.heal_s:.1f}",
        )
    return table


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
