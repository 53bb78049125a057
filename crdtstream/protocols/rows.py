"""Payloads that are a sequence of msgpack rows, read row by row.

A row is an array of at most `_ROW_MAX` values. Lists inside a row are columns of bytes, never arrays, so a declared
count cannot reserve memory that the bytes themselves do not fill.

Reference: the msgpack specification.
"""

from __future__ import annotations

from typing import Final

import msgpack

from crdtstream.protocols.columns import CodecError

Row = tuple[object, ...]

_ROW_MAX: Final = 16
# A payload may be long, and its first row is mostly short.
_FIRST_BYTES: Final = 512
_ROW_BYTES_MAX: Final = (1 << 31) - 1


class TooShort(CodecError):
    """The bytes end inside a row, or before one."""


class Rows:
    """A reader for the rows of a complete payload."""

    __slots__ = ("_size", "_unpacker")

    def __init__(self, payload: bytes) -> None:
        if not payload:
            raise TooShort("the payload is empty")
        self._size = len(payload)
        self._unpacker = msgpack.Unpacker(
            None,
            use_list=False,
            raw=True,
            read_size=self._size,
            max_buffer_size=self._size,
            max_array_len=_ROW_MAX,
            max_map_len=0,
            max_ext_len=0,
        )
        self._unpacker.feed(payload)

    def next(self) -> Row:
        try:
            row: object = self._unpacker.unpack()
        except msgpack.OutOfData:
            raise TooShort(f"the payload ends early, after {self._size} bytes") from None
        except (ValueError, msgpack.UnpackException) as error:
            raise CodecError(f"not msgpack of this format: {error}") from error
        return row if type(row) is tuple and row else _checked(row)

    def row(self, size: int, what: str) -> Row:
        """The next row, which must have this many values."""
        row = self.next()
        if len(row) != size:
            raise CodecError(f"{what}: not a row of {size} values")
        return row

    def skip(self) -> None:
        self._unpacker.skip()

    def done(self) -> bool:
        return self._unpacker.tell() == self._size

    def end(self) -> None:
        rest = self._size - self._unpacker.tell()
        if rest:
            raise CodecError(f"{rest} bytes follow the last row")


def first_row(payload: bytes, size: int, what: str) -> Row:
    """The first row of a payload, which must have this many values; the others are not read."""
    try:
        return Rows(payload[:_FIRST_BYTES]).row(size, what)
    except TooShort:
        return Rows(payload).row(size, what)


def after_first_row(payload: bytes) -> Rows:
    """A reader behind the first row, which was decoded before."""
    rows = Rows(payload)
    rows.skip()
    return rows


class RowStream:
    """A reader for rows that arrive in pieces, which may be cut anywhere."""

    __slots__ = ("_unpacker",)

    def __init__(self) -> None:
        self._unpacker = msgpack.Unpacker(
            None,
            use_list=False,
            raw=True,
            max_buffer_size=_ROW_BYTES_MAX,
            max_array_len=_ROW_MAX,
            max_map_len=0,
            max_ext_len=0,
        )

    def feed(self, piece: bytes) -> None:
        try:
            self._unpacker.feed(piece)
        except (ValueError, msgpack.BufferFull) as error:
            raise CodecError(f"a row of more than {_ROW_BYTES_MAX} bytes") from error

    def next(self) -> Row | None:
        """The next row; None until it has arrived completely."""
        try:
            row: object = self._unpacker.unpack()
        except msgpack.OutOfData:
            return None
        except (ValueError, msgpack.UnpackException) as error:
            raise CodecError(f"not msgpack of this format: {error}") from error
        return _checked(row)


def _checked(row: object) -> Row:
    if not isinstance(row, tuple) or not row:
        raise CodecError(f"expected a row, not {type(row).__name__}")
    return row
