"""Upper bounds of the bytes that parts of effects take in a batch, for `Effect.bytes_max`.

The encodings are in protocols/effect_rows.py; tests compare the two. All numbers are of at most 9 bytes, and columns
have 8 bytes for each integer.
"""

from __future__ import annotations

from typing import Final

# The numbers and the headers of a row.
EFFECT_BYTES: Final = 96
# An entry besides its own bytes: its columns.
ENTRY_BYTES: Final = 24
# An entry's ID as text, and the headers of a field or a value, in RESP.
ID_TEXT_BYTES: Final = 64
FIELD_BYTES: Final = 16
ORIGIN_BYTES: Final = 16
RANGE_BYTES: Final = 16
INTERVAL_BYTES: Final = 32
COUNT_BYTES: Final = 32
START_BYTES: Final = 32
# DEL of the target and of the source, last ID, expiry, properties, and what made a hidden or expired key go before.
OTHER_EFFECTS: Final = 8


def values_bytes(values: dict[bytes, bytes]) -> int:
    """Properties: names and values with their lengths."""
    return sum([2 * ORIGIN_BYTES + len(name) + len(value) for name, value in values.items()])


def entry_bytes(name: bytes, fields: list[bytes]) -> int:
    """One entry that is added to this key, which may be hidden and is deleted then."""
    size = sum(map(len, fields)) + FIELD_BYTES * (len(fields) + 1)
    return size + ID_TEXT_BYTES + ENTRY_BYTES + OTHER_EFFECTS * EFFECT_BYTES + 4 * len(name)
