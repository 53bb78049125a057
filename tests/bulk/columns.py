"""Rows as a client of the bulk port sends them, and entries as it receives them."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable
from typing import Any

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk.rows import EntryRows, identify, place, rows_of
from crdtstream.core.entries.encoding import entry_fields

Fields = list[bytes]
Entry = tuple[int, tuple[int, int], Fields]


def row_data(fields: Fields) -> bytes:
    """As the contract has it; independent of the code that is tested."""
    parts = [b"*%d\r\n" % len(fields)]
    for field in fields:
        parts += [b"$%d\r\n" % len(field), field, b"\r\n"]
    return b"".join(parts)


def u64(values: Iterable[int]) -> bytes:
    return b"".join(struct.pack("<Q", value) for value in values)


def u32(values: Iterable[int]) -> bytes:
    return b"".join(struct.pack("<I", value) for value in values)


def message_of(
    rows: list[Fields],
    streams: list[bytes] | None = None,
    stream_of: list[int] | None = None,
    ids: list[tuple[int, int]] | None = None,
    **settings: Any,
) -> bulk.Rows:
    data = [row_data(row) for row in rows]
    ends: list[int] = []
    for one in data:
        ends.append((ends[-1] if ends else 0) + len(one))
    message = bulk.Rows(
        streams=[b"s"] if streams is None else streams,
        stream_of=u32(stream_of or []),
        count=len(rows),
        ends=u32(ends),
        data=b"".join(data),
        **settings,
    )
    if ids is not None:
        message.ms = u64(one[0] for one in ids)
        message.id_seqs = u64(one[1] for one in ids)
    return message


def parsed(message: bulk.Rows) -> EntryRows:
    rows = rows_of(message.database, list(message.streams), message.count, message.ends, message.data)
    place(rows, message.stream_of)
    identify(rows, message.ms, message.id_seqs, message.skip_lower_ids)
    return rows


def entries_of(columns: Any) -> list[Entry]:
    """Seq, ID and fields of each entry of a Portion or an Entries message; each entry's own ID must be that ID."""
    seqs, ms, id_seqs = (array("Q", part) for part in (columns.seqs, columns.ms, columns.id_seqs))
    data: bytes = columns.data
    found: list[Entry] = []
    start = 0
    for at, end in enumerate(array("I", columns.ends)):
        entry = data[start:end]
        text = b"%d-%d" % (ms[at], id_seqs[at])
        assert entry.startswith(b"*2\r\n$%d\r\n%b\r\n" % (len(text), text))
        found.append((seqs[at], (ms[at], id_seqs[at]), entry_fields(entry)))
        start = end
    assert start == len(data) and len(found) == columns.count
    return found
