"""What clients requested of regions and the replies, as the checker reads it.

Times are of one monotonic clock shared by all clients. An operation without a reply is UNKNOWN and may take effect at
any later time, so its end is infinite; a REFUSED operation has no effect at all.
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
SEQ_MODULUS = 1 << 16
REGIONS = 1 << 8


@dataclass(frozen=True, slots=True)
class Operation:
    """One command in one region.

    `ids` are those that it names, or for an XADD the one that it returned; `token` is what an XADD wrote, different in
    each; `count` is the reply of XDEL, DEL or XACK; `entries` are what a read returned, in order; `fresh` says that an
    XREADGROUP asked for `>`; `low` is where an XRANGE began.
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
        """Convert to JSON, which has no infinity."""
        return asdict(self) | {"ended_s": None if self.ended_s == NEVER_S else self.ended_s}


@dataclass(frozen=True, slots=True)
class Loss:
    """The disk of a region was lost for good at this time, with everything that no other region held."""

    region: int
    at_s: float


def entry_id(text: bytes) -> EntryID:
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)


def text_of(at: EntryID) -> str:
    return f"{at[0]}-{at[1]}"


def residue_of(at: EntryID) -> int:
    """Return the residue with which an ID was minted in strict mode; a region's origins share a residue only after
    256 of them.
    """
    return at[1] % SEQ_MODULUS


def region_of(at: EntryID) -> int:
    """Return the region that the ID's residue names."""
    return residue_of(at) % REGIONS
