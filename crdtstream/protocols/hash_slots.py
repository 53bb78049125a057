"""Hash slots: the number that Redis Cluster gives to a key, by which a shard is found.

Of a key with a *hash tag*, which is what stands between its first `{` and the next `}` if that is not empty, only the
tag counts. So keys that belong together can be kept together.

Reference: `keyHashSlot` of Redis. `crc_hqx` from 0 on is the CRC-16/XMODEM that Redis uses.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import Final

HASH_SLOTS: Final = 16_384


def hash_slot_of(key: bytes) -> int:
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin + 1)
        if end > begin + 1:
            key = key[begin + 1 : end]
    return crc_hqx(key, 0) & (HASH_SLOTS - 1)
