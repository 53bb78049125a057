"""Properties of a consumer group: registers that lie under its creates, and the rules that they select.

A SET names the creates that it saw, as acknowledgements do, so a property ends with its creates. Of each name the
highest `(number, origin)` counts, first under each create, then over the creates that survive. A SET takes a number
above all that it saw and so replaces them; of concurrent ones every region chooses the same.

One register for all properties would not do: a record of who delivers, which a region writes while it is cut off, must
not undo what another one sets meanwhile.

Values are text. A name or a value that this release does not know has no effect here, and is passed on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Number, origin, value.
Register = tuple[int, int, bytes]
PropertyRegisters = dict[bytes, Register]

ACKNOWLEDGE: Final = b"acknowledge"
DELIVER: Final = b"deliver"
TAKEOVER: Final = b"takeover"
ORDER: Final = b"order"
MAXDELIVERIES: Final = b"maxdeliveries"
DEADLETTER: Final = b"deadletter"

EXACT: Final = b"exact"
CONTIGUOUS: Final = b"contiguous"
EVERYWHERE: Final = b"everywhere"
ORIGIN: Final = b"origin"
OWNER: Final = b"owner"
ALL: Final = b"all"
ANY: Final = b"any"

TAKEOVER_MS: Final = 10_000
# Of deliveries.
NO_LIMIT: Final = 0
# Of a delivery record that is about the entries of every region.
ANY_REGION: Final = 0
_RECORD: Final = b"record:"
# What groups without properties share; nobody writes to it.
NO_REGISTERS: Final[PropertyRegisters] = {}


def record_name(writer: int) -> bytes:
    """The name of the record that says which region delivers the entries written in this region."""
    return _RECORD + b"%d" % writer


def is_record(name: bytes) -> bool:
    return name.startswith(_RECORD)


def merged(mine: PropertyRegisters, theirs: Iterable[tuple[bytes, Register]]) -> PropertyRegisters:
    """Of each name the register with the highest number and origin."""
    found = dict(mine)
    for name, register in theirs:
        known = found.get(name)
        if known is None or known < register:
            found[name] = register
    return found


def lasting_values(registers: PropertyRegisters) -> dict[bytes, bytes]:
    """The values that another group takes over whose entries are all written by one region: without the records about
    single writers.
    """
    any_region = record_name(ANY_REGION)
    return {name: register[2] for name, register in registers.items() if not is_record(name) or name == any_region}


def next_number(registers: PropertyRegisters) -> int:
    """A number above all of these."""
    return 1 + max([number for number, _, _ in registers.values()], default=0)


class GroupRules:
    """What the properties of a group select."""

    __slots__ = (
        "_any",
        "_mode",
        "_since",
        "_writers",
        "dead_letters",
        "deliveries_max",
        "exact",
        "ordered",
        "takeover_ms",
    )

    def __init__(self, registers: PropertyRegisters) -> None:
        self.exact = value_of(registers, ACKNOWLEDGE) == EXACT
        self.ordered = value_of(registers, ORDER) == ALL
        self.takeover_ms = number_in(value_of(registers, TAKEOVER), TAKEOVER_MS)
        # The key of dead letters, empty without one. Without it there is no limit: nothing is dropped.
        self.dead_letters = value_of(registers, DEADLETTER)
        self.deliveries_max = number_in(value_of(registers, MAXDELIVERIES), NO_LIMIT) if self.dead_letters else NO_LIMIT
        mode = registers.get(DELIVER)
        self._mode = EVERYWHERE if mode is None else mode[2]
        # Records that are older than the mode are of another one.
        self._since = 0 if mode is None else mode[0]
        self._any = self._record(registers, ANY_REGION)
        self._writers: dict[int, Register] = {}
        for name in sorted(filter(is_record, registers)):
            writer = number_in(name[len(_RECORD) :], ANY_REGION)
            record = self._record(registers, writer)
            if writer != ANY_REGION and record is not None:
                self._writers[writer] = record

    def _record(self, registers: PropertyRegisters, writer: int) -> Register | None:
        record = registers.get(record_name(writer))
        return record if record is not None and record[0] >= self._since else None

    @property
    def mode(self) -> bytes:
        return self._mode if self._mode in (ORIGIN, OWNER) else EVERYWHERE

    @property
    def is_everywhere(self) -> bool:
        """True if each region delivers what its consumers ask for."""
        return self._mode not in (ORIGIN, OWNER)

    def deliverer(self, writer: int) -> int:
        """The region that delivers the entries written in this region, by the records alone."""
        latest = max(filter(None, [self._any, self._writers.get(writer)]), default=None)
        return writer if latest is None else number_in(latest[2], writer)


def value_of(registers: PropertyRegisters, name: bytes) -> bytes:
    """Empty if it is not set."""
    register = registers.get(name)
    return b"" if register is None else register[2]


def number_in(text: bytes, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise


# Of groups without properties.
PLAIN: Final = GroupRules(NO_REGISTERS)
