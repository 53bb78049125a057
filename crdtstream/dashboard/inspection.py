"""One stream and one group, as all regions have them, side by side; and what differs between them. Pure.

Entries are compared by ID and origin, runs by their ends: what one region has and another has not is what a link that
is down keeps from it, or what a region removed or acknowledged since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crdtstream.dashboard.decoding import shown
from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.rows import (
    ConsumerRow,
    GroupRow,
    StreamRow,
    consumer_rows,
    fields_of_row,
    group_rows,
    stream_row,
)

Run = tuple[str, str]


@dataclass(frozen=True)
class OriginPart:
    """What one origin added to a stream, as one region has it."""

    origin: str
    entries: int
    first_id: str
    last_id: str
    byte_count: int


@dataclass(frozen=True)
class Entry:
    """One entry with its origin; fields as they came."""

    entry_id: str
    fields: tuple[bytes, ...]
    origin: str


@dataclass(frozen=True)
class StreamSide:
    """A stream in one region; no row where the stream does not exist there, or the region gave an error."""

    region: str
    row: StreamRow | None
    digest: str
    parts: tuple[OriginPart, ...]
    groups: tuple[GroupRow, ...]
    error: str = ""

    @property
    def byte_count(self) -> int:
        return sum(part.byte_count for part in self.parts)


@dataclass(frozen=True)
class GroupPart:
    """The positions of a group for one origin, in one region."""

    origin: str
    start: str
    delivered: str
    frontier: str
    lag: int
    pending: int
    runs: int
    acked: tuple[Run, ...]


@dataclass(frozen=True)
class PendingEntry:
    """An entry that a consumer holds."""

    entry_id: str
    consumer: bytes
    idle_ms: int
    deliveries: int


@dataclass(frozen=True)
class GroupSide:
    """A group in one region; `coming` is what a consumer there would get now."""

    region: str
    lag: int
    coming: tuple[Entry, ...]
    parts: tuple[GroupPart, ...]
    consumers: tuple[ConsumerRow, ...]
    pending: tuple[PendingEntry, ...]
    error: str = ""

    @property
    def pending_count(self) -> int:
        return sum(part.pending for part in self.parts)


@dataclass(frozen=True)
class RegionDifference:
    """One thing that not all regions have: an entry, a group, or acknowledged runs."""

    kind: str
    name: str
    origin: str
    has: tuple[str, ...]
    lacks: tuple[str, ...]


# Reading


def entries_of(reply: Any) -> tuple[Entry, ...]:
    return tuple(Entry(entry_id.decode(), tuple(fields or ()), origin.decode()) for entry_id, fields, origin in reply)


def stream_side(region: str, answers: Sequence[RegionAnswer]) -> StreamSide:
    """From the answers to XINFO STREAM, CRDT.DIGEST, CRDT.STREAM SHOW and XINFO GROUPS."""
    error = next((answer.error for answer in answers if answer.error), "")
    if error:
        return StreamSide(region, None, "", (), (), error)
    information, digest, parts, groups = (answer.value for answer in answers)
    told = digest.decode() if digest is not None else ""
    return StreamSide(region, stream_row(information), told, origin_parts(parts), tuple(group_rows(groups)))


def origin_parts(reply: Any) -> tuple[OriginPart, ...]:
    rows = [fields_of_row(row) for row in reply]
    return tuple(
        OriginPart(
            row["origin"].decode(), row["entries"], row["first-id"].decode(), row["last-id"].decode(), row["bytes"]
        )
        for row in rows
    )


def group_side(region: str, answers: Sequence[RegionAnswer]) -> GroupSide:
    """From the answers to CRDT.GROUP SHOW, XINFO CONSUMERS and XPENDING."""
    error = next((answer.error for answer in answers if answer.error), "")
    if error:
        return GroupSide(region, 0, (), (), (), (), error)
    group, consumers, pending = (answer.value for answer in answers)
    fields = fields_of_row(group)
    parts = tuple(group_part(fields_of_row(row)) for row in fields["origins"])
    held = tuple(PendingEntry(row[0].decode(), row[1], row[2], row[3]) for row in pending)
    return GroupSide(region, fields["lag"], entries_of(fields["next"]), parts, tuple(consumer_rows(consumers)), held)


def group_part(row: Mapping[str, Any]) -> GroupPart:
    return GroupPart(
        origin=row["origin"].decode(),
        start=row["start"].decode(),
        delivered=row["delivered"].decode(),
        frontier=row["frontier"].decode(),
        lag=row["lag"],
        pending=row["pending"],
        runs=row["runs"],
        acked=tuple((low.decode(), high.decode()) for low, high in row["acked"]),
    )


# Comparing


def order(entry_id: str) -> tuple[int, int]:
    ms, _, seq = entry_id.partition("-")
    return int(ms), int(seq or 0)


def differing_origins(sides: Sequence[StreamSide]) -> list[str]:
    """The origins of which regions hold different parts."""
    held = [{part.origin: part for part in side.parts} for side in sides if not side.error]
    origins = sorted({origin for parts in held for origin in parts})
    return [origin for origin in origins if len({parts.get(origin) for parts in held}) > 1]


def entry_differences(pages: Mapping[str, Sequence[Entry]]) -> list[RegionDifference]:
    """The entries that not all of these regions have, in the order of IDs; the pages are of one range of IDs."""
    names: dict[str, set[tuple[str, str]]] = {
        region: {(entry.entry_id, entry.origin) for entry in entries} for region, entries in pages.items()
    }
    everything = sorted(set().union(*names.values()), key=lambda name: (order(name[0]), name[1])) if names else []
    return [
        difference("entry", entry_id, origin, {region: (entry_id, origin) in held for region, held in names.items()})
        for entry_id, origin in everything
        if not all((entry_id, origin) in held for held in names.values())
    ]


def difference(kind: str, name: str, origin: str, held: Mapping[str, bool]) -> RegionDifference:
    has = tuple(region for region, is_held in held.items() if is_held)
    return RegionDifference(kind, name, origin, has, tuple(region for region in held if region not in has))


def comparable(pages: Mapping[str, Sequence[Entry]], most: int) -> dict[str, list[Entry]]:
    """Of pages that begin with the newest entry, what all of them reach down to: below the last ID of a full page a
    region may have more than its page.
    """
    ends = [entries[-1].entry_id for entries in pages.values() if len(entries) >= most]
    bound = max(map(order, ends)) if ends else (0, 0)
    return {region: [each for each in entries if order(each.entry_id) >= bound] for region, entries in pages.items()}


def group_differences(sides: Sequence[StreamSide]) -> list[RegionDifference]:
    known = {side.region: {row.name for row in side.groups} for side in sides if not side.error}
    names = sorted(set().union(*known.values())) if known else []
    return [
        difference("group", shown(name), "", {region: name in held for region, held in known.items()})
        for name in names
        if not all(name in held for held in known.values())
    ]


def run_differences(group: str, sides: Sequence[GroupSide]) -> list[RegionDifference]:
    """The acknowledged runs that not all regions know, for each origin."""
    known = {side.region: {part.origin: part.acked for part in side.parts} for side in sides if not side.error}
    found: list[RegionDifference] = []
    for origin in sorted({origin for parts in known.values() for origin in parts}):
        everything = {run for parts in known.values() for run in parts.get(origin, ())}
        for low, high in sorted(everything, key=lambda run: (order(run[0]), order(run[1]))):
            held = {region: covers(parts.get(origin, ()), (low, high)) for region, parts in known.items()}
            if not all(held.values()):
                found.append(difference("run", f"{group}: {low} to {high}", origin, held))
    return found


def covers(runs: Sequence[Run], run: Run) -> bool:
    low, high = order(run[0]), order(run[1])
    return any(order(start) <= low and high <= order(end) for start, end in runs)


# Pending entries


@dataclass(frozen=True)
class ConsumerHolding:
    """What one consumer holds: how much, for how long, and how often it was delivered."""

    consumer: bytes
    count: int
    oldest_ms: int
    idle_ms: int
    deliveries_max: int


AGES_MS = ((60_000, "up to a minute"), (600_000, "up to 10 min"), (3_600_000, "up to an hour"))
OLDER = "longer"


def holdings(side: GroupSide) -> list[ConsumerHolding]:
    """Each consumer of a region; age and deliveries are of the pending entries that were asked for."""
    held: dict[bytes, list[PendingEntry]] = {}
    for entry in side.pending:
        held.setdefault(entry.consumer, []).append(entry)
    return [
        ConsumerHolding(
            row.name,
            row.pending,
            max((entry.idle_ms for entry in held.get(row.name, [])), default=0),
            row.idle_ms,
            max((entry.deliveries for entry in held.get(row.name, [])), default=0),
        )
        for row in side.consumers
    ]


def by_age(pending: Sequence[PendingEntry]) -> dict[str, int]:
    found = {name: 0 for _, name in AGES_MS} | {OLDER: 0}
    for entry in pending:
        found[next((name for most, name in AGES_MS if entry.idle_ms <= most), OLDER)] += 1
    return found


def by_deliveries(pending: Sequence[PendingEntry]) -> dict[int, int]:
    """How many entries were delivered how often."""
    found: dict[int, int] = {}
    for entry in pending:
        found[entry.deliveries] = found.get(entry.deliveries, 0) + 1
    return dict(sorted(found.items()))


def most_delivered(pending: Sequence[PendingEntry], count: int) -> list[PendingEntry]:
    return sorted((entry for entry in pending if entry.deliveries > 1), key=lambda entry: -entry.deliveries)[:count]
