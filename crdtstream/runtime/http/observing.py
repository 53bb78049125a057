"""The region as the HTTP port shows it: `/metrics`, `/healthz`, `/readyz`, and `/` with links to them.

`/healthz` says whether the process should be left alone: its event loop runs, and its log accepts records. `/readyz`
says whether clients should be sent here, and if not, why; `/readyz?writes` says it for clients that write. All are
200 or 503, with the reason as text, and are open to all who reach the port, as probes need it; `/metrics` asks for the
token, if there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import Protocol

from prometheus_client.core import Metric

from crdtstream.connections.guard import warn
from crdtstream.region.node import Node
from crdtstream.runtime.bulk.server import BulkServer
from crdtstream.runtime.http.front_page import HTML, ROOT, front_page
from crdtstream.runtime.http.readiness import reads_refused, writes_refused
from crdtstream.runtime.http.server import Guard, HttpAnswer, HttpServer, said
from crdtstream.runtime.links.grpc_transport import GrpcTransport
from crdtstream.runtime.metrics import of_region
from crdtstream.runtime.metrics.ages import Ages
from crdtstream.runtime.metrics.exposition import CONTENT_TYPE, render
from crdtstream.runtime.metrics.meters import Meters
from crdtstream.runtime.metrics.of_partitions import partition_families
from crdtstream.runtime.metrics.of_peers import peer_families
from crdtstream.runtime.metrics.of_spilling import spilling_families
from crdtstream.runtime.metrics.of_streams import stream_families
from crdtstream.runtime.metrics.survey import Survey, SurveyedStream
from crdtstream.runtime.ports import GatewayPort
from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.runtime.tls.port import peer_name, record_refusal
from crdtstream.storage.log import Log

METRICS, HEALTH, READINESS = "/metrics", "/healthz", "/readyz"
READINESS_FOR_WRITES = f"{READINESS}?writes"
PATHS = (METRICS, HEALTH, READINESS, READINESS_FOR_WRITES)
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
    def web_certificates(self) -> Certificates | None: ...
    @property
    def log(self) -> Log: ...
    @property
    def transport(self) -> GrpcTransport: ...
    @property
    def bulk(self) -> BulkServer | None: ...
    @property
    def gateway(self) -> GatewayPort | None: ...
    @property
    def is_stopping(self) -> bool: ...


class RegionGuard(Guard):
    """Counts and logs refused clients as the other ports do, and delays the answer to a wrong token."""

    open_paths = (ROOT, HEALTH, READINESS)

    def __init__(self, loop: Observed) -> None:
        self._context = loop.node.context
        config = loop.node.settings.config
        self.token = config.http_token
        if config.http_tls:
            assert loop.web_certificates is not None, "an HTTP port with TLS has certificates"
            self.context = loop.web_certificates.server_context()

    def tls_refused(self, transport: asyncio.Transport, reason: str) -> None:
        record_refusal(self._context, f"{peer_name(transport)} of the HTTP port", reason)

    async def token_denied(self, transport: asyncio.BaseTransport) -> None:
        context = self._context
        context.statistics.denied_passwords += 1
        text = f"an HTTP request from {peer_name(transport)} gave a wrong token"
        warn(context, context.alarms.passwords, "wrong-password", text)
        await asyncio.sleep(context.limits.auth_failure_delay_ms / 1000)


def ready_unless(reason: str) -> HttpAnswer:
    return said(HTTPStatus.SERVICE_UNAVAILABLE, reason) if reason else said(HTTPStatus.OK, "ready")


class Observing:
    """The answers of one region; `record` is called at each tick."""

    def __init__(self, loop: Observed) -> None:
        self._loop = loop
        self._ages = Ages()
        self._survey = Survey(loop.node.replica.keyspace, loop.meters.scrape_slice)
        routes = {
            ROOT: self.root,
            METRICS: self.metrics,
            HEALTH: self.health,
            READINESS: self.readiness,
            READINESS_FOR_WRITES: self.readiness_for_writes,
        }
        config = loop.node.settings.config
        self._server = HttpServer(config.http_bind, config.http_port or 0, routes, RegionGuard(loop))

    async def start(self) -> str:
        """Listen; return the address. Raises OSError."""
        return await self._server.start()

    async def stop(self) -> None:
        await self._server.stop()
        await self._survey.stop()

    def record(self, now_ms: int) -> None:
        applied = self._loop.node.replica.applied
        self._ages.record(applied.origin, applied.counter(), now_ms)

    async def root(self) -> HttpAnswer:
        return HttpAnswer(HTTPStatus.OK, front_page(self._loop.node.settings.config, PATHS), HTML)

    async def health(self) -> HttpAnswer:
        if self._loop.failed:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, "the log accepts nothing: the region ends")
        syncing_s = self._loop.meters.syncing_s()
        if syncing_s > SYNC_S_MAX:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, f"a sync of the log has been running for {syncing_s:.0f} s")
        return said(HTTPStatus.OK, "healthy")

    async def readiness(self) -> HttpAnswer:
        return ready_unless(reads_refused(self._loop.node.context, self._loop.failed or self._loop.is_stopping))

    async def readiness_for_writes(self) -> HttpAnswer:
        return ready_unless(writes_refused(self._loop.node.context, self._loop.failed or self._loop.is_stopping))

    async def metrics(self) -> HttpAnswer:
        loop = self._loop
        seen = await self._survey.look(loop.node.limits.metrics_series_max, SURVEY_S)
        body = await render(self._families(seen), loop.meters.scrape_slice)
        return HttpAnswer(HTTPStatus.OK, body, CONTENT_TYPE)

    def _families(self, seen: SurveyedStream | None) -> Iterator[Metric]:
        loop, node = self._loop, self._loop.node
        yield from of_region.standing_families(node.context)
        yield from of_region.client_families(node.context)
        yield from of_region.command_families(node.context)
        yield from of_region.log_families(node, loop.log, loop.meters)
        yield from spilling_families(node)
        yield from of_region.replication_families(node)
        yield from of_region.bulk_families(node, loop.bulk)
        if loop.gateway is not None:
            yield from loop.gateway.families()
            yield from partition_families(node.partitions, node.settings.config.region)
        yield from of_region.event_families()
        yield from peer_families(node.context, loop.transport, self._ages)
        yield from stream_families(seen)
