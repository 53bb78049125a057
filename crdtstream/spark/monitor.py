"""What a streaming query has read, and what it has still to read: after each batch, as figures and for Prometheus.

    monitor = QueryMonitor(options, query_name="orders")
    spark.streams.addListener(monitor)
    monitor.serve(9465)                        # http://127.0.0.1:9465/metrics
    monitor.figures.backlog                    # by stream and origin

Spark asks no source and no sink in Python for metrics (4.2 and 4.3: only `ReportsSourceMetrics` and
`ReportsSinkMetrics` of Java). So the driver asks the regions where the streams end, and the ledger of the sink whether
it has changed.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.listener import StreamingQueryListener

from crdtstream.bulk import bulk_pb2
from crdtstream.spark import heads as heads_of
from crdtstream.spark import metrics, plan
from crdtstream.spark.field_bytes import field_bytes
from crdtstream.spark.heads import Heads
from crdtstream.spark.ledgers import LedgerWatch
from crdtstream.spark.metrics import PUBLISHED, SKIPPED, counter
from crdtstream.spark.offsets import Positions, from_json, origin_text, stream_bytes
from crdtstream.spark.options import EARLIEST, LATEST, Options
from crdtstream.spark.regions import BulkError
from crdtstream.spark.sharded import ShardedClient, client_of

# The age of what waits takes two calls for each stream and origin, so only the largest are asked for it.
AGES_ASKED: Final = 16
REGIONS_ASKED: Final = 16
NO_OFFSET: Final = (None, "", "None", "null")
OBSERVED: Final = "crdtstream"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backlog:
    """What a query has not read of one origin in one stream: `entries`, of which the first was added `age_s` ago (None
    if that was not asked), and up to how many were trimmed before it could read them.
    """

    stream: str
    origin: str
    entries: int
    trimmed: int = 0
    age_s: float | None = None


@dataclass(frozen=True)
class QueryFigures:
    """A query after a batch; totals are of this process. `regions` are those that the batch is read from while they
    answer. `skipped` rows were published before.
    """

    query: str = ""
    batch: int = -1
    batches: int = 0
    rows: int = 0
    size_bytes: int = 0
    published: int = 0
    skipped: int = 0
    regions: tuple[str, ...] = ()
    backlog: tuple[Backlog, ...] = ()

    @property
    def waiting(self) -> int:
        return sum(each.entries for each in self.backlog)

    def __str__(self) -> str:
        ages = [each.age_s for each in self.backlog if each.age_s is not None]
        late = f", the oldest added {max(ages):,.1f} s ago" if ages else ""
        source = f" from {', '.join(self.regions)}" if self.regions else ""
        return f"batch {self.batch} of {self.query}: {self.rows:,} rows so far{source}; {self.waiting:,} wait{late}"


class QueryMonitor(StreamingQueryListener, Collector):
    """Asks after each batch of a query, selected by name or ID, or of each query if neither is given. `options` are
    those of the source; `sink` are those of a sink of this package that delivers exactly once.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        query_name: str = "",
        query_id: str = "",
        source: int = 0,
        sink: Mapping[str, str] | None = None,
    ) -> None:
        self._options = Options(options)
        self._options.need("endpoints")
        self._query_name = query_name
        self._query_id = query_id
        self._source = source
        self._sink = None if sink is None else Options(sink)
        self._ledger: LedgerWatch | None = None
        self.figures = QueryFigures()

    @property
    def client(self) -> ShardedClient:
        return client_of(self._options)

    def serve(self, port: int, address: str = "127.0.0.1") -> None:
        """Answer `GET /metrics` until the process ends."""
        metrics.serve(self, port, address)

    # Spark's events

    def onQueryStarted(self, event: Any) -> None:
        if self._is_ours(event):
            self._ledger = self._watch(event)

    def onQueryProgress(self, event: Any) -> None:
        """An exception would silence the listener, and the next batch asks again."""
        if not self._is_ours(event.progress):
            return
        try:
            self.figures = self._after(event.progress)
        except BulkError as error:
            log.warning("the figures of a batch are missing, those of the next will include it: %s", error)
        else:
            log.info("%s", self.figures)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing was read. What came since is in the figures of the next batch."""

    def onQueryTerminated(self, event: Any) -> None:
        """The figures stay those of the last batch."""

    def _is_ours(self, event: Any) -> bool:
        if self._query_name and event.name != self._query_name:
            return False
        return not self._query_id or str(event.id) == self._query_id

    def _after(self, progress: Any) -> QueryFigures:
        before, source = self.figures, progress.sources[self._source]
        start, end = positions_in(source.startOffset), positions_in(source.endOffset)
        published, skipped = self._published(progress)
        return QueryFigures(
            query=progress.name or str(progress.id),
            batch=progress.batchId,
            batches=before.batches + 1,
            rows=before.rows + source.numInputRows,
            size_bytes=before.size_bytes + observed_bytes(progress),
            published=before.published + published,
            skipped=before.skipped + skipped,
            regions=regions_of(self.client, plan.intervals(start, end)),
            backlog=backlog_of(self.client, heads_of.ask(self.client, self._options, end), end),
        )

    # The sink

    def _published(self, progress: Any) -> tuple[int, int]:
        """How many rows of a batch the sink has published, and left out; neither if it does not say."""
        if self._ledger is None:
            return 0, 0
        rows, was_published = max(0, progress.sink.numOutputRows), self._ledger.has_changed()
        return (rows if was_published else 0, rows if was_published is False else 0)

    def _watch(self, event: Any) -> LedgerWatch | None:
        return None if self._sink is None else LedgerWatch(self._sink, self._sink["txnAppId"] or str(event.id))

    # Prometheus

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, for a registry."""
        now = self.figures
        for name, meaning, value in (
            ("batches", "Batches that the query has completed.", now.batches),
            ("rows", "Rows that the query has read.", now.rows),
            ("bytes", "Bytes of the fields that were read, if the query observes them.", now.size_bytes),
            (*PUBLISHED, now.published),
            (*SKIPPED, now.skipped),
        ):
            yield counter(name, meaning, now.query, value)
        yield by_origin("backlog_entries", "Entries that wait to be read.", now, lambda each: each.entries)
        yield by_origin(
            "trimmed_seqs",
            "Seqs trimmed before they were read: at most as many entries.",
            now,
            lambda each: each.trimmed,
        )
        yield by_origin("backlog_seconds", "Age of the first entry that waits.", now, lambda each: each.age_s)
        regions = GaugeMetricFamily(
            "crdtstream_spark_region", "Where the last batch was read.", labels=("query", "region")
        )
        for region in now.regions:
            regions.add_metric((now.query, region), 1)
        yield regions


def by_origin(name: str, meaning: str, figures: QueryFigures, value_of: Any) -> Metric:
    """A gauge with a row for each stream and origin that has a value."""
    family = GaugeMetricFamily(f"crdtstream_spark_{name}", meaning, labels=("query", "stream", "origin"))
    for each in figures.backlog:
        value = value_of(each)
        if value is not None:
            # Names that are not UTF-8 are shown as the column `stream` has them.
            stream = stream_bytes(each.stream).decode("utf-8", "backslashreplace")
            family.add_metric((figures.query, stream, each.origin), value)
    return family


# The source


def positions_in(offset: str | None) -> Positions:
    """The positions of an offset in a query's progress; the first batch starts at none, which Py4J makes `None` of."""
    return {} if offset in NO_OFFSET else from_json(json.loads(str(offset)))


def backlog_of(client: ShardedClient, heads: Heads, end: Positions) -> tuple[Backlog, ...]:
    """What waits behind these positions, the most first."""
    unread = {
        (stream, origin): interval_of(stream, origin, end, head.head)
        for stream, row in heads.items()
        for origin, head in row.items()
    }
    counts = {key: plan.waiting(heads, end, each) for key, each in unread.items()}
    largest = sorted(counts, key=lambda key: (-counts[key], key))
    asked = [key for key in largest[:AGES_ASKED] if counts[key]]
    ages = dict(zip(asked, ages_of(client, [unread[key] for key in asked]), strict=True))
    return tuple(
        Backlog(
            stream,
            origin_text(origin),
            counts[stream, origin],
            max(0, heads[stream][origin].trimmed - unread[stream, origin].after),
            ages.get((stream, origin), None if counts[stream, origin] else 0.0),
        )
        for stream, origin in largest
    )


def interval_of(stream: str, origin: int, end: Positions, through: int) -> bulk_pb2.Interval:
    after = end.get(stream, {}).get(origin, 0)
    return bulk_pb2.Interval(stream=stream_bytes(stream), origin=origin, after=after, through=max(after, through))


def ages_of(client: ShardedClient, unread: list[bulk_pb2.Interval]) -> list[float | None]:
    """How many seconds ago the first entry of each of these intervals got its ID; None if it was removed meanwhile."""
    now_s = time.time()
    first = []
    for each, reply in zip(unread, client.split(unread, 1, 2), strict=True):
        through = reply.through[0] if reply.through else each.through
        first.append(bulk_pb2.Interval(stream=each.stream, origin=each.origin, after=each.after, through=through))
    found: dict[tuple[bytes, int], float] = {}
    for _, interval, entries in client.read(first):
        if entries.count:
            ms = int.from_bytes(entries.ms[:8], "little")
            found.setdefault((interval.stream, interval.origin), max(0.0, now_s - ms / 1000))
    return [found.get((each.stream, each.origin)) for each in unread]


def regions_of(client: ShardedClient, read: list[bulk_pb2.Interval]) -> tuple[str, ...]:
    """The regions that these intervals are read from: the first of a few of them says it for all."""
    regions = [client.of(each.stream).covering([each])[0] for each in read[:REGIONS_ASKED]]
    return tuple(dict.fromkeys(region.name or str(region.number) for region in regions))


def unread(options: Mapping[str, str], start: Positions | None = None) -> int:
    """How many entries a query with these options finds; from `startingOffsets` on, unless it begins elsewhere."""
    parsed = Options(options)
    client = client_of(parsed)
    heads = heads_of.ask(client, parsed, start)
    if start is None:
        start = heads_of.resolve(heads, parsed["startingOffsets"] or LATEST, EARLIEST)
        heads = heads_of.ask(client, parsed, start)
    places = [(stream, origin, head) for stream, row in heads.items() for origin, head in row.items()]
    return sum(
        plan.waiting(heads, start, interval_of(stream, origin, start, head.head)) for stream, origin, head in places
    )


# What Spark counts itself


def observed(rows: DataFrame) -> DataFrame:
    """Have Spark count rows and bytes of a query's source: `observedMetrics` of its progress has them, and its page."""
    return rows.observe(OBSERVED, f.count("*").alias("rows"), f.sum(field_bytes(rows)).alias("bytes"))


def observed_bytes(progress: Any) -> int:
    row = progress.observedMetrics.get(OBSERVED)
    return int(row["bytes"] or 0) if row is not None else 0
