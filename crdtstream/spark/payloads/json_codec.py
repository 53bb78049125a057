"""JSON in one field: by a DDL string, or by a JSON Schema, which also validates each payload.

Rows are read one by one with Python's own parser: pyarrow's reader of JSON ends the process when it meets `null` in
place of an object (26.0), and payloads are other people's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from crdtstream.spark.options import OptionError
from crdtstream.spark.payloads.errors import UndecodablePayload, UnencodableRow

TYPES: Final = {"integer": "bigint", "number": "double", "string": "string", "boolean": "boolean"}
FORMATS: Final = {"date-time": "timestamp", "date": "date"}
DEPTH_MAX: Final = 50


class JsonCodec:
    """Members of one object; `definition` is a JSON Schema, or None if a DDL string has the columns."""

    def __init__(self, definition: bytes | None) -> None:
        self._schema = None if definition is None else schema_of(definition)

    @property
    def ddl(self) -> str:
        assert self._schema is not None, "a DDL string is its own"
        return JsonSchemaTypes(self._schema).columns()

    @cached_property
    def _validator(self) -> Any:
        """What validates payloads; the draft is the one that the schema names."""
        if self._schema is None:
            return None
        from jsonschema.validators import validator_for

        kind = validator_for(self._schema)
        return kind(self._schema, format_checker=kind.FORMAT_CHECKER)

    def decode(self, payload: bytes) -> dict[str, Any]:
        try:
            found = json.loads(payload, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            raise UndecodablePayload(f"no JSON: {error}") from None
        if not isinstance(found, dict):
            raise UndecodablePayload("JSON, but no object")
        if self._validator is not None:
            self._validate(found)
        return found

    def _validate(self, found: dict[str, Any]) -> None:
        for error in self._validator.iter_errors(found):
            raise UndecodablePayload(f"{error.json_path}: {error.message}")

    def encode(self, row: dict[str, Any]) -> bytes:
        text = json.dumps(present(row), ensure_ascii=False, default=as_json)
        if self._validator is not None:
            for error in self._validator.iter_errors(json.loads(text)):
                raise UnencodableRow(f"{error.json_path}: {error.message}")
        return text.encode()


def present(value: Any) -> Any:
    """Leave out members that are null, as Spark's `to_json` does."""
    if isinstance(value, dict):
        return {name: present(each) for name, each in value.items() if each is not None}
    return [present(each) for each in value] if isinstance(value, list) else value


def as_json(value: Any) -> Any:
    """The form of what JSON does not have."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def schema_of(definition: bytes) -> dict[str, Any]:
    try:
        found = json.loads(definition)
    except ValueError as error:
        raise OptionError(f"payloadSchema is no JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("properties"), dict):
        raise OptionError("payloadSchema is no JSON Schema of an object: it needs properties, which become columns")
    return found


class JsonSchemaTypes:
    """Spark's types of a JSON Schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._root = schema

    def columns(self) -> str:
        return self._members(self._root, 0)

    def _members(self, schema: Mapping[str, Any], depth: int) -> str:
        return ", ".join(
            f"`{name.replace('`', '``')}` {self._type(each, name, depth)}"
            for name, each in schema["properties"].items()
        )

    def _type(self, given: Any, name: str, depth: int) -> str:
        schema = self._resolved(given, name)
        if depth > DEPTH_MAX:
            raise OptionError(f"payloadSchema nests {name} without end: Spark has no recursive types")
        kind = self._kind(schema, name)
        if kind == "array":
            return f"array<{self._type(schema.get('items', {}), name, depth + 1)}>"
        if kind == "object":
            return self._object(schema, name, depth + 1)
        return FORMATS.get(schema.get("format", ""), "string") if kind == "string" else TYPES[kind]

    def _object(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        if schema.get("properties"):
            return f"struct<{self._members(schema, depth)}>"
        if isinstance(schema.get("additionalProperties"), dict):
            return f"map<string, {self._type(schema['additionalProperties'], name, depth)}>"
        raise OptionError(f"payloadSchema says of {name} that it is an object, but not of what: add its properties")

    def _resolved(self, given: Any, name: str) -> Mapping[str, Any]:
        """Follow references inside the schema."""
        schema = given
        for _ in range(DEPTH_MAX):
            if not isinstance(schema, dict):
                break
            if "$ref" not in schema:
                return schema
            schema = self._root
            for part in given["$ref"].removeprefix("#/").split("/"):
                schema = schema.get(part, {}) if isinstance(schema, dict) else {}
            given = schema
        raise OptionError(f"payloadSchema has something for {name} that is no schema: {given!r}")

    def _kind(self, schema: Mapping[str, Any], name: str) -> str:
        """The one type beside null."""
        given = schema.get("type") or [of_value(each) for each in schema.get("enum", [schema.get("const")])]
        kinds = {each for each in (given if isinstance(given, list) else [given]) if each != "null"}
        if kinds == {"integer", "number"}:
            return "number"
        if len(kinds) != 1 or not kinds <= {*TYPES, "array", "object"}:
            raise OptionError(
                f"payloadSchema gives {name} no single type, and a column has one: give it a type, or leave it out of"
                " properties"
            )
        return str(kinds.pop())


def of_value(value: Any) -> str:
    """The JSON type of a constant."""
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "integer", float: "number"}.get(type(value), "null")
