"""Hash slots: the number that Redis Cluster gives to a key, by which a shard is found.

Of a key with a *hash tag*, which is what stands between its first `{` and the next `}` if that is not empty, only the
tag counts. So keys that belong together can be kept together.

The shards of a region have ranges of them, as equal as can be, in order: those of `redis-cli --cluster create`.

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


def slot_ranges(count: int) -> list[tuple[int, int]]:
    """The first and the last hash slot of each of so many shards."""
    ends = [last_slot_of(number, count) for number in range(count)]
    return list(zip([0, *[end + 1 for end in ends[:-1]]], ends, strict=True))


def last_slot_of(shard: int, count: int) -> int:
    return (2 * (shard + 1) * HASH_SLOTS + count) // (2 * count) - 1


def shard_of(key: bytes, count: int) -> int:
    """The number of the shard that has this key, of so many."""
    hash_slot = hash_slot_of(key)
    number = hash_slot * count // HASH_SLOTS
    # Ends are rounded, so it may be the shard beside this one.
    if hash_slot > last_slot_of(number, count):
        return number + 1
    return number - 1 if number and hash_slot <= last_slot_of(number - 1, count) else number
