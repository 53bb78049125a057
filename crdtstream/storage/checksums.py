"""CRC-32 of what is written to the disk and read from it: every record of the log, every section of a checkpoint."""

from __future__ import annotations

import zlib
from collections.abc import Callable

Crc32 = Callable[[bytes | memoryview, int], int]


def find_crc32() -> Crc32:
    """ISA-L's, where there is one: the same sums, in a tenth of the time."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.crc32
    faster: Crc32 = isal_zlib.crc32
    return faster


# crc32(data, seed); the seed is the checksum of what comes before, or 0.
crc32 = find_crc32()
