"""Rows with typed columns for a sink: they become rows with the columns `stream`, `id` and `fields`, like all others.

With `payloadSchema` the columns of the schema become fields, or the payload in one field. A row that has a reason in
the corrupt record's column keeps its `fields`, and goes to the dead-letter stream.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from crdtstream.spark.columns import BEFORE_FIELDS, METADATA, PAIR
from crdtstream.spark.entries import Array
from crdtstream.spark.options import Options
from crdtstream.spark.payloads.declared import codec_of, declared
from crdtstream.spark.payloads.errors import UnencodableRow
from crdtstream.spark.payloads.json_codec import as_json, present
from crdtstream.spark.rows import RowError, check_types, octets_of

PAIRS: Final = pa.list_(pa.struct(PAIR))
OWN: Final = frozenset(column.name for column in (*BEFORE_FIELDS, *METADATA))


class TypedRows:
    """Reshapes batches; pickled for tasks."""

    def __init__(self, options: Options, schema: Any) -> None:
        self._declared = declared(options)
        self._corrupt: str = options["columnNameOfCorruptRecord"]
        self._dead_letters: str = options["deadLetterStream"] or ""
        self._stream: str = options["stream"] or ""
        self._check(schema.names)
        check_types(self.reshaped(empty_of(schema)).schema)

    def _check(self, names: Sequence[str]) -> None:
        if "stream" not in names and not self._stream:
            raise RowError("rows have no column stream: add one, or name the stream of all rows with option stream")
        payload = self._declared.names if self._declared else []
        absent = [name for name in payload if name not in names]
        if absent:
            raise RowError(f"rows lack column {absent[0]} of payloadSchema: add it, or give null")
        strange = [name for name in names if name not in {*payload, *OWN, "fields", self._corrupt}]
        if strange:
            raise RowError(f"column {strange[0]} is not in payloadSchema: add it there, or drop it")
        if "fields" not in names and (not self._declared or self._corrupt in names):
            raise RowError("rows have no column fields, which is what a corrupt row is written from: select it, too")

    def reshaped(self, batch: Any) -> Any:
        """The batch with columns `stream`, `id` if it has them, and `fields`."""
        corrupt = self._corrupt_rows(batch)
        fields = self._fields(batch, corrupt)
        columns = {name: batch.column(name) for name in ("stream", "id") if name in batch.schema.names}
        if self._dead_letters:
            stream = columns.get("stream", pa.scalar(self._stream))
            columns["stream"] = pc.if_else(corrupt, self._dead_letters, stream)
        return pa.RecordBatch.from_pydict({**columns, "fields": fields})

    def _corrupt_rows(self, batch: Any) -> Array:
        """True for each row that is corrupt."""
        if self._corrupt not in batch.schema.names:
            return pa.array(np.zeros(batch.num_rows, bool))
        reasons = batch.column(self._corrupt)
        if not self._dead_letters and reasons.null_count < len(reasons):
            reason = reasons.drop_null()[0]
            raise RowError(f"a row is corrupt ({reason}): name a stream with deadLetterStream, or leave such rows out")
        return pc.is_valid(reasons)

    def _fields(self, batch: Any, corrupt: Array) -> Array:
        raw = raw_fields(batch.column("fields")) if "fields" in batch.schema.names else None
        if self._declared is None:
            return raw
        names, columns = self._payload(batch)
        if self._declared.field:
            made = self._encoded(pa.StructArray.from_arrays(columns, names), corrupt)
        else:
            made = fields_of(names, columns)
        return made if raw is None else pc.if_else(corrupt, raw, made)

    def _payload(self, batch: Any) -> tuple[list[str], list[Array]]:
        assert self._declared is not None
        if self._declared.column:
            whole = batch.column(self._declared.column)
            return [field.name for field in whole.type], whole.flatten()
        names = self._declared.names
        return names, [batch.column(name) for name in names]

    def _encoded(self, rows: Array, corrupt: Array) -> Array:
        """One field for each row, with its payload."""
        assert self._declared is not None
        encode = codec_of(self._declared).encode
        values = rows.to_pylist(maps_as_pydicts="strict")
        try:
            payloads = [b"" if left else encode(row) for row, left in zip(values, corrupt.to_pylist(), strict=True)]
        except UnencodableRow as error:
            raise RowError(f"a row is {error}: correct it, or the schema") from None
        return fields_of([self._declared.field], [pa.array(payloads, pa.binary())])


def empty_of(schema: Any) -> Any:
    return pa.RecordBatch.from_pylist([], schema=to_arrow_schema(schema, timezone="UTC"))


def raw_fields(column: Array) -> Array:
    if not pa.types.is_list(column.type):
        raise RowError(f"column fields has type {column.type}: read with fieldsAs=array, to keep corrupt rows whole")
    return column.cast(PAIRS)


def fields_of(names: list[str], columns: list[Array]) -> Array:
    """The fields of each row, from columns; null leaves a field out."""
    rows, width = len(columns[0]), len(columns)
    values = pa.concat_arrays([octets_or_json(column, name) for name, column in zip(names, columns, strict=True)])
    places: Array = np.arange(width * rows).reshape(width, rows).T
    valid = values.is_valid().to_numpy(False)[places]
    chosen = places[valid]
    offsets = np.concatenate([[0], np.cumsum(valid.sum(axis=1))]).astype(np.int32)
    labels = pa.array([name.encode() for name in names], pa.binary()).take(pa.array(chosen // max(rows, 1)))
    pairs = pa.StructArray.from_arrays([labels, values.take(pa.array(chosen))], fields=PAIR)
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=PAIRS)


def octets_or_json(column: Array, name: str) -> Array:
    """Plain values as text, nested ones as JSON, as the reader takes them."""
    if not pa.types.is_nested(column.type):
        return octets_of(column, name)
    return pa.array(map(json_text, column.to_pylist(maps_as_pydicts="strict")), pa.string()).cast(pa.binary())


def json_text(value: Any) -> str | None:
    return None if value is None else json.dumps(present(value), ensure_ascii=False, default=as_json)
