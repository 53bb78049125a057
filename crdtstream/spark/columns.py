"""The columns of the source: their Spark types, and how each is built from a run of entries.

Spark accepts an Arrow batch only with exactly the schema that it derives itself; each batch is built in that schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtstream.spark.entries import Array, EntryBatch, Parsed, parse, slices
from crdtstream.spark.offsets import origin_text
from crdtstream.spark.options import ARRAY, JSON, MAP, OptionError

MS_MAX: Final = (2**63 - 1) // 1000
PAIR: Final = [pa.field("field", pa.binary()), pa.field("value", pa.binary())]
CONTROLS: Final = tuple((chr(code), f"\\u{code:04x}") for code in range(32))

Maker = Callable[[EntryBatch, Parsed], Array]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `ddl` is its Spark type."""

    name: str
    ddl: str
    make: Maker


def of_interval(values: Iterable[Any], kind: Any, run: EntryBatch) -> Array:
    """Build a column from one value for each interval, repeated for its entries."""
    return pa.array(values, kind).take(pa.array(run.interval_of))


def stream(run: EntryBatch, parsed: Parsed) -> Array:
    return of_interval((name.decode("utf-8", "backslashreplace") for name in run.streams), pa.string(), run)


def origin(run: EntryBatch, parsed: Parsed) -> Array:
    return of_interval(map(origin_text, run.origins), pa.string(), run)


def region(run: EntryBatch, parsed: Parsed) -> Array:
    return of_interval((each % 256 for each in run.origins), pa.int32(), run)


def region_read(run: EntryBatch, parsed: Parsed) -> Array:
    return pa.repeat(pa.scalar(run.region, pa.string()), run.count)


def entry_id(run: EntryBatch, parsed: Parsed) -> Array:
    return slices(parsed.data, parsed.id_starts, parsed.id_sizes).cast(pa.string())


def seq(run: EntryBatch, parsed: Parsed) -> Array:
    return signed(run.seqs)


def id_ms(run: EntryBatch, parsed: Parsed) -> Array:
    return signed(run.ms)


def id_seq(run: EntryBatch, parsed: Parsed) -> Array:
    return signed(run.id_seqs)


def signed(numbers: Array) -> Array:
    """Convert to signed integers, which Spark needs; null if a value does not fit."""
    return pa.array(numbers.astype(np.int64), mask=numbers > 2**63 - 1)


def timestamp(run: EntryBatch, parsed: Parsed) -> Array:
    beyond = run.ms > MS_MAX
    micros = np.where(beyond, 0, run.ms).astype(np.int64) * 1000
    return pa.array(micros, mask=beyond).cast(pa.timestamp("us", "UTC"))


def pairs(parsed: Parsed) -> tuple[Array, Array, Array]:
    """Return the row offsets, in pairs, and all fields and all values."""
    offsets = pa.array((parsed.firsts // 2).astype(np.int32))
    fields = slices(parsed.data, parsed.starts[0::2], parsed.sizes[0::2])
    return offsets, fields, slices(parsed.data, parsed.starts[1::2], parsed.sizes[1::2])


def as_array(run: EntryBatch, parsed: Parsed) -> Array:
    offsets, fields, values = pairs(parsed)
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([fields, values], fields=PAIR))


def as_map(run: EntryBatch, parsed: Parsed) -> Array:
    return pa.MapArray.from_arrays(*pairs(parsed))


def as_json(run: EntryBatch, parsed: Parsed) -> Array:
    """Build one JSON object for each row; repeated fields stay repeated, and bytes that are not UTF-8 become U+FFFD."""
    offsets, fields, values = pairs(parsed)
    members = pc.binary_join_element_wise('"', quoted(fields), '": "', quoted(values), '"', "")
    rows = pc.binary_join(pa.ListArray.from_arrays(offsets, members), ", ")
    return pc.binary_join_element_wise("{", rows, "}", "")


def quoted(items: Array) -> Array:
    """Escape items for use inside a JSON string."""
    words = pc.replace_substring(pc.replace_substring(as_text(items), "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(words, "[[:cntrl:]]")).as_py():
        for character, escape in CONTROLS:
            words = pc.replace_substring(words, character, escape)
    return words


def as_text(items: Array) -> Array:
    try:
        return items.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([item.decode("utf-8", "replace") for item in items.to_pylist()], pa.string())


FIELDS: Final = {
    ARRAY: Column("fields", "array<struct<field: binary, value: binary>>", as_array),
    MAP: Column("fields", "map<binary, binary>", as_map),
    JSON: Column("fields", "string", as_json),
}
BEFORE_FIELDS: Final = (
    Column("stream", "string", stream),
    Column("id", "string", entry_id),
    Column("origin", "string", origin),
    Column("seq", "bigint", seq),
    Column("timestamp", "timestamp", timestamp),
)
METADATA: Final = (
    Column("region", "int", region),
    Column("id_ms", "bigint", id_ms),
    Column("id_seq", "bigint", id_seq),
    Column("region_read", "string", region_read),
)


def columns_of(fields_as: str, metadata: bool) -> tuple[Column, ...]:
    return (*BEFORE_FIELDS, FIELDS[fields_as], *(METADATA if metadata else ()))


def ddl(columns: Iterable[Column]) -> str:
    return ", ".join(f"{column.name} {column.ddl}" for column in columns)


class Decoder:
    """Builds batches of one Arrow schema, whose columns are a subset of the source's columns."""

    def __init__(self, columns: Iterable[Column], schema: Any) -> None:
        known = {column.name: column for column in columns}
        unknown = [name for name in schema.names if name not in known]
        if unknown:
            raise OptionError(f"the schema has an unknown column {unknown[0]}: crdtstream has {', '.join(known)}")
        self.schema = schema
        self.makers = [known[name].make for name in schema.names]

    def batch(self, run: EntryBatch) -> Any:
        parsed = parse(run.data, run.ends)
        made = [make(run, parsed) for make in self.makers]
        arrays = [as_type(array, field) for array, field in zip(made, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def as_type(array: Any, field: Any) -> Any:
    """Convert a column to the schema's type. Names inside nested types are part of an Arrow type, so a cast may only
    rename.
    """
    if array.type == field.type:
        return array
    try:
        return array.cast(field.type)
    except pa.ArrowInvalid as error:
        raise OptionError(
            f"the schema gives column {field.name} a type to which it cannot be converted: {error}"
        ) from None
