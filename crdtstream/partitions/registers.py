"""Registers: small replicated values under names, kept as the entries of one stream.

    row <name> value <bytes>

Writing a register adds an entry and removes those of its name that this region sees, in one turn. So a log, a
checkpoint and every other region need to know nothing of registers. Regions that write one at the same time leave an
entry each; `values` gives all of them, and `latest` the one with the highest (ID, origin).

What was read is kept until the stream changes. Nobody else writes such a stream: an entry of another form is ignored.

Reference: the multi-value register over an observed-remove set (Shapiro et al., 2011).
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.effects import Key
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.replica import Replica
from crdtstream.core.sizes import RANGE_BYTES, entry_bytes
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, mint
from crdtstream.partitions.values import LIMIT, UNWRITABLE, Refused

NAME: Final = b"row"
VALUE: Final = b"value"
HeldIntervals = tuple[list[tuple[int, int]], int]
NEVER: Final[HeldIntervals] = ([], -1)


class WrittenRegister:
    """One entry of a register."""

    __slots__ = ("counter", "entry_id", "origin", "value")

    def __init__(self, entry_id: EntryId, origin: int, counter: int, value: bytes) -> None:
        self.entry_id = entry_id
        self.origin = origin
        self.counter = counter
        self.value = value


class Registers:
    """The registers of one stream; `version` is another one after each change."""

    __slots__ = ("_key", "_replica", "_rows", "_stamp", "version")

    def __init__(self, replica: Replica, key: Key) -> None:
        self._replica = replica
        self._key = key
        self._rows: dict[bytes, list[WrittenRegister]] = {}
        self._stamp = NEVER
        self.version = 0

    # Reading

    def names(self) -> list[bytes]:
        self._refresh()
        return list(self._rows)

    def values(self, name: bytes) -> list[bytes]:
        """Everything written under the name that no other write has seen, oldest ID first."""
        self._refresh()
        return [one.value for one in self._rows.get(name, ())]

    def latest(self, name: bytes) -> bytes | None:
        found = self.values(name)
        return found[-1] if found else None

    def counters(self) -> list[Dot]:
        """The last addition of each origin."""
        stream = self._replica.keyspace.find(self._key)
        return [] if stream is None else stamp_of(stream)[0]

    def dot(self, name: bytes) -> Dot:
        """Which effect wrote the latest value; the register must have one."""
        self._refresh()
        last = self._rows[name][-1]
        return last.origin, last.counter

    def _refresh(self) -> None:
        stream = self._replica.keyspace.find(self._key)
        stamp = NEVER if stream is None else stamp_of(stream)
        if stamp != self._stamp:
            self._stamp = stamp
            self._rows = {} if stream is None else rows_of(stream)
            self.version += 1

    # Writing

    def write(self, name: bytes, value: bytes) -> None:
        """Replace what this region sees under the name."""
        self._refresh()
        replica, applied = self._replica, self._replica.applied
        known = replica.keyspace.find(self._key)
        entry_id = mint(replica.keyspace.now_ms, ID_MIN if known is None else known.top, replica.residue)
        if entry_id is None:
            raise Refused(UNWRITABLE, f"the stream {self._key[1]!r} has exhausted its IDs: delete it")
        seen = self._rows.get(name, [])
        row = [NAME, name, VALUE, value]
        size = entry_bytes(self._key[1], row) + RANGE_BYTES * len(seen)
        if not replica.budget.allow(size):
            raise Refused(LIMIT, f"the value has {size} bytes, more than {replica.budget.bound()}: make it smaller")
        replica.add_entry(self._key, entry_id, row)
        self._rows[name] = [WrittenRegister(entry_id, applied.origin, applied.counter(), value)]
        self._remove(seen)

    def drop(self, name: bytes) -> None:
        """Remove what this region sees under the name."""
        self._refresh()
        self._remove(self._rows.pop(name, []))

    def _remove(self, seen: list[WrittenRegister]) -> None:
        ranges: dict[int, list[tuple[int, int]]] = {}
        for one in sorted(seen, key=counter_of):
            ranges.setdefault(one.origin, []).append((one.counter, one.counter))
        self._replica.remove_entries(self._key, ranges, False, None)
        stream = self._replica.keyspace.find(self._key)
        self._stamp = NEVER if stream is None else stamp_of(stream)
        self.version += 1

    def clear(self) -> None:
        """Remove everything that this region sees."""
        self._replica.delete_stream(self._key)

    def check(self) -> None:
        self._refresh()
        stream = self._replica.keyspace.find(self._key)
        found = {} if stream is None else rows_of(stream)
        assert {name: [one.value for one in rows] for name, rows in found.items()} == {
            name: [one.value for one in rows] for name, rows in self._rows.items() if rows
        }, f"the registers of {self._key[1]!r} are stale"


def counter_of(one: WrittenRegister) -> int:
    return one.counter


def order_of(one: WrittenRegister) -> tuple[EntryId, int]:
    return one.entry_id, one.origin


def stamp_of(stream: Stream) -> HeldIntervals:
    """Differs after any change: an add raises a counter, and anything else changes the length."""
    return [(origin, meta.add_counter) for origin, meta in stream.metas.items()], stream.length


def rows_of(stream: Stream) -> dict[bytes, list[WrittenRegister]]:
    rows: dict[bytes, list[WrittenRegister]] = {}
    for origin, tree in sorted(stream.trees.items()):
        for piece in tree.slices(ID_MIN, ID_MAX, -1, False):
            for index in range(piece.low, piece.high):
                block = piece.block
                fields = entry_fields(block.entry(index))
                if len(fields) == 4 and fields[0] == NAME and fields[2] == VALUE:
                    one = WrittenRegister(block.id_at(index), origin, block.counter_at(index), fields[3])
                    rows.setdefault(fields[1], []).append(one)
    for found in rows.values():
        found.sort(key=order_of)
    return rows
