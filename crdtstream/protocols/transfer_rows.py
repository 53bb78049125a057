"""A replicated state as one stream of rows, cut into chunks wherever a chunk is full.

    head     the vector that the state was taken at, the origins that it names, and the members
    rows     streams (see state_rows.py), in any order
    tail     how many streams there were

A chunk may end inside a row, so its size does not depend on what lies in it. Bad bytes raise `CodecError`.
"""

from __future__ import annotations

from typing import Final

import msgpack

from crdtstream.core.causality import Origin, VersionVector, incarnation_of, region_of
from crdtstream.core.effects import Key
from crdtstream.core.members import MemberRow, Members
from crdtstream.core.stream import Stream
from crdtstream.protocols.columns import (
    CodecError,
    column,
    flat,
    paired,
    read_column,
    read_counter,
    read_row,
    read_slot,
    read_u64,
)
from crdtstream.protocols.manifest import read_members
from crdtstream.protocols.rows import Row, RowStream
from crdtstream.protocols.state_rows import StateReader

_HEAD: Final = 100
_TAIL: Final = 101


class Drafting:
    """Rows in, chunks out."""

    __slots__ = ("_buffer", "_packer")

    def __init__(self) -> None:
        self._packer = msgpack.Packer()
        self._buffer = bytearray()

    def put(self, rows: list[Row]) -> None:
        for row in rows:
            self._buffer += self._packer.pack(row)

    def byte_count(self) -> int:
        return len(self._buffer)

    def take(self, bytes_max: int) -> bytes:
        chunk = bytes(self._buffer[:bytes_max])
        del self._buffer[:bytes_max]
        return chunk


def head_row(vector: VersionVector, origins: list[Origin], members: list[MemberRow]) -> Row:
    births = [(origin.slot, origin.nonce) for origin in origins]
    numbers = [number for row in members for number in row]
    return (_HEAD, column(flat(vector.items())), column(flat(births)), column(numbers))


def tail_row(count: int) -> Row:
    return (_TAIL, count)


class TransferReader:
    """Chunks in, a state out: `done` once all is there."""

    __slots__ = ("_reader", "_rows", "done", "members", "origins", "streams", "vector")

    def __init__(self) -> None:
        self._rows = RowStream()
        self._reader = StateReader({})
        self.vector = VersionVector()
        self.members = Members()
        self.origins: list[Origin] = []
        self.streams: dict[Key, Stream] = {}
        self.done = False

    def feed(self, chunk: bytes) -> None:
        self._rows.feed(chunk)
        row = self._rows.next()
        while row is not None:
            self._take(row)
            row = self._rows.next()

    def _take(self, row: Row) -> None:
        kind = row[0]
        if self.done:
            raise CodecError("rows behind the end of a state")
        if (kind == _HEAD) == bool(self.origins):
            raise CodecError("a state begins with one head")
        if kind == _HEAD:
            self._take_head(row)
        elif kind == _TAIL:
            self._put(self._reader.end())
            if read_row(row, 2, "tail")[1] != len(self.streams):
                raise CodecError(f"{len(self.streams)} streams came, the tail says {row[1]}")
            self.done = True
        else:
            self._put(self._reader.take(row))

    def _take_head(self, row: Row) -> None:
        _, counters, births, members = read_row(row, 4, "head")
        self.members = Members.of_rows(read_members(members))
        for slot, counter in paired(read_column(counters, "vector", 2)):
            self.vector.advance(read_slot(slot, "vector"), read_counter(counter, "vector"))
        for slot, nonce in paired(read_column(births, "origins", 2)):
            read_slot(slot, "origins")
            self.origins.append(Origin(region_of(slot), incarnation_of(slot), read_u64(nonce, "nonce")))
        if not self.origins:
            raise CodecError("a state without an origin")

    def _put(self, done: tuple[Key, Stream | None, int] | None) -> None:
        if done is None:
            return
        key, stream, _ = done
        if stream is None or key in self.streams:
            raise CodecError(f"key {key[1]!r} comes twice, or as one that is gone")
        self.streams[key] = stream
