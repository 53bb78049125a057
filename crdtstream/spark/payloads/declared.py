"""What the option `payloadSchema` declares: names and types of columns, and how they lie in an entry.

A DDL string declares fields of the entry, or with `payloadField` the members of JSON in that field. A file declares
what one field holds: `*.json` JSON by a JSON Schema, `*.avsc` Avro, `*.desc`, `*.pb` or `*.binpb` Protobuf by a
descriptor set. The file is read on the driver; what is pickled for tasks has its content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

from crdtstream.spark.ack import files_of
from crdtstream.spark.options import OptionError, Options

DDL, JSON_SCHEMA, AVRO, PROTOBUF = "ddl", "json", "avro", "protobuf"
KINDS: Final = {
    ".json": JSON_SCHEMA,
    ".avsc": AVRO,
    ".desc": PROTOBUF,
    ".pb": PROTOBUF,
    ".binpb": PROTOBUF,
}
FIELD: Final = "payload"
COMPANIONS: Final = ("payloadField", "payloadColumn", "payloadMessage", "payloadOlderSchemas")
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'")
_NESTED: Final = re.compile(r"<[^<>]*>|\([^()]*\)")
# A comma that is in no quoted name.
_COMMA: Final = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")
_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))")


class PayloadCodec(Protocol):
    """Decodes and encodes one payload. `decode` raises UndecodablePayload, `encode` UnencodableRow."""

    @property
    def ddl(self) -> str: ...

    def decode(self, payload: bytes) -> dict[str, Any]: ...

    def encode(self, row: dict[str, Any]) -> bytes: ...


@dataclass(frozen=True, slots=True)
class PayloadSchema:
    """The option and its companions; `definition` is a DDL string or the content of a file."""

    kind: str
    definition: bytes
    # The field that holds the payload; empty if the fields of the entry are the columns.
    field: str
    # A column for the whole payload, as a struct; empty if each member has a column.
    column: str
    message: str
    # Schemas in which older payloads were written.
    older: tuple[bytes, ...] = ()

    @property
    def ddl(self) -> str:
        """The columns as Spark has them."""
        inner = self.definition.decode() if self.kind == DDL else codec_of(self).ddl
        return f"`{self.column}` struct<{inner}>" if self.column else inner

    @property
    def names(self) -> list[str]:
        return names_of(self.ddl)


def declared(options: Options) -> PayloadSchema | None:
    """What the options declare; None without a schema."""
    given: str | None = options["payloadSchema"]
    if given is None:
        for name in COMPANIONS:
            if options[name]:
                raise OptionError(f"{name} was given without payloadSchema: add it, or leave {name} out")
        return None
    suffix = PurePosixPath(given).suffix
    if suffix == ".proto":
        raise OptionError(
            f"payloadSchema is {given}, but a descriptor set is needed: protoc --include_imports"
            f" --descriptor_set_out={PurePosixPath(given).stem}.desc {given}"
        )
    kind = KINDS.get(suffix, DDL)
    field = options["payloadField"] or ("" if kind == DDL else FIELD)
    definition = given.encode() if kind == DDL else content(given)
    older = tuple(content(each) for each in options["payloadOlderSchemas"] or ())
    if older and kind != AVRO:
        raise OptionError("payloadOlderSchemas is for Avro: other payloads are read by a schema that has grown")
    column, message = options["payloadColumn"] or "", options["payloadMessage"] or ""
    return PayloadSchema(kind, definition, field, column, message, older)


def content(place: str) -> bytes:
    """The content of a schema's file, by path or URI."""
    files, path = files_of(place)
    try:
        with files.open_input_stream(path) as stream:
            return bytes(stream.read())
    except OSError as error:
        text = f"payloadSchema {place} cannot be read on the driver: {error}; write a DDL string, or the path of a file"
        raise OptionError(text) from None


@cache
def codec_of(schema: PayloadSchema) -> PayloadCodec:
    """The codec of a payload in one field; libraries are imported with the first one that needs them."""
    if schema.kind == AVRO:
        from crdtstream.spark.payloads.avro_codec import AvroCodec

        return AvroCodec(schema.definition, schema.older)
    if schema.kind == PROTOBUF:
        from crdtstream.spark.payloads.protobuf_codec import ProtobufCodec

        return ProtobufCodec(schema.definition, schema.message)
    from crdtstream.spark.payloads.json_codec import JsonCodec

    return JsonCodec(schema.definition if schema.kind == JSON_SCHEMA else None)


def names_of(ddl: str) -> list[str]:
    """The names of a DDL string's columns; Spark parses the rest, in the JVM."""
    bare = _QUOTED.sub("", ddl)
    while _NESTED.search(bare):
        bare = _NESTED.sub("", bare)
    found = [_NAME.match(each) for each in _COMMA.split(bare) if each.strip()]
    return [(match[1] or match[2]).replace("``", "`") for match in found if match]
