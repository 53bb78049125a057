"""CRC-64 as Redis computes it: polynomial 0xad93d23594c935a9 (Jones), reflected, initial value 0.

Reference: `crc64.c` of Redis; the check value of "123456789" is 0xe9c6d914c4b8d9ca.
"""

from __future__ import annotations

from typing import Final

REFLECTED: Final = 0x95AC9329AC4BC9B5


def row_of(byte: int) -> int:
    crc = byte
    for _ in range(8):
        crc = (crc >> 1) ^ (REFLECTED if crc & 1 else 0)
    return crc


TABLE: Final[list[int]] = [row_of(byte) for byte in range(256)]


def crc64(data: bytes) -> int:
    crc, table = 0, TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc
