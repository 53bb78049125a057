"""Msgpack values written one by one, for the rows that most of a log of readers consists of.

The bytes are those of msgpack's own packer, without an object for each row and each number of it.

Reference: the msgpack specification.
"""

from __future__ import annotations

from typing import Final

import msgpack
from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be, write_i64_le
from mypy_extensions import i16, i32, i64

# Numbers below this one are native in compiled code; so are all origins and all times.
PLAIN_END: Final = 1 << 61
_I16_END: Final = 1 << 15
_I32_END: Final = 1 << 31

_ROW: Final = 0x90
_FALSE: Final = 0xC2
_TRUE: Final = 0xC3
_BIN_8: Final = 0xC4
_UINT_8: Final = 0xCC
_UINT_16: Final = 0xCD
_UINT_32: Final = 0xCE
_UINT_64: Final = 0xCF


def write_row(writer: BytesWriter, size: int) -> None:
    """Begin a row of at most 15 values, which follow."""
    writer.append(_ROW + size)


def write_number(writer: BytesWriter, number: int) -> None:
    if not 0 <= number < PLAIN_END:
        writer.write(msgpack.packb(number))
        return
    value: i64 = number
    if value < 1 << 7:
        writer.append(number)
    elif value < 1 << 8:
        writer.append(_UINT_8)
        writer.append(number)
    elif value < 1 << 16:
        writer.append(_UINT_16)
        write_i16_be(writer, i16(value if value < _I16_END else value - 2 * _I16_END))
    elif value < 1 << 32:
        writer.append(_UINT_32)
        write_i32_be(writer, i32(value if value < _I32_END else value - 2 * _I32_END))
    else:
        writer.append(_UINT_64)
        write_i64_be(writer, value)


def write_flag(writer: BytesWriter, flag: bool) -> None:
    writer.append(_TRUE if flag else _FALSE)


def write_bytes(writer: BytesWriter, value: bytes) -> None:
    size = len(value)
    if size < 1 << 8:
        writer.append(_BIN_8)
        writer.append(size)
        writer.write(value)
    else:
        writer.write(msgpack.packb(value))


def write_column_head(writer: BytesWriter, count: int) -> None:
    """Begin a column of at most 31 numbers, which follow, each by `write_in_column`."""
    writer.append(_BIN_8)
    writer.append(8 * count)


def write_in_column(writer: BytesWriter, number: int) -> None:
    if 0 <= number < PLAIN_END:
        write_i64_le(writer, number)
    else:
        writer.write(number.to_bytes(8, "little"))
