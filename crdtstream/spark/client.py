"""A client of the bulk ports of several regions, any of which may answer.

Every call has a deadline. A region that is down is probed in the background, and no call waits for it while another
region answers. A call that no region answers is repeated after a pause, a limited number of times. What a region has
applied only grows, so it is remembered, and requested again when it is not sufficient.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import grpc

from crdtstream.bulk import bulk_pb2
from crdtstream.spark.access import Access
from crdtstream.spark.losses import Loss
from crdtstream.spark.offsets import OffsetPosition, Positions, origin_text, stream_bytes, stream_text
from crdtstream.spark.options import Options
from crdtstream.spark.regions import ELSEWHERE, BulkError, Region, Stranded

PROBE_MS: Final = 1_000
PROBE_INTERVAL_S: Final = 1.0
PAUSE_MS_MAX: Final = 5_000
# Calls that move a whole partition or batch and cannot be resumed get this many times the deadline.
LONG: Final = 10
# A region accepts `bulk_calls_max` calls at once, from all clients together.
SPLITS_AT_ONCE: Final = 16

T = TypeVar("T")
BulkMessage = tuple[str, bulk_pb2.Interval, bulk_pb2.Entries]
log = logging.getLogger(__name__)


class UnknownOrigins(Stranded):
    """Positions name origins that no region has heard of."""

    def __init__(self, origins: list[int]) -> None:
        super().__init__(f"no region has heard of {', '.join(map(origin_text, origins))}")
        self.origins = origins


class UnreadCalls:
    """Intervals read by one call, and what remains of them: those from index `at` on, the first only after `seq`."""

    def __init__(self, intervals: list[bulk_pb2.Interval]) -> None:
        self.intervals = intervals
        self.at = 0
        self.seq = 0
        self.moved = False

    def pass_by(self, entries: bulk_pb2.Entries) -> None:
        if entries.count:
            self.at, self.seq, self.moved = entries.interval, int.from_bytes(entries.seqs[-8:], "little"), True

    def finish(self, count: int) -> None:
        self.at, self.seq, self.moved = count, 0, True

    def rest(self) -> list[bulk_pb2.Interval]:
        left = self.intervals[self.at :]
        if not self.seq:
            return left
        first = bulk_pb2.Interval()
        first.CopyFrom(left[0])
        first.after = self.seq
        return [*([first] if first.after < first.through else []), *left[1:]]


class Advanced:
    """How many entries a group newly acknowledged, and which ones above its new position it can never have."""

    def __init__(self) -> None:
        self.entries = 0
        self.losses: list[Loss] = []

    def join(self, other: Advanced) -> None:
        self.entries += other.entries
        self.losses += other.losses

    def add(self, positions: Positions, reply: bulk_pb2.Advanced) -> None:
        self.entries += reply.entries
        for each in reply.removed:
            stream = stream_text(each.stream)
            self.losses += [Loss(stream, row.origin, positions[stream][row.origin], row.seq) for row in each.seqs]


class BulkClient:
    """The client of one shard of each region, of all that there is where regions have one; not for several threads at
    once.
    """

    def __init__(
        self,
        regions: Sequence[Region],
        preferred: str = "",
        database: int = 0,
        timeout_ms: int = 30_000,
        retries: int = 3,
        retry_interval_ms: int = 1_000,
        access: Access | None = None,
    ) -> None:
        self._access = access or Access(Options({}))
        self.regions = list(regions)
        self.preferred = preferred
        self.database = database
        self.timeout_s = timeout_ms / 1000
        self.retries = retries
        self.pause_ms = retry_interval_ms

    def close(self) -> None:
        for region in self.regions:
            region.channel.close()

    # Choosing a region

    def call(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the deadline of a call, and its metadata: user and password."""
        return {"timeout": timeout_s or self.timeout_s, "metadata": self._access.metadata()}

    def short(self) -> dict[str, Any]:
        return self.call(min(self.timeout_s, PROBE_MS / 1000))

    def repeat(self, attempt: Callable[[], T]) -> T:
        """Return the attempt's result; an attempt raises `Stranded` if no region could do it, and is then repeated."""
        pause_ms = self.pause_ms
        for _ in range(self.retries):
            try:
                return attempt()
            except Stranded as error:
                log.warning("%s; trying again in %d ms", error, pause_ms)
            time.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
        return attempt()

    def live(self) -> list[Region]:
        """Return the regions that answer, with fresh descriptions, the preferred one first."""
        self._probe()
        asked = [region for region in self.regions if not region.reason] or self.regions
        self._describe(asked)
        found = [region for region in self.regions if not region.reason]
        if not found:
            reasons = "; ".join(f"{region.label}: {region.reason}" for region in self.regions)
            raise Stranded(f"no region answers: {reasons}")
        return sorted(found, key=lambda region: not self._is_preferred(region))

    def _describe(self, regions: list[Region]) -> None:
        calls = [region.stub.Describe.future(bulk_pb2.DescribeRequest(), **self.short()) for region in regions]
        for region, call in zip(regions, calls, strict=True):
            try:
                region.learn(call.result())
            except grpc.RpcError as error:
                region.record_failure(error)

    def _probe(self) -> None:
        """Probe regions that are down, without waiting for them, and follow shards that have moved."""
        for region in self.regions:
            if region.reason and region.is_moved():
                region.renew()
                region.probe, region.probed_at = None, 0.0
            if region.reason and region.probe is None and time.monotonic() >= region.probed_at + PROBE_INTERVAL_S:
                region.probed_at = time.monotonic()
                region.renew()
                region.probe = region.stub.Describe.future(bulk_pb2.DescribeRequest(), **self.short())
                region.ask_others(self.short())
            elif region.probe is not None and region.probe.done():
                if region.probe.exception() is None:
                    region.learn(region.probe.result())
                region.probe = None

    def _is_preferred(self, region: Region) -> bool:
        return self.preferred in (region.name, str(region.number)) if self.preferred else False

    def home(self) -> Region:
        """Return the region that keeps a sink's ledger: the option `region`, or else the first endpoint."""
        if not self.preferred:
            return self.regions[0]
        for _ in range(2):
            for region in self.regions:
                if region.number and self._is_preferred(region):
                    return region
            self._describe(self.regions)
        known = ", ".join(f"{region.label}: {region.reason or region.number}" for region in self.regions)
        raise Stranded(f"region {self.preferred} answers at none of the endpoints: {known}")

    def covering(self, intervals: Sequence[bulk_pb2.Interval]) -> tuple[Region, int]:
        """Return a region that holds the first of these intervals, and how many of them, from the first on,
        it holds.
        """
        best: tuple[int, Region | None] = (0, None)
        for known in (True, False):
            regions = [region for region in self.regions if not region.reason] if known else self.live()
            for region in sorted(regions, key=lambda region: not self._is_preferred(region)):
                held = covered(region, intervals)
                best = (held, region) if held > best[0] else best
            if best[1] is not None:
                return best[1], best[0]
        first = intervals[0]
        raise Stranded(
            f"no region that answers has applied origin {origin_text(first.origin)} up to {first.through}, for stream "
            f"{stream_text(first.stream)!r}: {self._progress(first.origin)}. If the region that has it is gone for "
            "good, start a new query with startingOffsets"
        )

    def _progress(self, origin: int) -> str:
        return "; ".join(region.progress(origin) for region in self.regions)

    def applied(self) -> OffsetPosition:
        """Return what the regions that answered last have applied, of each the most."""
        found: OffsetPosition = {}
        for region in self.regions:
            for origin, seq in region.applied.items():
                found[origin] = max(seq, found.get(origin, 0))
        return found

    def unknown(self, origins: Iterable[int]) -> list[int]:
        """Return those of these origins that no region has heard of; none while a region does not answer. A region that
        has just lost its disk gets the time of all retries to hear of them from the others.
        """
        wanted = sorted(set(origins))
        try:
            return self.repeat(partial(self._unknown, wanted))
        except UnknownOrigins as error:
            return error.origins

    def _unknown(self, origins: Sequence[int]) -> list[int]:
        self.live()
        known = self.applied()
        missing = [origin for origin in origins if not known.get(origin)]
        if missing and not any(region.reason for region in self.regions):
            raise UnknownOrigins(missing)
        return []

    # Calls to any region

    def heads(
        self,
        streams: Iterable[str] = (),
        pattern: str = "",
        positions: Positions | None = None,
        before_ms: int | None = None,
        deleted: bool = False,
    ) -> list[list[bulk_pb2.StreamHead]]:
        """Return the heads of these streams from each region that answers, with `deleted` also of those that regions
        remember.
        """
        request = bulk_pb2.HeadsRequest(
            database=self.database,
            streams=[stream_bytes(name) for name in streams],
            pattern=stream_bytes(pattern),
            before_ms=before_ms,
            positions=[position_of(stream, position) for stream, position in (positions or {}).items()],
            deleted=deleted,
            several=True,
        )
        return self.repeat(lambda: self._heads(request))

    def _heads(self, request: bulk_pb2.HeadsRequest) -> list[list[bulk_pb2.StreamHead]]:
        regions = self.live()
        calls = [region.stub.Heads(request, **self.call()) for region in regions]
        found: list[list[bulk_pb2.StreamHead]] = []
        for region, call in zip(regions, calls, strict=True):
            try:
                found.append([each for message in call for each in (message, *message.more)])
            except grpc.RpcError as error:
                region.record_failure(error)
        if not found:
            raise Stranded("no region returned its heads: " + "; ".join(f"{r.label}: {r.reason}" for r in regions))
        return found

    def frontiers(self, streams: Iterable[str] = (), pattern: str = "") -> list[bulk_pb2.GroupFrontier]:
        request = bulk_pb2.FrontiersRequest(
            database=self.database,
            streams=[stream_bytes(name) for name in streams],
            pattern=stream_bytes(pattern),
        )
        return self.anywhere(lambda region: list(region.stub.Frontiers(request, **self.call())))

    def split(self, intervals: Sequence[bulk_pb2.Interval], entries: int, pieces: int = 0) -> list[bulk_pb2.SplitReply]:
        """Split each interval; several calls run at once."""
        replies: list[bulk_pb2.SplitReply] = []
        while len(replies) < len(intervals):
            some = intervals[len(replies) : len(replies) + SPLITS_AT_ONCE]
            replies += self.repeat(partial(self._split, some, entries, pieces))
        return replies

    def _split(self, intervals: Sequence[bulk_pb2.Interval], entries: int, pieces: int) -> list[bulk_pb2.SplitReply]:
        region, count = self.covering(intervals)
        requests = [
            bulk_pb2.SplitRequest(database=self.database, interval=each, entries=entries, pieces_max=pieces)
            for each in intervals[:count]
        ]
        calls = [region.stub.Split.future(request, **self.call()) for request in requests]
        try:
            return [call.result() for call in calls]
        except grpc.RpcError as error:
            region.record_failure(error)
            raise Stranded(f"{region.label} did not split: {error.code().name}: {error.details()}") from None

    def read(self, intervals: Sequence[bulk_pb2.Interval]) -> Iterator[BulkMessage]:
        """Yield region, interval and entries, in the order of the intervals; if a call ends early, another region
        continues.
        """
        rest, failures = list(intervals), 0
        while rest:
            unread = UnreadCalls(rest)
            try:
                yield from self._read(unread)
            except Stranded as error:
                failures = 0 if unread.moved else failures + 1
                if failures > self.retries:
                    raise
                log.warning("%s; continuing with another call", error)
                time.sleep(self.pause_ms * min(failures, 8) / 1000)
            rest = unread.rest()

    def _read(self, unread: UnreadCalls) -> Iterator[BulkMessage]:
        region, count = self.covering(unread.intervals)
        asked = unread.intervals[:count]
        call = region.stub.Read(
            bulk_pb2.ReadRequest(database=self.database, intervals=asked, tell_removed=True, several=True),
            **self.call(),
        )
        try:
            for entries in (each for message in call for each in (message, *message.more)):
                yield region.name, asked[entries.interval], entries
                unread.pass_by(entries)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and unread.moved:
                # The consumer of the rows is slow, not the region.
                return
            region.record_failure(error)
            raise Stranded(f"{region.label} ended a read: {error.code().name}: {error.details()}") from None
        finally:
            call.cancel()
        unread.finish(count)

    def advance(self, group: str, positions: Positions, consumer: str = "spark") -> Advanced:
        """Advance the group. Each part is sent to a region that has applied it."""
        return self.repeat(partial(self._advance, group, positions, consumer))

    def _advance(self, group: str, positions: Positions, consumer: str) -> Advanced:
        regions = self.live()
        parts: dict[int, Positions] = {}
        for stream, position in sorted(positions.items()):
            for origin, seq in sorted(position.items()):
                place = furthest(regions, origin, seq)
                parts.setdefault(place, {}).setdefault(stream, {})[origin] = seq
        done = Advanced()
        for place, part in sorted(parts.items()):
            done.add(part, self._advance_in(regions[place], group, part, consumer))
        return done

    def _advance_in(self, region: Region, group: str, positions: Positions, consumer: str) -> bulk_pb2.Advanced:
        request = bulk_pb2.AdvanceRequest(
            database=self.database,
            group=stream_bytes(group),
            positions=[position_of(stream, position) for stream, position in positions.items()],
            consumer=consumer,
            create=True,
        )
        try:
            return region.stub.Advance(request, **self.call())
        except grpc.RpcError as error:
            region.record_failure(error)
            raise Stranded(f"{region.label} advanced no group: {error.code().name}: {error.details()}") from None

    def write(self, rows: Sequence[bulk_pb2.Rows]) -> bulk_pb2.Written:
        """Write to one region; if that fails midway, to another one, so rows may be added twice."""
        return self.anywhere(lambda region: region.stub.Write(iter(rows), **self.call()))

    def anywhere(self, ask: Callable[[Region], T]) -> T:
        return self.repeat(lambda: self._anywhere(ask))

    def _anywhere(self, ask: Callable[[Region], T]) -> T:
        for region in self.live():
            try:
                return ask(region)
            except grpc.RpcError as error:
                region.record_failure(error)
                last = f"{region.label}: {error.code().name}: {error.details()}"
        raise Stranded(f"no region accepted the call; the last error: {last}")

    # Calls of a sink, all to one region

    def stage(self, rows: Sequence[bulk_pb2.StagedRows]) -> bulk_pb2.Staged:
        """Stage all rows of a partition; a region keeps the last complete stage of each."""
        return self.at_home(lambda region: region.stub.Stage(iter(rows), **self.call(LONG * self.timeout_s)))

    def publish(
        self, application: str, batch: int, stages: Sequence[str], skip_published: bool = False
    ) -> bulk_pb2.Published:
        request = bulk_pb2.PublishRequest(
            application=application, batch=batch, stages=stages, skip_published=skip_published
        )
        return self.at_home(lambda region: region.stub.Publish(request, **self.call(LONG * self.timeout_s)))

    def discard(self, application: str, batch: int) -> None:
        request = bulk_pb2.DiscardRequest(application=application, batch=batch)
        self.at_home(lambda region: region.stub.Discard(request, **self.call()))

    def forget(self, application: str, batch: int) -> None:
        """Drop the ledger of an application whose last batch is published and is never published again."""
        request = bulk_pb2.DiscardRequest(application=application, batch=batch, ledger=True)
        self.at_home(lambda region: region.stub.Discard(request, **self.call()))

    def at_home(self, ask: Callable[[Region], T]) -> T:
        return self.repeat(lambda: self._at_home(ask))

    def _at_home(self, ask: Callable[[Region], T]) -> T:
        self._probe()
        region = self.home()
        try:
            return ask(region)
        except grpc.RpcError as error:
            what = (
                f"{region.label}, the only region to which this sink publishes: {error.code().name}: {error.details()}"
            )
            if error.code() in ELSEWHERE and error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise Stranded(what) from None
            raise BulkError(what) from None


def covered(region: Region, intervals: Sequence[bulk_pb2.Interval]) -> int:
    """Return how many intervals, from the first on, the region is known to hold."""
    return next((index for index, each in enumerate(intervals) if not region.covers(each)), len(intervals))


def furthest(regions: Sequence[Region], origin: int, seq: int) -> int:
    """Return the index of the region that has applied most of the wanted seq; the first of several."""
    return max(range(len(regions)), key=lambda place: min(seq, regions[place].applied.get(origin, 0)))


def position_of(stream: str, position: OffsetPosition) -> bulk_pb2.StreamPosition:
    rows = [bulk_pb2.VectorRow(origin=origin, seq=seq) for origin, seq in position.items()]
    return bulk_pb2.StreamPosition(stream=stream_bytes(stream), seqs=rows)
