"""`python -m nemesis.restarts`: kills and starts all regions at once, repeatedly; then one region is evicted.

After each start every region must create its own group, which it may only do once it is admitted again. The time is
measured from the start of the last process until the last of these groups exists, and shown beside the time until all
regions serve.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.region import RegionProcess, await_agreement, regions_in

MS = 1_000


def start_all(regions: list[RegionProcess], fsync: str) -> None:
    for region in regions:
        region.start(*[other for other in regions if other is not region], fsync=fsync)


def one_round(regions: list[RegionProcess], number: int, fsync: str) -> tuple[float, float]:
    """Return milliseconds until all regions serve, and until each has created a group."""
    for region in regions:
        region.kill()
    start_all(regions, fsync)
    began_s = time.monotonic()
    for region in regions:
        region.await_serving()
    serving_ms = (time.monotonic() - began_s) * MS
    for region in regions:
        region.create_group("log", f"g{number}-{region.number}", "$")
    return serving_ms, (time.monotonic() - began_s) * MS


def main(
    times: Annotated[int, typer.Option(min=1, help="How many times all regions are killed and started.")] = 50,
    fsync: Annotated[str, typer.Option(help="Policy of the regions.")] = "everysec",
) -> None:
    """Restart three regions together."""
    with TemporaryDirectory(prefix="restarts-") as directory, regions_in(Path(directory)) as owned:
        regions = owned.make(1, 2, 3)
        start_all(regions, fsync)
        for region in regions:
            region.await_serving()
        rounds = [one_round(regions, number, fsync) for number in range(times)]
        owned.await_agreement()  # effects that an evicted region has not sent are lost
        regions[2].kill()
        regions[0].ask("CRDT.EVICT", "3", "FORCE")
        regions[1].create_group("log", "after", "$")
        await_agreement(regions[:2])
        groups = len(regions[0].ask("XINFO", "GROUPS", "log"))
        table = Table("ms from start", "min", "median", "max")
        for name, values in (("all serve", [row[0] for row in rounds]), ("groups created", [row[1] for row in rounds])):
            table.add_row(name, *(f"{value:.0f}" for value in (min(values), statistics.median(values), max(values))))
        Console().print(table, f"{times} rounds; {groups} groups, one of them created after an eviction")
        if groups != 1 + len(regions) * times:
            raise typer.Exit(1)


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
