"""Streams as DUMP writes (dump_writing.py) and RESTORE reads them: Redis's RDB serialisation, its version, and a CRC-64
of both.

Each kind of stream adds something to the one before:

    kind   of Redis   with
    1      5.0        entries, groups, consumers, pending entries
    2      7.0        highest deleted ID, entries added, entries read by groups
    3      7.2        when a consumer last received an entry
    4      8.6        producers and their records (IDMP)
    5      8.8        entries that were released (XNACK)

Read are all of them, plain or compressed, in steps; whatever else is in the bytes raises `DumpFault`. Few bytes may
hold much: compressed strings, and names that are written once for all entries of a node. So what the bytes expand to is
counted before it is made, and reading ends with `TooLarge` beyond a bound.

IDs are strictly ascending. In a node, an entry is flags, the difference of its ID to the node's, and its fields, whose
names are left out where they are those of the node's first entry.

Reference: `rdb.c` and `t_stream.c` of Redis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Final

from mypy_extensions import mypyc_attr

from crdtstream.core.groups.pending import RELEASED_MIN
from crdtstream.core.values.entry_id import ID_MIN, U64_MAX, EntryId
from crdtstream.protocols import listpack
from crdtstream.protocols.crc64 import crc64
from crdtstream.protocols.listpack import DumpFault, Elements
from crdtstream.protocols.lzf import decompressing

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

# What an object takes besides its bytes: a field, a pending entry, and what else has a name.
ELEMENT_BYTES: Final = 16
ROW_BYTES: Final = 200
# The checksum of so many bytes is one step, which costs a quarter of what reading them does.
CRC_STEP_BYTES: Final = 1 << 18
CRC_COST: Final = 4

# More than any payload has.
BYTES_MAX: Final = 1 << 62

DumpedEntry = tuple[EntryId, list[bytes]]


class BadFooter(DumpFault):
    """The version or the checksum is wrong."""


class TooLarge(DumpFault):
    """The payload expands to more than it may."""


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
    """A stream without its entries, of which it has the number, and the first and last ID (0-0: none). `producers` is
    None if nobody ever added idempotently.
    """

    __slots__ = ("count", "entries_added", "first_id", "groups", "last_id", "max_deleted", "newest_id", "producers")

    def __init__(self) -> None:
        self.count = 0
        self.first_id = ID_MIN
        self.newest_id = ID_MIN
        self.last_id = ID_MIN
        self.max_deleted = ID_MIN
        self.entries_added = 0
        self.groups: list[GroupDump] = []
        self.producers: ProducersDump | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class DumpSink(ABC):
    """What takes the entries of a payload, in the order of their IDs."""

    @abstractmethod
    def add(self, entry_id: EntryId, fields: list[bytes]) -> None:
        """Entries of one node may share the objects of their names. What this raises ends the reading."""


# The footer


def crc_steps(data: bytes, end: int) -> Generator[int, None, int]:
    """The checksum of the bytes before `end`; yields the cost of each step in bytes."""
    view = memoryview(data)
    crc = 0
    for at in range(0, end, CRC_STEP_BYTES):
        crc = crc64(view[at : min(at + CRC_STEP_BYTES, end)], crc)
        yield CRC_STEP_BYTES // CRC_COST
    return crc


def checking(payload: bytes) -> Generator[int, None, None]:
    """Raise BadFooter if version or checksum are wrong; yields the cost of each step in bytes."""
    if len(payload) < FOOTER_BYTES or int.from_bytes(payload[-10:-8], "little") > VERSION_MAX:
        raise BadFooter("a version that is not known")
    checksum = yield from crc_steps(payload, len(payload) - 8)
    if checksum != int.from_bytes(payload[-8:], "little"):
        raise BadFooter("another checksum")


# Reading


class PayloadReader:
    """The bytes of a payload before `end`, from left to right, which may expand to `bytes_max`."""

    __slots__ = ("_at", "_data", "_end", "_left")

    def __init__(self, data: bytes, end: int, bytes_max: int) -> None:
        self._data = data
        self._at = 0
        self._end = end
        self._left = bytes_max

    def expand(self, size: int) -> None:
        """Count what will be made of the bytes; raises TooLarge."""
        self._left -= size
        if self._left < 0:
            raise TooLarge("the payload expands to too much")

    def read(self, size: int) -> bytes:
        at = self._at
        if size > self._end - at:
            raise DumpFault("the payload ends early")
        self._at = at + size
        return self._data[at : at + size]

    def is_done(self) -> bool:
        return self._at == self._end

    def number(self, size: int) -> int:
        return int.from_bytes(self.read(size), "little", signed=True)

    def length(self) -> int:
        value, encoding = self._length()
        if encoding:
            raise DumpFault("an encoded string in the place of a length")
        return value

    def _length(self) -> tuple[int, bool]:
        """A length, or the number of an encoding."""
        first = self.read(1)[0]
        kind, low = first >> 6, first & 0x3F
        if kind == 0:
            return low, False
        if kind == 1:
            return low << 8 | self.read(1)[0], False
        if kind == 3:
            return low, True
        if first not in (0x80, 0x81):
            raise DumpFault("a length of no known kind")
        return int.from_bytes(self.read(4 if first == 0x80 else 8), "big"), False

    def string(self) -> Generator[int, None, bytes]:
        value, encoding = self._length()
        if not encoding:
            self.expand(ROW_BYTES)
            return self.read(value)
        if value < 3:
            return b"%d" % self.number(1 << value)
        if value > 3:
            raise DumpFault("a string of no known encoding")
        compressed_size, size = self.length(), self.length()
        self.expand(ROW_BYTES + size)
        expanded = yield from decompressing(self.read(compressed_size), size)
        return expanded

    def entry_id(self) -> EntryId:
        return id_of(self.read(ID_BYTES))

    def id_in_lengths(self) -> EntryId:
        return (self.length(), self.length())


def id_of(text: bytes) -> EntryId:
    return (int.from_bytes(text[:8], "big"), int.from_bytes(text[8:], "big"))


def reading(payload: bytes, sink: DumpSink, bytes_max: int) -> Generator[int, None, StreamDump]:
    """The stream in a payload, which may expand to `bytes_max`; its entries go to the sink. Yields the cost of each
    step in bytes; raises DumpFault.
    """
    yield from checking(payload)
    reader = PayloadReader(payload, len(payload) - FOOTER_BYTES, bytes_max)
    kind = reader.read(1)[0]
    if kind not in KINDS:
        raise DumpFault("not a stream")
    stream = StreamDump()
    for _ in range(reader.length()):
        yield from read_node(reader, stream, sink)
    read_numbers(reader, kind, stream)
    for _ in range(reader.length()):
        group = yield from read_group(reader, kind, stream)
        stream.groups.append(group)
    if kind >= KIND_4:
        stream.producers = yield from read_producers(reader)
    if not reader.is_done() or len({group.name for group in stream.groups}) != len(stream.groups):
        raise DumpFault("more than a stream, or a group twice")
    return stream


def read_numbers(reader: PayloadReader, kind: int, stream: StreamDump) -> None:
    reader.length()  # the number of entries, which the nodes tell too
    stream.last_id = reader.id_in_lengths()
    stream.entries_added = stream.count
    if kind != KIND_1:
        reader.id_in_lengths()  # the first ID, which the nodes tell too
        stream.max_deleted = reader.id_in_lengths()
        stream.entries_added = max(stream.entries_added, signed_length(reader))
    if stream.newest_id > stream.last_id:
        raise DumpFault("the last ID is below that of an entry")


def signed_length(reader: PayloadReader) -> int:
    return listpack.signed(reader.length(), 64)


def read_node(reader: PayloadReader, stream: StreamDump, sink: DumpSink) -> Generator[int, None, None]:
    key = yield from reader.string()
    if len(key) != ID_BYTES:
        raise DumpFault("a node has no ID")
    packed = yield from reader.string()
    elements = Elements(packed)
    live, deleted = elements.count(), elements.count()
    names: list[bytes] = []
    for _ in range(elements.count()):
        names.append(elements.pop())
        yield len(names[-1]) + ELEMENT_BYTES
    elements.pop()
    for _ in range(live + deleted):
        yield read_entry(reader, elements, id_of(key), names, stream, sink)
    if not elements.is_done():
        raise DumpFault("a node has more entries than it says")


def read_entry(
    reader: PayloadReader, elements: Elements, node_id: EntryId, names: list[bytes], stream: StreamDump, sink: DumpSink
) -> int:
    """Give an entry to the sink, unless it was deleted; returns the cost in bytes."""
    flags, ms, seq = elements.integer(), elements.integer(), elements.integer()
    if flags & SAME_FIELDS:
        fields = [part for name in names for part in (name, elements.pop())]
    else:
        fields = [elements.pop() for _ in range(2 * elements.count())]
    elements.pop()
    size = sum([len(field) for field in fields]) + ELEMENT_BYTES * (len(fields) + 1)
    if flags & DELETED:
        return size
    entry_id = ((node_id[0] + ms) & U64_MAX, (node_id[1] + seq) & U64_MAX)
    if entry_id <= stream.newest_id:
        raise DumpFault("IDs do not ascend")
    reader.expand(size)
    if not stream.count:
        stream.first_id = entry_id
    stream.count += 1
    stream.newest_id = entry_id
    sink.add(entry_id, fields)
    return size


def read_group(reader: PayloadReader, kind: int, stream: StreamDump) -> Generator[int, None, GroupDump]:
    name = yield from reader.string()
    last_id = reader.id_in_lengths()
    group = GroupDump(name, last_id, entries_read_at(last_id, stream))
    if kind != KIND_1:
        group.entries_read = max(UNKNOWN, signed_length(reader))
    for _ in range(reader.length()):
        yield ROW_BYTES
        reader.expand(ROW_BYTES)
        entry_id, delivered_ms = reader.entry_id(), reader.number(8)
        deliveries = min(reader.length(), DELIVERIES_MAX)
        group.pending.append(PendingDump(entry_id, b"", delivered_ms, deliveries))
    owners: dict[EntryId, bytes] = {}
    held = 0
    for _ in range(reader.length()):
        own = yield from read_consumer(reader, kind, group)
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


def read_consumer(
    reader: PayloadReader, kind: int, group: GroupDump
) -> Generator[int, None, list[tuple[EntryId, bytes]]]:
    """Add a consumer to its group; returns what it holds. Before kind 3, that it was seen is the best that is known."""
    consumer = yield from reader.string()
    seen_ms = reader.number(8)
    active_ms = max(reader.number(8), UNKNOWN) if kind >= KIND_3 else seen_ms
    group.consumers.append((consumer, seen_ms, active_ms))
    held = [(reader.entry_id(), consumer) for _ in range(reader.length())]
    yield ROW_BYTES + ID_BYTES * len(held)
    return held


def read_producers(reader: PayloadReader) -> Generator[int, None, ProducersDump]:
    found = ProducersDump(reader.length(), reader.length())
    for _ in range(reader.length()):
        producer = yield from reader.string()
        for _ in range(reader.length()):
            name = yield from reader.string()
            found.records.append((producer, name, reader.id_in_lengths()))
            yield ROW_BYTES
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
    if not stream.count:
        return 0
    if last_id == stream.last_id:
        return stream.entries_added
    if last_id > stream.first_id:
        return UNKNOWN
    return 1 if last_id == stream.first_id else 0
