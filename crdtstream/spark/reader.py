"""Readers for batches and streaming queries.

Spark's offset holds the complete position of a query: a seq for each origin of each stream. The entries between two
offsets are the same whenever and in whichever region they are read, except for removals. So nothing is skipped although
regions write concurrently, and a batch that is read again is the same batch.

Filters are not pushed down: Spark 4.1 to 4.3 let a filter of one scan leak into another scan of the same DataFrame.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from crdtstream.bulk import bulk_pb2
from crdtstream.spark import heads as heads_of
from crdtstream.spark import plan
from crdtstream.spark.client import BulkMessage
from crdtstream.spark.columns import Column, Decoder, columns_of
from crdtstream.spark.entries import runs
from crdtstream.spark.heads import Heads
from crdtstream.spark.losses import LOSSES_SHOWN, DataLoss, Loss, report
from crdtstream.spark.offsets import (
    OffsetJson,
    OffsetPosition,
    Positions,
    capped,
    from_json,
    merged,
    offset_of,
    origin_text,
    raised,
    stream_text,
)
from crdtstream.spark.options import EARLIEST, LATEST, Options
from crdtstream.spark.regions import BulkError
from crdtstream.spark.sharded import ShardedClient, client_of

if TYPE_CHECKING:
    from crdtstream.spark.archived import PinnedTable

# Discovery takes at most one part in this many of the time of an idle query, however many streams there are.
KEPT_LONGER: Final = 5
log = logging.getLogger(__name__)


def payload_columns(options: Options, schema: Any, own: Sequence[Column]) -> list[Column]:
    """The columns of a payload's schema; without one nothing is imported."""
    if options["payloadSchema"] is None:
        return []
    from crdtstream.spark.payloads import decoding

    return decoding.payload_columns(options, schema, own)


def archive_of(options: Options, schema: Any) -> PinnedTable | None:
    """The table of the option `archive`; without it nothing is imported."""
    if options["archive"] is None:
        return None
    from crdtstream.spark import archived

    return archived.PinnedTable(options, schema)


def joined(archive: PinnedTable | None, heads: Heads) -> Heads:
    return heads if archive is None else archive.join(heads)


def outside(archive: PinnedTable | None, positions: Positions) -> Positions:
    return positions if archive is None else archive.outside(positions)


class MissingStream(RuntimeError):
    """A stream that the options name exists nowhere."""


class Task(InputPartition):
    """Intervals that one task reads, in order; pickled."""

    def __init__(self, intervals: Sequence[bulk_pb2.Interval]) -> None:
        super().__init__(None)
        self.encoded = bulk_pb2.ReadRequest(intervals=intervals).SerializeToString()

    @property
    def intervals(self) -> Sequence[bulk_pb2.Interval]:
        return bulk_pb2.ReadRequest.FromString(self.encoded).intervals


class Reading:
    """What readers of batches and of streaming queries share; the schema is converted to Arrow once."""

    def __init__(self, options: Options, schema: Any) -> None:
        self.options = options
        # Origins that were reported as unknown.
        self.unknown: set[int] = set()
        columns = columns_of(options["fieldsAs"], options["includeMetadata"])
        self.decoder = Decoder(
            [*columns, *payload_columns(options, schema, columns)], to_arrow_schema(schema, timezone="UTC")
        )

    @property
    def client(self) -> ShardedClient:
        return client_of(self.options)

    def ask(self, positions: Positions | None = None) -> Heads:
        return heads_of.ask(self.client, self.options, positions)

    def tasks(self, start: Positions, end: Positions, heads: Heads, seen: Positions | None = None) -> list[Task]:
        wanted = self.client.by_shard(plan.intervals(start, end))
        self.report(plan.losses(wanted, heads, seen))
        least, most = self.options["minPartitions"] or 0, self.options["maxPartitions"] or 0
        return [Task(each) for each in plan.tasks(self.client, wanted, heads, least, most)] if wanted else []

    def partitions(
        self, start: Positions, end: Positions, heads: Heads, archive: PinnedTable | None, seen: Positions | None = None
    ) -> list[InputPartition]:
        """The tasks between two positions: of the archive as far as it has them, of the regions beyond that."""
        self.check_origins(outside(archive, start))
        if archive is None:
            return [*self.tasks(start, end, heads, seen)]
        least, most = self.options["minPartitions"] or 0, self.options["maxPartitions"] or 0
        beyond = self.tasks(merged(start, archive.vector), end, heads, seen)
        return [*archive.tasks(start, end, least, most), *beyond]

    def report(self, losses: Sequence[Loss]) -> None:
        report(losses, self.options["failOnDataLoss"])

    def check_origins(self, positions: Positions) -> None:
        """Report positions in what no region has any more: all of them have lost their disks, or are other ones."""
        known = self.client.applied()
        named = {stream: self.unheard(position, known) for stream, position in positions.items()}
        unknown = self.client.unknown({stream: position for stream, position in named.items() if position})
        if not unknown:
            return
        self.unknown.update(unknown)
        lost = {origin_text(origin) for origin in unknown}
        streams = sorted(
            stream for stream, position in positions.items() if not lost.isdisjoint(map(origin_text, position))
        )
        what = (
            f"the query's position names origins that no region knows: {', '.join(sorted(lost))}, in stream"
            f" {', '.join(map(repr, streams[:LOSSES_SHOWN]))}. The regions have lost what they had, or these are the"
            " regions of another cluster"
        )
        if self.options["failOnDataLoss"]:
            raise DataLoss(f"{what}. Begin with a new checkpoint, or set failOnDataLoss to false to read what is there")
        log.warning("%s", what)

    def unheard(self, position: OffsetPosition, known: OffsetPosition) -> OffsetPosition:
        """The part of the position in what was not reported, and no region is known to have."""
        return {
            origin: seq
            for origin, seq in position.items()
            if seq > 0 and not known.get(origin) and origin not in self.unknown
        }

    def check_streams(self, heads: Heads) -> None:
        """Report streams that do not exist: a misspelt name reads nothing."""
        absent = heads_of.missing(self.client, heads, self.options)
        if not absent:
            return
        what = f"no region that answers has {', '.join(map(repr, absent[:LOSSES_SHOWN]))}: is it misspelt?"
        if self.options["failOnMissingStream"]:
            raise MissingStream(f"{what} Without failOnMissingStream the query reads it once it exists")
        log.warning("%s", what)

    def batches(self, task: Any) -> Iterator[Any]:
        """Read in a task. If a plan has no tasks, Spark runs one with None, or with a partition of its own."""
        if not isinstance(task, Task):
            # That of a table is in a module which is imported only if there is one.
            yield from task.batches(self.decoder.schema) if hasattr(task, "batches") else ()
            return
        intervals = task.intervals
        streams = dict.fromkeys(stream_text(each.stream) for each in intervals)
        found = plan.losses(intervals, heads_of.merge(self.client.heads(streams, deleted=True)))
        # The plan has weighed what regions do not remember.
        self.report([loss for loss in found if not loss.unsure])
        for run in runs(self.watched(self.client.read(intervals))):
            yield self.decoder.batch(run)

    def watched(self, messages: Iterator[BulkMessage]) -> Iterator[BulkMessage]:
        """Report what was removed while it was read."""
        for region, interval, entries in messages:
            if entries.removed > interval.after:
                stream = stream_text(interval.stream)
                self.report([Loss(stream, interval.origin, interval.after, entries.removed)])
            yield region, interval, entries

    def resolve(self, which: str, heads: Heads, default: str, unnamed: str) -> Positions:
        """Return the current position of the `starting...` or `ending...` options."""
        before_ms = self.options[f"{which}Timestamp"]
        if before_ms is not None:
            return heads_of.before(heads_of.ask(self.client, self.options, before_ms=before_ms))
        # JSON may name no stream at all.
        given = self.options[f"{which}Offsets"]
        return heads_of.resolve(heads, default if given is None else given, unnamed)


class BatchReader(DataSourceReader):
    """Reads between two positions, both determined when the DataFrame is first used."""

    def __init__(self, options: Options, schema: Any) -> None:
        options.check_reader(streaming=False)
        self.reading = Reading(options, schema)

    def partitions(self) -> list[InputPartition]:
        reading = self.reading
        archive = archive_of(reading.options, reading.decoder.schema)
        heads = reading.ask()
        known = joined(archive, heads)
        reading.check_streams(known)
        end = reading.resolve("ending", known, LATEST, LATEST)
        start = reading.resolve("starting", known, EARLIEST, EARLIEST)
        return reading.partitions(start, end, heads, archive)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.reading.batches(partition)


@dataclass(frozen=True, slots=True)
class RegionHeads:
    """A cached reply of `latestOffset`, valid for a limited time."""

    start: OffsetJson
    limit: ReadLimit
    end: OffsetJson
    until_s: float

    def holds(self, start: OffsetJson, limit: ReadLimit, now_s: float) -> bool:
        return now_s < self.until_s and start == self.start and limit == self.limit


class BulkStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads from offset to offset; it shares nothing with its copies on the executors."""

    def __init__(self, options: Options, schema: Any) -> None:
        options.check_reader(streaming=True)
        self.options = options
        self.reading = Reading(options, schema)
        self.archive = archive_of(options, self.reading.decoder.schema)
        self.target: Positions | None = None
        self.latest: Positions = {}
        self.answered: RegionHeads | None = None
        # Up to where nothing was unread when regions were asked last, and what they had applied when asked first.
        self.seen: Positions = {}
        self.began: OffsetPosition | None = None

    def initialOffset(self) -> OffsetJson:
        heads = self.reading.ask()
        known = joined(self.archive, heads)
        self.reading.check_streams(known)
        start = self.reading.resolve("starting", known, LATEST, EARLIEST)
        self.began = self.reading.client.applied()
        start = self.present(start, heads, {})
        return offset_of(raised(start, {}) if self.begins_latest() else start)

    def begins_latest(self) -> bool:
        return self.options["startingTimestamp"] is None and self.options["startingOffsets"] in (None, LATEST)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options["maxOffsetsPerTrigger"]
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = raised(heads_of.latest(joined(self.archive, self.reading.ask())), {})

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return the latest offset; cached for a while, because an idle query asks every 10 ms."""
        began_s = time.monotonic()
        if self.answered is None or not self.answered.holds(start, limit, began_s):
            end = self._latest(start, limit)
            now_s, keep_s = time.monotonic(), self.options["discoveryIntervalMs"] / 1000
            if keep_s:
                keep_s = max(keep_s, KEPT_LONGER * (now_s - began_s))
            self.answered = RegionHeads(start, limit, end, now_s + keep_s)
        return self.answered.end

    def _latest(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return an offset never below `start`: if a region is down, entries that only it has are read later."""
        begin = from_json(start)
        if self.archive is not None and self.archive.has_more(begin):
            return offset_of(merged(begin, self.archive.vector))
        limited = isinstance(limit, ReadMaxRows)
        heads = self.reading.ask(begin if limited else None)
        applied = self.reading.client.applied()
        if self.began is None:
            self.began = applied
            self.reading.check_streams(joined(self.archive, heads))
        self.reading.check_origins(outside(self.archive, begin))
        end = raised(self.present(heads_of.latest(heads), heads, begin), begin)
        self.latest = merged(self.latest, end)
        if merged(begin, end) == begin:
            self.record_seen(begin, heads, applied)
        if self.target is not None:
            end = capped(end, self.target, begin)
        end = merged(begin, end)
        if limited:
            end = merged(begin, plan.limited(self.reading.client, begin, end, heads, limit.max_rows))
        return offset_of(end)

    def present(self, positions: Positions, heads: Heads, begin: Positions) -> Positions:
        """Leave out deleted streams that a pattern finds, unless the query has read them, or they came since it began:
        an offset has a row for each.
        """
        if self.options["streams"]:
            return positions
        began = self.began or {}
        return {
            stream: position
            for stream, position in positions.items()
            if stream in begin
            or not heads_of.is_deleted(heads.get(stream, {}))
            or any(seq > began.get(origin, 0) for origin, seq in position.items())
        }

    def record_seen(self, position: Positions, heads: Heads, applied: OffsetPosition) -> None:
        """Nothing is unread at this position: what these regions have applied of its origins was looked at."""
        for stream, row in position.items():
            known = {origin: max(seq, applied.get(origin, 0)) for origin, seq in row.items()}
            self.seen[stream] = known if stream in heads else self.seen.get(stream, {})

    def reportLatestOffset(self) -> OffsetJson | None:
        return offset_of(self.latest) if self.latest else None

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        begin, through = from_json(start), from_json(end)
        if begin == through:
            return []
        return self.reading.partitions(begin, through, self.reading.ask(), self.archive, self.seen)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.reading.batches(partition)

    def commit(self, end: OffsetJson) -> None:
        """Advance the group. Spark calls this one batch late, and not for the last batch; see `crdtstream.spark.ack`.
        Nothing after the batch was read so far, so what was removed there is lost.
        """
        if not self.options["ackGroup"]:
            return
        try:
            done = self.reading.client.advance(self.options["ackGroup"], from_json(end))
        except BulkError as error:
            log.warning("group %s was not advanced, the next commit will retry: %s", self.options["ackGroup"], error)
        else:
            self.reading.report(done.losses)

    def stop(self) -> None:
        """Nothing to do: the client lives as long as its process."""
