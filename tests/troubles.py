"""The five troubles of docs/runbook.md, made on real regions: each yields the region that an operator knows."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from crdtstream.demo.cluster import NAMES, Cluster
from crdtstream.processes.launching import Launcher
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from nemesis.disks import BALLAST, small_disk
from tests.region_processes import FIRST_DRAW

ENTRIES = 3_000
DISK_KIB = 256 << 10


@contextmanager
def link_down(_directory: Path) -> Iterator[RegionProcess]:
    """East and west have lost each other, and reach each other through north."""
    with Cluster() as cluster:
        cluster.link("east", "west").cut()
        cluster.regions["east"].await_links("north")
        yield cluster.regions["north"]


@contextmanager
def region_hung(_directory: Path) -> Iterator[RegionProcess]:
    """West's process is suspended: its connections stay open and silent."""
    with Cluster() as cluster:
        until(lambda: knows_all(cluster.regions["east"]), "east knows where the others are")
        west = cluster.regions["west"]
        west.signal(signal.SIGSTOP)
        yield cluster.regions["east"]
        west.signal(signal.SIGCONT)


def knows_all(region: RegionProcess) -> bool:
    rows = region.ask("CRDT.REGIONS")
    return sum(
        b"127.0.0.1:" in (row[at + 1] or b"")
        for row in rows
        for at in range(0, len(row), 2)
        if row[at] == b"redis-address"
    ) == len(NAMES)


@contextmanager
def regions_disagree(directory: Path) -> Iterator[RegionProcess]:
    """The memory of region 1 was cloned: each of its two processes gave another region an entry under one dot."""
    launcher = Launcher((sys.executable, "-c", FIRST_DRAW))
    with regions_in(directory) as regions:
        twins = [RegionProcess(1, directory / name, launcher=launcher) for name in ("one", "other")]
        east, west = regions.make(2, 3)
        regions.running += twins
        for twin, region in zip(twins, (east, west), strict=True):
            twin.data.parent.mkdir()
            twin.start(region, incarnation=0)
            region.start(twin, incarnation=0)
        for region in regions.running:
            region.await_serving()
        for twin, region in zip(twins, (east, west), strict=True):
            twin.ask("XADD", "orders", "*", "from", twin.data.parent.name)
            regions.await_agreement(twin, region)
            twin.kill()
            region.terminate()
        east.start(west, incarnation=0)
        west.start(east, incarnation=0)
        east.await_serving().await_links(west.name)
        yield east


@contextmanager
def group_lags(_directory: Path) -> Iterator[RegionProcess]:
    """One of 50 groups is not read any more."""
    with Cluster() as cluster:
        east = cluster.regions["east"]
        for number in range(50):
            east.create_group(f"orders:{number}", "billing")
        with east.client() as client:
            pipeline = client.pipeline(transaction=False)
            for _ in range(ENTRIES):
                pipeline.execute_command("XADD", "orders:17", "*", "item", "book")
            pipeline.execute()
        cluster.await_agreement(NAMES)
        yield east


@contextmanager
def disk_nearly_full(directory: Path) -> Iterator[RegionProcess]:
    """Only root can give a region a small disk."""
    with regions_in(directory) as regions:
        east, west = regions.make(1, 2)
        with small_disk(west.data, DISK_KIB):
            for region, peer in ((east, west), (west, east)):
                region.start(peer, incarnation=0)
            for region, peer in ((east, west), (west, east)):
                region.await_serving().await_links(peer.name)
            log_bytes = until(lambda: room(west, "log_bytes"), "west has looked at its volume")
            leave_free(west, log_bytes)
            yield east
            west.kill()


def room(region: RegionProcess, field: str) -> int:
    rows = dict(row.split(b":", 1) for row in region.ask("INFO", "persistence").splitlines() if b":" in row)
    return int(rows[field.encode()])


def leave_free(region: RegionProcess, free_bytes: int) -> None:
    """Fill the volume of the region up to this."""
    with (region.data / BALLAST).open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, room(region, "disk_free_bytes") - free_bytes)


Trouble = Callable[[Path], AbstractContextManager[RegionProcess]]
TROUBLES: dict[str, Trouble] = {
    "link down": link_down,
    "region hung": region_hung,
    "regions disagree": regions_disagree,
    "group lags": group_lags,
    "disk nearly full": disk_nearly_full,
}
