"""What the readings mean: do the regions agree, who is behind, and which links are down. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crdtstream.observing.info import lacking, union
from crdtstream.observing.links import RegionLink
from crdtstream.observing.reading import RegionReading
from crdtstream.observing.words import duration, several

# What is on its way for less than this is no lag: regions write, and are asked, at different moments.
LATE_MS = 3_000
AGREE, BEHIND, DIFFER, UNKNOWN = "agree", "behind", "differ", "unknown"


@dataclass(frozen=True)
class Place:
    """A region in the drawing, whether it is asked or only known from the others."""

    region: int
    name: str
    is_asked: bool
    error: str
    loading: str
    lag: int
    lag_ms: int

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
    round has not `ended` for a while after the start.
    """

    digests: Mapping[int, str]
    vectors_equal: bool
    equal_s: float
    ended: bool = True

    @property
    def are_equal(self) -> bool:
        return len(self.digests) > 1 and len(set(self.digests.values())) == 1


def places(readings: Sequence[RegionReading], behind_ms: Mapping[int, int]) -> list[Place]:
    """All regions that somebody knows, by number."""
    found = {reading.region: place_of(reading, readings, behind_ms) for reading in readings if reading.region}
    for reading in readings:
        for row in reading.links:
            if row.region and row.region not in found:
                found[row.region] = Place(row.region, row.name or f"region {row.region}", False, "", "", row.lag, 0)
    return [found[region] for region in sorted(found)]


def place_of(reading: RegionReading, readings: Sequence[RegionReading], behind_ms: Mapping[int, int]) -> Place:
    if reading.report is None:
        return Place(reading.region, reading.name, True, reading.error, "", 0, 0)
    everything = union(each.report.vector for each in readings if each.report is not None)
    lag = lacking(everything, reading.report.vector)
    lag_ms = behind_ms.get(reading.region, 0)
    return Place(reading.region, reading.name, True, reading.error, reading.report.loading, lag, lag_ms)


def verdict(shown: Sequence[Place], joined: Sequence[RegionLink], digests: DigestRound, now_s: float) -> Headline:
    """Whether the regions agree, and who is behind."""
    silent = [place for place in shown if place.error]
    late = [place for place in shown if place.is_asked and not place.error and place.is_late]
    told = [f"{place.name} does not answer: {place.error}" for place in silent]
    told += [behind_text(place) for place in sorted(late, key=lambda place: -place.lag_ms)]
    told += [f"{place.name} is not asked: give its Redis address with --node" for place in shown if not place.is_asked]
    if not shown or len(silent) == len(shown):
        return Headline(UNKNOWN, "No region answers", tuple(told))
    if digests.vectors_equal and not digests.are_equal and len(digests.digests) > 1:
        return Headline(DIFFER, "Regions hold different state", ("They have applied the same effects.", *told))
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
    names = [place.name for place in places]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def behind_text(place: Place) -> str:
    return f"{place.name} lacks {several(place.lag, 'effect')}, the oldest for {duration(place.lag_ms)}"


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
