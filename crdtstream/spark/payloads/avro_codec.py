"""Avro in one field: the binary encoding of one record, bare or as a single object with the schema's fingerprint.

Types are those of Spark's `from_avro`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any, Final

from crdtstream.spark.options import OptionError
from crdtstream.spark.payloads.errors import UndecodablePayload, UnencodableRow

PRIMITIVE: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
    "enum": "string",
}
LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}
# Unions of two numbers have the wider type.
WIDER: Final = ({"int", "long"}, "bigint"), ({"float", "double"}, "double")
SINGLE_OBJECT: Final = b"\xc3\x01"
# Those two and the fingerprint, CRC-64-AVRO in little endian.
HEADER_BYTES: Final = 10


class AvroCodec:
    """Records of one schema. A single object names the schema in which it was written: this one, or an older one."""

    def __init__(self, definition: bytes, older: Sequence[bytes] = ()) -> None:
        self._schema = record_of(definition)
        self._written_in = {header_of(each): each for each in (self._schema, *map(record_of, older))}

    @property
    def ddl(self) -> str:
        return AvroTypes().members(self._schema)

    def decode(self, payload: bytes) -> dict[str, Any]:
        from fastavro import schemaless_reader

        written = self._written_in.get(payload[:HEADER_BYTES])
        data = io.BytesIO(payload[HEADER_BYTES:] if written else payload)
        try:
            found: Any = schemaless_reader(data, written or self._schema, self._schema)
        except Exception as error:  # whatever fastavro meets in bytes of others
            raise UndecodablePayload(f"no Avro of this schema: {type(error).__name__} {error}".rstrip()) from None
        if data.read(1):
            raise UndecodablePayload("bytes are left behind the Avro record")
        return {name: plain(value) for name, value in found.items()}

    def encode(self, row: dict[str, Any]) -> bytes:
        from fastavro import schemaless_writer

        data = io.BytesIO()
        try:
            schemaless_writer(data, self._schema, row)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise UnencodableRow(f"no Avro of this schema: {error}") from None
        return data.getvalue()


def record_of(definition: bytes) -> dict[str, Any]:
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        parsed = parse_schema(json.loads(definition))
    except (SchemaParseException, UnknownType, ValueError) as error:
        raise OptionError(f"payloadSchema is no Avro schema: {error}") from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise OptionError("payloadSchema is no Avro record: its fields become columns")
    return parsed


def header_of(schema: Any) -> bytes:
    """What a single object of this schema begins with."""
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return SINGLE_OBJECT + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def plain(value: Any) -> Any:
    """UUIDs as Spark has them."""
    from uuid import UUID

    return str(value) if isinstance(value, UUID) else value


class AvroTypes:
    """Spark's types of an Avro schema; `named` are the types that have been defined, for references to them."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: list[str] = []

    def members(self, record: dict[str, Any]) -> str:
        name = str(record["name"])
        if name in self._open:
            raise OptionError(f"payloadSchema nests {name} in itself: Spark has no recursive types")
        self._named[name] = record
        self._open.append(name)
        made = ", ".join(f"`{each['name']}` {self._type(each['type'], each['name'])}" for each in record["fields"])
        self._open.pop()
        return made

    def _type(self, schema: Any, name: str) -> str:
        if isinstance(schema, list):
            return self._union(schema, name)
        if isinstance(schema, str):
            return PRIMITIVE[schema] if schema in PRIMITIVE else self._type(self._named[schema], name)
        kind = schema["type"]
        if "logicalType" in schema:
            return self._logical(schema, name)
        if kind == "record":
            return f"struct<{self.members(schema)}>"
        if kind == "array":
            return f"array<{self._type(schema['items'], name)}>"
        if kind == "map":
            return f"map<string, {self._type(schema['values'], name)}>"
        if "name" in schema:
            self._named[schema["name"]] = schema
        return PRIMITIVE[kind] if isinstance(kind, str) else self._type(kind, name)

    def _logical(self, schema: dict[str, Any], name: str) -> str:
        logical = schema["logicalType"]
        if logical == "decimal":
            return f"decimal({schema['precision']}, {schema.get('scale', 0)})"
        if logical not in LOGICAL:
            raise OptionError(f"payloadSchema gives {name} the logical type {logical}, which Spark lacks: leave it out")
        return LOGICAL[logical]

    def _union(self, schemas: list[Any], name: str) -> str:
        kinds = [each for each in schemas if each != "null"]
        if len(kinds) == 1:
            return self._type(kinds[0], name)
        for pair, wider in WIDER:
            if all(isinstance(each, str) for each in kinds) and set(kinds) == pair:
                return wider
        raise OptionError(f"payloadSchema gives {name} a union of several types, and a column has one")
