"""Properties of a stream: registers that are kept as expiries are, and the limits that they select.

Of each name there is a value for each origin, with the counter that set it and a number above all that its origin saw.
A SET replaces the values of its name that its context covers, and a DEL voids those that its context covers. Of
concurrent ones all are kept, and the highest `(number, origin)` counts: it is chosen when the property is read, because
a region that dropped a loser would have nothing left where a DEL voids the winner.

Properties keep no key alive. They may outlive it, as an expiry may; a write that recreates the key voids them first.

Values are text. A name or a value that this release does not know has no effect here, and is passed on.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.values.causality import Dot, VersionVector

# Counter, number, value.
StreamRegister = tuple[int, int, bytes]
# Name, origin, counter, number, value.
StreamRegisterRow = tuple[bytes, int, int, int, bytes]

MAX_AGE: Final = b"maxage"
MAX_BYTES: Final = b"maxbytes"
MAX_LENGTH: Final = b"maxlen"
ACKED_ONLY: Final = b"acked"

YES: Final = b"yes"
NO: Final = b"no"
# The value of a limit that is off.
OFF: Final = b"0"
# What a SET with this value leaves of a property: nothing.
VOID_VALUE: Final = b""
NO_LIMIT: Final = 0
DIGITS_MAX: Final = 19


class RetentionLimits:
    """What the properties select: the most milliseconds, bytes and entries, `NO_LIMIT` where there is none, and whether
    only entries are removed that no group needs.
    """

    __slots__ = ("acked", "entries_max", "max_age_ms", "max_bytes")

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self.max_age_ms = limit_of(values.get(MAX_AGE, OFF))
        self.max_bytes = limit_of(values.get(MAX_BYTES, OFF))
        self.entries_max = limit_of(values.get(MAX_LENGTH, OFF))
        self.acked = values.get(ACKED_ONLY) == YES

    def fields(self) -> tuple[int, int, int, bool]:
        return self.max_age_ms, self.max_bytes, self.entries_max, self.acked

    def removes(self) -> bool:
        """True if anything is ever removed."""
        return self.acked or self.has_limit()

    def has_limit(self) -> bool:
        return bool(self.max_age_ms or self.max_bytes or self.entries_max)


class StreamProperties:
    """The registers of one stream; `limits` is what the winners say."""

    __slots__ = ("_registers", "limits")

    def __init__(self) -> None:
        self._registers: dict[bytes, dict[int, StreamRegister]] = {}
        self.limits = RetentionLimits({})

    def set(self, dot: Dot, context: VersionVector, number: int, values: dict[bytes, bytes]) -> None:
        """Apply a SET with this dot and context."""
        for name, value in values.items():
            kept = uncovered_registers(self._registers.get(name, {}), context)
            if value != VOID_VALUE:
                kept[dot[0]] = (dot[1], number, value)
            self._put(name, kept)
        self.limits = RetentionLimits(self.values())

    def void(self, context: VersionVector) -> None:
        """Apply a DEL with this context."""
        for name in list(self._registers):
            self._put(name, uncovered_registers(self._registers[name], context))
        self.limits = RetentionLimits(self.values())

    def _put(self, name: bytes, registers: dict[int, StreamRegister]) -> None:
        if registers:
            self._registers[name] = registers
        else:
            self._registers.pop(name, None)

    def add(self, row: StreamRegisterRow) -> None:
        """Put a register where there is none, while a state is read or joined."""
        name, origin, counter, number, value = row
        self._registers.setdefault(name, {})[origin] = (counter, number, value)
        self.limits = RetentionLimits(self.values())

    # Reading

    def is_empty(self) -> bool:
        return not self._registers

    def values(self) -> dict[bytes, bytes]:
        """The value of each property, ascending by name."""
        return {name: winner_of(self._registers[name]) for name in sorted(self._registers)}

    def next_number(self) -> int:
        """A number above all of these."""
        return 1 + max([row[3] for row in self.rows()], default=0)

    def rows(self) -> list[StreamRegisterRow]:
        """All registers, ascending."""
        registers = self._registers
        places = [(name, origin) for name in sorted(registers) for origin in sorted(registers[name])]
        return [(name, origin, *registers[name][origin]) for name, origin in places]

    def check(self) -> None:
        assert self._registers, "properties without a register"
        for name, registers in self._registers.items():
            assert registers, f"property {name!r} without a value"
            assert all(value != VOID_VALUE for _, _, value in registers.values()), f"property {name!r} has a void value"
        assert self.limits.fields() == RetentionLimits(self.values()).fields(), "the limits are stale"


def winner_of(registers: dict[int, StreamRegister]) -> bytes:
    """The value with the highest number, then origin."""
    return max([(number, origin, value) for origin, (_, number, value) in registers.items()])[2]


def uncovered_registers(registers: dict[int, StreamRegister], context: VersionVector) -> dict[int, StreamRegister]:
    return {origin: one for origin, one in registers.items() if not context.contains(origin, one[0])}


def limit_of(value: bytes) -> int:
    return int(value) if value.isdigit() and len(value) <= DIGITS_MAX else NO_LIMIT


# Of a stream that may have none


def with_set(
    known: StreamProperties | None, dot: Dot, context: VersionVector, number: int, values: dict[bytes, bytes]
) -> StreamProperties | None:
    """The properties after a SET."""
    properties = StreamProperties() if known is None else known
    properties.set(dot, context, number, values)
    return None if properties.is_empty() else properties


def without_voided(properties: StreamProperties, context: VersionVector) -> StreamProperties | None:
    """The properties after a DEL."""
    properties.void(context)
    return None if properties.is_empty() else properties


def property_rows(properties: StreamProperties | None) -> list[StreamRegisterRow]:
    return [] if properties is None else properties.rows()


def joined_properties(
    mine: StreamProperties | None, vector: VersionVector, theirs: StreamProperties | None, their_vector: VersionVector
) -> StreamProperties | None:
    """The registers that survive on both sides: one that a side lacks is new to it if its vector does not cover it,
    and was replaced or voided there otherwise (core/joining.py).
    """
    own = {row[:3]: row for row in property_rows(mine)}
    foreign = {row[:3]: row for row in property_rows(theirs)}
    joined = StreamProperties()
    for place in sorted({*own, *foreign}):
        _, origin, counter = place
        new_here = place not in own and not vector.contains(origin, counter)
        new_there = place not in foreign and not their_vector.contains(origin, counter)
        if new_here or new_there or (place in own and place in foreign):
            joined.add(own.get(place) or foreign[place])
    return None if joined.is_empty() else joined
