"""The calls of the bulk port: conversion of messages, and the slices in which each call works."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import grpc.aio

from crdtstream import __version__
from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk import bulk_pb2_grpc
from crdtstream.bulk import stages as staging
from crdtstream.bulk.errors import (
    INVALID_ARGUMENT,
    UNAVAILABLE,
    BulkError,
    refused_as,
    require_database,
    require_own_streams,
    require_writable,
)
from crdtstream.bulk.frontiers import Advancing, Frontier, frontiers_of
from crdtstream.bulk.heads import IntervalSplitter, Names, OriginHead, heads_of, heads_with_deleted, removed_through
from crdtstream.bulk.ledger import forget_ledger, key_of
from crdtstream.bulk.publishing import Publishing
from crdtstream.bulk.reading import Portion, StreamInterval, portion_after, require_applied
from crdtstream.bulk.rights import ACKNOWLEDGING, ADDING, CREATING, FRONTIERS, HEADS, READING, BulkCaller
from crdtstream.bulk.rows import SLICE_BYTES, EntryRows, identify, place, rows_of
from crdtstream.bulk.writing import Added, add_slice
from crdtstream.connections.admission import NOT_ADMITTED
from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.shards import ShardMap
from crdtstream.core.effects import Key
from crdtstream.core.values.causality import VersionVector
from crdtstream.runtime.slices import Result

# Streams examined in one slice.
HEADS_A_SLICE = 16
# The approximate log bytes of one slice of a publish, or of an acknowledgement.
PUBLISH_BYTES = 2 * SLICE_BYTES
ADVANCE_BYTES = 64 << 10
LEDGER_BYTES = 4 << 10
ADMISSION_POLL_S = 0.02
# Small messages that are sent as one: so many, or of so many bytes.
GATHERED_MAX = 512
GATHERED_BYTES = 64 << 10
CONSUMER = b"bulk"
# Why rows are left out: their batch, or a later one, was published before; their IDs are not above the last one.
PUBLISHED = "published"
LOWER_ID = "lower-id"

AskHeads = Callable[[Context, Key, int | None, dict[int, int] | None], list[OriginHead]]
ServicerContext = grpc.aio.ServicerContext[Any, Any]
Gathered = TypeVar("Gathered", bulk.StreamHead, bulk.Entries)


class BulkPort(Protocol):
    """The server as its calls see it."""

    def call(self, context: ServicerContext) -> AbstractAsyncContextManager[BulkCaller]: ...

    def slice(self, byte_count: int = 0) -> AbstractContextManager[Context]: ...

    async def perform(self, work: Callable[[Context], Result], byte_count: int = 0) -> Result: ...

    async def pause(self) -> None: ...

    async def await_settled(self) -> None: ...

    async def await_shown(self) -> None: ...


class ApplicationTurns:
    """Serialises calls by application: one runs at a time, the others wait."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, application: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(application, asyncio.Lock())
        self._waiting[application] = self._waiting.get(application, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[application] -= 1
            if not self._waiting[application]:
                del self._waiting[application], self._locks[application]


class BulkCalls(bulk_pb2_grpc.BulkServicer):
    """The server side of the contract."""

    def __init__(self, port: BulkPort, stages: staging.Stages) -> None:
        self._port = port
        self._stages = stages
        self._turns = ApplicationTurns()
        # Rows that callers asked to leave out.
        self.skipped = Counter({PUBLISHED: 0, LOWER_ID: 0})

    async def Describe(self, request: bulk.DescribeRequest, context: ServicerContext) -> bulk.Description:
        async with self._port.call(context):
            with self._port.slice() as region:
                description = described(region)
            await self._port.await_shown()
            return description

    # Reading

    async def Heads(self, request: bulk.HeadsRequest, context: ServicerContext) -> AsyncIterator[bulk.StreamHead]:
        async with self._port.call(context) as caller:
            async for message in gathered(self._heads(request, caller), request.several):
                yield message

    async def _heads(self, request: bulk.HeadsRequest, caller: BulkCaller) -> AsyncIterator[bulk.StreamHead]:
        names = Names(request.database, list(request.streams), request.pattern, request.deleted)
        self._require(caller, HEADS, request.streams, request.database)
        ask = heads_with_deleted if request.deleted else heads_of
        before_ms = request.before_ms if request.HasField("before_ms") else None
        positions = {one.stream: seqs_of(one.seqs) for one in request.positions}
        while not names.ended:
            with self._port.slice() as region:
                keys = [key for key in names.next(region) if caller.may(HEADS, key[1])]
            for low in range(0, len(keys), HEADS_A_SLICE):
                part = keys[low : low + HEADS_A_SLICE]
                asking = partial(heads_in, part, ask, before_ms, positions)
                found, gone = await self._port.perform(asking)
                await self._port.await_shown()
                for key, heads in found:
                    rows = [head_message(head) for head in heads]
                    if rows or key not in gone or request.streams:
                        deleted = request.deleted and bool(rows) and key in gone
                        yield bulk.StreamHead(stream=key[1], origins=rows, deleted=deleted, exists=key not in gone)

    async def Split(self, request: bulk.SplitRequest, context: ServicerContext) -> bulk.SplitReply:
        async with self._port.call(context) as caller:
            self._require(caller, HEADS, [request.interval.stream], request.database)
            interval = interval_of(request.database, request.interval)
            split = IntervalSplitter(
                interval.key, interval.origin, interval.after, interval.through, request.entries, request.pieces_max
            )
            going_on = True
            while going_on:
                going_on = await self._port.perform(partial(split_on, split, interval))
                await self._port.await_shown()
            return bulk.SplitReply(through=split.ends, entries=split.counts)

    async def Read(self, request: bulk.ReadRequest, context: ServicerContext) -> AsyncIterator[bulk.Entries]:
        async with self._port.call(context) as caller:
            self._require(caller, READING, [one.stream for one in request.intervals], request.database)
            async for message in gathered(self._entries(request), request.several):
                yield message

    async def _entries(self, request: bulk.ReadRequest) -> AsyncIterator[bulk.Entries]:
        intervals = [interval_of(request.database, one) for one in request.intervals]
        with self._port.slice() as region:
            for interval in intervals:
                require_applied(region, interval)
        for number, interval in enumerate(intervals):
            after = interval.after
            while after < interval.through:
                found, removed = await self._port.perform(partial(read_on, interval, after, request.tell_removed))
                await self._port.await_shown()
                if removed > after:
                    yield bulk.Entries(interval=number, removed=min(removed, interval.through))
                if found is None:
                    break
                after = found.last_seq
                yield entries_message(number, found)

    async def Frontiers(
        self, request: bulk.FrontiersRequest, context: ServicerContext
    ) -> AsyncIterator[bulk.GroupFrontier]:
        async with self._port.call(context) as caller:
            names = Names(request.database, list(request.streams), request.pattern)
            self._require(caller, FRONTIERS, request.streams, request.database)
            while not names.ended:
                with self._port.slice() as region:
                    keys = [key for key in names.next(region) if caller.may(FRONTIERS, key[1])]
                for low in range(0, len(keys), HEADS_A_SLICE):
                    found = await self._port.perform(partial(frontiers_in, keys[low : low + HEADS_A_SLICE]))
                    await self._port.await_shown()
                    for frontier in found:
                        yield frontier_message(frontier)

    # Writing

    async def Write(self, request_iterator: AsyncIterator[bulk.Rows], context: ServicerContext) -> bulk.Written:
        async with self._port.call(context) as caller:
            added = Added()
            async for message in request_iterator:
                self._require(caller, ADDING, message.streams, message.database)
                rows = await self._checked(message)
                await self._add(rows, added)
            self.skipped[LOWER_ID] += added.skipped
            await self._port.await_settled()
            return bulk.Written(
                added=added.added, skipped=added.skipped, origin=self._origin(), last_seq=added.last_seq
            )

    async def Stage(self, request_iterator: AsyncIterator[bulk.StagedRows], context: ServicerContext) -> bulk.Staged:
        async with self._port.call(context) as caller:
            stage: staging.Stage | None = None
            try:
                async for message in request_iterator:
                    self._require(caller, ADDING, message.rows.streams, message.rows.database)
                    if stage is None:
                        with self._port.slice() as region:
                            stage = self._stages.begin(
                                region.replica.applied.origin,
                                message.application,
                                message.batch,
                                message.partition,
                                region.now_ms,
                            )
                    await self._keep(stage, await self._checked(message.rows))
                if stage is None:
                    raise BulkError(
                        INVALID_ARGUMENT, "a stage needs at least one message: send one that names the application"
                    )
                # If a client gives up, its messages end as well, and usually the call is cancelled directly afterwards.
                # If the cancellation arrives later, the stage is complete, but nobody knows its name.
                await self._port.pause()
                stage.complete = True
                checksum = int.from_bytes(stage.sum.value(), "little")
                return bulk.Staged(stage=stage.name, rows=stage.count, checksum=checksum)
            finally:
                if stage is not None and not stage.complete:
                    self._stages.drop(stage)

    async def _keep(self, stage: staging.Stage, rows: EntryRows) -> None:
        with self._port.slice() as region:
            require_writable(region)
            self._stages.add(stage, rows, region.limits.bulk_stage_bytes_max, region.now_ms)
        low = 0
        while low < rows.count:
            high = rows.slice_end(low)
            with self._port.slice():
                stage.sum.add(rows, low, high)
            low = high
            await self._port.pause()

    async def Publish(self, request: bulk.PublishRequest, context: ServicerContext) -> bulk.Published:
        async with self._port.call(context) as caller, self._turns.of(request.application):
            self._require(caller, ADDING, [key_of(request.application)[1]], None)
            publishing = Publishing(request.application, request.batch, request.skip_published)
            with self._port.slice() as region:
                going_on = publishing.begin(region, self._stages, list(request.stages))
            while going_on:
                with self._port.slice(PUBLISH_BYTES) as region:
                    going_on = publishing.step(region, self._stages)
                await self._port.pause()
            self.skipped[LOWER_ID] += publishing.added.skipped
            if request.skip_published:
                self.skipped[PUBLISHED] += publishing.skipped
            await self._port.await_settled()
            return bulk.Published(
                repeated=publishing.repeated,
                added=publishing.added.added,
                origin=self._origin(),
                last_seq=publishing.added.last_seq,
                skipped=publishing.skipped,
            )

    async def Discard(self, request: bulk.DiscardRequest, context: ServicerContext) -> bulk.Discarded:
        async with self._port.call(context) as caller:
            self._require(caller, ADDING, [key_of(request.application)[1]], None)
            stages = self._stages.drop_batch(request.application, request.batch)
            if request.ledger:
                await self._forget(request)
            return bulk.Discarded(stages=stages)

    async def _forget(self, request: bulk.DiscardRequest) -> None:
        async with self._turns.of(request.application):
            forget = partial(forget_ledger, application=request.application, batch=request.batch)
            await self._port.perform(forget, LEDGER_BYTES)
            await self._port.await_settled()

    # Acknowledging

    async def Advance(self, request: bulk.AdvanceRequest, context: ServicerContext) -> bulk.Advanced:
        async with self._port.call(context) as caller:
            streams = [one.stream for one in request.positions]
            self._require(caller, ACKNOWLEDGING, streams, request.database)
            if request.create:
                self._require(caller, CREATING, streams, request.database)
            advance = Advancing(request.group, request.consumer.encode() or CONSUMER, positions_of(request))
            if request.create:
                await self._create(advance)
            going_on = True
            while going_on:
                going_on = await self._port.perform(advance.step, ADVANCE_BYTES)
                await self._port.pause()
            await self._port.await_settled()
            return bulk.Advanced(entries=advance.entries, removed=position_messages(advance.removed))

    def _require(self, caller: BulkCaller, request: list[bytes], names: Iterable[bytes], database: int | None) -> None:
        """Rights to these streams, and that this shard serves them. The ledger, which has no database given, is kept in
        the shard whose rows it is about.
        """
        with self._port.slice() as region:
            caller.require(region, request, names)
            if region.shards is not None and database is not None:
                require_own_streams(region.shards, database, names)

    async def _create(self, advance: Advancing) -> None:
        """Create the group as XGROUP CREATE does, waiting until this region's origin is admitted."""
        waited_s = 0.0
        while True:
            with self._port.slice(ADVANCE_BYTES) as region:
                if advance.create(region):
                    return
                if waited_s * 1000 >= region.limits.admission_wait_ms:
                    raise refused_as(UNAVAILABLE, CommandError(NOT_ADMITTED))
            await asyncio.sleep(ADMISSION_POLL_S)
            waited_s += ADMISSION_POLL_S

    async def _checked(self, message: bulk.Rows) -> EntryRows:
        """Parse the rows of one message and validate each of them."""
        rows = parsed(message)
        going_on = rows.count > 0
        while going_on:
            with self._port.slice() as region:
                rows.bound(region.replica.budget)
                going_on = rows.check(region.limits)
            await self._port.pause()
        return rows

    async def _add(self, rows: EntryRows, added: Added) -> None:
        low = 0
        while low < rows.count:
            high = rows.slice_end(low)
            size = rows.start_of(high) - rows.start_of(low)
            with self._port.slice(size) as region:
                add_slice(region, rows, low, high, added)
            low = high
            await self._port.pause()

    def _origin(self) -> int:
        with self._port.slice() as region:
            return region.replica.applied.origin


# Slices that may run twice


def heads_in(
    keys: list[Key], ask: AskHeads, before_ms: int | None, positions: dict[bytes, dict[int, int]], region: Context
) -> tuple[list[tuple[Key, list[OriginHead]]], set[Key]]:
    """The heads of these streams, and which do not exist."""
    found = [(key, ask(region, key, before_ms, positions.get(key[1]))) for key in keys]
    return found, {key for key in keys if region.replica.keyspace.peek(key) is None}


def split_on(split: IntervalSplitter, interval: StreamInterval, region: Context) -> bool:
    require_applied(region, interval)
    return split.step(region)


def read_on(interval: StreamInterval, after: int, tell_removed: bool, region: Context) -> tuple[Portion | None, int]:
    """The next entries, and up to where entries were removed."""
    found = portion_after(region, interval, after, region.limits.bulk_message_bytes)
    return found, removed_through(region, interval.key, interval.origin) if tell_removed else 0


def frontiers_in(keys: list[Key], region: Context) -> list[Frontier]:
    return [one for key in keys for one in frontiers_of(region, key)]


# Messages


async def gathered(messages: AsyncIterator[Gathered], several: bool) -> AsyncIterator[Gathered]:
    """The messages, small ones in the `more` of the one before them if the caller wants `several`: a message of its own
    costs more than what is in it.
    """
    first: Gathered | None = None
    size = 0
    async for message in messages:
        size += message.ByteSize()
        if first is None:
            first = message
        else:
            first.more.append(message)
        if not several or size >= GATHERED_BYTES or len(first.more) >= GATHERED_MAX:
            yield first
            first, size = None, 0
    if first is not None:
        yield first


def parsed(message: bulk.Rows) -> EntryRows:
    rows = rows_of(message.database, list(message.streams), message.count, message.ends, message.data)
    place(rows, message.stream_of)
    identify(rows, message.ms, message.id_seqs, message.skip_lower_ids)
    return rows


def interval_of(database: int, message: bulk.Interval) -> StreamInterval:
    key = (require_database(database), message.stream)
    return StreamInterval(key, message.origin, message.after, message.through)


def seqs_of(rows: Any) -> dict[int, int]:
    return {row.origin: row.seq for row in rows}


def vector_rows(vector: VersionVector) -> list[bulk.VectorRow]:
    return [bulk.VectorRow(origin=origin, seq=counter) for origin, counter in vector.items()]


def described(region: Context) -> bulk.Description:
    config, applied = region.settings.config, region.replica.applied
    return bulk.Description(
        cluster=config.cluster,
        region=config.region,
        name=config.name,
        origin=applied.origin,
        id_mode=config.id_mode,
        applied=vector_rows(applied.vector),
        durable=vector_rows(region.cluster.neighbours.durable()),
        version=__version__,
        shard=0 if region.shards is None else region.shards.own,
        shards=[] if region.shards is None else bulk_places(region.shards, config.bulk_port or 0),
    )


def bulk_places(shards: ShardMap, own_port: int) -> list[str]:
    """HOST:PORT of the bulk port of each shard, without a host on this machine."""
    here = shards.own_shard().address.host
    hosts = ["" if shard.address.host == here else join_host(shard.address.host) for shard in shards.shards]
    return [f"{host}:{own_port - shards.own + number}" for number, host in enumerate(hosts)]


def join_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def head_message(head: OriginHead) -> bulk.OriginHead:
    return bulk.OriginHead(
        origin=head.origin,
        head=head.head,
        trimmed=head.trimmed,
        first=head.first,
        length=head.length,
        at=head.at,
        waiting=head.waiting,
        since=head.since,
        forgotten=head.forgotten,
    )


def frontier_message(frontier: Frontier) -> bulk.GroupFrontier:
    return bulk.GroupFrontier(
        stream=frontier.key[1],
        group=frontier.group,
        acknowledged=[bulk.VectorRow(origin=origin, seq=seq) for origin, seq in frontier.acknowledged],
        pending=frontier.pending,
    )


def positions_of(request: bulk.AdvanceRequest) -> dict[Key, dict[int, int]]:
    database = require_database(request.database)
    return {(database, one.stream): seqs_of(one.seqs) for one in request.positions}


def position_messages(positions: dict[Key, dict[int, int]]) -> list[bulk.StreamPosition]:
    return [
        bulk.StreamPosition(
            stream=key[1], seqs=[bulk.VectorRow(origin=origin, seq=seq) for origin, seq in sorted(seqs.items())]
        )
        for key, seqs in sorted(positions.items())
    ]


def entries_message(number: int, portion: Portion) -> bulk.Entries:
    return bulk.Entries(
        interval=number,
        count=portion.count,
        seqs=portion.seqs,
        ms=portion.ms,
        id_seqs=portion.id_seqs,
        ends=portion.ends,
        data=portion.data,
    )
