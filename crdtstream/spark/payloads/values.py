"""Values as decoders of JSON, Avro and Protobuf return them, converted to what pyarrow makes arrays of.

JSON has no dates, times, decimals or bytes: they are strings there, in ISO 8601, as a number, in base64, as Spark's own
`to_json` writes them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

Converter = Callable[[Any], Any]
Convert = Callable[[Any], Any]


def converted_to(kind: pa.DataType) -> Convert:
    """How a list of values becomes an array."""
    convert = converter(kind)
    return lambda values: pa.array(map(convert, values), kind)


def json_to(kind: pa.DataType) -> Convert:
    """How an array of JSON becomes one of values."""
    convert = converter(kind)

    def parse(text: Any) -> Any:
        return None if text is None else convert(json.loads(text, parse_float=Decimal))

    return lambda texts: pa.array(map(parse, texts.to_pylist()), kind)


def same(value: Any) -> Any:
    return value


def converter(kind: pa.DataType) -> Converter:
    """What converts a value for pyarrow; it raises ValueError, TypeError or OverflowError."""
    if pa.types.is_map(kind):
        return of_map(converter(kind.item_type))
    if pa.types.is_list(kind):
        return of_list(converter(kind.value_type))
    if pa.types.is_struct(kind):
        return of_struct({field.name: converter(field.type) for field in kind})
    return next((convert for holds, convert in SCALARS if holds(kind)), same)


def of_list(item: Converter) -> Converter:
    def convert(value: Any) -> Any:
        if isinstance(value, str | bytes | dict):
            raise TypeError(value)
        return None if value is None else [item(each) for each in value]

    return convert


def of_map(item: Converter) -> Converter:
    def convert(value: Any) -> Any:
        return None if value is None else [(key, item(each)) for key, each in members_of(value).items()]

    return convert


def of_struct(members: dict[str, Converter]) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        given = members_of(value)
        return {name: each(given.get(name)) for name, each in members.items()}

    return convert


def members_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def to_date(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def to_time(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def to_decimal(value: Any) -> Any:
    return Decimal(str(value)) if isinstance(value, str | int | float) else value


def to_bytes(value: Any) -> Any:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value


def to_integer(value: Any) -> Any:
    """Whole numbers alone: pyarrow would accept true as 1, and 1.5 as 1."""
    if isinstance(value, bool) or (isinstance(value, float | Decimal) and value != int(value)):
        raise TypeError(value)
    return int(value) if isinstance(value, Decimal) else value


def to_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value) if isinstance(value, Decimal) else value


SCALARS: Final[tuple[tuple[Callable[[pa.DataType], bool], Converter], ...]] = (
    (pa.types.is_date, to_date),
    (pa.types.is_timestamp, to_time),
    (pa.types.is_decimal, to_decimal),
    (pa.types.is_binary, to_bytes),
    (pa.types.is_integer, to_integer),
    (pa.types.is_floating, to_number),
)
