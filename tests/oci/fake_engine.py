"""An engine in memory, of one process: what the gateway needs, as simply as it can be done honestly."""

from __future__ import annotations

from dataclasses import dataclass, field

from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.values import (
    INVALID,
    LATEST,
    LIMIT,
    NO_START,
    TRIM_HORIZON,
    UNCOMMITTED,
    UNKNOWN_GROUP,
    UNKNOWN_STREAM,
    Bookmark,
    NewMessage,
    PartitionMessage,
    Polled,
    Refused,
    Reservation,
    Stamp,
    StreamSpec,
)


@dataclass
class Group:
    """`since` is the generation in which a partition came to its owner; `until` when an instance is given up."""

    next: dict[int, int]
    committed: dict[int, int] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    until: dict[str, int] = field(default_factory=dict)
    generation: int = 0


@dataclass
class Stream:
    spec: StreamSpec
    partitions: list[list[PartitionMessage]]
    oldest: list[int]
    groups: dict[str, Group] = field(default_factory=dict)


class FakeEngine:
    """`refusal` is raised by what goes to the home, while it is set; `time_ms` is moved by tests."""

    def __init__(self, time_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = time_ms
        self.ahead_ms = 0
        self.kinds: dict[str, dict[str, bytes]] = {}
        self.streams: dict[str, Stream] = {}
        self.present: Epoch = (1, 1)
        # Next offsets that no longer hold under the present epoch: (stream, partition) -> where its messages begin.
        self.settled: dict[tuple[str, int], int] = {}
        self.refusal: Refused | None = None
        # The epoch of offsets that are not here, and whether a region is away.
        self.located: Epoch | None = None
        self.misses = False

    def now_ms(self) -> int:
        return self.time_ms

    async def write_document(self, kind: str, name: str, document: bytes | None) -> None:
        self._at_home()
        rows = self.kinds.setdefault(kind, {})
        if document is None:
            rows.pop(name, None)
        else:
            rows[name] = document

    def documents(self, kind: str) -> dict[str, bytes]:
        return dict(self.kinds.get(kind, {}))

    async def create_stream(self, spec: StreamSpec) -> None:
        self._at_home()
        if spec.id in self.streams:
            raise Refused(INVALID, f"the stream {spec.id} exists")
        self.streams[spec.id] = Stream(spec, [[] for _ in range(spec.partitions)], [0] * spec.partitions)

    async def delete_stream(self, stream_id: str) -> None:
        self._at_home()
        self._stream(stream_id)
        del self.streams[stream_id]

    def spec(self, stream_id: str) -> StreamSpec | None:
        stream = self.streams.get(stream_id)
        return None if stream is None else stream.spec

    def _stream(self, stream_id: str) -> Stream:
        if stream_id not in self.streams:
            raise Refused(UNKNOWN_STREAM, f"Unknown stream {stream_id}.")
        return self.streams[stream_id]

    def _at_home(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    # Partitions

    def epoch(self, stream_id: str) -> Epoch:
        return self.present

    def move_clock(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms

    def bounds(self, stream_id: str, partition: int) -> tuple[int, int]:
        stream = self._stream(stream_id)
        return stream.oldest[partition], len(stream.partitions[partition])

    async def offset_at(self, stream_id: str, partition: int, time_ms: int) -> int:
        return self._offset_at(stream_id, partition, time_ms)

    def _offset_at(self, stream_id: str, partition: int, time_ms: int) -> int:
        messages = self._stream(stream_id).partitions[partition]
        return next((message.offset for message in messages if message.time_ms >= time_ms), len(messages))

    def clamp_offset(self, stream_id: str, partition: int, next_offset: int, epoch: Epoch) -> int:
        if epoch == self.present:
            return next_offset
        return min(next_offset, self.settled.get((stream_id, partition), next_offset))

    async def locate(self, stream_id: str, partition: int, offset: int) -> Epoch | None:
        return self.located

    def misses_regions(self) -> bool:
        return self.misses

    async def read(
        self, stream_id: str, partition: int, first: int, epoch: Epoch, count_max: int, bytes_max: int
    ) -> tuple[list[PartitionMessage], Epoch]:
        stream = self._stream(stream_id)
        first = self.clamp_offset(stream_id, partition, first, epoch)
        found: list[PartitionMessage] = []
        for message in stream.partitions[partition][max(first, stream.oldest[partition]) :][:count_max]:
            if found and bytes_max <= 0:
                break
            bytes_max -= len(message.key or b"") + len(message.value)
            found.append(message)
        return found, self.epoch(stream_id)

    async def read_polled(
        self, stream_id: str, polled: Polled, before: Bookmark, order: list[int], count_max: int, bytes_max: int
    ) -> tuple[list[tuple[int, PartitionMessage]], Bookmark]:
        found: list[tuple[int, PartitionMessage]] = []
        offsets = {at: position - 1 for at, position in polled.positions.items() if at in before.offsets}
        for at in order:
            read, _ = await self.read(
                stream_id, at, polled.positions[at], polled.epoch, count_max - len(found), bytes_max
            )
            found += [(at, message) for message in read]
            bytes_max -= sum(len(message.key or b"") + len(message.value) for message in read)
            if read:
                offsets[at] = read[-1].offset
        return found, Bookmark(polled.generation, polled.epoch, polled.start, offsets)

    async def put(self, stream_id: str, messages: list[NewMessage]) -> list[Stamp]:
        self._at_home()
        partitions = self._stream(stream_id).partitions
        stamps = []
        for message in messages:
            at = len(partitions[message.partition])
            partitions[message.partition].append(PartitionMessage(at, self.time_ms, message.key, message.value))
            stamps.append(Stamp(message.partition, at, self.time_ms))
        return stamps

    # Groups

    def _group(self, stream_id: str, group: str) -> Group:
        found = self._stream(stream_id).groups.get(group)
        if found is None:
            raise Refused(UNKNOWN_GROUP, f"Unknown group {group}.")
        return found

    def _starts(self, stream_id: str, start: str, time_ms: int) -> dict[int, int]:
        found = {}
        for partition in range(self._stream(stream_id).spec.partitions):
            oldest, following = self.bounds(stream_id, partition)
            at = {TRIM_HORIZON: oldest, LATEST: following}.get(start)
            found[partition] = self._offset_at(stream_id, partition, time_ms) if at is None else at
        return found

    async def join_group(self, stream_id: str, group: str, start: str, time_ms: int, groups_max: int) -> Bookmark:
        self._at_home()
        groups = self._stream(stream_id).groups
        if group not in groups:
            if groups_max and len(groups) >= groups_max:
                raise Refused(LIMIT, f"the stream has {groups_max} groups: use one of them")
            groups[group] = Group(self._starts(stream_id, start, time_ms))
        return Bookmark(groups[group].generation, self.present, NO_START, {})

    async def poll(
        self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark, commits: bool
    ) -> Polled:
        found = self._member(stream_id, group, instance, timeout_ms)
        if commits:
            self._commit(found, instance, bookmark)
        positions = {}
        for partition, owner in sorted(found.owners.items()):
            if owner == instance:
                read = bookmark.offsets.get(partition, UNCOMMITTED) if self._holds(found, partition, bookmark) else -1
                positions[partition] = max(found.next[partition], read + 1)
        return Polled(found.generation, self.present, NO_START, positions)

    def _member(self, stream_id: str, group: str, instance: str, timeout_ms: int) -> Group:
        """Admit the instance, give up silent ones, and deal the partitions again if that changed the instances."""
        self._at_home()
        found = self._group(stream_id, group)
        before = set(found.until)
        found.until = {name: until for name, until in found.until.items() if until > self.time_ms}
        found.until[instance] = self.time_ms + timeout_ms
        if set(found.until) != before:
            self._deal(found, self._stream(stream_id).spec.partitions)
        return found

    def _deal(self, group: Group, partitions: int) -> None:
        group.generation += 1
        names = sorted(group.until)
        for partition in range(partitions):
            owner = names[partition % len(names)]
            if group.owners.get(partition) != owner:
                group.owners[partition] = owner
                group.since[partition] = group.generation

    def _holds(self, group: Group, partition: int, bookmark: Bookmark) -> bool:
        return bookmark.generation >= group.since[partition]

    def _commit(self, group: Group, instance: str, bookmark: Bookmark) -> None:
        for partition, offset in bookmark.offsets.items():
            if group.owners.get(partition) == instance and self._holds(group, partition, bookmark):
                group.committed[partition] = max(offset, group.committed.get(partition, UNCOMMITTED))
                group.next[partition] = max(offset + 1, group.next[partition])

    async def commit(self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark) -> Bookmark:
        found = self._member(stream_id, group, instance, timeout_ms)
        self._commit(found, instance, bookmark)
        return self._kept(found, instance, bookmark)

    async def heartbeat(
        self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark
    ) -> Bookmark:
        return self._kept(self._member(stream_id, group, instance, timeout_ms), instance, bookmark)

    def _kept(self, group: Group, instance: str, bookmark: Bookmark) -> Bookmark:
        offsets = {p: at for p, at in bookmark.offsets.items() if group.owners.get(p) == instance}
        return Bookmark(group.generation, self.present, NO_START, offsets)

    async def group(self, stream_id: str, group: str) -> list[Reservation]:
        self._at_home()
        found = self._group(stream_id, group)
        rows = []
        for partition in range(self._stream(stream_id).spec.partitions):
            owner = found.owners.get(partition, "")
            committed = found.committed.get(partition, UNCOMMITTED)
            rows.append(Reservation(partition, committed, owner, found.until.get(owner, 0)))
        return rows

    async def reset_group(self, stream_id: str, group: str, start: str, time_ms: int) -> None:
        self._at_home()
        found = self._group(stream_id, group)
        found.generation += 1
        found.next = self._starts(stream_id, start, time_ms)
        found.committed.clear()
        found.since = dict.fromkeys(found.owners, found.generation)
