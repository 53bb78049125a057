"""What all pages of one dashboard share: what is watched, who looks, and what they may."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from crdtstream.dashboard.alerts import Alert, ordered
from crdtstream.dashboard.prometheus import read_alerts
from crdtstream.dashboard.site import SITE
from crdtstream.dashboard.visitors import Visitor, Visitors, needs_password
from crdtstream.dashboard.watching import Watch
from crdtstream.observing.access import Access
from crdtstream.observing.reading import RedisPorts, RegionReading
from crdtstream.observing.unread import MARKED_MAX
from crdtstream.observing.walking import Walks
from crdtstream.protocols.hash_slots import shard_of

# How long it is believed whether the default user needs a password.
BELIEVED_S = 5.0
# How often Prometheus is asked what fires; its rules are evaluated less often.
ALERTS_S = 10.0


class Board:
    """One for the process."""

    def __init__(
        self, nodes: Sequence[str], access: Access, may_act: bool = False, prometheus: str = "", site: str = SITE
    ) -> None:
        ports = RedisPorts(access)
        self.walks = Walks(ports, MARKED_MAX)
        self.watch = Watch(ports, nodes, self.walks.unread)
        self.visitors = Visitors(access)
        self.may_act = may_act
        self.prometheus = prometheus
        # Where the documentation is; ends in a slash.
        self.site = site
        self._metric_alerts: list[Alert] = []
        # Why Prometheus does not say what fires.
        self.prometheus_error = ""
        self._is_open = False
        self._asked_s = -BELIEVED_S

    @property
    def cluster(self) -> str:
        return next((each.report.cluster for each in self.watch.readings if each.report is not None), "")

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watch.run())
            tasks.create_task(self._walk())
            if self.prometheus:
                tasks.create_task(self._ask_prometheus())

    async def _walk(self) -> None:
        while True:
            await asyncio.sleep(await self.walks.step(self.shards(), self.watch.addresses.values()))

    async def _ask_prometheus(self) -> None:
        while True:
            self._metric_alerts, self.prometheus_error = await read_alerts(self.prometheus, self.cluster)
            await asyncio.sleep(ALERTS_S)

    def alerts(self) -> list[Alert]:
        """What the regions say, and what Prometheus says."""
        return ordered([*self.watch.picture.alerts, *self._metric_alerts])

    def shards(self, region: str = "") -> dict[str, str]:
        """The addresses of the shards that answer, of one region or of all, by their names; those of the regions
        themselves where they have one shard.
        """
        return {each.label: each.address for each in self._answering() if region in ("", each.name)}

    def answering(self, key: bytes) -> dict[str, str]:
        """The addresses of the regions that answer, by their names: of the shard that has this key."""
        return {each.name: each.address for each in self._answering() if each.shard == shard_of(key, each.shards)}

    def regions(self) -> list[str]:
        """The names of the regions that answer."""
        return list(dict.fromkeys(each.name for each in self._answering()))

    def _answering(self) -> list[RegionReading]:
        return [each for each in self.watch.readings if each.answers and each.report is not None]

    async def default_visitor(self) -> Visitor | None:
        """Who looks without a login; None if the default user needs a password."""
        if time.monotonic() - self._asked_s > BELIEVED_S:
            self._is_open = not await needs_password(self.visitors.default.ports, self.watch.addresses.values())
            self._asked_s = time.monotonic()
        return self.visitors.default if self._is_open else None

    async def close(self) -> None:
        await self.visitors.close()
        await self.watch.ports.close()
