"""Asks all regions again and again, and keeps what all pages show: readings, digests, lags and the last hour.

Digests are asked for seldom: not more often than every `DIGEST_S`, and so that they take a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crdtstream.dashboard.alerts import Alert, AlertTime, alerts
from crdtstream.dashboard.history import Sample, SampleLog, VectorLog
from crdtstream.dashboard.model import DigestRound, Headline, Place, places, verdict
from crdtstream.dashboard.trends import Trends
from crdtstream.observing.info import Vector, fields_of_info, union, vector_of
from crdtstream.observing.links import RegionLink, links
from crdtstream.observing.reading import RedisPorts, RegionReading, read_all
from crdtstream.observing.unread import UnreadGroups

ROUND_S = 2.0
DIGEST_S = 4.0
DIGEST_TIMEOUT_S = 60.0
DIGEST_SHARE = 0.05


@dataclass(frozen=True)
class Picture:
    """All that the overview shows, of one moment."""

    readings: tuple[RegionReading, ...] = ()
    places: tuple[Place, ...] = ()
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
        self.digests = DigestRound({}, False, 0.0, ended=False)
        self._logs: dict[int, VectorLog] = {}
        self._digest_from_s = 0.0

    @property
    def addresses(self) -> dict[str, str]:
        """The Redis addresses of the regions that are asked, by their names, in the order of their numbers."""
        return {reading.name: reading.address for reading in self.readings}

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
            self._logs.setdefault(report.region, VectorLog()).record(now_s, report.vector)
        self._trends.record(now_s, reports, self._unread())
        self.picture = self._draw(now_s)
        self.history.record(time.time(), self._samples())

    def _draw(self, now_s: float) -> Picture:
        shown = places(self.readings, self._behind(now_s))
        joined = links(self.readings, self._link_lags(now_s))
        told = verdict(shown, joined, self.digests, now_s)
        found = alerts(self.readings, shown, joined, self._trends, AlertTime(now_s, time.time()))
        return Picture(tuple(self.readings), tuple(shown), tuple(joined), told, tuple(found))

    def _vectors(self) -> dict[int, Vector]:
        return {each.region: each.report.vector for each in self.readings if each.report is not None}

    def _link_lags(self, now_s: float) -> dict[tuple[int, int], int]:
        """For how long the first region has held what the second lacks."""
        vectors = self._vectors()
        return {
            (one, other): log.behind_ms(applied, now_s)
            for one, log in self._logs.items()
            for other, applied in vectors.items()
            if one != other
        }

    def _behind(self, now_s: float) -> dict[int, int]:
        lags = self._link_lags(now_s)
        return {
            region: max((ms for (_, other), ms in lags.items() if other == region), default=0)
            for region in self._vectors()
        }

    def _samples(self) -> dict[str, Sample]:
        vectors = self._vectors()
        total = sum(union(vectors.values()).values())
        late = {place.region: place.lag_ms for place in self.picture.places}
        found: dict[str, Sample] = {}
        for reading in self.readings:
            report = reading.report
            if reading.answers and report is not None:
                own = sum(report.vector.values())
                found[report.name] = Sample(
                    commands=report.commands,
                    effects=own,
                    behind=total - own,
                    behind_ms=late.get(reading.region, 0),
                    memory_bytes=report.memory_bytes,
                    disk_free_bytes=report.disk_free_bytes,
                    log_bytes=report.log_bytes,
                    clients=report.clients,
                )
        return found

    async def _compare(self) -> None:
        while True:
            await asyncio.sleep(DIGEST_S)
            began_s = time.monotonic()
            await self.compare()
            await asyncio.sleep((time.monotonic() - began_s) / DIGEST_SHARE - DIGEST_S)

    async def compare(self) -> None:
        """Ask all regions that answer for their digests, and whether the vectors were equal before and after."""
        asked = {each.region: each.address for each in self.readings if each.answers}
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
        rounded = DigestRound(digests, same, self.digests.equal_s)
        equal_s = time.monotonic() if rounded.are_equal else rounded.equal_s
        self.digests = DigestRound(digests, same, equal_s)
