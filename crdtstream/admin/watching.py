"""`crdtstream admin status` and `top`: all regions on one screen, once or until `q`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crdtstream.admin.groups import shown, table_of_groups, waiting, walk
from crdtstream.admin.peers import shard_cell
from crdtstream.admin.settings import AdminSettings, print_json, run, state
from crdtstream.admin.standing import HEALTHY, ClusterStanding, Standings, look
from crdtstream.observing.certificates import DAY_S, first_end_s
from crdtstream.observing.info import RegionReport
from crdtstream.observing.lagging import LaggingGroup
from crdtstream.observing.links import names_of
from crdtstream.observing.reading import RedisPorts, RegionReading
from crdtstream.observing.walking import Walks
from crdtstream.observing.words import NOTHING, count, size

INTERVAL_S = 2.0
SHOWN_MAX = 12
GROUPS_TITLE = "groups that lag most"
GROUPS_SHOWN = 5
# The part of the time between two looks in which `top` visits streams, so that many cost a region no more than few.
WALK_SHARE = 0.1

# Commands a second of each region and shard.
CommandRates = Mapping[tuple[int, int], float]


def status(context: typer.Context) -> None:
    """Show all regions on one screen; exit with 0 if all answer, all links are up and the digests agree, else with 1.

    Lag alone is no failure. Regions that take writes are asked several times for digests that can be compared.
    """
    settings = state(context)
    found = run(standings_of(settings))
    if settings.as_json:
        print_json(as_json(found))
    else:
        settings.console.print(screen_of(found))
    raise typer.Exit(found.code)


def top(
    context: typer.Context,
    interval_s: Annotated[float, typer.Option("--interval", help="Seconds between two looks.", min=0.2)] = INTERVAL_S,
    once: Annotated[bool, typer.Option("--once", help="Show one screen and end, as without a terminal.")] = False,
) -> None:
    """Show all regions, and the groups that lag most, until q or Ctrl-C."""
    settings = state(context)
    if settings.as_json:
        raise typer.BadParameter("top is for people: crdtstream admin status --json is for programs")
    if once or not (settings.console.is_terminal and sys.stdin.isatty()):
        interval_s = 0.0
    with contextlib.suppress(KeyboardInterrupt):
        run(follow(settings, interval_s))


# Asking


@asynccontextmanager
async def ports_of(settings: AdminSettings) -> AsyncIterator[RedisPorts]:
    ports = RedisPorts(settings.access)
    try:
        yield ports
    finally:
        await ports.close()


async def standings_of(settings: AdminSettings) -> Standings:
    async with ports_of(settings) as ports:
        return await look(ports, settings.named, settings.timeout_s, finds_others=not settings.only)


async def follow(settings: AdminSettings, interval_s: float) -> None:
    """Show screen after screen; a single one if there is no interval."""
    async with ports_of(settings) as ports:
        view = TopView(settings, ports, interval_s)
        if not interval_s:
            settings.console.print(await view.next())
            return
        with keys() as pressed, Live(console=settings.console, screen=True, auto_refresh=False) as live:
            while not pressed.is_set():
                live.update(await view.next(), refresh=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(pressed.wait(), interval_s)


class TopView:
    """What `top` shows: the regions as they are now, and rates since the last look. Streams are visited a few at each
    look; without an interval there is one look, which visits all that it has the time for.
    """

    def __init__(self, settings: AdminSettings, ports: RedisPorts, interval_s: float) -> None:
        self._settings = settings
        self._ports = ports
        self._interval_s = interval_s
        self._walks = Walks(ports)
        self._readings = settings.named
        self._commands: dict[tuple[int, int], tuple[float, int]] = {}

    async def next(self) -> RenderableType:
        timeout_s = self._settings.timeout_s
        found = await look(self._ports, self._readings, timeout_s, finds_others=not self._settings.only)
        self._readings = list(found.readings)
        rates = self._rates(found, time.monotonic())
        at = Text(f"{time.strftime('%H:%M:%S')}   q ends", style="dim")
        return Group(
            at, screen_of(found, rates), "", await self._groups([each for each in found.readings if each.answers])
        )

    async def _groups(self, answering: Sequence[RegionReading]) -> Table:
        if not self._interval_s:
            walked = await walk(self._ports, answering, self._settings.timeout_s, GROUPS_SHOWN)
            return table_of_groups(walked.groups, GROUPS_TITLE)
        ends_s = time.monotonic() + WALK_SHARE * self._interval_s
        addresses = {each.label: each.address for each in answering}
        await self._walks.step(addresses)
        while not self._walks.is_complete() and time.monotonic() < ends_s:
            await self._walks.step(addresses)
        so_far = "" if self._walks.is_complete() else ", so far"
        return table_of_lagging(self._walks.groups(), f"{GROUPS_TITLE}{so_far}")

    def _rates(self, found: Standings, now_s: float) -> CommandRates:
        rates: dict[tuple[int, int], float] = {}
        for reading in found.readings:
            if reading.report is None or not reading.answers:
                continue
            then_s, before = self._commands.get(reading.place, (now_s, 0))
            if now_s > then_s and reading.report.commands >= before:
                rates[reading.place] = (reading.report.commands - before) / (now_s - then_s)
            self._commands[reading.place] = (now_s, reading.report.commands)
        return rates


@contextmanager
def keys() -> Iterator[asyncio.Event]:
    """An event that is set when `q` is pressed; the terminal is as before afterwards."""
    pressed = asyncio.Event()
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()

    def read() -> None:
        if b"q" in os.read(number, 16).lower():
            pressed.set()

    tty.setcbreak(number)
    loop.add_reader(number, read)
    try:
        yield pressed
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


# Showing


def screen_of(found: Standings, rates: CommandRates | None = None) -> RenderableType:
    """A line that says it all, a row for each region or shard, and what is wrong."""
    healthy = found.code == HEALTHY
    failures = found.failures()
    headline = Text(found.headline(), style="bold green" if healthy else "bold red")
    shown: list[RenderableType] = [headline, table_of(found, rates)]
    shown += [Text(f"✗ {text}", style="red") for text in failures[:SHOWN_MAX]]
    if len(failures) > SHOWN_MAX:
        shown.append(Text(f"  and {len(failures) - SHOWN_MAX} more failures"))
    shown += [Text(f"! {text}", style="yellow") for text in found.warnings()[:SHOWN_MAX]]
    return Group(*shown)


def table_of(found: Standings, rates: CommandRates | None) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    if found.shards[0].shard is not None:
        table.add_column("shard", justify="right", no_wrap=True)
    table.add_column("region", max_width=20, no_wrap=True, overflow="ellipsis")
    table.add_column("state", max_width=12, no_wrap=True, overflow="ellipsis")
    for name in ("links", "behind", "keys", "clients", "cmds/s", "memory", "disk free", "log kept", "cert"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found.shards:
        first = shard_cell(each.shard)
        for reading in each.readings:
            table.add_row(*first, *row_of(each, reading, rates), style="" if reading.answers else "red")
        for name in each.unasked.values():
            table.add_row(*first, name, "not asked", style="red")
    return table


def row_of(found: ClusterStanding, reading: RegionReading, rates: CommandRates | None) -> list[str]:
    report = reading.report
    if report is None or not reading.answers:
        return [reading.name, "no answer", links_of(found, reading.region)]
    per_s = report.commands_per_s if rates is None else rates.get(reading.place)
    return [
        reading.name,
        "loading" if report.loading else "serves",
        links_of(found, reading.region),
        count(found.behind(reading)),
        count(report.keys),
        count(report.clients),
        count(None if per_s is None else round(per_s)),
        size(report.memory_bytes),
        size(report.disk_free_bytes),
        size(report.log_held_bytes),
        days_left(report, found.at_s),
    ]


def days_left(report: RegionReport, now_s: float) -> str:
    """Of the certificate that ends first; negative where it has ended."""
    end_s = first_end_s(report.certificates)
    return NOTHING if end_s is None else f"{(end_s - now_s) // DAY_S:.0f} d"


def table_of_lagging(found: Sequence[LaggingGroup], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for name, width in (("stream", 32), ("group", 20), ("in", 14)):
        table.add_column(name, max_width=width, no_wrap=True, overflow="ellipsis")
    for name in ("lag", "oldest waits", "pending"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found:
        named = (shown(each.key), shown(each.group), each.region)
        table.add_row(*named, count(each.lag), waiting(each.oldest_id), count(each.pending))
    return table


def links_of(found: ClusterStanding, region: int) -> str:
    own = [link for link in found.links if region in (link.one, link.other)]
    return f"{sum(link.is_up for link in own)}/{len(own)}" if own else NOTHING


def as_json(found: Standings) -> dict[str, Any]:
    return {
        "cluster": found.cluster,
        "healthy": found.code == HEALTHY,
        "digests": found.digest_result,
        "failures": found.failures(),
        "warnings": found.warnings(),
        "regions": [region_json(each, reading) for each in found.shards for reading in each.readings],
        "links": [row for each in found.shards for row in links_json(each)],
    }


def links_json(found: ClusterStanding) -> list[dict[str, Any]]:
    names = names_of(found.readings)
    return [
        {
            "between": [names[link.one], names[link.other]],
            **shard_field(found.shard),
            "up": link.is_up,
            "lag": link.lag,
            "unlinked_ms": link.unlinked_ms,
            "reason": link.reason,
        }
        for link in found.links
    ]


def shard_field(shard: int | None) -> dict[str, int]:
    return {} if shard is None else {"shard": shard}


def region_json(found: ClusterStanding, reading: RegionReading) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": reading.name,
        "region": reading.region,
        **shard_field(found.shard),
        "address": reading.address,
        "answers": reading.answers,
        "error": reading.error,
    }
    report, digest = reading.report, found.digests.get(reading.region)
    if report is None or not reading.answers:
        return told
    return told | {
        "loading": report.loading,
        "behind": found.behind(reading),
        "digest": digest.digest if digest is not None else "",
        "keys": report.keys,
        "clients": report.clients,
        "commands_per_s": report.commands_per_s,
        "memory_bytes": report.memory_bytes,
        "memory_limit_bytes": report.memory_limit_bytes,
        "disk_free_bytes": report.disk_free_bytes,
        "log_held_bytes": report.log_held_bytes,
        "certificates_end_s": dict(report.certificates),
        "version": report.version,
    }
