"""Entries as the bytes that are sent to clients, the same in RESP2 and RESP3:

    *2\\r\\n $<n>\\r\\n<ms-seq>\\r\\n *<2k>\\r\\n $<n>\\r\\n<field>\\r\\n $<n>\\r\\n<value>\\r\\n ...

Reference: the RESP specification.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.values.entry_id import EntryId

_HEADER_SIZES: Final = 512
_CRLF: Final = b"\r\n"
# Each header starts with the line end of the element before it, so one join of header and value needs no separator.
_BULK_HEADERS: Final = [b"\r\n$%d\r\n" % size for size in range(_HEADER_SIZES)]
_ID_HEADERS: Final = [b"$%d\r\n" % size for size in range(42)]
_ARRAY_HEADERS: Final = [b"\r\n*%d" % size for size in range(_HEADER_SIZES)]


def encode_entry(entry_id: EntryId, fields: list[bytes]) -> bytes:
    """The reply that serves this entry; `fields` is field, value, field, value, ..."""
    return encode_named(id_reply(b"%d-%d" % entry_id), fields)


def id_reply(text: bytes) -> bytes:
    """An ID's text as a RESP bulk string, without the final line end."""
    return _ID_HEADERS[len(text)] + text


def encode_named(name: bytes, fields: list[bytes]) -> bytes:
    """Like `encode_entry`, with the ID already encoded by `id_reply`."""
    count = len(fields)
    if count == 2:
        field, value = fields
        size, value_size = len(field), len(value)
        if size < _HEADER_SIZES and value_size < _HEADER_SIZES:
            headers = _BULK_HEADERS
            return b"*2\r\n%b\r\n*2%b%b%b%b\r\n" % (name, headers[size], field, headers[value_size], value)
    parts = [b"*2\r\n", name, array_header(count)]
    for field in fields:
        parts.append(bulk_header(len(field)))
        parts.append(field)
    parts.append(_CRLF)
    return b"".join(parts)


def array_header(count: int) -> bytes:
    """The header of an array inside an entry, after the line end of what stands before it."""
    return _ARRAY_HEADERS[count] if count < _HEADER_SIZES else b"\r\n*%d" % count


def bulk_header(size: int) -> bytes:
    """The header of a bulk string inside an entry, after the line end of what stands before it."""
    return _BULK_HEADERS[size] if size < _HEADER_SIZES else b"\r\n$%d\r\n" % size


def entry_fields(entry: bytes) -> list[bytes]:
    """The fields of an encoded entry: field, value, field, value, ..."""
    return fields_at(entry, _after_id(entry))


def fields_at(entry: bytes, start: int) -> list[bytes]:
    """The fields whose array header starts at this offset."""
    end = entry.index(_CRLF, start)
    fields: list[bytes] = []
    offset = end + 2
    for _ in range(int(entry[start + 1 : end])):
        end = entry.index(_CRLF, offset)
        size = int(entry[offset + 1 : end])
        fields.append(entry[end + 2 : end + 2 + size])
        offset = end + 4 + size
    return fields


def _after_id(entry: bytes) -> int:
    """The offset of the `*` that starts the fields: it follows the lines `*2`, `$<n>` and the ID."""
    start = entry.index(_CRLF, 4) + 2
    return entry.index(_CRLF, start) + 2
