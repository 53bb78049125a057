"""The registers and the count of adds that one origin contributed to a stream: see core/streams/stream.py.

`dropped_counter` is the counter of its last removal that dropped references (DELREF), for joins (core/joining.py).
`trimmed_to` is the highest counter of an entry that left with all before it, in a trim or a DEL: a reader by position
whose position is lower has lost entries. An XDEL of single entries does not count.
"""

from __future__ import annotations

from crdtstream.core.streams.expiry import VOID_EXPIRY
from crdtstream.core.values.entry_id import ID_MIN, EntryId


class OriginMeta:
    """The metadata that one origin contributed to a stream; a register with counter 0 is empty."""

    __slots__ = (
        "add_counter",
        "add_id",
        "added",
        "dropped_counter",
        "expires_ms",
        "expiry_counter",
        "first",
        "offset",
        "offset_counter",
        "offset_weight",
        "removed_counter",
        "removed_id",
        "set_counter",
        "set_id",
        "trimmed_to",
        "voided",
    )

    def __init__(self) -> None:
        self.first = 0
        self.added = 0
        self.voided = 0
        self.add_counter = 0
        self.add_id: EntryId = ID_MIN
        self.set_counter = 0
        self.set_id: EntryId = ID_MIN
        self.removed_counter = 0
        self.removed_id: EntryId = ID_MIN
        self.offset_counter = 0
        self.offset_weight = 0
        self.offset = 0
        self.trimmed_to = 0
        self.dropped_counter = 0
        self.expiry_counter = 0
        self.expires_ms = VOID_EXPIRY

    def top(self) -> EntryId:
        return max(self.add_id, self.set_id, self.removed_id)

    def record_removed(self, through: int) -> None:
        """Note that a trim or a DEL removed the entries up to this counter."""
        self.trimmed_to = max(self.trimmed_to, through)

    def next_count(self, counter: int) -> tuple[int, int]:
        """The count that the next add belongs to: its name, and its adds so far; `counter` is the next add's
        counter.
        """
        return (counter, 0) if self.added == self.voided else (self.first, self.added)

    def count(self, first: int, before: int, added: int) -> None:
        """Count more adds. If earlier adds of this count are not known here, they were voided and then forgotten."""
        if self.first != first:
            self.first, self.added, self.voided = first, before, before
        self.added += added

    def void(self, covered: int) -> None:
        """Void all registers set at or below `covered`, the context of a DEL for this origin."""
        if self.add_counter <= covered:
            self.add_counter, self.add_id = 0, ID_MIN
            self.voided = self.added
        if self.set_counter <= covered:
            self.set_counter, self.set_id = 0, ID_MIN
        if self.removed_counter <= covered:
            self.removed_counter, self.removed_id = 0, ID_MIN
        if self.offset_counter <= covered:
            self.offset_counter, self.offset_weight, self.offset = 0, 0, 0
        self.void_expiry(covered)

    def void_count(self, first: int, added: int) -> None:
        """Void `added` adds of a count, as seen by a DEL; the last add stays if its register was not voided."""
        if self.first == first and self.add_counter:
            self.voided = max(self.voided, min(added, self.added - 1))

    def void_expiry(self, covered: int) -> None:
        if self.expiry_counter <= covered:
            self.expiry_counter, self.expires_ms = 0, VOID_EXPIRY
