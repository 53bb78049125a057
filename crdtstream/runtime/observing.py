"""The region as the HTTP port shows it: `/metrics`, `/healthz`, `/readyz`.

`/healthz` says whether the process should be left alone: its event loop runs, and its log accepts records. `/readyz`
says whether clients should be sent here, and if not, why. Both are 200 or 503, with the reason as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Protocol

from prometheus_client.core import Metric

from crdtstream.node import Node
from crdtstream.runtime.bulk_server import BulkServer
from crdtstream.runtime.grpc_transport import GrpcTransport
from crdtstream.runtime.http_server import Answer, HttpServer, said
from crdtstream.runtime.metrics import of_region
from crdtstream.runtime.metrics.ages import Ages
from crdtstream.runtime.metrics.exposition import CONTENT_TYPE, render
from crdtstream.runtime.metrics.meters import Meters
from crdtstream.runtime.metrics.of_peers import peer_families
from crdtstream.runtime.metrics.of_streams import stream_families
from crdtstream.runtime.metrics.survey import Seen, Survey
from crdtstream.storage.log import Log

# A scrape waits so long for the walk over all streams, and then shows the one before.
SURVEY_S = 2.0
# A disk that takes longer to sync than this counts as gone.
SYNC_S_MAX = 30.0


class Observed(Protocol):
    """What this sees of the loop."""

    node: Node
    failed: bool
    meters: Meters

    @property
    def log(self) -> Log: ...
    @property
    def transport(self) -> GrpcTransport: ...
    @property
    def bulk(self) -> BulkServer | None: ...
    @property
    def is_stopping(self) -> bool: ...


class Observing:
    """The answers of one region; `note` is called at each tick."""

    def __init__(self, loop: Observed) -> None:
        self._loop = loop
        self._ages = Ages()
        self._survey = Survey(loop.node.replica.keyspace, loop.meters.scrape_slice)
        routes = {"/metrics": self.metrics, "/healthz": self.health, "/readyz": self.readiness}
        config = loop.node.settings.config
        self._server = HttpServer(config.http_bind, config.http_port or 0, routes)

    async def start(self) -> str:
        """Listen; return the address. Raises OSError."""
        return await self._server.start()

    async def stop(self) -> None:
        await self._server.stop()
        await self._survey.stop()

    def note(self, now_ms: int) -> None:
        applied = self._loop.node.replica.applied
        self._ages.note(applied.slot, applied.counter(), now_ms)

    async def health(self) -> Answer:
        if self._loop.failed:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, "the log accepts nothing: the region ends")
        syncing_s = self._loop.meters.syncing_s()
        if syncing_s > SYNC_S_MAX:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, f"a sync of the log has been running for {syncing_s:.0f} s")
        return said(HTTPStatus.OK, "healthy")

    async def readiness(self) -> Answer:
        if self._loop.failed or self._loop.is_stopping:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, "the region stops")
        reason = self._loop.node.standing.loading
        return said(HTTPStatus.SERVICE_UNAVAILABLE, reason) if reason else said(HTTPStatus.OK, "ready")

    async def metrics(self) -> Answer:
        loop = self._loop
        seen = await self._survey.look(loop.node.limits.metrics_series_max, SURVEY_S)
        body = await render(self._families(seen), loop.meters.scrape_slice)
        return Answer(HTTPStatus.OK, body, CONTENT_TYPE)

    def _families(self, seen: Seen | None) -> Iterator[Metric]:
        loop, node = self._loop, self._loop.node
        yield from of_region.standing_families(node.context)
        yield from of_region.client_families(node.context)
        yield from of_region.command_families(node.context)
        yield from of_region.log_families(node, loop.log, loop.meters)
        yield from of_region.replication_families(node)
        yield from of_region.bulk_families(node, loop.bulk)
        yield from of_region.event_families()
        yield from peer_families(node.context, loop.transport, self._ages)
        yield from stream_families(seen)
