"""Writers for batches and streaming queries.

Exactly once: a task stages its rows in one region, its commit message names the stages, and the commit of the batch
publishes them there, once for each application and batch, whatever is killed or repeated. That region keeps the ledger
of published batches, so a sink never switches to another region: it would take a repeated batch for a new one.

At least once: rows are added as they come, in any region that answers.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema

from crdtstream.bulk import bulk_pb2
from crdtstream.spark.client import BulkClient
from crdtstream.spark.options import EXACTLY_ONCE, OptionError, Options
from crdtstream.spark.regions import BulkError
from crdtstream.spark.rows import RowTarget, check_columns, check_types, messages_by_shard
from crdtstream.spark.sharded import ShardedClient, client_of

# Bytes held until the region has answered, so that a call can be repeated.
CALL_BYTES: Final = 16 << 20
BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
log = logging.getLogger(__name__)


@dataclass
class WrittenPartition(WriterCommitMessage):
    """What one task staged or wrote."""

    partition: int
    application: str
    batch: int
    rows: int = 0
    # By shard.
    stages: dict[int, str] = field(default_factory=dict)


class StreamSink:
    """What both writers share; it is pickled, so it holds no client."""

    def __init__(self, options: Options, schema: Any, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("entries are only added: use mode append (a streaming query: outputMode append)")
        self.options = options
        self.target = RowTarget(options["database"], options["stream"] or "", options["skipLowerIds"])
        self.typed = None
        if options["payloadSchema"] or options["deadLetterStream"]:
            from crdtstream.spark.payloads.encoding import TypedRows

            self.typed = TypedRows(options, schema)
        else:
            check_columns(schema.names, self.target)
            check_types(to_arrow_schema(schema, timezone="UTC"))

    @property
    def client(self) -> ShardedClient:
        return client_of(self.options)

    @property
    def staged(self) -> bool:
        return bool(self.options["delivery"] == EXACTLY_ONCE)

    def write(self, batches: Iterator[Any], written: WrittenPartition) -> WrittenPartition:
        client = self.client
        if self.typed:
            batches = map(self.typed.reshaped, batches)
        rows = (message for batch in batches for message in messages_by_shard(batch, self.target, len(client.shards)))
        for shard, call in calls(rows, 0 if self.staged else CALL_BYTES):
            count = sum(message.count for message in call)
            written.rows += count
            if self.staged:
                written.stages[shard] = self.stage(client.shards[shard], call, count, written)
            else:
                client.shards[shard].write(call)
        return written

    def stage(self, client: BulkClient, call: list[bulk_pb2.Rows], count: int, written: WrittenPartition) -> str:
        """Stage the rows, which are held until the region has all of them, so that a call without a reply can be
        repeated.
        """
        first = bulk_pb2.StagedRows(
            application=written.application, batch=written.batch, partition=written.partition, rows=call[0]
        )
        staged = client.stage([first, *(bulk_pb2.StagedRows(rows=rows) for rows in call[1:])])
        if staged.rows != count:
            raise BulkError(f"{count} rows were staged, but the region has {staged.rows}: run the task again")
        return staged.stage

    def commit(self, tasks: Sequence[WriterCommitMessage | None]) -> bool:
        """Publish the stages of the tasks; return whether there were any."""
        written = sorted(
            (task for task in tasks if isinstance(task, WrittenPartition)), key=lambda task: task.partition
        )
        shards = range(len(self.client.shards))
        stages = [[task.stages[shard] for task in written if shard in task.stages] for shard in shards]
        if any(stages):
            application, batch = written[0].application, written[0].batch
            if self.client.publish(application, batch, stages, self.options["skipPublished"]):
                rows = sum(task.rows for task in written)
                log.warning(
                    "batch %d of %s, or a later one, was published before: its %d rows are left out",
                    batch,
                    application,
                    rows,
                )
        return any(stages)

    def forget(self, application: str, batch: int) -> None:
        """Drop the ledger; if the region does not answer, a stream with one entry remains."""
        try:
            self.client.forget(application, batch)
        except BulkError as error:
            log.warning("the ledger of %s was not deleted: %s", application, error)

    def abort(self, application: str, batch: int) -> None:
        """Discard the stages of a batch; stages that are not discarded expire."""
        if self.staged and application:
            try:
                self.client.discard(application, batch)
            except BulkError as error:
                log.warning("stages of batch %d of %s were not discarded: %s", batch, application, error)


def calls(rows: Iterable[tuple[int, bulk_pb2.Rows]], size: int) -> Iterator[tuple[int, list[bulk_pb2.Rows]]]:
    """Yield shard and messages of each call, of about this many bytes; one for each shard if the size is 0."""
    held: dict[int, list[bulk_pb2.Rows]] = defaultdict(list)
    sizes: dict[int, int] = defaultdict(int)
    for shard, message in rows:
        held[shard].append(message)
        sizes[shard] += len(message.data)
        if size and sizes[shard] >= size:
            yield shard, held.pop(shard)
            del sizes[shard]
    yield from sorted(held.items())


def context() -> TaskContext:
    found = TaskContext.get()
    assert found is not None, "a writer runs in a task"
    return found


class BatchWriter(DataSourceArrowWriter):
    """One write. Application and batch are chosen here, before the writer is pickled for its tasks."""

    def __init__(self, options: Options, schema: Any, overwrite: bool) -> None:
        options.check_writer(streaming=False)
        self.sink = StreamSink(options, schema, overwrite)
        self.named = bool(options["txnAppId"])
        self.application = options["txnAppId"] or f"write-{uuid.uuid4()}"
        self.batch = options["txnVersion"] or 0

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self.sink.write(iterator, WrittenPartition(context().partitionId(), self.application, self.batch))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish. Spark commits a write once, and a generated name is never used again, so its ledger can be
        deleted.
        """
        if self.sink.commit(messages) and not self.named:
            self.sink.forget(self.application, self.batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.sink.abort(self.application, self.batch)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of one micro-batch. Its commit runs in another instance, so the commit messages carry application and
    batch.
    """

    def __init__(self, options: Options, schema: Any, overwrite: bool) -> None:
        options.check_writer(streaming=True)
        self.sink = StreamSink(options, schema, overwrite)
        self.application = options["txnAppId"] or ""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task = context()
        batch, query = task.getLocalProperty(BATCH_ID), task.getLocalProperty(QUERY_ID)
        if batch is None or query is None:
            raise OptionError(
                "this Spark version does not give a task its batch: use foreachBatch with txnAppId and txnVersion, or "
                "set delivery to at-least-once"
            )
        return self.sink.write(iterator, WrittenPartition(task.partitionId(), self.application or query, int(batch)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.sink.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        known = [message.application for message in messages if isinstance(message, WrittenPartition)]
        self.sink.abort(next(iter(known), self.application), batchId)
