"""`crdtstream admin groups`: all groups of all streams in all regions, those that lag most first.

A region delivers to its own consumers, so each has a lag of its own; a row shows the greatest, and where it is. The
walk ends with the time for the command, and says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.table import Table

from crdtstream.admin.comparison import AGREE, UNREACHABLE
from crdtstream.admin.settings import AdminSettings, print_json, run, state
from crdtstream.observing.reading import RedisPorts, RegionReading, labelled, read_all
from crdtstream.observing.rows import GroupRow, fields_of_row, group_rows
from crdtstream.observing.words import NOTHING, age_ms, count, duration, several

KEYS_A_PAGE = 500
SHOWN = 20
GroupPlace = tuple[bytes, bytes]


@dataclass(frozen=True)
class GroupStanding:
    """A group of a stream in every region that has told of it; `oldest_id` is the first entry that waits where the lag
    is greatest, and `shard` has the stream, where regions have several.
    """

    key: bytes
    group: bytes
    rows: Mapping[str, GroupRow]
    shard: int | None = None
    oldest_id: str = ""

    @property
    def lag(self) -> int:
        return max(row.lag or 0 for row in self.rows.values())

    @property
    def most(self) -> str:
        """The region in which it lags most."""
        return max(self.rows, key=lambda name: self.rows[name].lag or 0)

    @property
    def pending(self) -> int:
        return sum(row.pending for row in self.rows.values())

    @property
    def consumers(self) -> int:
        return sum(row.consumers for row in self.rows.values())


@dataclass(frozen=True)
class GroupsWalk:
    """What a walk has found; `cut` says why it is not everything."""

    groups: list[GroupStanding]
    group_count: int
    streams: int
    cut: str


def groups(
    context: typer.Context,
    shown_max: Annotated[int, typer.Option("--count", help="Groups that are shown at most.", min=1)] = SHOWN,
) -> None:
    """Show the groups of all streams in all regions, those that lag most first."""
    settings = state(context)
    found, silent = run(walked(settings, shown_max))
    if settings.as_json:
        print_json(as_json(found, silent))
    else:
        settings.console.print(table_of_groups(found.groups, "groups by lag"))
        settings.console.print(caption(found))
        for text in silent:
            settings.console.print(text)
    raise typer.Exit(UNREACHABLE if silent else AGREE)


async def walked(settings: AdminSettings, shown_max: int) -> tuple[GroupsWalk, list[str]]:
    """The groups, and which regions did not answer."""
    ports = RedisPorts(settings.access)
    ports.prepare(settings.named)
    began_s = time.monotonic()
    try:
        readings = await read_all(ports, settings.named, settings.timeout_s, not settings.only)
        answering = [each for each in readings if each.answers]
        left_s = max(0.1, settings.timeout_s - (time.monotonic() - began_s))
        found = await walk(ports, answering, left_s, shown_max)
    finally:
        await ports.close()
    return found, [f"{each.label} does not answer: {each.error}" for each in readings if not each.answers]


async def walk(ports: RedisPorts, answering: Sequence[RegionReading], timeout_s: float, shown_max: int) -> GroupsWalk:
    """Ask all regions and shards at once for the groups of all streams, until the time is over."""
    ends_s = time.monotonic() + timeout_s
    walks = [RegionWalk(ports, each) for each in answering]
    # What is shown is asked again, for which a tenth of the time is kept.
    await asyncio.gather(*[each.go(ends_s - timeout_s / 10) for each in walks])
    rows: dict[tuple[int | None, GroupPlace], dict[str, GroupRow]] = {}
    for each in walks:
        for place, row in each.found.items():
            rows.setdefault((each.shard, place), {})[each.name] = row
    standings = [GroupStanding(key, group, regions, shard) for (shard, (key, group)), regions in rows.items()]
    first = sorted(standings, key=lambda each: (-each.lag, each.key, each.group))[:shown_max]
    shown = await with_ages(ports, answering, first, max(0.05, ends_s - time.monotonic()))
    cut = "; ".join(f"{labelled(each.name, each.shard)}: {each.cut}" for each in walks if each.cut)
    return GroupsWalk(shown, len(standings), streams_in(walks), cut)


def streams_in(walks: Iterable[RegionWalk]) -> int:
    """Of each shard, as many as the region has that has told of most."""
    found: dict[int | None, int] = {}
    for each in walks:
        found[each.shard] = max(each.keys, found.get(each.shard, 0))
    return sum(found.values())


class RegionWalk:
    """The walk over the streams of one region, or of one of its shards."""

    def __init__(self, ports: RedisPorts, reading: RegionReading) -> None:
        self._port = ports.port(reading.address)
        self.name = reading.name
        self.shard = reading.shard if reading.shards > 1 else None
        self.found: dict[GroupPlace, GroupRow] = {}
        self.keys = 0
        self.cut = ""

    async def go(self, ends_s: float) -> None:
        cursor = b"0"
        while True:
            answer = await self._port.ask(("SCAN", cursor, "COUNT", KEYS_A_PAGE), max(0.0, ends_s - time.monotonic()))
            if answer.error:
                self.cut = self._reason(answer.error, ends_s)
                return
            cursor, keys = answer.value
            if keys and not await self._ask_groups(keys, ends_s):
                return
            if cursor == b"0":
                return

    async def _ask_groups(self, keys: list[bytes], ends_s: float) -> bool:
        questions = [("XINFO", "GROUPS", key) for key in keys]
        answers = await self._port.ask_all(questions, max(0.0, ends_s - time.monotonic()))
        if answers[0].unreachable:
            self.cut = self._reason(answers[0].error, ends_s)
            return False
        self.keys += len(keys)
        for key, answer in zip(keys, answers, strict=True):
            # A stream may have gone since, or be closed to this user.
            for row in [] if answer.error else group_rows(answer.value):
                self.found[key, row.name] = row
        return True

    def _reason(self, error: str, ends_s: float) -> str:
        late = time.monotonic() >= ends_s
        return f"cut short after {several(self.keys, 'stream')}: wait longer with --timeout" if late else error


async def with_ages(
    ports: RedisPorts, answering: Sequence[RegionReading], shown: Iterable[GroupStanding], timeout_s: float
) -> list[GroupStanding]:
    """Add the first entry that waits, where the lag is greatest."""
    addresses = {(each.name, each.shard if each.shards > 1 else None): each.address for each in answering}

    async def with_age(each: GroupStanding) -> GroupStanding:
        if not each.lag:
            return each
        question = ("CRDT.GROUP", "SHOW", each.key, each.group, "COUNT", 1)
        answer = await ports.ask(addresses[each.most, each.shard], *question, timeout_s=timeout_s)
        coming = [] if answer.error else fields_of_row(answer.value)["next"]
        return replace(each, oldest_id=coming[0][0].decode()) if coming else each

    return list(await asyncio.gather(*[with_age(each) for each in shown]))


# Showing


def table_of_groups(found: Iterable[GroupStanding], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    table.add_column("stream", max_width=32, no_wrap=True, overflow="ellipsis")
    table.add_column("group", max_width=20, no_wrap=True, overflow="ellipsis")
    table.add_column("lag", justify="right", no_wrap=True)
    table.add_column("in", max_width=14, no_wrap=True, overflow="ellipsis")
    for name in ("oldest waits", "pending", "consumers"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found:
        table.add_row(
            shown(each.key),
            shown(each.group),
            count(each.lag),
            labelled(each.most, each.shard) if each.lag else NOTHING,
            waiting(each.oldest_id),
            count(each.pending),
            count(each.consumers),
        )
    return table


def waiting(entry_id: str) -> str:
    ms = age_ms(entry_id, round(1000 * time.time()))
    return NOTHING if ms is None else duration(ms)


def shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def caption(found: GroupsWalk) -> str:
    number = several(found.group_count, "group")
    told = f"{number} in {several(found.streams, 'stream')}, {len(found.groups):,} shown"
    return f"{told}; {found.cut}" if found.cut else told


def as_json(found: GroupsWalk, silent: list[str]) -> dict[str, Any]:
    return {
        "streams": found.streams,
        "groups": found.group_count,
        "complete": not found.cut and not silent,
        "cut": found.cut,
        "failures": silent,
        "rows": [row_json(each) for each in found.groups],
    }


def row_json(each: GroupStanding) -> dict[str, Any]:
    return {
        "stream": shown(each.key),
        "group": shown(each.group),
        **({} if each.shard is None else {"shard": each.shard}),
        "lag": each.lag,
        "in": each.most,
        "oldest_id": each.oldest_id,
        "pending": each.pending,
        "consumers": each.consumers,
        "regions": {
            name: {"lag": row.lag, "pending": row.pending, "consumers": row.consumers}
            for name, row in each.rows.items()
        },
    }
