"""A replicated state as one sequence of rows, cut into chunks of any size.

    head       the vector at which the state was captured, the founders and the members
    context    the context of one origin's last batch; for each origin that may send more batches
    streams    the rows of state_rows.py; streams come in any order
    tail       the number of streams

A chunk may end inside a row, so chunk sizes do not depend on the content. Malformed bytes raise `CodecError`.
"""

from __future__ import annotations

from typing import Final

import msgpack

from crdtstream.core.effects import Key
from crdtstream.core.members import MemberRow, Members
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.whole_state import WholeState
from crdtstream.protocols.columns import (
    CodecError,
    column,
    read_column,
    read_origin,
    read_row,
    read_vector,
    vector_column,
)
from crdtstream.protocols.member_rows import member_column, read_members
from crdtstream.protocols.rows import Row, RowStream
from crdtstream.protocols.state_rows import Spill, StateReader

_HEAD: Final = 100
_TAIL: Final = 101
_CONTEXT: Final = 102


class Drafting:
    """Packs rows into a buffer and cuts chunks from it."""

    __slots__ = ("_buffer", "_packer")

    def __init__(self) -> None:
        self._packer = msgpack.Packer()
        self._buffer = bytearray()

    def put(self, rows: list[Row]) -> None:
        for row in rows:
            self._buffer += self._packer.pack(row)

    def byte_count(self) -> int:
        return len(self._buffer)

    def read(self, bytes_max: int) -> bytes:
        chunk = bytes(self._buffer[:bytes_max])
        del self._buffer[:bytes_max]
        return chunk


def head_row(vector: VersionVector, founders: list[int], members: list[MemberRow]) -> Row:
    return (_HEAD, vector_column(vector), column(founders), member_column(members))


def context_row(origin: int, context: VersionVector) -> Row:
    return (_CONTEXT, origin, vector_column(context))


def tail_row(count: int) -> Row:
    return (_TAIL, count)


class TransferReader(WholeState):
    """Assembles a state from chunks, with the founders of its cluster; `done` once it is complete."""

    __slots__ = ("_begun", "_reader", "_rows", "done", "founders")

    def __init__(self, spill: Spill | None = None) -> None:
        super().__init__()
        self._rows = RowStream()
        self._reader = StateReader({}, spill)
        self.founders: list[int] = []
        self.done = False
        self._begun = False

    def feed(self, chunk: bytes) -> None:
        self._rows.feed(chunk)
        row = self._rows.next()
        while row is not None:
            self._parse(row)
            row = self._rows.next()

    def _parse(self, row: Row) -> None:
        kind = row[0]
        if self.done:
            raise CodecError("rows come after the end of a state")
        if (kind == _HEAD) == self._begun:
            raise CodecError("a state must start with exactly one head row")
        if kind == _HEAD:
            self._begun = True
            self._read_head(row)
        elif kind == _CONTEXT:
            _, origin, context = read_row(row, 3, "context")
            self.contexts[read_origin(origin, "context")] = read_vector(context)
        elif kind == _TAIL:
            self._put(self._reader.end())
            if read_row(row, 2, "tail")[1] != len(self.streams):
                raise CodecError(f"the tail announces {row[1]} streams, {len(self.streams)} arrived")
            self.done = True
        else:
            self._put(self._reader.add(row))

    def _read_head(self, row: Row) -> None:
        _, vector, founders, members = read_row(row, 4, "head")
        self.members = Members.of_rows(read_members(members))
        self.vector = read_vector(vector)
        self.founders = [read_origin(origin, "founders") for origin in read_column(founders, "founders")]

    def _put(self, done: tuple[Key, Stream | None, int] | None) -> None:
        if done is None:
            return
        key, stream, _ = done
        if stream is None or key in self.streams:
            raise CodecError(f"key {key[1]!r} comes twice, or is marked as gone")
        self.streams[key] = stream
