"""Shapes of the plain values in calls: what is read has this shape and these types, or is refused where it arrives.

A shape reads a value from what msgpack has unpacked, and writes it as what msgpack can pack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from crdtstream.partitions.epochs import OFFSET_END
from crdtstream.partitions.values import UNCOMMITTED


class CallMalformed(Exception):
    """A call or a reply has another shape than it should; the text says what is wrong."""


class Shape:
    """How one kind of value is read and written; `read` raises CallMalformed and nothing else."""

    __slots__ = ("read", "write")

    def __init__(self, read: Callable[[Any], Any], write: Callable[[Any], Any]) -> None:
        self.read = read
        self.write = write


NamedShape = tuple[str, Shape]


def kind_of(value: Any) -> str:
    return type(value).__name__


def number_in(value: Any) -> Any:
    # A bool is an int to Python, and something else on the wire.
    if not isinstance(value, int) or isinstance(value, bool):
        raise CallMalformed(f"expected a whole number, not {kind_of(value)}")
    return value


def count_in(value: Any) -> Any:
    if number_in(value) < 0:
        raise CallMalformed(f"expected a number from 0 on, not {value}")
    return value


def offset_in(value: Any) -> Any:
    if not UNCOMMITTED <= number_in(value) <= OFFSET_END:
        raise CallMalformed(f"expected an offset, not {value}")
    return value


def text_in(value: Any) -> Any:
    if not isinstance(value, str):
        raise CallMalformed(f"expected a text, not {kind_of(value)}")
    return value


def octets_in(value: Any) -> Any:
    if not isinstance(value, bytes):
        raise CallMalformed(f"expected bytes, not {kind_of(value)}")
    return value


def flag_in(value: Any) -> Any:
    if not isinstance(value, bool):
        raise CallMalformed(f"expected true or false, not {kind_of(value)}")
    return value


def nothing_in(value: Any) -> Any:
    if value is not None:
        raise CallMalformed(f"expected nothing, not {kind_of(value)}")
    return value


def list_in(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise CallMalformed(f"expected a list, not {kind_of(value)}")
    return value


def same(value: Any) -> Any:
    return value


NUMBER: Final = Shape(number_in, same)
COUNT: Final = Shape(count_in, same)
OFFSET: Final = Shape(offset_in, same)
TEXT: Final = Shape(text_in, same)
OCTETS: Final = Shape(octets_in, same)
FLAG: Final = Shape(flag_in, same)
NOTHING: Final = Shape(nothing_in, same)


def optional(shape: Shape) -> Shape:
    """The value, or nothing."""
    return Shape(
        lambda value: None if value is None else shape.read(value),
        lambda value: None if value is None else shape.write(value),
    )


def list_of(shape: Shape) -> Shape:
    return Shape(
        lambda value: [shape.read(one) for one in list_in(value)],
        lambda value: [shape.write(one) for one in value],
    )


def fields_in(value: Any, fields: list[NamedShape]) -> list[Any]:
    """The values of these fields, which come in this order."""
    found = list_in(value)
    if len(found) != len(fields):
        raise CallMalformed(f"expected {len(fields)} values, not {len(found)}")
    return [field_in(name, shape, one) for (name, shape), one in zip(fields, found, strict=True)]


def field_in(name: str, shape: Shape, value: Any) -> Any:
    try:
        return shape.read(value)
    except CallMalformed as error:
        raise CallMalformed(f"{name}: {error}") from error


def record_of(kind: Callable[..., Any], fields: list[NamedShape]) -> Shape:
    """An object with these attributes, which are the arguments that make it."""
    return Shape(
        lambda value: kind(*fields_in(value, fields)),
        lambda value: [shape.write(getattr(value, name)) for name, shape in fields],
    )


def pair_of(first: NamedShape, second: NamedShape) -> Shape:
    return Shape(
        lambda value: tuple(fields_in(value, [first, second])),
        lambda value: [first[1].write(value[0]), second[1].write(value[1])],
    )
