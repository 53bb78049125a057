"""How all regions stand, in one value: who answers, which links are up, and whether the digests agree. Pure but for
`look`, which asks.

Lag is shown and is no failure: regions that take writes are always a little apart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crdtstream.observing.certificates import ending
from crdtstream.observing.digests import DIFFERENT, EQUAL, UNDECIDED, RegionDigest, read_digests, result_of
from crdtstream.observing.info import RegionReport, lacking, union
from crdtstream.observing.links import RegionLink, links, names_of, never_reached
from crdtstream.observing.reading import RedisPorts, RegionReading, by_shard, read_all
from crdtstream.observing.words import duration, size

HEALTHY, FAILING = 0, 1
# Of the time for all, what is left for a second question.
LEAST_S = 0.2


@dataclass(frozen=True)
class ClusterStanding:
    """All regions at one moment, or a shard of each, `at_s` since 1970; `digests` are empty where they were not asked
    for, and `shard` is None where regions have one shard.
    """

    readings: tuple[RegionReading, ...]
    digests: Mapping[int, RegionDigest] = field(default_factory=dict)
    at_s: float = 0.0
    shard: int | None = None

    @property
    def links(self) -> list[RegionLink]:
        return links(self.readings)

    @property
    def digest_result(self) -> str:
        """Digests are equal, different, or undecided; whether a region is missing is another matter."""
        return result_of(self.digests) if self.digests else UNDECIDED

    @property
    def unasked(self) -> dict[int, str]:
        """Regions that others are linked with, and whose Redis addresses nobody knows."""
        asked = {each.region for each in self.readings}
        present = {number for link in self.links for number in (link.one, link.other)}
        return {region: name for region, name in names_of(self.readings).items() if region in present - asked}

    @property
    def code(self) -> int:
        return FAILING if self.failures() else HEALTHY

    def behind(self, reading: RegionReading) -> int | None:
        """How many effects it lacks that another region has; None if it does not say what it has."""
        if reading.report is None or not reading.answers:
            return None
        known = [each.report.vector for each in self.readings if each.report is not None and each.answers]
        return lacking(union(known), reading.report.vector)

    # What is wrong

    def failures(self) -> list[str]:
        """What `status` fails for, the gravest first."""
        silent = [each for each in self.readings if not each.answers]
        found = [f"{each.name} does not answer: {each.error}" for each in silent]
        found += [f"{name} is not asked: name its Redis address with --node" for name in self.unasked.values()]
        found += [
            f"{each.name} serves no clients: {each.report.loading}"
            for each in self.readings
            if each.answers and each.report is not None and each.report.loading
        ]
        if self.digest_result == DIFFERENT:
            found.append("regions hold different state: crdtstream admin digest --each names the streams")
        found += self._differences()
        return found + self._links_down()

    def _differences(self) -> list[str]:
        reports = [each.report for each in self.readings if each.answers and each.report is not None]
        return [
            f"{report.name} and a peer hold different state, as the audit found: see the log of {report.name}"
            for report in reports
            if report.audit_differences or report.audit_shared_origins
        ]

    def _links_down(self) -> list[str]:
        names = names_of(self.readings)
        down = [each for each in self.links if not each.is_up]
        told = [f"the link {names[each.one]} - {names[each.other]} is down{since(each)}" for each in down]
        return told + [
            f"{name} reaches no region at {row.address}: {row.reason}" for name, row in never_reached(self.readings)
        ]

    def warnings(self) -> list[str]:
        """What needs somebody soon, and what was not compared."""
        reports = [each.report for each in self.readings if each.answers and each.report]
        found = [text for report in reports for text in short_of_room(report)]
        found += [text for report in reports for text in ending(report.name, report.certificates, self.at_s)]
        if self.digests and self.digest_result == UNDECIDED:
            found.append(self._why_undecided())
        return found

    def _why_undecided(self) -> str:
        failed = next((each.error for each in self.digests.values() if each.error), "")
        if failed:
            return f"digests were not compared: {failed}; those of a large state need a longer --timeout"
        return "digests were not compared: effects are on their way; crdtstream admin lag shows which"


@dataclass(frozen=True)
class Standings:
    """That of all shards; there is one where regions have one shard."""

    shards: tuple[ClusterStanding, ...]

    @property
    def readings(self) -> list[RegionReading]:
        return [reading for each in self.shards for reading in each.readings]

    @property
    def cluster(self) -> str:
        return next((each.report.cluster for each in self.readings if each.report is not None), "")

    @property
    def digest_result(self) -> str:
        """The gravest one."""
        found = {each.digest_result for each in self.shards}
        return next(result for result in (DIFFERENT, UNDECIDED, EQUAL) if result in found)

    @property
    def code(self) -> int:
        return max(each.code for each in self.shards)

    def failures(self) -> list[str]:
        return [of_shard(each.shard, text) for each in self.shards for text in each.failures()]

    def warnings(self) -> list[str]:
        return [of_shard(each.shard, text) for each in self.shards for text in each.warnings()]

    def headline(self) -> str:
        number = sum(len(each.readings) + len(each.unasked) for each in self.shards)
        answering = sum(reading.answers for reading in self.readings)
        links = [link for each in self.shards for link in each.links]
        up = sum(link.is_up for link in links)
        digests = {EQUAL: "digests equal", DIFFERENT: "digests DIFFER", UNDECIDED: "digests not compared"}
        word = "OK" if self.code == HEALTHY else "FAILING"
        asked = "regions" if self.shards[0].shard is None else f"shards of {len(self._regions())} regions"
        return (
            f"{word}  cluster {self.cluster or 'unknown'}: {answering} of {number} {asked} answer, {up} of"
            f" {len(links)} links up, {digests[self.digest_result]}"
        )

    def _regions(self) -> set[str]:
        named = {reading.name for reading in self.readings}
        return named.union(*[each.unasked.values() for each in self.shards])


def of_shard(shard: int | None, text: str) -> str:
    return text if shard is None else f"shard {shard}: {text}"


def since(link: RegionLink) -> str:
    lasting = f" for {duration(link.unlinked_ms)}" if link.unlinked_ms >= 0 else ""
    return f"{lasting}: {link.reason}" if link.reason else lasting


def short_of_room(report: RegionReport) -> Iterable[str]:
    if report.disk_full:
        yield f"{report.name} refuses writes, its disk is full ({size(report.disk_free_bytes)} free):" + (
            f" {report.disk_remedy}"
        )
    elif report.disk_nearly_full:
        yield (
            f"the disk of {report.name} is nearly full: {size(report.disk_free_bytes)} free, the log takes"
            f" {size(report.log_bytes)}"
        )
    if report.memory_short:
        yield f"{report.name} refuses writes, its memory is at the limit of {size(report.memory_limit_bytes)}"
    if report.held_in_memory:
        yield (
            f"{report.name} cannot spill {size(report.hot_bytes_unspillable)} of its blocks, more than hot_bytes_max:"
            f" the last blocks of streams take {size(report.hot_bytes_last_blocks)}, what no checkpoint has yet"
            f" {size(report.hot_bytes_unsaved)}"
        )
    if report.checkpoint_failed:
        yield f"{report.name} cannot take a checkpoint: see its log"
    if report.blocks_unreadable:
        yield (
            f"{report.name} cannot read {report.blocks_unreadable} blocks, {report.blocks_first_unreadable} the first,"
            " and work waits for them: see its log"
        )
    if report.log_damages:
        yield f"a part of the log of {report.name} cannot be read: see its log"


async def look(
    ports: RedisPorts, before: Sequence[RegionReading], timeout_s: float, finds_others: bool = True
) -> Standings:
    """Ask all regions, and those that they announce; the digests take what is left of the time."""
    ports.prepare(before)
    ends_s = time.monotonic() + timeout_s
    readings = await read_all(ports, before, timeout_s, finds_others)
    left_s = max(LEAST_S, ends_s - time.monotonic())
    sharded = any(each.shards > 1 for each in readings)
    found = [standing_of(ports, each, left_s, shard if sharded else None) for shard, each in by_shard(readings).items()]
    return Standings(tuple(await asyncio.gather(*found)))


async def standing_of(
    ports: RedisPorts, readings: Sequence[RegionReading], left_s: float, shard: int | None
) -> ClusterStanding:
    asked = {each.region: each.address for each in readings if each.report and each.answers and not each.report.loading}
    digests = await read_digests(ports, asked, left_s) if asked else {}
    return ClusterStanding(tuple(readings), digests, time.time(), shard)
