"""Columns of payloads for a reader. All are made together, when the first of a batch is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from crdtstream.spark.columns import Column
from crdtstream.spark.entries import Array, EntryBatch, Parsed
from crdtstream.spark.offsets import stream_text
from crdtstream.spark.options import FAILFAST, OptionError, Options
from crdtstream.spark.payloads.declared import PayloadSchema, codec_of, declared
from crdtstream.spark.payloads.errors import CorruptRecord, UndecodablePayload
from crdtstream.spark.payloads.plain import FieldValues, bisected, cast_to
from crdtstream.spark.payloads.values import Convert, converted_to

SHOWN: Final = 60
Reasons = dict[int, str]


@dataclass(slots=True)
class DecodedPayloads:
    """The columns of one batch, and why rows are corrupt."""

    parsed: Parsed
    columns: dict[str, Array] = field(default_factory=dict)
    reasons: Reasons = field(default_factory=dict)

    def add(self, wanted: StructField, convert: Convert, values: Any, kind: pa.DataType) -> None:
        """Add a column of these values; those that do not fit are null."""
        self.columns[wanted.name], wrong = bisected(convert, values, kind)
        for row in wrong:
            reason = f"{wanted.name} is {shown(values[row])}, which is no {wanted.dataType.simpleString()}"
            self.reasons.setdefault(row, reason)


class PayloadColumns:
    """What the source's columns lack of a schema; pickled for tasks."""

    def __init__(self, declared: PayloadSchema, wanted: Sequence[StructField], corrupt: str, fail_fast: bool) -> None:
        self._declared = declared
        self._wanted = [each for each in wanted if each.name != corrupt]
        self._corrupt = corrupt
        self._fail_fast = fail_fast
        self._arrow = to_arrow_schema(StructType(self._inner()), timezone="UTC")
        self._latest: DecodedPayloads | None = None

    def columns(self) -> list[Column]:
        made = [Column(each.name, "", partial(self._column, each.name)) for each in self._wanted]
        return [*made, Column(self._corrupt, "string", self._reasons)]

    def _inner(self) -> list[StructField]:
        """The columns of the payload, which may be members of one struct."""
        if not self._declared.column:
            return self._wanted
        return [inner for each in self._wanted for inner in each.dataType.fields]

    def _column(self, name: str, run: EntryBatch, parsed: Parsed) -> Array:
        decoded = self._decoded(run, parsed)
        if not self._declared.column:
            return decoded.columns[name]
        return pa.StructArray.from_arrays(
            [decoded.columns[each.name] for each in self._arrow], fields=list(self._arrow)
        )

    def _reasons(self, run: EntryBatch, parsed: Parsed) -> Array:
        reasons = self._decoded(run, parsed).reasons
        return (
            pa.array(map(reasons.get, range(run.count)), pa.string()) if reasons else pa.nulls(run.count, pa.string())
        )

    def _decoded(self, run: EntryBatch, parsed: Parsed) -> DecodedPayloads:
        if self._latest is None or self._latest.parsed is not parsed:
            self._latest = DecodedPayloads(parsed)
            decode = self._decode_payload if self._declared.field else self._decode_fields
            decode(FieldValues(parsed), self._latest)
            if self._fail_fast and self._latest.reasons:
                fail(run, self._latest.reasons)
        return self._latest

    def _decode_fields(self, fields: FieldValues, decoded: DecodedPayloads) -> None:
        for wanted, kind in zip(self._inner(), self._arrow.types, strict=True):
            decoded.add(wanted, cast_to(kind), fields.of(wanted.name), kind)

    def _decode_payload(self, fields: FieldValues, decoded: DecodedPayloads) -> None:
        rows = self._rows(fields.of(self._declared.field).to_pylist(), decoded.reasons)
        for wanted, kind in zip(self._inner(), self._arrow.types, strict=True):
            decoded.add(wanted, converted_to(kind), [row.get(wanted.name) for row in rows], kind)

    def _rows(self, payloads: Sequence[bytes | None], reasons: Reasons) -> list[dict[str, Any]]:
        decode = codec_of(self._declared).decode
        rows: list[dict[str, Any]] = []
        for number, payload in enumerate(payloads):
            row: dict[str, Any] = {}
            if payload is None:
                reasons[number] = f"the entry has no field {self._declared.field}"
            else:
                try:
                    row = decode(payload)
                except UndecodablePayload as error:
                    reasons[number] = f"{self._declared.field} is {error}"
            rows.append(row)
        return rows


def shown(value: Any) -> str:
    """A value, or the bytes of a field, for a sentence."""
    found = value.as_py() if isinstance(value, pa.Scalar) else value
    text = repr(found.decode("utf-8", "backslashreplace") if isinstance(found, bytes) else found)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def fail(run: EntryBatch, reasons: Reasons) -> None:
    row = min(reasons)
    stream = stream_text(run.streams[run.interval_of[row]])
    raise CorruptRecord(
        f"stream {stream!r}, entry {run.ms[row]}-{run.id_seqs[row]}: {reasons[row]}. Without mode=FAILFAST corrupt"
        " entries are rows too"
    )


def ddl_of(options: Options) -> str:
    """The columns that a schema adds to those of the source, as DDL; empty without a schema."""
    schema = declared(options)
    return "" if schema is None else f", {schema.ddl}, `{options['columnNameOfCorruptRecord']}` string"


def payload_columns(options: Options, schema: StructType, own: Sequence[Column]) -> list[Column]:
    """The columns that are not the source's own, in the types that Spark was told or a user has given."""
    found = declared(options)
    if found is None:
        return []
    refuse_clashes([*(each.name for each in own), *found.names, options["columnNameOfCorruptRecord"]])
    known = {*found.names, options["columnNameOfCorruptRecord"]}
    wanted = [each for each in schema.fields if each.name in known]
    refuse_required(wanted)
    fail_fast = options["mode"] == FAILFAST
    return PayloadColumns(found, wanted, options["columnNameOfCorruptRecord"], fail_fast).columns()


def refuse_required(wanted: Sequence[StructField]) -> None:
    strict = [each.name for each in wanted if not each.nullable]
    if strict:
        raise OptionError(
            f"the schema says NOT NULL of {strict[0]}, but it is null in rows of corrupt entries: leave NOT NULL out"
        )


def refuse_clashes(names: Sequence[str]) -> None:
    """Spark's names do not differ by case alone."""
    lower = [name.lower() for name in names]
    twice = [name for number, name in enumerate(names) if name.lower() in lower[:number]]
    if twice:
        raise OptionError(
            f"payloadSchema has a column {twice[0]}, and there is one of that name: put the payload into one column"
            " with payloadColumn, or rename it"
        )
