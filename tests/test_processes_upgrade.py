"""A cluster is upgraded one region at a time, from the release before, while clients write and read all the time.

The release before is taken from the history of the repository, and runs beside this one in the same interpreter; where
there is no history, these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.processes.launching import LOCAL, Launcher
from crdtstream.processes.region import RegionProcess, Regions, await_agreement, regions_in
from crdtstream.processes.waiting import DEADLINE_S, until

ROOT = Path(__file__).resolve().parent.parent
# The last commit that speaks protocol 2 alone.
BEFORE = "4921f41"
KEY, GROUP = "orders", "billing"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """Starts the release before."""
    git = shutil.which("git")
    if git is None or not (ROOT / "pyproject.toml").exists():
        pytest.skip("needs git and a checkout")
    packed = subprocess.run([git, "archive", BEFORE, "crdtstream", "pyproject.toml"], cwd=ROOT, capture_output=True)
    if packed.returncode:
        pytest.skip(f"needs the history of the repository, with commit {BEFORE}")
    directory = tmp_path_factory.mktemp("before")
    # Not by `tarfile`, which wants a filter in new releases and has none in CPython 3.11.2.
    subprocess.run(["tar", "-x", "-C", str(directory)], input=packed.stdout, check=True)
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    return Launcher((sys.executable, "-m", "crdtstream"), directory=directory, environment=environment)


class Client(threading.Thread):
    """Adds, reads and acknowledges in one region, and in another one while that does not answer. `told` are the values
    whose adds were acknowledged; what was not answered may be added or not.
    """

    def __init__(self, number: int, regions: list[RegionProcess]) -> None:
        super().__init__(daemon=True)
        self._number = number
        self._regions = regions
        self._ends = threading.Event()
        self.told: list[str] = []
        self.read: set[str] = set()
        self.moves = 0
        self.fault = ""

    def run(self) -> None:
        at = self._number
        while not self._ends.is_set():
            region = self._regions[at % len(self._regions)]
            try:
                with region.client(DEADLINE_S, decode=True) as client:
                    while not self._ends.is_set():
                        self._use(client)
            except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError, redis.exceptions.ReadOnlyError):
                at += 1
                self.moves += 1
                self._ends.wait(0.02)
            except redis.ResponseError as error:
                self.fault = f"{region}: {error}"
                return

    def _use(self, client: Any) -> None:
        value = f"{self._number}.{len(self.told)}.{self.moves}"
        client.execute_command("XADD", KEY, "*", "value", value)
        self.told.append(value)
        if len(self.told) % 10 == 0:
            found = client.execute_command(
                "XREADGROUP", "GROUP", GROUP, f"c{self._number}", "COUNT", "50", "STREAMS", KEY, ">"
            )
            for entry, (_, read) in found[0][1] if found else []:
                self.read.add(read)
                client.execute_command("XACK", KEY, GROUP, entry)

    def end(self) -> None:
        self._ends.set()
        self.join(DEADLINE_S)
        assert not self.fault, self.fault


def start(region: RegionProcess, cluster: list[RegionProcess]) -> None:
    region.start(*[other for other in cluster if other is not region])


def await_linked(cluster: list[RegionProcess]) -> None:
    for region in cluster:
        region.await_serving().await_admitted()
        region.await_links(*[other.name for other in cluster if other is not region])


def roll(regions: Regions, count: int, before: Launcher, adds: int) -> None:
    cluster = regions.make(*range(1, count + 1))
    for region in cluster:
        region.launcher = before
        start(region, cluster)
    await_linked(cluster)
    cluster[0].create_group(KEY, GROUP)
    await_agreement(cluster)
    clients = [Client(number, cluster) for number in range(count)]
    for client in clients:
        client.start()
    for region in cluster:
        await_adds(clients, adds)
        assert region.terminate() == 0
        region.launcher = LOCAL
        start(region, cluster)
        await_linked(cluster)
    await_adds(clients, adds)
    for client in clients:
        client.end()
    await_agreement(cluster)
    check(cluster, clients)


def await_adds(clients: list[Client], count: int) -> None:
    """Every client gets on, whichever releases run now."""
    marks = [len(client.told) + count for client in clients]

    def got_on() -> bool:
        faults = [client.fault for client in clients if client.fault]
        assert not faults, faults
        return all(len(client.told) >= mark for client, mark in zip(clients, marks, strict=True))

    until(got_on, "clients write")


def check(cluster: list[RegionProcess], clients: list[Client]) -> None:
    told = {value for client in clients for value in client.told}
    for region in cluster:
        held = [entry[1][1].decode() for entry in region.ask("XRANGE", KEY, "-", "+")]
        assert not told.difference(held), f"{region} lacks what clients were told"
        assert len(held) == len(set(held)), "an entry is there twice"
        assert "link-refused" not in region.log(), region.log_end()
    assert any(client.moves for client in clients) and all(client.read for client in clients)


def test_two_regions_one_after_the_other(tmp_path: Path, before: Launcher) -> None:
    with regions_in(tmp_path) as regions:
        roll(regions, 2, before, adds=20)


@pytest.mark.slow
def test_three_regions_one_after_the_other(tmp_path: Path, before: Launcher) -> None:
    with regions_in(tmp_path) as regions:
        roll(regions, 3, before, adds=1000)


def test_what_the_release_before_wrote_is_read(tmp_path: Path, before: Launcher) -> None:
    """Its checkpoint, and the log behind it."""
    with regions_in(tmp_path) as regions:
        (region,) = regions.make(1)
        region.launcher = before
        region.start()
        region.await_serving()
        region.create_group(KEY, GROUP)
        added = [region.ask("XADD", KEY, "*", "n", number) for number in range(50)]
        region.ask("SAVE")
        region.ask("XDEL", KEY, added[7])
        digest = region.digest()
        region.kill()
        region.launcher = LOCAL
        region.start()
        region.await_serving()
        assert region.digest() == digest
