"""The state of streams as msgpack rows, encoded and decoded, for checkpoints and state transfers.

A stream is one row followed by the rows of its parts; a group is one row followed by the rows of its parts. So a large
stream is written a little at a time. What can be derived (lengths, last IDs, the winning expiry, a group's acked and
passed sets) is not written but recomputed when the rows are read.

A checkpoint does not hold entries in rows: blocks are in files of their own, and the row of a tree lists the *places*
of its blocks, in ID order. A state transfer has each block in a row, without the entries removed at the head, and of a
group only the replicated part, its creates.

Small rows are made at once, when the state is captured. Trees and pending entries are captured as lists of blocks and
spans that no longer change, and become rows later.

`KNOWN_FIELDS` names every field of every class stored here, including fields that are derived or left out. A test
compares it with the classes, so that no new field is forgotten.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

from crdtstream.core.effects import UNKNOWN_ENTRIES_READ, Key
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.block_list import BlockList
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import Content
from crdtstream.core.entries.uint_encoding import in_order
from crdtstream.core.groups.consumer import Consumer
from crdtstream.core.groups.create import NEVER_RESET, Create
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import PendingEntries
from crdtstream.core.groups.spans import Span
from crdtstream.core.names.producers import Producers
from crdtstream.core.names.register import NamedAdd, NameRegister
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.properties import StreamProperties, property_rows
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.entry_id import U64_MAX
from crdtstream.core.values.intervals import IntervalSet
from crdtstream.protocols.columns import (
    CodecError,
    column,
    column_bytes,
    flat,
    read_bytes,
    read_column,
    read_counter,
    read_int,
    read_key,
    read_origin,
    read_pairs,
    read_row,
    read_u64,
    require_ascending,
)
from crdtstream.protocols.effect_rows import (
    intervals_column,
    position_values,
    read_intervals,
    read_position,
)
from crdtstream.protocols.name_rows import NAME_KINDS, producer_rows, read_name_row
from crdtstream.protocols.property_rows import read_registers, read_stream_property, registers_columns
from crdtstream.protocols.rows import Row

FORMAT_VERSION: Final = 3

_STREAM: Final = 1
_META: Final = 2
_DESTROYED: Final = 3
_TREE: Final = 4
_GROUP: Final = 5
_CREATE: Final = 6
_INTERVALS: Final = 7
_CONSUMER: Final = 8
_CONSUMER_NUMBER: Final = 9
_PENDING: Final = 10
_GONE: Final = 11
_BLOCK: Final = 12
# 13, 14, 20 and 21 are of names: protocols/name_rows.py.
_PROPERTY: Final = 15

# The last one is left out where it is 0, as formats before 3 left it out.
META_NUMBERS: Final = 19
# Without those of its properties.
CREATE_VALUES: Final = 6
# Behind the columns of its properties.
RESET_AT: Final = CREATE_VALUES + 3

_DELIVERED: Final = 0
_SKIPPED: Final = 1
_REPLAY: Final = 2

KNOWN_FIELDS: Final[dict[type, str]] = {
    Stream: "_counters _expiring _offset _removed_top chains deleted destroyed expires_ms groups length metas producers"
    " properties top trees used_ms writers",
    Producers: "_of_producer added duplicates duration_s entries_max is_shared register",
    NameRegister: "_adds _of_id met",
    NamedAdd: "acknowledged at_ms dot entry_id is_lost seen",
    OriginMeta: "add_counter add_id added dropped_counter expires_ms expiry_counter first offset offset_counter"
    " offset_weight removed_counter removed_id set_counter set_id trimmed_to voided",
    StreamProperties: "_registers limits",
    Group: "_acknowledged _last_unsettled _read_cursor _unsettled acked consumers creates delivered deliveries"
    " entries_read floor passed pending properties replay rules skipped withheld",
    Create: "properties reset runs start",
    Consumer: "active_ms seen_ms",
    IntervalSet: "_end _grown _highs _lows",
    PendingEntries: "_chains _consumers _of_origin _released_to _time count",
    Span: "consumers delivered_ms deliveries ms newest_ms oldest_ms seq shared",
    BlockList: "_blocks _deleted _head _low_counters _low_ids byte_count cold_end count tail",
    EntryTree: "",
    Content: "_ends _joined _listed chunks count handle is_packed ms ms_base packed_form read sealed seq",
    Block: "_counter_base _sum _summed byte_count place stored_bytes stored_count",
}


# What keeps a block of a tree that goes on behind it out of memory.
Spill = Callable[[Block], None]


class TreeImage:
    """A captured tree: its blocks, the number of removed entries at the head, and the count of the last block."""

    __slots__ = ("blocks", "head", "origin", "tail_count")

    def __init__(self, origin: int, tree: EntryTree) -> None:
        self.origin = origin
        self.blocks, self.head, self.tail_count = tree.blocks()


class StreamImage:
    """A stream captured at one log position: its small rows, and the parts that become rows later."""

    __slots__ = ("groups", "rows", "trees")

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.trees: list[TreeImage] = []
        self.groups: list[GroupImage] = []


class GroupImage:
    __slots__ = ("rows", "spans")

    def __init__(self, rows: list[Row], spans: list[tuple[int, Span]]) -> None:
        self.rows = rows
        self.spans = spans


# Capturing


def capture_stream(key: Key, stream: Stream | None, position: int) -> StreamImage:
    """Capture a stream as of this log position; None stands for a key that no longer exists."""
    database, name = key
    if stream is None:
        return StreamImage([(_GONE, database, name, position)])
    image = StreamImage([(_STREAM, database, name, position, _counters_column(stream.deleted))])
    image.rows += [(_META, origin, _meta_column(meta)) for origin, meta in stream.metas.items()]
    image.rows += [(_DESTROYED, group, _counters_column(counters)) for group, counters in stream.destroyed.items()]
    image.rows += [(_PROPERTY, *row) for row in property_rows(stream.properties)]
    if stream.producers is not None:
        image.rows += producer_rows(stream.producers, True)
    image.trees = [TreeImage(origin, tree) for origin, tree in stream.trees.items()]
    image.groups = [capture_group(group_name, group) for group_name, group in stream.groups.items()]
    return image


def capture_group(name: bytes, group: Group) -> GroupImage:
    rows: list[Row] = [(_GROUP, name, *position_values(group.floor), group.entries_read)]
    for (origin, counter), create in group.creates.items():
        rows.append(_create_row(origin, counter, create))
    for which, sets in ((_DELIVERED, group.delivered.as_dict()), (_SKIPPED, group.skipped), (_REPLAY, group.replay)):
        if sets:
            rows.append((_INTERVALS, which, _sets_column(sets)))
    rows += [(_CONSUMER, consumer, known.seen_ms, known.active_ms) for consumer, known in group.consumers.items()]
    rows += [(_CONSUMER_NUMBER, number, consumer_name) for number, consumer_name in group.pending.numbered_consumers()]
    return GroupImage(rows, group.pending.share())


def capture_replicated(key: Key, stream: Stream) -> StreamImage:
    """Like `capture_stream`, without local parts; the log position in the row has no meaning."""
    image = StreamImage([(_STREAM, *key, 1, _counters_column(stream.deleted))])
    image.rows += [(_META, origin, _meta_column(meta)) for origin, meta in stream.metas.items()]
    image.rows += [(_DESTROYED, group, _counters_column(counters)) for group, counters in stream.destroyed.items()]
    image.rows += [(_PROPERTY, *row) for row in property_rows(stream.properties)]
    if stream.producers is not None and stream.producers.is_shared:
        image.rows += producer_rows(stream.producers, False)
    image.trees = [TreeImage(origin, tree) for origin, tree in stream.trees.items() if tree.count]
    image.groups = [_capture_creates(group_name, group) for group_name, group in stream.groups.items()]
    return image


def _capture_creates(name: bytes, group: Group) -> GroupImage:
    rows: list[Row] = [(_GROUP, name, *position_values(group.start()), UNKNOWN_ENTRIES_READ)]
    for (origin, counter), create in group.creates.items():
        rows.append(_create_row(origin, counter, create))
    return GroupImage(rows, [])


def _create_row(origin: int, counter: int, create: Create) -> Row:
    row: Row = (_CREATE, origin, counter, *position_values(create.start), _sets_column(create.runs))
    if create.properties or create.reset != NEVER_RESET:
        row = (*row, *registers_columns(create.properties))
    return row if create.reset == NEVER_RESET else (*row, *create.reset)


def _counters_column(counters: dict[int, int]) -> bytes:
    return column(flat(counters.items()))


def _sets_column(sets: dict[int, IntervalSet]) -> bytes:
    return intervals_column({origin: intervals.pairs() for origin, intervals in sets.items()})


def _meta_column(meta: OriginMeta) -> bytes:
    numbers = [meta.first, meta.added, meta.voided, meta.add_counter, *meta.add_id, meta.set_counter, *meta.set_id]
    numbers += [meta.removed_counter, *meta.removed_id, meta.offset_counter, meta.offset_weight]
    numbers += [meta.offset & U64_MAX, meta.trimmed_to, meta.expiry_counter, meta.expires_ms]
    if meta.dropped_counter:
        numbers.append(meta.dropped_counter)
    return column(numbers)


def tree_row(origin: int, head: int, places: array[int]) -> Row:
    """A tree or a further part of it; the rows of one origin are consecutive."""
    return (_TREE, origin, head, column_bytes(places))


def block_row(image: TreeImage, at: int) -> Row:
    """The live entries of the tree's block at index `at`; the rows of one origin are consecutive and in ID order."""
    block = image.blocks[at].viewed()
    low = image.head if at == 0 else 0
    high = image.tail_count if at == len(image.blocks) - 1 else block.count
    if low > 0 or high < block.count:
        part = Block()
        part.extend(block, low, high)
        block = part
    columns = [column_bytes(values) for values in block.columns(block.count)]
    return (_BLOCK, image.origin, *columns, block.data())


def span_row(origin: int, span: Span) -> Row:
    times = column_bytes(array("Q", span.delivered_ms.tobytes()))
    deliveries = column_bytes(array("Q", span.deliveries.tobytes()))
    ids = (column_bytes(span.ms), column_bytes(span.seq))
    return (_PENDING, origin, *ids, column_bytes(span.consumers), times, deliveries)


# Reading


class StateReader:
    """Builds streams from rows in order; `blocks` are those of the checkpoint's block files, by place. Blocks that come
    in rows go to `spill`, all but the last of each tree.
    """

    __slots__ = (
        "_blocks",
        "_consumer_names",
        "_group",
        "_group_name",
        "_key",
        "_position",
        "_spill",
        "_stream",
        "_trees",
    )

    def __init__(self, blocks: dict[int, Block], spill: Spill | None = None) -> None:
        self._blocks = blocks
        self._spill = spill
        self._key: Key = (0, b"")
        self._position = 0
        self._stream: Stream | None = None
        self._trees: dict[int, tuple[int, list[Block]]] = {}
        self._group: Group | None = None
        self._group_name = b""
        self._consumer_names: dict[int, bytes] = {}

    def add(self, row: Row) -> tuple[Key, Stream | None, int] | None:
        """Take a row; if it starts a new stream, returns the previous one, complete, as (key, stream, position)."""
        kind = row[0]
        if kind == _STREAM:
            done = self.end()
            self._begin_stream(row)
            return done
        if kind == _GONE:
            done = self.end()
            _, database, name, position = read_row(row, 4, "key that is gone")
            self._key, self._position = read_key(database, name), read_u64(position, "position")
            return done
        if self._stream is None:
            raise CodecError("a part of a stream comes before any stream")
        if kind == _META:
            self._read_meta_row(self._stream, row)
        elif kind == _TREE:
            self._read_tree(row)
        elif kind == _BLOCK:
            origin, block = _read_block(row)
            self._add_block(origin, block)
        elif kind in NAME_KINDS:
            read_name_row(self._stream, row)
        elif kind == _PROPERTY:
            read_stream_property(self._stream, row)
        elif kind == _DESTROYED:
            _, group, values = read_row(row, 3, "destroyed group")
            self._stream.put_destroyed(read_bytes(group, "group"), _read_counters(values))
        else:
            self._read_group_part(kind, row)
        return None

    def _add_block(self, origin: int, block: Block) -> None:
        blocks = self._trees.setdefault(origin, (0, []))[1]
        if blocks and not block.lies_above(0, blocks[-1]):
            raise CodecError(f"key {self._key[1]!r} of a state: entries of origin {origin} do not ascend")
        if blocks and self._spill is not None:
            # The last block of a tree stays in memory.
            self._spill(blocks[-1])
        blocks.append(block)

    def end(self) -> tuple[Key, Stream | None, int] | None:
        """Complete and return the last stream; None if there was none."""
        if not self._position:
            return None
        done = (self._key, self._stream, self._position)
        if self._stream is not None:
            self._end_group()
            for origin, (head, blocks) in self._trees.items():
                self._stream.trees[origin] = _tree(head, blocks)
            self._stream.derive()
        self._stream = None
        self._position = 0
        self._trees = {}
        return done

    def _begin_stream(self, row: Row) -> None:
        _, database, name, position, deleted = read_row(row, 5, "stream")
        self._key = read_key(database, name)
        self._position = read_u64(position, "position")
        self._stream = Stream()
        self._stream.deleted = _read_counters(deleted)

    def _read_meta_row(self, stream: Stream, row: Row) -> None:
        _, origin_value, values = read_row(row, 3, "metadata")
        origin = read_origin(origin_value, "metadata")
        if origin in stream.metas:
            raise CodecError(f"metadata of origin {origin} comes twice")
        stream.metas[origin] = _read_meta(read_column(values, "metadata"))

    def _read_tree(self, row: Row) -> None:
        _, origin_value, head, values = read_row(row, 4, "tree")
        known = self._trees.setdefault(read_origin(origin_value, "tree"), (read_u64(head, "head"), []))
        try:
            known[1].extend([self._blocks[place] for place in read_column(values, "places")])
        except KeyError as error:
            raise CodecError(f"no block file holds a block at place {error.args[0]:#x}") from error

    # Groups

    def _read_group_part(self, kind: object, row: Row) -> None:
        if kind == _GROUP:
            self._end_group()
            _, name, default, ids, entries_read = read_row(row, 5, "group")
            self._group_name = read_bytes(name, "group")
            self._group = Group((0, 0), read_position(default, ids), read_int(entries_read, "entries read"))
            self._group.creates.clear()
            return
        group = self._group
        if group is None:
            raise CodecError("a part of a group comes before any group")
        if kind == _PENDING:
            origin, span = _read_span(row)
            group.pending.adopt(origin, span)
        elif kind == _CONSUMER_NUMBER:
            _, number, name = read_row(row, 3, "holder")
            self._consumer_names[read_u64(number, "holder")] = read_bytes(name, "holder")
        elif kind == _CONSUMER:
            _, name, seen_ms, active_ms = read_row(row, 4, "consumer")
            consumer = group.consumers[read_bytes(name, "consumer")] = Consumer(read_int(seen_ms, "seen"))
            consumer.active_ms = read_int(active_ms, "active")
        elif kind == _CREATE:
            _read_create(group, row)
        elif kind == _INTERVALS:
            _read_intervals(group, row)
        else:
            raise CodecError(f"{kind!r} is not a kind of row in a state")

    def _end_group(self) -> None:
        group = self._group
        if group is None or self._stream is None:
            return
        if not group.creates:
            raise CodecError("a group has no create")
        try:
            group.pending.name_consumers(self._consumer_names)
        except KeyError as error:
            raise CodecError(f"consumer number {error.args[0]} of pending entries has no name") from error
        if len(group.pending.numbered_consumers()) != len(self._consumer_names):
            raise CodecError("a consumer is named as a holder and holds nothing")
        group.derive()
        self._stream.put_group(self._group_name, group)
        self._group = None
        self._consumer_names = {}


def _tree(head: int, blocks: list[Block]) -> EntryTree:
    if blocks and head >= blocks[0].count:
        raise CodecError(f"{head} entries are removed from a block of {blocks[0].count}")
    return EntryTree.of_blocks(blocks, head)


def _read_counters(value: object) -> dict[int, int]:
    return dict(read_pairs(value, "counters"))


def _read_meta(numbers: array[int]) -> OriginMeta:
    if len(numbers) not in (META_NUMBERS - 1, META_NUMBERS):
        raise CodecError(f"metadata has {len(numbers)} numbers, not {META_NUMBERS}")
    meta = OriginMeta()
    meta.first, meta.added, meta.voided, meta.add_counter = numbers[0], numbers[1], numbers[2], numbers[3]
    meta.add_id = (numbers[4], numbers[5])
    meta.set_counter, meta.set_id = numbers[6], (numbers[7], numbers[8])
    meta.removed_counter, meta.removed_id = numbers[9], (numbers[10], numbers[11])
    meta.offset_counter, meta.offset_weight = numbers[12], numbers[13]
    meta.offset = numbers[14] - (1 << 64) if numbers[14] >> 63 else numbers[14]
    meta.trimmed_to, meta.expiry_counter, meta.expires_ms = numbers[15], numbers[16], numbers[17]
    if len(numbers) == META_NUMBERS:
        meta.dropped_counter = numbers[18]
    return meta


def _read_sets(value: object, what: str) -> dict[int, IntervalSet]:
    return {origin: IntervalSet.of(pieces) for origin, pieces in read_intervals(value, what).items()}


def _read_create(group: Group, row: Row) -> None:
    # A create without properties ends before them.
    _, origin, counter, default, ids, runs = read_row(row[:CREATE_VALUES], CREATE_VALUES, "create")
    create = Create(read_position(default, ids))
    create.runs = _read_sets(runs, "runs")
    if len(row) > CREATE_VALUES:
        create.properties = read_registers(*read_row(row[CREATE_VALUES:RESET_AT], 3, "properties"))
    if len(row) > RESET_AT:
        reset = read_row(row[RESET_AT:], 2, "reset")
        create.reset = (read_counter(reset[0], "reset"), read_origin(reset[1], "reset"))
    group.creates[(read_origin(origin, "create"), read_u64(counter, "create"))] = create


def _read_intervals(group: Group, row: Row) -> None:
    _, which, values = read_row(row, 3, "intervals")
    sets = _read_sets(values, "intervals")
    if which == _DELIVERED:
        group.delivered = ByOrigin.of_dict(IntervalSet, sets)
    elif which == _SKIPPED:
        group.skipped = sets
    elif which == _REPLAY:
        group.replay = sets
    else:
        raise CodecError(f"{which!r} is not a kind of interval set in a group")


def _read_block(row: Row) -> tuple[int, Block]:
    _, origin, ms_value, seq_value, counter_values, end_values, data_value = read_row(row, 7, "block")
    ms, seq = read_column(ms_value, "milliseconds"), read_column(seq_value, "sequence numbers")
    counters, ends = read_column(counter_values, "counters"), read_column(end_values, "ends")
    data = read_bytes(data_value, "data")
    count = len(ends)
    if count == 0 or len(ms) != count or len(seq) != count or len(counters) != count:
        raise CodecError(f"the columns of a block differ in length: {len(ms)}, {len(seq)}, {len(counters)} and {count}")
    if ends[-1] != len(data):
        raise CodecError(f"the last entry ends at {ends[-1]} of {len(data)} bytes")
    require_ascending(ends, "ends")
    require_ascending(counters, "counters")
    return read_origin(origin, "block"), Block.of_columns(ms, seq, counters, ends, data)


def _read_span(row: Row) -> tuple[int, Span]:
    _, origin, ms, seq, consumers, times, deliveries = read_row(row, 7, "pending entries")
    span = Span()
    span.ms, span.seq = read_column(ms, "milliseconds"), read_column(seq, "sequence numbers")
    span.delivered_ms = array("q", read_column(times, "delivery times").tobytes())
    span.deliveries = array("q", read_column(deliveries, "deliveries").tobytes())
    raw = read_bytes(consumers, "consumers")
    count = span.count()
    sizes = (len(span.seq), len(span.delivered_ms), len(span.deliveries))
    if not count or sizes != (count, count, count) or len(raw) != count * span.consumers.itemsize:
        raise CodecError(f"the columns of pending entries differ in length: {count} and {sizes}")
    span.consumers = in_order(array("I", raw))
    return read_origin(origin, "pending entries"), span
