"""Payloads of DUMP, written and read with all steps at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from crdtstream.core.values.entry_id import EntryId
from crdtstream.protocols.crc64 import crc64
from crdtstream.protocols.dump_writing import dumping
from crdtstream.protocols.stream_dump import BYTES_MAX, VERSION_MAX, DumpedEntry, DumpSink, StreamDump, reading

T = TypeVar("T")


def dumped(stream: StreamDump, entries: list[DumpedEntry]) -> bytes:
    return done(dumping(stream, iter(entries)))


def sealed(body: bytes, version: int = VERSION_MAX) -> bytes:
    """A payload of these bytes."""
    body += version.to_bytes(2, "little")
    return body + crc64(body).to_bytes(8, "little")


def restored(payload: bytes, bytes_max: int = BYTES_MAX) -> tuple[StreamDump, list[DumpedEntry]]:
    sink = Kept()
    return done(reading(payload, sink, bytes_max)), sink.entries


class Kept(DumpSink):
    """All entries, in a list."""

    def __init__(self) -> None:
        self.entries: list[DumpedEntry] = []

    def add(self, entry_id: EntryId, fields: list[bytes]) -> None:
        self.entries.append((entry_id, fields))


def done(steps: Generator[int, None, T]) -> T:
    """What these steps return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
