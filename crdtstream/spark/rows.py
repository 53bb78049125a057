"""Encodes Arrow batches as rows for the bulk port without a Python object for each row; only JSON is read row by row.

A row holds the content of its entry: `*2k` and 2k items. It comes from a column `fields` (an array of structs of two, a
map, or JSON text); without that column, from all columns but `stream` and `id`, each of which becomes a field, and null
leaves the field out. With a column `id` rows have their own IDs, otherwise the region mints them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtstream.bulk import bulk_pb2
from crdtstream.protocols.hash_slots import shard_of
from crdtstream.spark.columns import BEFORE_FIELDS, METADATA

MESSAGE_BYTES: Final = 1 << 20
OWN: Final = frozenset(column.name for column in (*BEFORE_FIELDS, *METADATA))
NAMED: Final = frozenset({"stream", "id", "fields"})
_ID: Final = r"^(?P<ms>[0-9]+)(?:-(?P<seq>[0-9]+))?$"

Array = Any


class RowError(ValueError):
    """Rows that cannot become entries; the text says which and why."""


@dataclass(frozen=True, slots=True)
class RowTarget:
    """The destination of rows that their columns do not specify."""

    database: int
    stream: str
    skip_lower_ids: bool


def check_columns(names: list[str], target: RowTarget) -> None:
    """Reject an unsuitable schema before any row is written."""
    if "stream" not in names and not target.stream:
        raise RowError("rows have no column stream: add one, or name the stream of all rows with option stream")
    others = [name for name in names if name not in NAMED]
    if "fields" in names:
        strange = [name for name in others if name not in OWN]
        if strange:
            raise RowError(f"column {strange[0]} cannot be used together with fields: move it into fields, or drop it")
    elif not others:
        raise RowError("rows have neither a column fields nor other columns to use as fields: add one")


def check_types(schema: Any) -> None:
    """Reject columns whose types cannot become fields: a batch of this Arrow schema without rows is encoded."""
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    for name in ("stream", "id"):
        if name in schema.names:
            octets_of(empty.column(name), name)
    encode(empty)


def messages(batch: Any, target: RowTarget) -> Iterator[bulk_pb2.Rows]:
    """Yield the rows of one batch, in messages of about `MESSAGE_BYTES`."""
    if batch.num_rows == 0:
        return
    names = batch.schema.names
    encoded = encode(batch)
    offsets = np.frombuffer(encoded.buffers()[1], np.int32)[encoded.offset : encoded.offset + len(encoded) + 1]
    octets = memoryview(encoded.buffers()[2])
    streams, stream_of = streams_of(batch, names, target)
    ms, id_seqs = ids_of(batch, names)
    low = 0
    while low < len(encoded):
        base = int(offsets[low])
        high = max(low + 1, int(np.searchsorted(offsets, base + MESSAGE_BYTES, "right")) - 1)
        yield bulk_pb2.Rows(
            database=target.database,
            streams=streams,
            stream_of=stream_of[low:high].tobytes() if len(streams) > 1 else b"",
            count=high - low,
            ms=ms[low:high].tobytes(),
            id_seqs=id_seqs[low:high].tobytes(),
            ends=(offsets[low + 1 : high + 1] - base).astype("<u4").tobytes(),
            data=bytes(octets[base : int(offsets[high])]),
            skip_lower_ids=target.skip_lower_ids,
        )
        low = high


def messages_by_shard(batch: Any, target: RowTarget, shards: int) -> Iterator[tuple[int, bulk_pb2.Rows]]:
    """Yield the number of a shard, of so many, and rows for it; the rows of a stream keep their order."""
    if shards == 1 or batch.num_rows == 0:
        yield from ((0, message) for message in messages(batch, target))
        return
    streams, stream_of = streams_of(batch, batch.schema.names, target)
    numbers = np.array([shard_of(stream, shards) for stream in streams])[stream_of]
    for shard in np.unique(numbers):
        part = batch.filter(pa.array(numbers == shard))
        yield from ((int(shard), message) for message in messages(part, target))


def streams_of(batch: Any, names: list[str], target: RowTarget) -> tuple[list[bytes], Array]:
    if "stream" not in names:
        return [target.stream.encode()], np.zeros(batch.num_rows, "<u4")
    column = batch.column("stream")
    if column.null_count:
        raise RowError("a row has null as its stream: fill it in, or drop the row")
    coded = octets_of(column, "stream").dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype("<u4")


def ids_of(batch: Any, names: list[str]) -> tuple[Array, Array]:
    """Return the IDs of the rows, empty if the region mints them."""
    none: Array = np.empty(0, "<u8")
    if "id" not in names or batch.column("id").null_count == batch.num_rows:
        return none, none
    column = batch.column("id").cast(pa.string())
    parts = pc.extract_regex(column, _ID)
    if parts.null_count:
        wrong = column.filter(pc.is_null(parts))[0]
        raise RowError(f"a row has the id {wrong.as_py()!r}: write ms-seq in all rows, or leave the column out")
    try:
        ms = parts.field("ms").cast(pa.uint64())
        seqs = pc.if_else(pc.equal(parts.field("seq"), ""), "0", parts.field("seq")).cast(pa.uint64())
    except pa.ArrowInvalid as error:
        raise RowError(f"a row has an id beyond 64 bits: {error}") from None
    return ms.to_numpy().astype("<u8"), seqs.to_numpy().astype("<u8")


def encode(batch: Any) -> Array:
    """Encode each row as a binary value."""
    names = batch.schema.names
    if "fields" not in names:
        return from_flat({name: batch.column(name) for name in names if name not in NAMED})
    fields = batch.column("fields")
    if fields.null_count:
        raise RowError("a row has null as its fields: fill it in, or drop the row")
    kind = fields.type
    if pa.types.is_map(kind):
        return from_lists(fields, fields.keys, fields.items)
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2:
        field, value = fields.values.flatten()
        return from_lists(fields, field, value)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return from_json(fields)
    raise RowError(f"column fields has type {kind}: use an array of structs of two, a map, or JSON text")


def from_flat(columns: dict[str, Array]) -> Array:
    pairs = []
    counts: Array = 0
    for name, column in columns.items():
        value = octets_of(column, name)
        field = name.encode()
        pair = joined(octets(b"$%d\r\n%b\r\n" % (len(field), field)), *bulk(value))
        pairs.append(pc.fill_null(pair, b""))
        counts = pc.add(counts, pc.if_else(pc.is_valid(value), 2, 0))
    return with_header(counts, pairs[0] if len(pairs) == 1 else joined(*pairs))


def from_lists(lists: Array, fields: Array, values: Array) -> Array:
    """Encode rows from lists; `lists` may be a slice whose offsets select the fields and values."""
    offsets = lists.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    names = octets_of(fields.slice(first, last - first), "fields")
    contents = octets_of(values.slice(first, last - first), "fields")
    if names.null_count or contents.null_count:
        raise RowError("fields hold a null: leave the field out, or write empty bytes")
    rows = pa.ListArray.from_arrays(pc.subtract(offsets, first), joined(*bulk(names), *bulk(contents)))
    return with_header(pc.multiply(pc.list_value_length(rows), 2), pc.binary_join(rows, b""))


class MemberRows(list[tuple[str, object]]):
    """The members of a JSON object, in order and with repetitions."""


def from_json(texts: Array) -> Array:
    """Encode JSON rows: strings as they are, other values as JSON."""
    rows = [json.loads(text, object_pairs_hook=MemberRows) for text in texts.to_pylist()]
    if not all(isinstance(row, MemberRows) for row in rows):
        raise RowError("a row's JSON is not an object: write fields and values")
    members = [member for row in rows for member in row]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    fields = pa.array([field.encode() for field, _ in members], pa.binary())
    values = pa.array([as_octets(value) for _, value in members], pa.binary())
    return from_lists(pa.ListArray.from_arrays(pa.array(offsets), fields), fields, values)


def as_octets(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False).encode()


def plain(value: object) -> object:
    if isinstance(value, MemberRows):
        return {name: plain(inner) for name, inner in value}
    return [plain(each) for each in value] if isinstance(value, list) else value


def with_header(counts: Array, bodies: Array) -> Array:
    if pc.any(pc.equal(counts, 0)).as_py():
        raise RowError("a row has no fields: an entry has at least one")
    return joined(line(b"*", counts), bodies)


def bulk(items: Array) -> tuple[Array, Array, Array]:
    """Return the columns that, joined, make a bulk string of each item."""
    return line(b"$", pc.binary_length(items)), items, octets(b"\r\n")


def line(sign: bytes, numbers: Array) -> Array:
    """Encode numbers as lines; numbers repeat, so each distinct one is formatted once."""
    coded = numbers.dictionary_encode()
    texts = coded.dictionary.cast(pa.string()).cast(pa.binary())
    return joined(octets(sign), texts, octets(b"\r\n")).take(coded.indices)


def octets(value: bytes) -> Any:
    return pa.scalar(value, pa.binary())


def joined(*parts: Any) -> Array:
    return pc.binary_join_element_wise(*parts, octets(b""))


def octets_of(column: Array, name: str) -> Array:
    """Return a column as bytes: binary as it is, everything else as text."""
    kind = column.type
    if pa.types.is_binary(kind):
        return column
    if pa.types.is_nested(kind):
        raise RowError(
            f"column {name} holds {kind}: only plain columns can be fields. Write it as JSON (to_json), or choose parts"
        )
    try:
        return column.cast(pa.string()).cast(pa.binary())
    except pa.ArrowNotImplementedError:
        raise RowError(f"column {name} holds {kind}, which has no form as text: cast it before the write") from None
