"""CRC-64 as Redis computes it: polynomial 0xad93d23594c935a9 (Jones), reflected, initial value 0.

Reference: `crc64.c` of Redis; the check value of "123456789" is 0xe9c6d914c4b8d9ca.
"""

from __future__ import annotations

from typing import Final

from crcmod import mkCrcFun

# With the leading bit, which the polynomial leaves out.
POLYNOMIAL: Final = 0x1_AD93_D235_94C9_35A9

_crc = mkCrcFun(POLYNOMIAL, initCrc=0, rev=True)


def crc64(data: bytes | memoryview, before: int = 0) -> int:
    """The checksum of `data`, behind bytes that have the checksum `before`."""
    found: int = _crc(data, before)
    return found
