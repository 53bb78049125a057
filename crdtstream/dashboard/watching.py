"""Asks all regions again and again, and keeps what all pages show: readings, digests, lags and the last hour.

Digests are asked for seldom: not more often than every `DIGEST_S`, and so that they take a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from crdtstream.dashboard.alerts import Alert, AlertTime, alerts
from crdtstream.dashboard.history import Sample, SampleLog, VectorLog, sample_of, sample_of_all
from crdtstream.dashboard.model import DigestRound, Headline, Place, places, verdict, worst_places, worst_round
from crdtstream.dashboard.trends import Trends
from crdtstream.observing.info import Vector, fields_of_info, union, vector_of
from crdtstream.observing.links import RegionLink, links, worst_links
from crdtstream.observing.reading import RedisPorts, RegionReading, by_shard, read_all
from crdtstream.observing.unread import UnreadGroups

ROUND_S = 2.0
DIGEST_S = 4.0
DIGEST_TIMEOUT_S = 60.0
DIGEST_SHARE = 0.05


@dataclass(frozen=True)
class Picture:
    """All that the overview shows, of one moment; `places` and `links` are the worst of the shards of each region,
    `shards` are all.
    """

    readings: tuple[RegionReading, ...] = ()
    places: tuple[Place, ...] = ()
    shards: tuple[Place, ...] = ()
    links: tuple[RegionLink, ...] = ()
    verdict: Headline = field(default_factory=lambda: Headline("unknown", "The regions are being asked", ()))
    alerts: tuple[Alert, ...] = ()


class Watch:
    """What all visitors are shown; a process has one. `unread` are the groups that nobody reads."""

    def __init__(
        self,
        ports: RedisPorts,
        addresses: Sequence[str],
        unread: Callable[[], UnreadGroups] = UnreadGroups,
    ) -> None:
        self.ports = ports
        self._unread = unread
        self._trends = Trends()
        self.readings: list[RegionReading] = [RegionReading(address) for address in addresses]
        self.history = SampleLog()
        self.picture = Picture()
        self.digests: dict[int, DigestRound] = {0: DigestRound({}, False, 0.0, ended=False)}
        self._logs: dict[tuple[int, int], VectorLog] = {}
        self._digest_from_s = 0.0

    @property
    def addresses(self) -> dict[str, str]:
        """The Redis addresses of the regions and shards that are asked, by their names, in the order of numbers."""
        return {reading.label: reading.address for reading in self.readings}

    @property
    def crowded(self) -> Sequence[str]:
        """The regions in which more groups lag than are watched."""
        return self._trends.unread.crowded

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._compare())

    async def _watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(ROUND_S)

    async def look(self) -> None:
        self.readings = await read_all(self.ports, self.readings)
        now_s = time.monotonic()
        reports = [each.report for each in self.readings if each.answers and each.report is not None]
        for report in reports:
            self._logs.setdefault((report.region, report.shard), VectorLog()).record(now_s, report.vector)
        self._trends.record(now_s, reports, self._unread())
        self.picture = self._draw(now_s)
        self.history.record(time.time(), self._samples())

    def _draw(self, now_s: float) -> Picture:
        lags = self._link_lags(now_s)
        shown = places(self.readings, behind(lags))
        joined = [link for shard, each in by_shard(self.readings).items() for link in links(each, lags.get(shard))]
        regions, worst = worst_places(shown), worst_links(joined)
        told = verdict(shown, worst, worst_round(self.digests.values()), now_s)
        found = alerts(self.readings, shown, joined, self._trends, AlertTime(now_s, time.time()))
        return Picture(tuple(self.readings), tuple(regions), tuple(shown), tuple(worst), told, tuple(found))

    def _link_lags(self, now_s: float) -> dict[int, dict[tuple[int, int], int]]:
        """For how long the first region has held what the second lacks, in each shard."""
        found: dict[int, dict[tuple[int, int], int]] = {}
        for shard, vectors in self._vectors().items():
            found[shard] = {
                (one, other): self._logs[one, shard].behind_ms(applied, now_s)
                for one in vectors
                for other, applied in vectors.items()
                if one != other and (one, shard) in self._logs
            }
        return found

    def _vectors(self) -> dict[int, dict[int, Vector]]:
        """By shard and region."""
        return {
            shard: {each.region: each.report.vector for each in found if each.report is not None}
            for shard, found in by_shard(self.readings).items()
        }

    def _samples(self) -> dict[str, Sample]:
        """Those of the regions of which all shards answer."""
        totals = {shard: sum(union(vectors.values()).values()) for shard, vectors in self._vectors().items()}
        late = {place.region: place.lag_ms for place in self.picture.places}
        found: dict[str, list[Sample]] = {}
        silent = {reading.name for reading in self.readings if not reading.answers or reading.report is None}
        for reading in self.readings:
            report = reading.report
            if reading.name not in silent and report is not None:
                sample = sample_of(report, totals[reading.shard], late.get(reading.region, 0))
                found.setdefault(reading.name, []).append(sample)
        return {name: sample_of_all(samples) for name, samples in found.items()}

    async def _compare(self) -> None:
        while True:
            await asyncio.sleep(DIGEST_S)
            began_s = time.monotonic()
            await self.compare()
            await asyncio.sleep((time.monotonic() - began_s) / DIGEST_SHARE - DIGEST_S)

    async def compare(self) -> None:
        """Ask all regions that answer for their digests, and whether the vectors were equal before and after."""
        shards = by_shard(each for each in self.readings if each.answers)
        compared = await asyncio.gather(*[self._compared(shard, each) for shard, each in shards.items()])
        self.digests = dict(zip(shards, compared, strict=True)) or self.digests

    async def _compared(self, shard: int, readings: Sequence[RegionReading]) -> DigestRound:
        asked = {each.region: each.address for each in readings}
        questions = [("INFO", "replication"), ("CRDT.DIGEST",), ("INFO", "replication")]
        found = await self.ports.ask_all(asked.values(), questions, DIGEST_TIMEOUT_S)
        digests: dict[int, str] = {}
        vectors: list[Vector] = []
        for region, address in asked.items():
            before, digest, after = found[address]
            if not (before.error or digest.error or after.error):
                digests[region] = digest.value.decode()
                vectors += [vector_of(fields_of_info(told.value).get("vector", "")) for told in (before, after)]
        same = bool(vectors) and all(vector == vectors[0] for vector in vectors)
        last = self.digests.get(shard)
        told_shard = shard if any(each.shards > 1 for each in readings) else None
        rounded = DigestRound(digests, same, last.equal_s if last else 0.0, shard=told_shard)
        return replace(rounded, equal_s=time.monotonic()) if rounded.are_equal else rounded


def behind(lags: Mapping[int, Mapping[tuple[int, int], int]]) -> dict[tuple[int, int], int]:
    """For how long each region has lacked something that another one has, by region and shard."""
    found: dict[tuple[int, int], int] = {}
    for shard, told in lags.items():
        for (_, region), ms in told.items():
            found[region, shard] = max(ms, found.get((region, shard), 0))
    return found
