"""Regions of the bulk contract in memory: gRPC servers in threads, over one world of entries.

A region knows what it has applied and nothing more, keeps what is staged until it ends, and publishes each batch of an
application once. `stop` closes its port, `hang` lets calls wait, `fail` ends the next calls with a code.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import grpc
import numpy as np

from crdtstream.bulk import bulk_pb2, bulk_pb2_grpc
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.processes.ports import free_port

START_MS = 1_700_000_000_000
ENTRIES_EACH = 4_000
Entry = tuple[int, int, int, list[bytes]]


class Regions:
    """Several regions; what one of them wrote another has only after `sync`."""

    def __init__(self, count: int = 2, password: str = "") -> None:
        self.lock = threading.RLock()
        self.password = password
        self.now_ms = START_MS
        self.streams: dict[bytes, dict[int, list[Entry]]] = defaultdict(lambda: defaultdict(list))
        self.regions = [FakeRegion(self, number) for number in range(1, count + 1)]

    def __getitem__(self, number: int) -> FakeRegion:
        return self.regions[number - 1]

    @property
    def endpoints(self) -> str:
        return ",".join(region.address for region in self.regions)

    def sync(self) -> None:
        """Every region that is up applies what the others have."""
        merged: dict[int, int] = {}
        for region in self.regions:
            for origin, seq in region.applied.items():
                merged[origin] = max(seq, merged.get(origin, 0))
        for region in self.regions:
            region.applied = dict(merged)
            for other in self.regions:
                for key, seq in other.trimmed.items():
                    region.trimmed[key] = max(seq, region.trimmed.get(key, 0))

    def values(self, stream: str) -> list[bytes]:
        """The first value of every entry, of all origins."""
        return [entry[3][1] for entries in self.streams[stream.encode()].values() for entry in entries]

    def stop(self) -> None:
        for region in self.regions:
            region.stop()


class FakeRegion(bulk_pb2_grpc.BulkServicer):
    """One region and its port."""

    def __init__(self, world: Regions, number: int) -> None:
        self.world = world
        self.number = number
        self.name = f"region{number}"
        # Of a region of several shards: which one this is, and where all of them are.
        self.shard = 0
        self.places: list[str] = []
        self.origin = number + ((0xAB00 + number) << 8)
        self.applied: dict[int, int] = {}
        self.trimmed: dict[tuple[bytes, int], int] = {}
        self.stages: dict[str, tuple[tuple[str, int, int], list[tuple[bytes, list[bytes]]]]] = {}
        self.published: dict[str, int] = {}
        self.contents: dict[str, list[tuple[bytes, list[bytes]]]] = {}
        self.acknowledged: dict[tuple[bytes, bytes], dict[int, int]] = {}
        # Entries that this region alone lacks, by stream, origin and seq.
        self.lacks: set[tuple[bytes, int, int]] = set()
        self.calls: list[str] = []
        self.failures: dict[str, list[grpc.StatusCode]] = defaultdict(list)
        self.released = threading.Event()
        self.released.set()
        self.entries_each = ENTRIES_EACH
        self.port = free_port()
        self.server: Any = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
        bulk_pb2_grpc.add_BulkServicer_to_server(self, self.server)
        assert self.server.add_insecure_port(self.address) == self.port
        self.server.start()

    def stop(self) -> None:
        self.released.set()
        if self.server is not None:
            self.server.stop(0).wait()
            self.server = None

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Calls are taken and not answered."""
        self.released.clear()
        try:
            yield
        finally:
            self.released.set()

    def fail(self, call: str, *codes: grpc.StatusCode) -> None:
        self.failures[call] += codes

    def count(self, call: str) -> int:
        return self.calls.count(call)

    # What happens in the region

    def restart(self) -> None:
        """A new origin, as every start of a process is; what was staged is gone."""
        self.origin += 0x10000 << 8
        self.stages.clear()

    def add(self, stream: str | bytes, *values: bytes | list[bytes], skip: int = 0) -> int:
        """An entry for each value, or list of fields; `skip` seqs go to other effects before each."""
        name = stream if isinstance(stream, bytes) else stream.encode()
        with self.world.lock:
            for value in values:
                self._add(name, value if isinstance(value, list) else [b"f", value], skip)
            return self.applied[self.origin]

    def _add(self, name: bytes, fields: list[bytes], skip: int = 0) -> None:
        seq = self.applied.get(self.origin, 0) + 1 + skip
        self.applied[self.origin] = seq
        self.world.now_ms += 1
        self.world.streams[name][self.origin].append((seq, self.world.now_ms, self.number, fields))

    def make(self, stream: str) -> None:
        """A stream without entries."""
        self.world.streams[stream.encode()].clear()

    def remove(self, stream: str, origin: int, *seqs: int) -> None:
        entries = self.world.streams[stream.encode()][origin]
        entries[:] = [entry for entry in entries if entry[0] not in seqs]

    def trim(self, stream: str, origin: int, through: int) -> None:
        entries = self.world.streams[stream.encode()][origin]
        entries[:] = [entry for entry in entries if entry[0] > through]
        self.trimmed[stream.encode(), origin] = through

    def seen(self, stream: bytes, origin: int, after: int = 0, through: int | None = None) -> list[Entry]:
        bound = self.applied.get(origin, 0) if through is None else through
        with self.world.lock:
            rows = self.world.streams.get(stream, {}).get(origin, [])
            held = [entry for entry in rows if after < entry[0] <= bound]
        return [entry for entry in held if (stream, origin, entry[0]) not in self.lacks]

    # The contract

    def enter(self, call: str, context: Any) -> None:
        self.calls.append(call)
        self.released.wait()
        metadata = dict(context.invocation_metadata())
        if metadata.get("password", "") != self.world.password:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong password")
        if self.failures[call]:
            context.abort(self.failures[call].pop(0), f"{call} fails as it was told to")

    def Describe(self, request: Any, context: Any) -> bulk_pb2.Description:
        self.enter("Describe", context)
        rows = [bulk_pb2.VectorRow(origin=origin, seq=seq) for origin, seq in self.applied.items()]
        return bulk_pb2.Description(
            cluster="c",
            region=self.number,
            name=self.name,
            origin=self.origin,
            applied=rows,
            durable=rows,
            shard=self.shard,
            shards=self.places,
        )

    def Heads(self, request: Any, context: Any) -> Iterator[bulk_pb2.StreamHead]:
        self.enter("Heads", context)
        positions = {each.stream: {row.origin: row.seq for row in each.seqs} for each in request.positions}
        with self.world.lock:
            names = list(request.streams) or sorted(self.world.streams)
        for name in names:
            if not request.pattern or fnmatchcase(name.decode("latin1"), request.pattern.decode("latin1")):
                before = request.before_ms if request.HasField("before_ms") else 0
                yield self.stream_head(name, before, positions.get(name))

    def stream_head(self, name: bytes, before_ms: int, position: dict[int, int] | None) -> bulk_pb2.StreamHead:
        origins = []
        for origin in sorted(self.world.streams.get(name, {})):
            live = self.seen(name, origin)
            trimmed = self.trimmed.get((name, origin), 0)
            if not live and not trimmed:
                continue
            older = [entry[0] for entry in live if entry[1] < before_ms]
            origins.append(
                bulk_pb2.OriginHead(
                    origin=origin,
                    head=live[-1][0] if live else trimmed,
                    trimmed=trimmed,
                    first=live[0][0] if live else 0,
                    length=len(live),
                    at=older[-1] if older else trimmed,
                    waiting=sum(entry[0] > position.get(origin, 0) for entry in live) if position is not None else 0,
                )
            )
        return bulk_pb2.StreamHead(stream=name, origins=origins, exists=name in self.world.streams)

    def held(self, interval: Any, context: Any) -> list[Entry]:
        if interval.through > self.applied.get(interval.origin, 0):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"not applied up to {interval.through}")
        return self.seen(interval.stream, interval.origin, interval.after, interval.through)

    def Split(self, request: Any, context: Any) -> bulk_pb2.SplitReply:
        self.enter("Split", context)
        rows = self.held(request.interval, context)
        parts = [rows[at : at + request.entries] for at in range(0, len(rows), request.entries)] or [[]]
        if request.pieces_max and len(parts) > request.pieces_max:
            last = request.pieces_max - 1
            parts[last:] = [[entry for part in parts[last:] for entry in part]]
        ends = [part[-1][0] for part in parts[:-1]]
        return bulk_pb2.SplitReply(through=[*ends, request.interval.through], entries=[len(part) for part in parts])

    def Read(self, request: Any, context: Any) -> Iterator[bulk_pb2.Entries]:
        self.enter("Read", context)
        for index, interval in enumerate(request.intervals):
            rows = self.held(interval, context)
            for at in range(0, len(rows), self.entries_each):
                if at and self.failures["Read"]:
                    context.abort(self.failures["Read"].pop(0), "in the middle")
                yield entries_of(index, rows[at : at + self.entries_each])

    def Write(self, requests: Any, context: Any) -> bulk_pb2.Written:
        self.enter("Write", context)
        rows = [row for message in requests for row in rows_of(message)]
        with self.world.lock:
            for stream, fields in rows:
                self._add(stream, fields)
        return bulk_pb2.Written(added=len(rows), origin=self.origin, last_seq=self.applied.get(self.origin, 0))

    def Stage(self, requests: Any, context: Any) -> bulk_pb2.Staged:
        self.enter("Stage", context)
        messages = list(requests)
        key = (messages[0].application, messages[0].batch, messages[0].partition)
        self.stages = {name: stage for name, stage in self.stages.items() if stage[0] != key}
        rows = [row for message in messages for row in rows_of(message.rows)]
        stage = f"{self.number}-{len(self.calls)}-{messages[0].partition}"
        self.stages[stage] = (key, rows)
        return bulk_pb2.Staged(stage=stage, rows=len(rows))

    def Publish(self, request: Any, context: Any) -> bulk_pb2.Published:
        self.enter("Publish", context)
        with self.world.lock:
            if self.published.get(request.application, -1) >= request.batch:
                return self.publish_again(request, context)
            if any(stage not in self.stages for stage in request.stages):
                context.abort(grpc.StatusCode.ABORTED, "a stage is not there any more")
            rows = [row for stage in request.stages for row in self.stages.pop(stage)[1]]
            for stream, fields in rows:
                self._add(stream, fields)
            self.published[request.application] = request.batch
            self.contents[request.application] = rows
        return bulk_pb2.Published(added=len(rows), origin=self.origin, last_seq=self.applied.get(self.origin, 0))

    def publish_again(self, request: Any, context: Any) -> bulk_pb2.Published:
        staged = [self.stages[name][1] for name in request.stages if name in self.stages]
        rows = [row for part in staged for row in part]
        if not request.skip_published:
            if request.batch < self.published[request.application]:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a later batch was begun")
            if staged and rows != self.contents[request.application]:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it was published with others")
        for name in request.stages:
            self.stages.pop(name, None)
        return bulk_pb2.Published(repeated=True, origin=self.origin, skipped=len(rows))

    def Discard(self, request: Any, context: Any) -> bulk_pb2.Discarded:
        self.enter("Discard", context)
        mine = [key for key, stage in self.stages.items() if stage[0][:2] == (request.application, request.batch)]
        for key in mine:
            del self.stages[key]
        if request.ledger and self.published.get(request.application, -1) <= request.batch:
            self.published.pop(request.application, None)
        return bulk_pb2.Discarded(stages=len(mine))

    def Frontiers(self, request: Any, context: Any) -> Iterator[bulk_pb2.GroupFrontier]:
        self.enter("Frontiers", context)
        for (stream, group), position in sorted(self.acknowledged.items()):
            rows = [bulk_pb2.VectorRow(origin=origin, seq=seq) for origin, seq in position.items()]
            yield bulk_pb2.GroupFrontier(stream=stream, group=group, acknowledged=rows)

    def Advance(self, request: Any, context: Any) -> bulk_pb2.Advanced:
        self.enter("Advance", context)
        entries, removed = 0, []
        assert len({position.stream for position in request.positions}) == len(request.positions)
        for position in request.positions:
            known = self.acknowledged.setdefault((position.stream, request.group), {})
            for row in position.seqs:
                entries += len(self.seen(position.stream, row.origin, known.get(row.origin, 0), row.seq))
                known[row.origin] = max(row.seq, known.get(row.origin, 0))
                trimmed = self.trimmed.get((position.stream, row.origin), 0)
                if trimmed > row.seq:
                    lost = bulk_pb2.VectorRow(origin=row.origin, seq=trimmed)
                    removed.append(bulk_pb2.StreamPosition(stream=position.stream, seqs=[lost]))
        return bulk_pb2.Advanced(entries=entries, removed=removed)


def column(numbers: list[int], kind: str = "<u8") -> bytes:
    packed: bytes = np.array(numbers, kind).tobytes()
    return packed


def entries_of(index: int, rows: list[Entry]) -> bulk_pb2.Entries:
    encoded = [encode_entry((ms, number), fields) for _, ms, number, fields in rows]
    return bulk_pb2.Entries(
        interval=index,
        count=len(rows),
        seqs=column([row[0] for row in rows]),
        ms=column([row[1] for row in rows]),
        id_seqs=column([row[2] for row in rows]),
        ends=np.cumsum([len(each) for each in encoded]).astype("<u4").tobytes(),
        data=b"".join(encoded),
    )


def rows_of(message: bulk_pb2.Rows) -> list[tuple[bytes, list[bytes]]]:
    """Stream and items of each row, by the plain reading of what the contract says."""
    ends = np.frombuffer(message.ends, "<u4").tolist()
    stream_of = np.frombuffer(message.stream_of, "<u4").tolist() or [0] * message.count
    assert len(ends) == len(stream_of) == message.count
    starts = [0, *ends[:-1]]
    return [
        (message.streams[stream], items_of(message.data[start:end]))
        for start, end, stream in zip(starts, ends, stream_of, strict=True)
    ]


def items_of(row: bytes) -> list[bytes]:
    header = re.match(rb"\*(\d+)\r\n", row)
    assert header is not None
    items, at = [], header.end()
    for _ in range(int(header[1])):
        line = row.index(b"\r\n", at)
        size = int(row[at + 1 : line])
        items.append(row[line + 2 : line + 2 + size])
        assert row[line + 2 + size : line + 4 + size] == b"\r\n"
        at = line + 4 + size
    assert at == len(row)
    return items


def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    waited = threading.Event()
    for _ in range(int(timeout_s * 100)):
        if condition():
            return
        waited.wait(0.01)
    raise AssertionError(f"not within {timeout_s} s")
