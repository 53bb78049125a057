"""Names of adds as msgpack rows of a state: what producers recorded, and the register of names.

Acknowledgements of named entries, whether a loss is known, and what XCFGSET set are local, and in checkpoints only. The
rows of one stream come in the order in which they are kept; what adds are lost, and under which names adds met, follows
from the adds.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.names.producers import Producers
from crdtstream.core.names.register import AddName, NamedAdd, NameRegister
from crdtstream.core.streams.stream import Stream
from crdtstream.protocols.columns import (
    CodecError,
    column,
    flat,
    read_bytes,
    read_column,
    read_counter,
    read_flag,
    read_id,
    read_origin,
    read_pairs,
    read_row,
    read_u64,
)
from crdtstream.protocols.fact_rows import read_optional
from crdtstream.protocols.rows import Row

_PRODUCERS: Final = 13
_PRODUCED: Final = 14
_NAMED: Final = 20
_ACKNOWLEDGED: Final = 21
NAME_KINDS: Final = (_PRODUCERS, _PRODUCED, _NAMED, _ACKNOWLEDGED)
# Without the mark of records that all regions share, which comes last.
_PRODUCERS_VALUES: Final = 5
# The numbers of an add before what it had seen.
_ADD_NUMBERS: Final = 5


def producer_rows(producers: Producers, with_local: bool) -> list[Row]:
    counts = (producers.duration_s, producers.entries_max, producers.added, producers.duplicates)
    head: Row = (_PRODUCERS, *(counts if with_local else (None, None, 0, 0)))
    rows: list[Row] = [(*head, True) if producers.is_shared else head]
    rows += [(_PRODUCED, *record) for record in producers.rows()]
    for name, adds in [] if producers.register is None else producers.register.items():
        for add in adds:
            rows.append(_named_row(name, add, with_local))
            if with_local:
                rows += _acknowledged_rows(name, add)
    return rows


def _named_row(name: AddName, add: NamedAdd, with_local: bool) -> Row:
    numbers = [*add.dot, *add.entry_id, add.at_ms, *flat(add.seen)]
    return (_NAMED, *name, column(numbers), with_local and add.is_lost)


def _acknowledged_rows(name: AddName, add: NamedAdd) -> list[Row]:
    """The dot of the add, the dots of the creates, and number and origin of the reset of each."""
    rows: list[Row] = []
    for group, creates in sorted(add.acknowledged.items()):
        dots, resets = flat([dot for dot, _ in creates]), flat([reset for _, reset in creates])
        rows.append((_ACKNOWLEDGED, *name, group, *add.dot, column(dots), column(resets)))
    return rows


def read_name_row(stream: Stream, row: Row) -> None:
    kind = row[0]
    if kind == _PRODUCERS:
        stream.producers = _read_producers(row)
        return
    producers = stream.producers
    if producers is None:
        raise CodecError("a record of a producer comes before the producers")
    if kind == _PRODUCED:
        _, producer, name, entry_id, at_ms = read_row(row, 5, "record of a producer")
        key = (read_bytes(producer, "producer"), read_bytes(name, "idempotent ID"))
        producers.record(*key, read_id(entry_id, "entry"), read_u64(at_ms, "time of a record"))
    elif kind == _NAMED:
        _read_named(producers, row)
    else:
        _read_acknowledged(producers.register, row)


def _read_producers(row: Row) -> Producers:
    _, duration_s, entries_max, added, duplicates = read_row(row[:_PRODUCERS_VALUES], _PRODUCERS_VALUES, "producers")
    producers = Producers()
    producers.duration_s = read_optional(duration_s, "duration")
    producers.entries_max = read_optional(entries_max, "number of records")
    producers.added, producers.duplicates = read_u64(added, "added"), read_u64(duplicates, "duplicates")
    producers.is_shared = len(row) > _PRODUCERS_VALUES
    return producers


def _read_named(producers: Producers, row: Row) -> None:
    _, producer, name, values, is_lost = read_row(row, 5, "named add")
    numbers = read_column(values, "named add")
    if len(numbers) < _ADD_NUMBERS or len(numbers) % 2 != _ADD_NUMBERS % 2:
        raise CodecError(f"a named add has {len(numbers)} numbers")
    seen = list(zip(numbers[_ADD_NUMBERS::2], numbers[_ADD_NUMBERS + 1 :: 2], strict=True))
    for origin, counter in [(numbers[0], numbers[1]), *seen]:
        read_origin(origin, "named add")
        read_counter(counter, "named add")
    add = NamedAdd((numbers[0], numbers[1]), (numbers[2], numbers[3]), numbers[4], seen)
    add.is_lost = read_flag(is_lost, "lost")
    if producers.register is None:
        producers.register = NameRegister()
    producers.register.put((read_bytes(producer, "producer"), read_bytes(name, "idempotent ID")), add)


def _read_acknowledged(register: NameRegister | None, row: Row) -> None:
    _, producer, name, group, origin, counter, creates, resets = read_row(row, 8, "acknowledged add")
    dot = (read_origin(origin, "acknowledged add"), read_counter(counter, "acknowledged add"))
    key = (read_bytes(producer, "producer"), read_bytes(name, "idempotent ID"))
    adds = [] if register is None else [add for add in register.adds_of(key) if add.dot == dot]
    if not adds:
        raise CodecError("an acknowledged add is not named")
    dots, numbers = read_pairs(creates, "creates"), read_pairs(resets, "resets")
    if len(dots) != len(numbers):
        raise CodecError(f"an acknowledged add has {len(numbers)} resets for {len(dots)} creates")
    adds[0].acknowledge(read_bytes(group, "group"), list(zip(dots, numbers, strict=True)))
