"""Properties of groups and of streams in rows of a state, encoded and decoded."""

from __future__ import annotations

from crdtstream.core.groups.properties import PropertyRegisters
from crdtstream.core.streams.properties import VOID_VALUE, StreamProperties
from crdtstream.core.streams.stream import Stream
from crdtstream.protocols.columns import (
    CodecError,
    column,
    read_bytes,
    read_counter,
    read_origin,
    read_pairs,
    read_row,
    read_texts,
    text_columns,
)
from crdtstream.protocols.rows import Row


def registers_columns(registers: PropertyRegisters) -> tuple[bytes, bytes, bytes]:
    """Numbers and origins by turns, then names and values by turns."""
    rows = sorted(registers.items())
    numbers = column([value for _, (number, origin, _) in rows for value in (number, origin)])
    return (numbers, *text_columns([text for name, (_, _, value) in rows for text in (name, value)]))


def read_registers(numbers: object, lengths: object, data: object) -> PropertyRegisters:
    pairs, texts = read_pairs(numbers, "properties"), read_texts(lengths, data, "properties")
    if len(texts) != 2 * len(pairs):
        raise CodecError(f"properties: {len(texts)} names and values for {len(pairs)} numbers")
    named = zip(texts[0::2], pairs, texts[1::2], strict=True)
    return {name: (number, read_origin(origin, "property"), value) for name, (number, origin), value in named}


def read_stream_property(stream: Stream, row: Row) -> None:
    """One register of a property of a stream."""
    _, name, origin, counter, number, value = read_row(row, 6, "property")
    if stream.properties is None:
        stream.properties = StreamProperties()
    text = read_bytes(value, "property")
    if text == VOID_VALUE:
        raise CodecError("property: no value")
    place = (read_bytes(name, "property"), read_origin(origin, "property"), read_counter(counter, "property"))
    stream.properties.add((*place, read_counter(number, "number"), text))
