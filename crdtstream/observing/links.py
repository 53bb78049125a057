"""The links between regions, as both sides of each see them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from crdtstream.observing.reading import RegionReading, evicted
from crdtstream.observing.rows import LINK_TRANSFER, LinkRow


@dataclass(frozen=True)
class RegionLink:
    """What two regions say of the link between them; `reason` is why it is down, in the words of a refusal, and `shard`
    is whose link it is, where regions have several.
    """

    one: int
    other: int
    is_up: bool
    is_transferring: bool
    lag: int
    lag_ms: int
    unlinked_ms: int
    reason: str
    shard: int | None = None


def links(readings: Sequence[RegionReading], lag_ms: Mapping[tuple[int, int], int] | None = None) -> list[RegionLink]:
    """One for each two regions, from the readings of shards with one number; it is down if either side says so.
    `lag_ms` is for how long the first has held what the second lacks.
    """
    told: dict[tuple[int, int], list[LinkRow]] = {}
    gone = evicted(readings)
    for reading in readings:
        for row in reading.links if reading.answers else ():
            if row.region and row.region != reading.region and row.region not in gone:
                pair = (min(reading.region, row.region), max(reading.region, row.region))
                told.setdefault(pair, []).append(row)
    shard = next((each.shard for each in readings if each.shards > 1), None)
    return [link_of(pair, rows, lag_ms or {}, shard) for pair, rows in sorted(told.items())]


def link_of(
    pair: tuple[int, int], rows: Sequence[LinkRow], lag_ms: Mapping[tuple[int, int], int], shard: int | None
) -> RegionLink:
    down = [row for row in rows if not row.is_linked]
    reasons = dict.fromkeys(row.reason for row in down if row.reason)
    return RegionLink(
        one=pair[0],
        other=pair[1],
        is_up=not down,
        is_transferring=any(row.link == LINK_TRANSFER for row in rows),
        lag=max(row.lag for row in rows),
        lag_ms=max(lag_ms.get(pair, 0), lag_ms.get((pair[1], pair[0]), 0)),
        unlinked_ms=max((row.unlinked_ms for row in down), default=-1),
        reason="; ".join(reasons),
        shard=shard,
    )


def worst_links(found: Iterable[RegionLink]) -> list[RegionLink]:
    """Of the links that the shards of two regions have, the one that is down, or lags most."""
    worst: dict[tuple[int, int], RegionLink] = {}
    for link in sorted(found, key=lambda each: (each.is_up, -each.unlinked_ms, -each.lag_ms, -each.lag)):
        worst.setdefault((link.one, link.other), link)
    return [worst[pair] for pair in sorted(worst)]


def never_reached(readings: Sequence[RegionReading]) -> list[tuple[str, LinkRow]]:
    """The configured peers at which no region has answered, and the names of the regions that dial them."""
    return [(reading.name, row) for reading in readings if reading.answers for row in reading.links if not row.region]


def names_of(readings: Sequence[RegionReading]) -> dict[int, str]:
    """The name of each region that anybody knows."""
    names = {row.region: row.name for reading in readings for row in reading.links if row.region and row.name}
    names |= {reading.region: reading.name for reading in readings if reading.region}
    numbers = {row.region for reading in readings for row in reading.links if row.region}
    return {region: names.get(region, f"region {region}") for region in sorted(numbers | names.keys())}
