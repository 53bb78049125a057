"""Streams as DUMP writes and RESTORE reads them: Redis's RDB serialisation, its version, and a CRC-64 of both.

Each kind of stream adds something to the one before:

    kind   of Redis   with
    1      5.0        entries, groups, consumers, pending entries
    2      7.0        highest deleted ID, entries added, entries read by groups
    3      7.2        when a consumer last received an entry
    4      8.6        producers and their records (IDMP)
    5      8.8        entries that were released (XNACK)

Read are all of them, plain or compressed; whatever else is in the bytes raises `DumpFault`. Written is the oldest kind
from 2 on that holds all there is, so that as many releases as possible read it; Redis writes its newest.

IDs are strictly ascending. In a node, an entry is flags, the difference of its ID to the node's, and its fields, whose
names are left out where they are those of the node's first entry.

Reference: `rdb.c` and `t_stream.c` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.entry_id import ID_MIN, U64_MAX, EntryId
from crdtstream.core.pending import RELEASED_MIN
from crdtstream.protocols import listpack
from crdtstream.protocols.crc64 import crc64
from crdtstream.protocols.listpack import DumpFault

KIND_1: Final = 15
KIND_2: Final = 19
KIND_3: Final = 21
KIND_4: Final = 26
KIND_5: Final = 27
KINDS: Final = (KIND_1, KIND_2, KIND_3, KIND_4, KIND_5)
# The version of the first release that reads the kind.
VERSIONS: Final = {KIND_2: 10, KIND_3: 11, KIND_4: 13, KIND_5: 14}
# That of Redis 8.10.
VERSION_MAX: Final = 15
FOOTER_BYTES: Final = 10
ID_BYTES: Final = 16
NODE_ENTRIES: Final = 100
NODE_BYTES: Final = 4096
DELETED: Final = 1
SAME_FIELDS: Final = 2
UNKNOWN: Final = -1
# What Redis has for streams without settings of their own.
DURATION_S: Final = 100
RECORDS_MAX: Final = 100
# The largest values that Redis takes.
DURATION_S_MAX: Final = 86_400
RECORDS_LIMIT: Final = 10_000
COUNT_MAX: Final = 2**63 - 1
# Counts of deliveries go on from here, and must fit into 63 bits.
DELIVERIES_MAX: Final = 1 << 62

Entry = tuple[EntryId, list[bytes]]


class PendingDump:
    """A pending entry; one that was released has a negative time, which grows with each release, and no consumer."""

    __slots__ = ("consumer", "delivered_ms", "deliveries", "entry_id")

    def __init__(self, entry_id: EntryId, consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        self.entry_id = entry_id
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries


class GroupDump:
    """A group; `consumers` are name, when seen, when active (-1: unknown)."""

    __slots__ = ("consumers", "entries_read", "last_id", "name", "pending")

    def __init__(self, name: bytes, last_id: EntryId, entries_read: int) -> None:
        self.name = name
        self.last_id = last_id
        self.entries_read = entries_read
        self.pending: list[PendingDump] = []
        self.consumers: list[tuple[bytes, int, int]] = []


class ProducersDump:
    """What idempotent adds have left: how long and how many records are kept, `(producer, name, ID)` for each of them,
    and how many there ever were.
    """

    __slots__ = ("added", "duplicates", "duration_s", "entries_max", "records")

    def __init__(self, duration_s: int, entries_max: int) -> None:
        self.duration_s = duration_s
        self.entries_max = entries_max
        self.records: list[tuple[bytes, bytes, EntryId]] = []
        self.added = 0
        self.duplicates = 0


class StreamDump:
    """A stream; `producers` is None if nobody ever added idempotently."""

    __slots__ = ("entries", "entries_added", "groups", "last_id", "max_deleted", "producers")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.last_id = ID_MIN
        self.max_deleted = ID_MIN
        self.entries_added = 0
        self.groups: list[GroupDump] = []
        self.producers: ProducersDump | None = None


# The footer


def sealed(body: bytes, version: int = VERSION_MAX) -> bytes:
    body += version.to_bytes(2, "little")
    return body + crc64(body).to_bytes(8, "little")


def is_sound(payload: bytes) -> bool:
    """Whether version and checksum are right."""
    if len(payload) < FOOTER_BYTES:
        return False
    version = int.from_bytes(payload[-10:-8], "little")
    return version <= VERSION_MAX and crc64(payload[:-8]) == int.from_bytes(payload[-8:], "little")


# Writing


def dumped(stream: StreamDump) -> bytes:
    kind = kind_of(stream)
    nodes = nodes_of(stream.entries)
    parts = [bytes([kind]), length(len(nodes))]
    for node in nodes:
        parts += [string(id_bytes(node[0][0])), string(node_bytes(node))]
    first_id = stream.entries[0][0] if stream.entries else ID_MIN
    numbers = [len(stream.entries), *stream.last_id, *first_id, *stream.max_deleted, stream.entries_added]
    parts += [length(number) for number in [*numbers, len(stream.groups)]]
    parts += [group_bytes(group, kind) for group in stream.groups]
    if kind >= KIND_4:
        parts.append(producers_bytes(stream.producers or ProducersDump(DURATION_S, RECORDS_MAX)))
    return sealed(b"".join(parts), VERSIONS[kind])


def kind_of(stream: StreamDump) -> int:
    """The oldest kind that holds all there is."""
    if any(row.delivered_ms < 0 for group in stream.groups for row in group.pending):
        return KIND_5
    if stream.producers is not None:
        return KIND_4
    return KIND_3 if any(group.consumers for group in stream.groups) else KIND_2


def nodes_of(entries: list[Entry]) -> list[list[Entry]]:
    nodes: list[list[Entry]] = []
    size = 0
    for entry in entries:
        more = sum([len(field) for field in entry[1]])
        if not nodes or len(nodes[-1]) == NODE_ENTRIES or size + more > NODE_BYTES:
            nodes.append([])
            size = 0
        nodes[-1].append(entry)
        size += more
    return nodes


def node_bytes(entries: list[Entry]) -> bytes:
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


# Reading


class Reader:
    """The bytes of a payload, from left to right."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise DumpFault("the payload ends early")
        self._at += size
        return taken

    def is_done(self) -> bool:
        return self._at == len(self._data)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little", signed=True)

    def length(self) -> int:
        value, encoding = self._length()
        if encoding:
            raise DumpFault("an encoded string in the place of a length")
        return value

    def _length(self) -> tuple[int, bool]:
        """A length, or the number of an encoding."""
        first = self.take(1)[0]
        kind, low = first >> 6, first & 0x3F
        if kind == 0:
            return low, False
        if kind == 1:
            return low << 8 | self.take(1)[0], False
        if kind == 3:
            return low, True
        if first not in (0x80, 0x81):
            raise DumpFault("a length of no known kind")
        return int.from_bytes(self.take(4 if first == 0x80 else 8), "big"), False

    def string(self) -> bytes:
        value, encoding = self._length()
        if not encoding:
            return self.take(value)
        if value < 3:
            return b"%d" % self.number(1 << value)
        if value > 3:
            raise DumpFault("a string of no known encoding")
        compressed_size, size = self.length(), self.length()
        return listpack.decompressed(self.take(compressed_size), size)

    def entry_id(self) -> EntryId:
        return id_of(self.take(ID_BYTES))

    def id_in_lengths(self) -> EntryId:
        return (self.length(), self.length())


def id_of(text: bytes) -> EntryId:
    return (int.from_bytes(text[:8], "big"), int.from_bytes(text[8:], "big"))


def restored(payload: bytes) -> StreamDump:
    """The stream in a payload whose footer is sound; raises DumpFault."""
    reader = Reader(payload[:-FOOTER_BYTES])
    kind = reader.take(1)[0]
    if kind not in KINDS:
        raise DumpFault("not a stream")
    stream = StreamDump()
    for _ in range(reader.length()):
        read_node(reader, stream.entries)
    reader.length()  # the number of entries, which the nodes tell too
    stream.last_id = reader.id_in_lengths()
    stream.entries_added = len(stream.entries)
    if kind != KIND_1:
        reader.id_in_lengths()  # the first ID, which the nodes tell too
        stream.max_deleted = reader.id_in_lengths()
        stream.entries_added = max(stream.entries_added, signed_length(reader))
    if stream.entries and stream.entries[-1][0] > stream.last_id:
        raise DumpFault("the last ID is below that of an entry")
    stream.groups = [read_group(reader, kind, stream) for _ in range(reader.length())]
    if kind >= KIND_4:
        stream.producers = read_producers(reader)
    if not reader.is_done() or len({group.name for group in stream.groups}) != len(stream.groups):
        raise DumpFault("more than a stream, or a group twice")
    return stream


def signed_length(reader: Reader) -> int:
    return listpack.signed(reader.length(), 64)


def read_node(reader: Reader, entries: list[Entry]) -> None:
    key = reader.string()
    if len(key) != ID_BYTES:
        raise DumpFault("a node has no ID")
    elements = Elements(listpack.elements_of(reader.string()))
    live, deleted = elements.count(), elements.count()
    names = [elements.take() for _ in range(elements.count())]
    elements.take()
    for _ in range(live + deleted):
        read_entry(elements, id_of(key), names, entries)
    if not elements.is_done():
        raise DumpFault("a node has more entries than it says")


def read_entry(elements: Elements, node_id: EntryId, names: list[bytes], entries: list[Entry]) -> None:
    flags, ms, seq = elements.integer(), elements.integer(), elements.integer()
    if flags & SAME_FIELDS:
        fields = [part for name in names for part in (name, elements.take())]
    else:
        fields = [elements.take() for _ in range(2 * elements.count())]
    elements.take()
    entry_id = ((node_id[0] + ms) & U64_MAX, (node_id[1] + seq) & U64_MAX)
    if flags & DELETED:
        return
    if entry_id <= (entries[-1][0] if entries else ID_MIN):
        raise DumpFault("IDs do not ascend")
    entries.append((entry_id, fields))


class Elements:
    """The elements of a node, from left to right."""

    __slots__ = ("_at", "_elements")

    def __init__(self, elements: list[bytes]) -> None:
        self._elements = elements
        self._at = 0

    def take(self) -> bytes:
        if self._at == len(self._elements):
            raise DumpFault("a node ends early")
        self._at += 1
        return self._elements[self._at - 1]

    def integer(self) -> int:
        try:
            return int(self.take())
        except ValueError as error:
            raise DumpFault("text in the place of a number") from error

    def count(self) -> int:
        """A number that is not negative."""
        found = self.integer()
        if found < 0:
            raise DumpFault("a negative number of something")
        return found

    def is_done(self) -> bool:
        return self._at == len(self._elements)


def read_group(reader: Reader, kind: int, stream: StreamDump) -> GroupDump:
    name, last_id = reader.string(), reader.id_in_lengths()
    group = GroupDump(name, last_id, entries_read_at(last_id, stream))
    if kind != KIND_1:
        group.entries_read = max(UNKNOWN, signed_length(reader))
    for _ in range(reader.length()):
        entry_id, delivered_ms = reader.entry_id(), reader.number(8)
        deliveries = min(reader.length(), DELIVERIES_MAX)
        group.pending.append(PendingDump(entry_id, b"", delivered_ms, deliveries))
    owners: dict[EntryId, bytes] = {}
    held = 0
    for _ in range(reader.length()):
        own = read_consumer(reader, kind, group)
        owners.update(own)
        held += len(own)
    released = [reader.entry_id() for _ in range(reader.length())] if kind >= KIND_5 else []
    assign(group, owners, {entry_id: RELEASED_MIN + at for at, entry_id in enumerate(released)})
    if held + len(released) != len(group.pending):
        raise DumpFault("an entry that two consumers hold")
    check_group(group)
    return group


def assign(group: GroupDump, owners: dict[EntryId, bytes], released: dict[EntryId, int]) -> None:
    """Give each pending entry its consumer, or the time that tells that it was released."""
    group.pending.sort(key=lambda row: row.entry_id)
    if [row.entry_id for row in group.pending] != sorted([*owners, *released]):
        raise DumpFault("a pending entry without a consumer, or the other way round")
    for row in group.pending:
        if row.delivered_ms < 0:
            raise DumpFault("a time before 1970")
        row.consumer = owners.get(row.entry_id, b"")
        row.delivered_ms = released.get(row.entry_id, row.delivered_ms)


def read_consumer(reader: Reader, kind: int, group: GroupDump) -> list[tuple[EntryId, bytes]]:
    """Add a consumer to its group; returns what it holds. Before kind 3, that it was seen is the best that is known."""
    consumer, seen_ms = reader.string(), reader.number(8)
    active_ms = max(reader.number(8), UNKNOWN) if kind >= KIND_3 else seen_ms
    group.consumers.append((consumer, seen_ms, active_ms))
    return [(reader.entry_id(), consumer) for _ in range(reader.length())]


def read_producers(reader: Reader) -> ProducersDump:
    found = ProducersDump(reader.length(), reader.length())
    for _ in range(reader.length()):
        producer = reader.string()
        for _ in range(reader.length()):
            found.records.append((producer, reader.string(), reader.id_in_lengths()))
    found.added, found.duplicates = reader.length(), reader.length()
    if not (0 < found.duration_s <= DURATION_S_MAX and 0 < found.entries_max <= RECORDS_LIMIT):
        raise DumpFault("producers with settings that Redis refuses")
    if max(found.added, found.duplicates) > COUNT_MAX:
        raise DumpFault("more idempotent adds than can be counted")
    return found


def check_group(group: GroupDump) -> None:
    if len({name for name, _, _ in group.consumers}) != len(group.consumers):
        raise DumpFault("a consumer twice")
    if len({row.entry_id for row in group.pending}) != len(group.pending):
        raise DumpFault("an entry that is pending twice")
    if any(seen_ms < 0 for _, seen_ms, _ in group.consumers):
        raise DumpFault("a time before 1970")


def entries_read_at(last_id: EntryId, stream: StreamDump) -> int:
    """What a group has read, where the payload does not say: known at both ends of the stream only. All entries ever
    added count as those that are there, and no entry as deleted.
    """
    if not stream.entries:
        return 0
    if last_id == stream.last_id:
        return stream.entries_added
    first_id = stream.entries[0][0]
    if last_id > stream.last_id or last_id > first_id:
        return UNKNOWN
    return 1 if last_id == first_id else 0
