"""Writing payloads of DUMP (stream_dump.py), node by node.

Written is the oldest kind from 2 on that holds all there is, so that as many releases as possible read it; Redis writes
its newest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from crdtstream.core.values.entry_id import ID_MIN, U64_MAX, EntryId
from crdtstream.protocols import listpack
from crdtstream.protocols.stream_dump import (
    DURATION_S,
    ELEMENT_BYTES,
    KIND_2,
    KIND_3,
    KIND_4,
    KIND_5,
    NODE_BYTES,
    NODE_ENTRIES,
    RECORDS_MAX,
    SAME_FIELDS,
    VERSIONS,
    DumpedEntry,
    GroupDump,
    ProducersDump,
    StreamDump,
    crc_steps,
)


def dumping(stream: StreamDump, entries: Iterator[DumpedEntry]) -> Generator[int, None, bytes]:
    """The payload of a stream whose entries come one by one; yields the cost of each step in bytes."""
    kind = kind_of(stream)
    nodes = NodeWriter()
    for entry in entries:
        yield nodes.add(entry)
    nodes.close()
    numbers = [nodes.count, *stream.last_id, *nodes.first_id, *stream.max_deleted]
    numbers += [max(stream.entries_added, nodes.count), len(stream.groups)]
    parts = [bytes([kind]), length(len(nodes.parts) // 2), *nodes.parts, *[length(number) for number in numbers]]
    for group in stream.groups:
        parts.append(group_bytes(group, kind))
        yield len(parts[-1])
    if kind >= KIND_4:
        parts.append(producers_bytes(stream.producers or ProducersDump(DURATION_S, RECORDS_MAX)))
    parts.append(VERSIONS[kind].to_bytes(2, "little"))
    body = b"".join(parts)
    checksum = yield from crc_steps(body, len(body))
    return body + checksum.to_bytes(8, "little")


class NodeWriter:
    """The nodes of a stream, written as soon as they are full: `parts` are a key and a listpack for each."""

    __slots__ = ("_entries", "_size", "count", "first_id", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.count = 0
        self.first_id = ID_MIN
        self._entries: list[DumpedEntry] = []
        self._size = 0

    def add(self, entry: DumpedEntry) -> int:
        """Returns about what writing it costs, in bytes."""
        size = sum([len(field) for field in entry[1]])
        if len(self._entries) == NODE_ENTRIES or self._size + size > NODE_BYTES:
            self.close()
        if not self.count:
            self.first_id = entry[0]
        self._entries.append(entry)
        self._size += size
        self.count += 1
        return size + ELEMENT_BYTES * len(entry[1])

    def close(self) -> None:
        """Write the node that is open, if there is one."""
        if self._entries:
            self.parts += [string(id_bytes(self._entries[0][0])), string(node_bytes(self._entries))]
        self._entries = []
        self._size = 0


def kind_of(stream: StreamDump) -> int:
    """The oldest kind that holds all there is."""
    if any(row.delivered_ms < 0 for group in stream.groups for row in group.pending):
        return KIND_5
    if stream.producers is not None:
        return KIND_4
    return KIND_3 if any(group.consumers for group in stream.groups) else KIND_2


def node_bytes(entries: list[DumpedEntry]) -> bytes:
    (first_ms, first_seq), fields = entries[0]
    names = fields[::2]
    elements = [listpack.integer(number) for number in (len(entries), 0, len(names))]
    elements += [listpack.text(name) for name in names]
    elements.append(listpack.integer(0))
    for (ms, seq), fields in entries:
        same = fields[::2] == names
        elements += [listpack.integer(number) for number in (SAME_FIELDS * same, wrapped(ms - first_ms))]
        elements.append(listpack.integer(wrapped(seq - first_seq)))
        if not same:
            elements.append(listpack.integer(len(fields) // 2))
        values = [listpack.text(value) for value in (fields[1::2] if same else fields)]
        elements += [*values, listpack.integer(len(values) + (3 if same else 4))]
    return listpack.packed_of(elements)


def wrapped(difference: int) -> int:
    """As a signed number of 64 bits."""
    return listpack.signed(difference & U64_MAX, 64)


def group_bytes(group: GroupDump, kind: int) -> bytes:
    parts = [string(group.name), *[length(number & U64_MAX) for number in (*group.last_id, group.entries_read)]]
    parts.append(length(len(group.pending)))
    for row in group.pending:
        parts += [id_bytes(row.entry_id), time_bytes(max(row.delivered_ms, 0)), length(row.deliveries)]
    parts.append(length(len(group.consumers)))
    held: dict[bytes, list[bytes]] = {}
    for row in group.pending:
        if row.delivered_ms >= 0:
            held.setdefault(row.consumer, []).append(id_bytes(row.entry_id))
    for name, seen_ms, active_ms in group.consumers:
        own = held.get(name, [])
        times = [time_bytes(seen_ms), *([time_bytes(active_ms)] if kind >= KIND_3 else [])]
        parts += [string(name), *times, length(len(own)), *own]
    if kind >= KIND_5:
        released = sorted([row for row in group.pending if row.delivered_ms < 0], key=lambda row: row.delivered_ms)
        parts += [length(len(released)), *[id_bytes(row.entry_id) for row in released]]
    return b"".join(parts)


def producers_bytes(producers: ProducersDump) -> bytes:
    of_producer: dict[bytes, list[bytes]] = {}
    for producer, name, (ms, seq) in producers.records:
        of_producer.setdefault(producer, []).append(string(name) + length(ms) + length(seq))
    parts = [length(producers.duration_s), length(producers.entries_max), length(len(of_producer))]
    for producer, records in of_producer.items():
        parts += [string(producer), length(len(records)), *records]
    return b"".join([*parts, length(producers.added), length(producers.duplicates)])


def time_bytes(ms: int) -> bytes:
    return ms.to_bytes(8, "little", signed=True)


def length(value: int) -> bytes:
    if value < 1 << 6:
        return bytes([value])
    if value < 1 << 14:
        return (0x4000 | value).to_bytes(2, "big")
    if value < 1 << 32:
        return b"\x80" + value.to_bytes(4, "big")
    return b"\x81" + value.to_bytes(8, "big")


def string(value: bytes) -> bytes:
    return length(len(value)) + value


def id_bytes(entry_id: EntryId) -> bytes:
    return entry_id[0].to_bytes(8, "big") + entry_id[1].to_bytes(8, "big")
