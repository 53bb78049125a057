"""Upper bounds of the bytes that effects take in a batch, without encoding them.

The encodings are in protocols/effect_rows.py; tests compare the two. All numbers are of at most 9 bytes, and columns
have 8 bytes for each integer.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core import effects as fx

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
# DEL of the target and of the source, last ID, expiry, and what made a hidden or expired key go before.
OTHER_EFFECTS: Final = 8


def effect_bytes(effect: fx.Effect) -> int:
    size = EFFECT_BYTES + len(effect.key[1])
    if isinstance(effect, fx.EntriesAdded):
        return size + ENTRY_BYTES * effect.width + effect.block.byte_size(effect.low, effect.high)
    if isinstance(effect, fx.EntriesRemoved):
        size += sum([ORIGIN_BYTES + RANGE_BYTES * len(ranges) for ranges in effect.ranges.values()])
        return size + sum([ORIGIN_BYTES + INTERVAL_BYTES * len(pieces) for pieces in effect.references.values()])
    if isinstance(effect, fx.StreamDeleted):
        return size + COUNT_BYTES * len(effect.counts)
    if isinstance(effect, fx.GroupCreated):
        return size + len(effect.group) + START_BYTES * len(effect.start.ids)
    if isinstance(effect, fx.Acknowledged):
        size += len(effect.group) + ORIGIN_BYTES * len(effect.creates)
        return size + sum([ORIGIN_BYTES + INTERVAL_BYTES * len(pieces) for pieces in effect.runs.values()])
    if isinstance(effect, fx.GroupDestroyed):
        return size + len(effect.group)
    return size


def entry_bytes(name: bytes, fields: list[bytes]) -> int:
    """One entry that is added to this key, which may be hidden and is deleted then."""
    size = sum(map(len, fields)) + FIELD_BYTES * (len(fields) + 1)
    return size + ID_TEXT_BYTES + ENTRY_BYTES + OTHER_EFFECTS * EFFECT_BYTES + 3 * len(name)
