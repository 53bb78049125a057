"""What the readings mean: do the regions agree, who is behind, and which links are down. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from crdtstream.observing.info import lacking, union
from crdtstream.observing.links import RegionLink
from crdtstream.observing.reading import RegionReading, by_shard, labelled
from crdtstream.observing.words import duration, several

# What is on its way for less than this is no lag: regions write, and are asked, at different moments.
LATE_MS = 3_000
AGREE, BEHIND, DIFFER, UNKNOWN = "agree", "behind", "differ", "unknown"


@dataclass(frozen=True)
class Place:
    """A region in the drawing, or one of its shards, whether it is asked or only known from the others. `is_silent` is
    true if nothing of the region answers.
    """

    region: int
    name: str
    is_asked: bool
    error: str
    loading: str
    lag: int
    lag_ms: int
    shard: int | None = None
    is_silent: bool = False

    @property
    def label(self) -> str:
        return labelled(self.name, self.shard)

    @property
    def is_late(self) -> bool:
        return self.lag > 0 and self.lag_ms > LATE_MS


@dataclass(frozen=True)
class Headline:
    """The answer to the question that the dashboard opens on: one word for the colour, a sentence, and details."""

    kind: str
    headline: str
    details: tuple[str, ...]


@dataclass(frozen=True)
class DigestRound:
    """The digests that regions returned together, by region; and when they were equal last (0 for never). The first
    round has not `ended` for a while after the start. `shard` is whose digests these are, where regions have several.
    """

    digests: Mapping[int, str]
    vectors_equal: bool
    equal_s: float
    ended: bool = True
    shard: int | None = None

    @property
    def are_equal(self) -> bool:
        return len(self.digests) > 1 and len(set(self.digests.values())) == 1

    @property
    def differ(self) -> bool:
        """Whether regions hold different state, although they have applied the same."""
        return self.vectors_equal and not self.are_equal and len(self.digests) > 1


def worst_round(rounds: Iterable[DigestRound]) -> DigestRound:
    """Of all shards: one that differs, else the one whose digests were equal the longest ago."""
    return min(rounds, key=lambda each: (not each.differ, each.are_equal, each.ended, each.equal_s))


def places(readings: Sequence[RegionReading], behind_ms: Mapping[tuple[int, int], int]) -> list[Place]:
    """All regions that somebody knows, by number, and each of their shards; `behind_ms` is by region and shard."""
    found = [place for each in by_shard(readings).values() for place in places_of(each, behind_ms)]
    return sorted(found, key=lambda place: (place.region, place.shard or 0))


def worst_places(found: Iterable[Place]) -> list[Place]:
    """Of each region the shard that is worst off."""
    regions: dict[int, list[Place]] = {}
    for place in found:
        regions.setdefault(place.region, []).append(place)
    return [replace(max(own, key=gravity), is_silent=all(each.error for each in own)) for own in regions.values()]


def gravity(place: Place) -> tuple[bool, bool, bool, int, int]:
    return bool(place.error), not place.is_asked, bool(place.loading), place.lag_ms, place.lag


def places_of(readings: Sequence[RegionReading], behind_ms: Mapping[tuple[int, int], int]) -> list[Place]:
    """Those of one shard."""
    found = {reading.region: place_of(reading, readings, behind_ms) for reading in readings if reading.region}
    shard = next((each.shard for each in readings if each.shards > 1), None)
    for reading in readings:
        for row in reading.links:
            if row.region and row.region not in found:
                name = row.name or f"region {row.region}"
                found[row.region] = Place(row.region, name, False, "", "", row.lag, 0, shard)
    return list(found.values())


def place_of(
    reading: RegionReading, readings: Sequence[RegionReading], behind_ms: Mapping[tuple[int, int], int]
) -> Place:
    shard = reading.shard if reading.shards > 1 else None
    if reading.report is None:
        return Place(reading.region, reading.name, True, reading.error, "", 0, 0, shard)
    everything = union(each.report.vector for each in readings if each.report is not None)
    lag = lacking(everything, reading.report.vector)
    lag_ms = behind_ms.get(reading.place, 0)
    return Place(reading.region, reading.name, True, reading.error, reading.report.loading, lag, lag_ms, shard)


def verdict(shown: Sequence[Place], joined: Sequence[RegionLink], digests: DigestRound, now_s: float) -> Headline:
    """Whether the regions agree, and who is behind, in the shards that are worst off."""
    shown = worst_places(shown)
    silent = [place for place in shown if place.error]
    late = [place for place in shown if place.is_asked and not place.error and place.is_late]
    told = [f"{place.label} does not answer: {place.error}" for place in silent]
    told += [behind_text(place) for place in sorted(late, key=lambda place: -place.lag_ms)]
    told += [f"{place.label} is not asked: give its Redis address with --node" for place in shown if not place.is_asked]
    if not shown or all(place.is_silent for place in shown):
        return Headline(UNKNOWN, "No region answers", tuple(told))
    if digests.differ:
        where = "" if digests.shard is None else f" in shard {digests.shard}"
        return Headline(DIFFER, f"Regions hold different state{where}", ("They have applied the same effects.", *told))
    down = sum(not link.is_up for link in joined)
    if late or silent or down:
        lag = sum(place.lag for place in shown)
        return Headline(BEHIND, headline_of(silent, late, down), (*told, since_text(digests, now_s, lag)))
    return agreement(shown, digests, now_s, told)


def agreement(shown: Sequence[Place], digests: DigestRound, now_s: float, told: Sequence[str]) -> Headline:
    if len(shown) == 1:
        return Headline(AGREE, "One region, and it answers", tuple(told))
    if digests.are_equal:
        return Headline(AGREE, f"All {len(shown)} regions hold the same", (*told, "Their digests are equal."))
    under_way = sum(place.lag for place in shown)
    told = [*told, f"{several(under_way, 'effect')} on their way at this moment."] if under_way else told
    return Headline(AGREE, f"All {len(shown)} regions keep up", (*told, since_text(digests, now_s)))


def headline_of(silent: Sequence[Place], late: Sequence[Place], down: int) -> str:
    parts = [f"{several(down, 'link')} {'is' if down == 1 else 'are'} down"] if down else []
    parts += [f"{listed(silent)} {'does' if len(silent) == 1 else 'do'} not answer"] if silent else []
    parts += [f"{listed(late)} {'is' if len(late) == 1 else 'are'} behind"] if late else []
    return ", and ".join(parts)


def listed(places: Sequence[Place]) -> str:
    names = [place.label for place in places]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def behind_text(place: Place) -> str:
    return f"{place.label} lacks {several(place.lag, 'effect')}, the oldest for {duration(place.lag_ms)}"


def since_text(digests: DigestRound, now_s: float, lag: int = 0) -> str:
    """Digests are told seldom: those that were equal are no longer, once a region lacks something."""
    if digests.are_equal and not lag:
        return "Their digests are equal."
    if not digests.ended:
        return "Their digests are being compared for the first time."
    if not digests.equal_s and len(digests.digests) < 2:
        return "Their digests could not be compared: fewer than two regions returned one."
    if not digests.equal_s:
        return "Their digests have not been equal since this dashboard began."
    return f"Their digests were equal {duration(1000 * (now_s - digests.equal_s))} ago."
