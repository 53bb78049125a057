"""Local facts as msgpack rows, encoded and decoded.

A row starts with its kind and its stamp: the last counter of this region's origin before the fact was made. Then come
the database and the name of the key, and the group. All lists are columns (see columns.py); intervals are `(from, to]`.
"""

from __future__ import annotations

from typing import Final

import msgpack
from librt.strings import BytesWriter

from crdtstream.core.effects import Key
from crdtstream.core.local_facts import (
    ConsumerCreated,
    ConsumerDeleted,
    EntriesDelivered,
    LocalFact,
    PendingClaimed,
    PendingDropped,
    PlaceSet,
    PositionRaised,
    PositionSet,
    ProducerRecorded,
    ProducersConfigured,
)
from crdtstream.core.values.entry_id import U64_MAX, EntryId
from crdtstream.core.values.origin_intervals import OriginIntervals
from crdtstream.protocols.columns import (
    CodecError,
    column,
    read_bytes,
    read_column,
    read_flag,
    read_id,
    read_int,
    read_key,
    read_origin,
    read_row,
    read_u64,
)
from crdtstream.protocols.effect_rows import (
    intervals_column,
    position_values,
    read_intervals,
    read_position,
    write_pieces,
)
from crdtstream.protocols.msgpack_writing import write_bytes, write_flag, write_number, write_row
from crdtstream.protocols.rows import Row

_CONSUMER_CREATED: Final = 1
_CONSUMER_DELETED: Final = 2
_ENTRIES_DELIVERED: Final = 3
_PENDING_CLAIMED: Final = 4
_PENDING_DROPPED: Final = 5
_POSITION_SET: Final = 6
_POSITION_RAISED: Final = 7
_PRODUCER_RECORDED: Final = 8
_PRODUCERS_CONFIGURED: Final = 9
_PLACE_SET: Final = 10

_COMMON_VALUES: Final = 5


def write_fact(writer: BytesWriter, stamp: int, fact: LocalFact) -> None:
    # These two make up most of a log of readers.
    if isinstance(fact, EntriesDelivered):
        _write_common(writer, _COMMON_VALUES + 5, _ENTRIES_DELIVERED, stamp, fact)
        write_bytes(writer, fact.consumer)
        write_number(writer, fact.now_ms)
        write_pieces(writer, fact.intervals)
        write_flag(writer, fact.noack)
        write_number(writer, fact.entries_read)
    elif isinstance(fact, PendingDropped):
        _write_common(writer, _COMMON_VALUES + 1, _PENDING_DROPPED, stamp, fact)
        write_pieces(writer, fact.intervals)
    else:
        kind, values = _kind_and_values(fact)
        database, name = fact.key
        writer.write(msgpack.packb((kind, stamp, database, name, fact.group, *values)))


def _write_common(writer: BytesWriter, size: int, kind: int, stamp: int, fact: LocalFact) -> None:
    write_row(writer, size)
    write_number(writer, kind)
    write_number(writer, stamp)
    write_number(writer, fact.key[0])
    write_bytes(writer, fact.key[1])
    write_bytes(writer, fact.group)


def _kind_and_values(fact: LocalFact) -> tuple[int, Row]:
    if isinstance(fact, PendingClaimed):
        return _PENDING_CLAIMED, (fact.consumer, _claims_column(fact))
    if isinstance(fact, ConsumerCreated):
        return _CONSUMER_CREATED, (fact.consumer, fact.now_ms)
    if isinstance(fact, ConsumerDeleted):
        return _CONSUMER_DELETED, (fact.consumer,)
    if isinstance(fact, PositionSet):
        return _POSITION_SET, (*position_values(fact.position), fact.entries_read)
    if isinstance(fact, ProducerRecorded):
        times = (fact.now_ms, fact.since_ms, fact.entries_max)
        return _PRODUCER_RECORDED, (fact.producer, fact.name, fact.entry_id, *times, False)
    if isinstance(fact, ProducersConfigured):
        return _PRODUCERS_CONFIGURED, (fact.duration_s, fact.entries_max)
    if isinstance(fact, PlaceSet):
        sets = [intervals_column(intervals) for intervals in (fact.delivered, fact.skipped, fact.replay)]
        return _PLACE_SET, (*position_values(fact.floor), *sets, fact.entries_read)
    assert isinstance(fact, PositionRaised), f"no encoding for a {type(fact).__name__}"
    return _POSITION_RAISED, (fact.entry_id,)


def _claims_column(fact: PendingClaimed) -> bytes:
    values: list[int] = []
    for origin, (ms, seq), delivered_ms, deliveries in fact.rows:
        # A released entry has a negative time.
        values += (origin, ms, seq, delivered_ms & U64_MAX, deliveries)
    return column(values)


def read_fact(row: Row) -> tuple[int, LocalFact]:
    """Decode a row into the stamp and the fact."""
    if len(row) < _COMMON_VALUES:
        raise CodecError(f"a fact has at least {_COMMON_VALUES} values, this row has {len(row)}")
    kind = read_int(row[0], "kind")
    key = read_key(row[2], row[3])
    group = read_bytes(row[4], "group")
    return (read_u64(row[1], "stamp"), _read_fact_of(kind, key, group, row[_COMMON_VALUES:]))


def _read_fact_of(kind: int, key: Key, group: bytes, values: Row) -> LocalFact:
    if kind == _ENTRIES_DELIVERED:
        return _read_entries_delivered(key, group, values)
    if kind == _PENDING_DROPPED:
        (intervals,) = read_row(values, 1, "PendingDropped")
        return PendingDropped(key, group, OriginIntervals.of(read_intervals(intervals, "intervals")))
    if kind == _PENDING_CLAIMED:
        consumer, claims = read_row(values, 2, "PendingClaimed")
        return PendingClaimed(key, group, read_bytes(consumer, "consumer"), _read_claims(claims))
    if kind == _CONSUMER_CREATED:
        consumer, now_ms = read_row(values, 2, "ConsumerCreated")
        return ConsumerCreated(key, group, read_bytes(consumer, "consumer"), read_u64(now_ms, "now_ms"))
    if kind == _CONSUMER_DELETED:
        (consumer,) = read_row(values, 1, "ConsumerDeleted")
        return ConsumerDeleted(key, group, read_bytes(consumer, "consumer"))
    if kind == _POSITION_SET:
        default, ids, entries_read = read_row(values, 3, "PositionSet")
        return PositionSet(key, group, read_position(default, ids), read_int(entries_read, "entries read"))
    if kind == _POSITION_RAISED:
        (entry_id,) = read_row(values, 1, "PositionRaised")
        return PositionRaised(key, group, read_id(entry_id, "position"))
    if kind == _PLACE_SET:
        return _read_place_set(key, group, values)
    if kind == _PRODUCER_RECORDED:
        return _read_recorded(key, values)
    if kind == _PRODUCERS_CONFIGURED:
        duration_s, entries_max = read_row(values, 2, "ProducersConfigured")
        return ProducersConfigured(
            key, read_optional(duration_s, "duration"), read_optional(entries_max, "number of records")
        )
    raise CodecError(f"{kind} is not a kind of fact")


def _read_place_set(key: Key, group: bytes, values: Row) -> PlaceSet:
    default, ids, delivered, skipped, replay, entries_read = read_row(values, 6, "PlaceSet")
    return PlaceSet(
        key,
        group,
        read_position(default, ids),
        read_intervals(delivered, "delivered"),
        read_intervals(skipped, "skipped"),
        read_intervals(replay, "wanted again"),
        read_int(entries_read, "entries read"),
    )


def _read_recorded(key: Key, values: Row) -> ProducerRecorded:
    # The last value is that of releases that did not count what XIDMPRECORD records.
    producer, name, entry_id, now_ms, since_ms, entries_max, _ = read_row(values, 7, "ProducerRecorded")
    return ProducerRecorded(
        key,
        read_bytes(producer, "producer"),
        read_bytes(name, "idempotent ID"),
        read_id(entry_id, "entry"),
        read_u64(now_ms, "now_ms"),
        read_int(since_ms, "since_ms"),
        read_u64(entries_max, "number of records"),
    )


def read_optional(value: object, what: str) -> int | None:
    return None if value is None else read_u64(value, what)


def _read_entries_delivered(key: Key, group: bytes, values: Row) -> EntriesDelivered:
    consumer, now_ms, intervals, noack, entries_read = read_row(values, 5, "EntriesDelivered")
    return EntriesDelivered(
        key,
        group,
        read_bytes(consumer, "consumer"),
        read_u64(now_ms, "now_ms"),
        OriginIntervals.of(read_intervals(intervals, "intervals")),
        read_flag(noack, "noack"),
        read_int(entries_read, "entries read"),
    )


def _read_claims(value: object) -> list[tuple[int, EntryId, int, int]]:
    values = read_column(value, "claims", 5)
    for origin in values[0::5]:
        read_origin(origin, "claims")
    ids = zip(values[1::5], values[2::5], strict=True)
    times = [time - (1 << 64) if time >> 63 else time for time in values[3::5]]
    return list(zip(values[0::5], ids, times, values[4::5], strict=True))
