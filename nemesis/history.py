"""What clients asked of regions and what they were answered, as the checker reads it.

Times are of one monotonic clock that all clients share. An operation whose answer never came is UNKNOWN and may take
effect at any later time, so its end is infinite; one that was REFUSED has no effect at all.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

ADD = "XADD"
REMOVE = "XDEL"
DELETE = "DEL"
READ = "XREADGROUP"
RANGE = "XRANGE"
ACKNOWLEDGE = "XACK"

DONE = "done"
REFUSED = "refused"
UNKNOWN = "unknown"
NEVER_S = math.inf

EntryID = tuple[int, int]
Entry = tuple[EntryID, str]
ORIGIN_SLOTS = 1 << 16
REGION_SLOTS = 1 << 8


@dataclass(frozen=True, slots=True)
class Operation:
    """One command at one region.

    `ids` are those that it names, or for an XADD the one that it was given; `token` is what an XADD wrote, different
    in each; `count` is the number that XDEL, DEL or XACK answered; `entries` are what a reading gave, in order; `fresh`
    says that an XREADGROUP asked for `>`, `low` where an XRANGE began.
    """

    region: int
    kind: str
    key: str
    begun_s: float
    ended_s: float
    outcome: str = DONE
    ids: tuple[EntryID, ...] = ()
    token: str = ""
    count: int = 0
    entries: tuple[Entry, ...] = ()
    fresh: bool = False
    low: EntryID = (0, 0)
    error: str = ""

    def row(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""
        return asdict(self) | {"ended_s": None if self.ended_s == NEVER_S else self.ended_s}


@dataclass(frozen=True, slots=True)
class Loss:
    """The disk of a region was gone for good at this time, and with it whatever no other region held."""

    region: int
    at_s: float


def entry_id(text: bytes) -> EntryID:
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)


def text_of(at: EntryID) -> str:
    return f"{at[0]}-{at[1]}"


def slot_of(at: EntryID) -> int:
    """The origin that minted an ID in strict mode."""
    return at[1] % ORIGIN_SLOTS


def region_of(at: EntryID) -> int:
    """The region of that origin."""
    return slot_of(at) % REGION_SLOTS
