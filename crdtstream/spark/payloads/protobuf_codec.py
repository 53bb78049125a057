"""Protobuf in one field, by a descriptor set of `protoc --include_imports --descriptor_set_out`.

Types are those of Spark's `from_protobuf`; wrappers are what they wrap. A field that was not set is null if its absence
is known, as that of a message or an `optional`, and otherwise its default.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from crdtstream.spark.options import OptionError
from crdtstream.spark.payloads.errors import UndecodablePayload, UnencodableRow

SCALARS: Final = {
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20, 0)",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_ENUM: "string",
    FieldDescriptor.CPPTYPE_STRING: "string",
}
TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


class ProtobufCodec:
    """Messages of one type; without its name the only one of the last file in the set."""

    def __init__(self, definition: bytes, message: str) -> None:
        try:
            files = list(descriptor_pb2.FileDescriptorSet.FromString(definition).file)
        except DecodeError:
            files = []
        if not files:
            raise OptionError(
                "payloadSchema is no descriptor set: make one with protoc --include_imports --descriptor_set_out"
            )
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in files:
                pool.Add(file)
            self._type = pool.FindMessageTypeByName(message or only_message(files[-1]))
        except (KeyError, TypeError) as error:
            raise OptionError(
                f"payloadSchema does not describe the message: {error}; name it with payloadMessage, and its package"
            ) from None
        self._class = message_factory.GetMessageClass(self._type)

    @property
    def ddl(self) -> str:
        return members(self._type, ())

    def decode(self, payload: bytes) -> dict[str, Any]:
        try:
            return as_row(self._class.FromString(payload))
        except (DecodeError, ValueError) as error:
            raise UndecodablePayload(f"no {self._type.full_name}: {error}") from None

    def encode(self, row: dict[str, Any]) -> bytes:
        try:
            return self._class(**as_members(self._type, row)).SerializeToString()
        except (EncodeError, ValueError, TypeError) as error:
            raise UnencodableRow(f"no {self._type.full_name}: {error}") from None


def only_message(file: Any) -> str:
    names = [each.name for each in file.message_type]
    if len(names) != 1:
        raise OptionError(f"payloadSchema has the messages {', '.join(names)}: name one with payloadMessage")
    return f"{file.package}.{names[0]}".removeprefix(".")


def members(kind: Descriptor, outer: tuple[str, ...]) -> str:
    if kind.full_name in outer:
        raise OptionError(f"payloadSchema nests {kind.full_name} in itself: Spark has no recursive types")
    return ", ".join(f"`{field.name}` {type_of(field, (*outer, kind.full_name))}" for field in kind.fields)


def type_of(field: Any, outer: tuple[str, ...]) -> str:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{single(key, outer)}, {single(value, outer)}>"
    return f"array<{single(field, outer)}>" if field.is_repeated else single(field, outer)


def single(field: Any, outer: tuple[str, ...]) -> str:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "binary"
    if field.message_type is None:
        return SCALARS[field.cpp_type]
    name = field.message_type.full_name
    if name in WRAPPERS:
        return single(field.message_type.fields_by_name["value"], outer)
    if name in (TIMESTAMP, DURATION):
        return "timestamp" if name == TIMESTAMP else "interval day to second"
    return f"struct<{members(field.message_type, outer)}>"


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def as_row(message: Message) -> dict[str, Any]:
    return {field.name: value_of(message, field) for field in message.DESCRIPTOR.fields}


def value_of(message: Message, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if is_map(field):
        item = field.message_type.fields_by_name["value"]
        return {key: decoded(each, item) for key, each in value.items()}
    return [decoded(each, field) for each in value] if field.is_repeated else decoded(value, field)


def decoded(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return value.ToDatetime(UTC)
    if name == DURATION:
        return value.ToTimedelta()
    return value.value if name in WRAPPERS else as_row(value)


def as_members(kind: Descriptor, row: dict[str, Any]) -> dict[str, Any]:
    """What the class of a message is called with; what is null is not set."""
    return {name: encoded(value, kind.fields_by_name[name]) for name, value in row.items() if value is not None}


def encoded(value: Any, field: Any) -> Any:
    if is_map(field):
        item = field.message_type.fields_by_name["value"]
        return {key: encoded_one(each, item) for key, each in pairs_of(value)}
    return [encoded_one(each, field) for each in value] if field.is_repeated else encoded_one(value, field)


def pairs_of(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else value


def encoded_one(value: Any, field: Any) -> Any:
    if field.message_type is None:
        return int(value) if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else value
    name = field.message_type.full_name
    if name in (TIMESTAMP, DURATION):
        return value
    return {"value": value} if name in WRAPPERS else as_members(field.message_type, value)
