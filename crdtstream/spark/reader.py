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
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from crdtstream.bulk import bulk_pb2
from crdtstream.spark import heads as heads_of
from crdtstream.spark import plan
from crdtstream.spark.client import Client, client_of
from crdtstream.spark.columns import Decoder, columns_of
from crdtstream.spark.entries import runs
from crdtstream.spark.heads import Heads
from crdtstream.spark.offsets import OffsetJson, Positions, capped, from_json, merged, stream_text, to_json
from crdtstream.spark.options import EARLIEST, LATEST, Options
from crdtstream.spark.regions import BulkError

LOSSES_SHOWN: Final = 5
# Discovery takes at most one part in this many of the time of an idle query, however many streams there are.
KEPT_LONGER: Final = 5
log = logging.getLogger(__name__)


class DataLoss(RuntimeError):
    """Entries that a query should have read were trimmed before."""


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
        self.decoder = Decoder(
            columns_of(options["fieldsAs"], options["includeMetadata"]), to_arrow_schema(schema, timezone="UTC")
        )

    @property
    def client(self) -> Client:
        return client_of(self.options)

    def tasks(self, start: Positions, end: Positions, heads: Heads) -> list[Task]:
        wanted = plan.intervals(start, end)
        self.check_loss(wanted, heads)
        least, most = self.options["minPartitions"] or 0, self.options["maxPartitions"] or 0
        return [Task(each) for each in plan.tasks(self.client, wanted, heads, least, most)] if wanted else []

    def check_loss(self, wanted: Sequence[bulk_pb2.Interval], heads: Heads) -> None:
        losses = plan.losses(wanted, heads)
        if not losses:
            return
        shown = "; ".join(map(str, losses[:LOSSES_SHOWN]))
        more = f"; and {len(losses) - LOSSES_SHOWN} more" if len(losses) > LOSSES_SHOWN else ""
        what = f"entries were trimmed before they were read: {shown}{more}"
        if self.options["failOnDataLoss"]:
            raise DataLoss(f"{what}. Set failOnDataLoss to false to continue without them")
        log.warning("%s", what)

    def batches(self, task: InputPartition) -> Iterator[Any]:
        """Read in a task. If a plan has no tasks, Spark runs one with None."""
        if not isinstance(task, Task):
            return
        intervals = task.intervals
        streams = dict.fromkeys(stream_text(each.stream) for each in intervals)
        self.check_loss(intervals, heads_of.merge(self.client.heads(streams)))
        for run in runs(self.client.read(intervals)):
            yield self.decoder.batch(run)

    def resolve(self, which: str, heads: Heads, default: str, unnamed: str) -> Positions:
        """Return the current position of the `starting...` or `ending...` options."""
        before_ms = self.options[f"{which}Timestamp"]
        if before_ms is not None:
            return heads_of.before(heads_of.ask(self.client, self.options, before_ms=before_ms))
        return heads_of.resolve(heads, self.options[f"{which}Offsets"] or default, unnamed)


class BatchReader(DataSourceReader):
    """Reads between two positions, both determined when the DataFrame is first used."""

    def __init__(self, options: Options, schema: Any) -> None:
        options.check_reader(streaming=False)
        self.reading = Reading(options, schema)

    def partitions(self) -> list[InputPartition]:
        reading = self.reading
        heads = heads_of.ask(reading.client, reading.options)
        end = reading.resolve("ending", heads, LATEST, LATEST)
        return [*reading.tasks(reading.resolve("starting", heads, EARLIEST, EARLIEST), end, heads)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.reading.batches(partition)


@dataclass(frozen=True, slots=True)
class Answer:
    """A cached reply of `latestOffset`, valid for a limited time."""

    start: OffsetJson
    limit: ReadLimit
    end: OffsetJson
    until_s: float

    def holds(self, start: OffsetJson, limit: ReadLimit, now_s: float) -> bool:
        return now_s < self.until_s and start == self.start and limit == self.limit


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads from offset to offset; it shares nothing with its copies on the executors."""

    def __init__(self, options: Options, schema: Any) -> None:
        options.check_reader(streaming=True)
        self.options = options
        self.reading = Reading(options, schema)
        self.target: Positions | None = None
        self.latest: Positions = {}
        self.answered: Answer | None = None

    def initialOffset(self) -> OffsetJson:
        heads = heads_of.ask(self.reading.client, self.options)
        return to_json(self.reading.resolve("starting", heads, LATEST, EARLIEST))

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options["maxOffsetsPerTrigger"]
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = heads_of.latest(heads_of.ask(self.reading.client, self.options))

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return the latest offset; cached for a while, because an idle query asks every 10 ms."""
        began_s = time.monotonic()
        if self.answered is None or not self.answered.holds(start, limit, began_s):
            end = self._latest(start, limit)
            now_s, keep_s = time.monotonic(), self.options["discoveryIntervalMs"] / 1000
            if keep_s:
                keep_s = max(keep_s, KEPT_LONGER * (now_s - began_s))
            self.answered = Answer(start, limit, end, now_s + keep_s)
        return self.answered.end

    def _latest(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return an offset never below `start`: if a region is down, entries that only it has are read later."""
        begin = from_json(start)
        limited = isinstance(limit, ReadMaxRows)
        heads = heads_of.ask(self.reading.client, self.options, positions=begin if limited else None)
        end = heads_of.latest(heads)
        self.latest = merged(self.latest, end)
        if self.target is not None:
            end = capped(end, self.target, begin)
        end = merged(begin, end)
        if limited:
            end = merged(begin, plan.limited(self.reading.client, begin, end, heads, limit.max_rows))
        return to_json(end)

    def reportLatestOffset(self) -> OffsetJson | None:
        return to_json(self.latest) if self.latest else None

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        begin, through = from_json(start), from_json(end)
        if begin == through:
            return []
        return [*self.reading.tasks(begin, through, heads_of.ask(self.reading.client, self.options))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.reading.batches(partition)

    def commit(self, end: OffsetJson) -> None:
        """Advance the group. Spark calls this one batch late, and not for the last batch; see
        `crdtstream.spark.ack`.
        """
        if self.options["ackGroup"]:
            try:
                self.reading.client.advance(self.options["ackGroup"], from_json(end))
            except BulkError as error:
                log.warning(
                    "group %s was not advanced, the next commit will retry: %s", self.options["ackGroup"], error
                )

    def stop(self) -> None:
        """Nothing to do: the client lives as long as its process."""
