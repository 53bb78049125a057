"""Effects as msgpack rows, encoded and decoded.

A row starts with its kind, then the database and the name of the key, or the origin of the member. It does not contain
the effect's counter, which follows from the batch's first counter and the widths of the effects before it. All lists
are columns (see columns.py).

Entries are encoded as the columns and bytes of the slice `[low, high)` of their block, with ends shifted to start at 0.
Decoding does not validate the entries themselves, because visiting each one would cost more than everything else. It
checks that the columns have equal lengths, and that ends ascend and match the bytes. `Block.check()` also checks that
IDs ascend and that each entry is a valid reply.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from librt.strings import BytesWriter

from crdtstream.core.effects import (
    Acknowledged,
    AddCounted,
    CounterRange,
    Effect,
    EntriesAdded,
    EntriesRemoved,
    EntryNamed,
    ExpirySet,
    GroupCreated,
    GroupDestroyed,
    GroupPropertiesSet,
    GroupReset,
    MemberAdmitted,
    MemberEvicted,
    MemberJoined,
    Position,
    StreamDeleted,
    StreamIdSet,
    StreamPropertiesSet,
)
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import EntryId
from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import OriginIntervals
from crdtstream.protocols.columns import (
    CodecError,
    block_columns,
    column,
    flat,
    grouped_column,
    paired,
    read_add,
    read_block,
    read_bytes,
    read_counter,
    read_flag,
    read_grouped,
    read_id,
    read_int,
    read_key,
    read_origin,
    read_pairs,
    read_texts,
    read_u64,
    text_columns,
)
from crdtstream.protocols.msgpack_writing import write_bytes, write_column_head, write_in_column
from crdtstream.protocols.rows import Row

_ENTRIES_ADDED: Final = 1
_ENTRIES_REMOVED: Final = 2
_STREAM_DELETED: Final = 3
_STREAM_ID_SET: Final = 4
_GROUP_CREATED: Final = 5
_GROUP_DESTROYED: Final = 6
_ACKNOWLEDGED: Final = 7
_EXPIRY_SET: Final = 8
_ADD_COUNTED: Final = 9
_MEMBER_JOINED: Final = 10
_MEMBER_EVICTED: Final = 11
_MEMBER_ADMITTED: Final = 12
# From format 4 on.
_GROUP_PROPERTIES_SET: Final = 13
_GROUP_RESET: Final = 14
_STREAM_PROPERTIES_SET: Final = 15
_ENTRY_NAMED: Final = 20


def effect_row(effect: Effect) -> Row:
    return _WRITERS[type(effect)](effect)


def entries_added_row(effect: EntriesAdded) -> Row:
    return (*added_head(effect), effect.block.entry_slice(effect.low, effect.high))


def added_head(effect: EntriesAdded) -> Row:
    """The row of added entries without its last value, their bytes."""
    database, name = effect.key
    columns = block_columns(effect.block, effect.low, effect.high)
    return (_ENTRIES_ADDED, database, name, effect.first, effect.before, *columns)


def _entries_removed_row(effect: EntriesRemoved) -> Row:
    ranges = grouped_column([(origin, flat(pairs)) for origin, pairs in sorted(effect.ranges.items())])
    row = (_ENTRIES_REMOVED, effect.key[0], effect.key[1], ranges, effect.trimmed, effect.max_deleted)
    return (*row, intervals_column(effect.references)) if effect.references else row


def _stream_deleted_row(effect: StreamDeleted) -> Row:
    counts = grouped_column([(origin, [*count]) for origin, count in sorted(effect.counts.items())])
    return (_STREAM_DELETED, effect.key[0], effect.key[1], counts)


def _stream_id_set_row(effect: StreamIdSet) -> Row:
    database, name = effect.key
    return (_STREAM_ID_SET, database, name, effect.last_id, effect.max_deleted, effect.offset, effect.weight)


def _group_created_row(effect: GroupCreated) -> Row:
    database, name = effect.key
    default, ids = position_values(effect.start)
    return (_GROUP_CREATED, database, name, effect.group, default, ids, effect.entries_read)


def _group_destroyed_row(effect: GroupDestroyed) -> Row:
    return (_GROUP_DESTROYED, effect.key[0], effect.key[1], effect.group)


def _acknowledged_row(effect: Acknowledged) -> Row:
    database, name = effect.key
    creates = column(flat(effect.creates))
    row = (_ACKNOWLEDGED, database, name, effect.group, creates, intervals_column(effect.runs))
    return (*row, column(flat(effect.resets))) if effect.resets else row


def _group_properties_row(effect: GroupPropertiesSet) -> Row:
    database, name = effect.key
    creates = column(flat(effect.creates))
    row = (_GROUP_PROPERTIES_SET, database, name, effect.group, creates, effect.number)
    return (*row, *_values_columns(effect.values))


def _stream_properties_row(effect: StreamPropertiesSet) -> Row:
    return (_STREAM_PROPERTIES_SET, effect.key[0], effect.key[1], effect.number, *_values_columns(effect.values))


def _values_columns(values: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    """Names and values by turns."""
    return text_columns([text for named in sorted(values.items()) for text in named])


def _group_reset_row(effect: GroupReset) -> Row:
    database, name = effect.key
    creates = column(flat(effect.creates))
    return (_GROUP_RESET, database, name, effect.group, creates, effect.number, *position_values(effect.start))


def _entry_named_row(effect: EntryNamed) -> Row:
    return (_ENTRY_NAMED, effect.key[0], effect.key[1], effect.producer, effect.name, effect.lag_ms)


def _expiry_set_row(effect: ExpirySet) -> Row:
    return (_EXPIRY_SET, effect.key[0], effect.key[1], effect.expires_ms)


def _add_counted_row(effect: AddCounted) -> Row:
    return (_ADD_COUNTED, effect.key[0], effect.key[1], effect.first, effect.before)


def _member_joined_row(effect: MemberJoined) -> Row:
    return (_MEMBER_JOINED, effect.origin)


def _member_evicted_row(effect: MemberEvicted) -> Row:
    return (_MEMBER_EVICTED, effect.origin, effect.through, effect.successor)


def _member_admitted_row(effect: MemberAdmitted) -> Row:
    return (_MEMBER_ADMITTED, effect.origin, effect.counter, effect.by_all)


def read_effect(row: Row, counter: int) -> Effect:
    try:
        value = row[0]
        number = value if type(value) is int else read_int(value, "kind")
        kind = _READERS.get(number)
        if kind is None:
            raise CodecError(f"{number} is not a kind of effect")
        name, sizes, read = kind
        if len(row) not in sizes:
            raise CodecError(f"{name}: not a row of {sizes[0]} values")
        # Most effects are of this kind: compiled, a call by name costs less than one by way of the table.
        return _read_entries_added(row, counter) if number == _ENTRIES_ADDED else read(row, counter)
    except CodecError as error:
        raise CodecError(f"effect at counter {counter}: {error}") from error


def _read_joined(row: Row, _counter: int) -> MemberJoined:
    _, origin = row
    return MemberJoined(read_origin(origin, "joined member"))


def _read_evicted(row: Row, _counter: int) -> MemberEvicted:
    _, origin, through, successor = row
    evicted, after = read_origin(origin, "evicted member"), read_u64(successor, "successor")
    if after and read_origin(after, "successor") % 256 != evicted % 256:
        raise CodecError(f"successor {after} is of another region than origin {evicted}")
    return MemberEvicted(evicted, read_u64(through, "through"), after)


def _read_admitted(row: Row, _counter: int) -> MemberAdmitted:
    _, sponsor, joined_at, by_all = row
    if sponsor == 0:
        return MemberAdmitted(0, 0, False)
    counter = read_counter(joined_at, "counter of a join")
    return MemberAdmitted(read_origin(sponsor, "sponsor"), counter, read_flag(by_all, "by all"))


def _read_entries_added(row: Row, counter: int) -> EntriesAdded:
    _, database, name, first_value, before_value, ms, seq, ends, data = row
    key, first, before = read_add(database, name, first_value, before_value, counter)
    block = read_block(ms, seq, ends, data, counter)
    return EntriesAdded(key, first, before, block, 0, block.count)


def _read_entries_removed(row: Row, _counter: int) -> EntriesRemoved:
    _, database, name, values, trimmed, max_deleted = row[:6]
    ranges: dict[int, list[CounterRange]] = {}
    for origin, numbers in read_grouped(values, "ranges", 2).items():
        ranges[origin] = _read_ranges(paired(numbers))
    deleted = _read_optional_id(max_deleted, "max-deleted ID")
    references = {} if len(row) == 6 else read_intervals(row[6], "references")
    return EntriesRemoved(read_key(database, name), ranges, read_flag(trimmed, "trimmed"), deleted, references)


def _read_ranges(ranges: list[CounterRange]) -> list[CounterRange]:
    for low, high in ranges:
        if not 0 < low <= high:
            raise CodecError(f"{low}..{high} is not a range of counters")
    return ranges


def _read_stream_deleted(row: Row, _counter: int) -> StreamDeleted:
    _, database, name, values = row
    counts: dict[int, tuple[int, int]] = {}
    for origin, numbers in read_grouped(values, "counts", 2).items():
        if len(numbers) != 2:
            raise CodecError(f"counts: {len(numbers)} integers for origin {origin}")
        counts[origin] = (numbers[0], numbers[1])
    return StreamDeleted(read_key(database, name), counts)


def _read_stream_id_set(row: Row, _counter: int) -> StreamIdSet:
    _, database, name, last_id, max_deleted, offset, weight = row
    return StreamIdSet(
        read_key(database, name),
        read_id(last_id, "last ID"),
        _read_optional_id(max_deleted, "max-deleted ID"),
        None if offset is None else _read_tally(offset, "offset"),
        read_u64(weight, "weight"),
    )


def _read_group_created(row: Row, _counter: int) -> GroupCreated:
    _, database, name, group, default, ids, entries_read = row
    start = read_position(default, ids)
    return GroupCreated(
        read_key(database, name), read_bytes(group, "group"), start, _read_tally(entries_read, "entries read")
    )


def _read_group_destroyed(row: Row, _counter: int) -> GroupDestroyed:
    _, database, name, group = row
    return GroupDestroyed(read_key(database, name), read_bytes(group, "group"))


def _read_expiry_set(row: Row, _counter: int) -> ExpirySet:
    _, database, name, expires_ms = row
    return ExpirySet(read_key(database, name), read_u64(expires_ms, "expiry"))


def _read_add_counted(row: Row, counter: int) -> AddCounted:
    _, database, name, first, before = row
    return AddCounted(*read_add(database, name, first, before, counter))


def _read_acknowledged(row: Row, _counter: int) -> Acknowledged:
    _, database, name, group, values, runs = row[:6]
    creates = _read_creates(values)
    resets = [] if len(row) == 6 else read_pairs(row[6], "resets")
    if resets and len(resets) != len(creates):
        raise CodecError(f"resets: {len(resets)} for {len(creates)} creates")
    key, intervals = read_key(database, name), read_intervals(runs, "runs")
    return Acknowledged(key, read_bytes(group, "group"), creates, intervals, resets)


def _read_creates(value: object) -> list[Dot]:
    creates = read_pairs(value, "creates")
    for origin, counter in creates:
        read_origin(origin, "creates")
        read_counter(counter, "creates")
    return creates


def _read_group_reset(row: Row, _counter: int) -> GroupReset:
    _, database, name, group, creates, number, default, ids = row
    return GroupReset(
        read_key(database, name),
        read_bytes(group, "group"),
        _read_creates(creates),
        read_counter(number, "number"),
        read_position(default, ids),
    )


def _read_entry_named(row: Row, _counter: int) -> EntryNamed:
    _, database, name, producer, named, lag_ms = row
    key, lag = read_key(database, name), read_u64(lag_ms, "lag")
    return EntryNamed(key, read_bytes(producer, "producer"), read_bytes(named, "idempotent ID"), lag)


def _read_group_properties(row: Row, _counter: int) -> GroupPropertiesSet:
    _, database, name, group, creates, number, lengths, data = row
    values = _read_values(lengths, data)
    return GroupPropertiesSet(
        read_key(database, name),
        read_bytes(group, "group"),
        _read_creates(creates),
        read_counter(number, "number"),
        values,
    )


def _read_stream_properties(row: Row, _counter: int) -> StreamPropertiesSet:
    _, database, name, number, lengths, data = row
    values = _read_values(lengths, data)
    return StreamPropertiesSet(read_key(database, name), read_counter(number, "number"), values)


def _read_values(lengths: object, data: object) -> dict[bytes, bytes]:
    texts = read_texts(lengths, data, "properties")
    if len(texts) % 2:
        raise CodecError("properties: a name without a value")
    return dict(zip(texts[0::2], texts[1::2], strict=True))


# The number of a kind, its class, how many values its rows have, what writes them, and what reads them with the counter
# of the effect.
Kind = tuple[int, type[Effect], tuple[int, ...], Callable[[Any], Row], Callable[[Row, int], Effect]]
KINDS: Final[tuple[Kind, ...]] = (
    (_ENTRIES_ADDED, EntriesAdded, (9,), entries_added_row, _read_entries_added),
    # A row without references ends before them, as all rows did up to format 2.
    (_ENTRIES_REMOVED, EntriesRemoved, (6, 7), _entries_removed_row, _read_entries_removed),
    (_STREAM_DELETED, StreamDeleted, (4,), _stream_deleted_row, _read_stream_deleted),
    (_STREAM_ID_SET, StreamIdSet, (7,), _stream_id_set_row, _read_stream_id_set),
    (_GROUP_CREATED, GroupCreated, (7,), _group_created_row, _read_group_created),
    (_GROUP_DESTROYED, GroupDestroyed, (4,), _group_destroyed_row, _read_group_destroyed),
    (_ACKNOWLEDGED, Acknowledged, (6, 7), _acknowledged_row, _read_acknowledged),
    (_EXPIRY_SET, ExpirySet, (4,), _expiry_set_row, _read_expiry_set),
    (_ADD_COUNTED, AddCounted, (5,), _add_counted_row, _read_add_counted),
    (_MEMBER_JOINED, MemberJoined, (2,), _member_joined_row, _read_joined),
    (_MEMBER_EVICTED, MemberEvicted, (4,), _member_evicted_row, _read_evicted),
    (_MEMBER_ADMITTED, MemberAdmitted, (4,), _member_admitted_row, _read_admitted),
    (_GROUP_PROPERTIES_SET, GroupPropertiesSet, (8,), _group_properties_row, _read_group_properties),
    (_GROUP_RESET, GroupReset, (8,), _group_reset_row, _read_group_reset),
    (_STREAM_PROPERTIES_SET, StreamPropertiesSet, (6,), _stream_properties_row, _read_stream_properties),
    (_ENTRY_NAMED, EntryNamed, (6,), _entry_named_row, _read_entry_named),
)
_WRITERS: Final = {effect: write for _, effect, _, write, _ in KINDS}
_READERS: Final = {number: (effect.__name__, sizes, read) for number, effect, sizes, _, read in KINDS}


# Parts of effects and facts


def _read_tally(value: object, what: str) -> int:
    """A signed number of entries, small enough that adding to it and subtracting from it stays within 64 bits."""
    number = read_int(value, what)
    if not -(1 << 62) <= number < 1 << 63:
        raise CodecError(f"{what}: {number} is out of range for a number of entries")
    return number


def _read_optional_id(value: object, what: str) -> EntryId | None:
    return None if value is None else read_id(value, what)


def position_values(position: Position) -> tuple[EntryId, bytes]:
    return (
        position.default,
        grouped_column([(origin, [*entry_id]) for origin, entry_id in sorted(position.ids.items())]),
    )


def read_position(default: object, values: object) -> Position:
    ids: dict[int, EntryId] = {}
    for origin, numbers in read_grouped(values, "position", 2).items():
        if len(numbers) != 2:
            raise CodecError(f"position: {len(numbers)} integers for origin {origin}")
        ids[origin] = (numbers[0], numbers[1])
    return Position(read_id(default, "position"), ids)


def intervals_column(intervals: dict[int, list[Interval]]) -> bytes:
    return grouped_column([(origin, flat(chain.from_iterable(pieces))) for origin, pieces in sorted(intervals.items())])


def write_pieces(writer: BytesWriter, pieces: OriginIntervals) -> None:
    """Write the column of intervals as one value of a row."""
    if not pieces.is_one():
        write_bytes(writer, intervals_column(pieces.as_dict()))
        return
    # The origin, how many numbers follow, and these.
    write_column_head(writer, 6)
    write_in_column(writer, pieces.origin)
    write_in_column(writer, 4)
    write_in_column(writer, pieces.low[0])
    write_in_column(writer, pieces.low[1])
    write_in_column(writer, pieces.high[0])
    write_in_column(writer, pieces.high[1])


def read_intervals(value: object, what: str) -> dict[int, list[Interval]]:
    intervals: dict[int, list[Interval]] = {}
    for origin, numbers in read_grouped(value, what, 4).items():
        ids = paired(numbers)
        pieces = list(zip(ids[0::2], ids[1::2], strict=True))
        for low, high in pieces:
            if low >= high:
                raise CodecError(f"{what}: the interval ({low}, {high}] is empty")
        intervals[origin] = pieces
    return intervals
