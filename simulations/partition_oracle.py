"""What a partitioned stream means, from every batch that any region has made: a second implementation.

a message is valid    if it was numbered in an epoch of the line of the highest one, below the next epoch of the line
the line              of an epoch is that epoch and the line of the one that its home had seen before
a message may go      if the retention was over by the clock of the region that removed it
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from crdtstream.core import effects as fx
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import EntryId
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.keys import partition_key, state_key
from crdtstream.partitions.values import StreamSpec
from simulations.oracle import Oracle


@dataclass
class Numbered:
    """A message as a home numbered it."""

    partition: int
    entry_id: EntryId
    value: bytes
    time_ms: int


@dataclass
class Removal:
    """Who removed an entry: for its age or to number it again, and at what time by the clock there."""

    trimmed: bool
    clock_ms: int


@dataclass
class Known:
    """Every message by its dot and by its content, how entries were removed, every epoch, and the origins that an
    operator evicted.
    """

    numbered: dict[Dot, Numbered] = field(default_factory=dict)
    dots: dict[bytes, list[Dot]] = field(default_factory=dict)
    removals: dict[Dot, list[Removal]] = field(default_factory=dict)
    epochs: dict[Epoch, tuple[Epoch, list[int]]] = field(default_factory=dict)
    resets: dict[bytes, set[Dot]] = field(default_factory=dict)
    evicted: set[int] = field(default_factory=set)

    def line(self) -> list[tuple[Epoch, list[int]]]:
        """The epochs that count with their first offsets, ascending."""
        found: list[tuple[Epoch, list[int]]] = []
        at = max(self.epochs, default=(0, 0))
        while at in self.epochs:
            parent, starts = self.epochs[at]
            found.append((at, starts))
            at = parent
        return found[::-1]

    def is_valid(self, dot: Dot) -> bool:
        one, line = self.numbered[dot], self.line()
        for index, (epoch, starts) in enumerate(line):
            if epoch == (one.entry_id[0], dot[0]):
                after = line[index + 1 : index + 2]
                end = after[0][1][one.partition] if after else 1 << 60
                return one.time_ms > 0 and starts[one.partition] <= one.entry_id[1] < end
        return False

    def has_evicted_home(self, value: bytes) -> bool:
        """True if a home that was evicted later has numbered this message: nobody waits for it to know of an epoch."""
        return any(origin in self.evicted for origin, _ in self.dots[value])

    def lives(self, dot: Dot) -> bool:
        return dot not in self.removals and self.is_valid(dot)


def known_of(oracle: Oracle, spec: StreamSpec, vector: VersionVector | None = None) -> Known:
    """What all regions have made, or what the vector covers of it."""
    known = Known()
    keys = {partition_key(spec.id, number): number for number in range(spec.partitions)}
    rows = [(dot, effect) for dot, _, effect in oracle.effects(oracle.vector() if vector is None else vector)]
    for dot, effect in rows:
        if isinstance(effect, fx.EntriesAdded) and effect.key in keys:
            record_messages(known, keys[effect.key], dot[0], effect)
        elif isinstance(effect, fx.EntriesAdded) and effect.key == state_key(spec.id):
            record_state(known, effect)
        elif isinstance(effect, fx.MemberEvicted) and not effect.successor:
            known.evicted.add(effect.origin)
    for dot, effect in rows:
        if isinstance(effect, fx.EntriesRemoved) and effect.key in keys:
            record_removal(known, keys[effect.key], Removal(effect.trimmed, oracle.clock_of(dot)), effect)
    return known


def record_messages(known: Known, partition: int, origin: int, effect: fx.EntriesAdded) -> None:
    for entry_id, counter, fields in entries_of(effect):
        one = Numbered(partition, entry_id, fields[b"value"], int(fields.get(b"time", b"0")))
        known.numbered[(origin, counter)] = one
        known.dots.setdefault(one.value, []).append((origin, counter))


def record_removal(known: Known, partition: int, removal: Removal, effect: fx.EntriesRemoved) -> None:
    """A range of counters also has those of entries of other keys."""
    for origin, ranges in effect.ranges.items():
        for low, high in ranges:
            for dot in [(origin, counter) for counter in range(low, high + 1)]:
                if dot in known.numbered and known.numbered[dot].partition == partition:
                    known.removals.setdefault(dot, []).append(removal)


def record_state(known: Known, effect: fx.EntriesAdded) -> None:
    for _, _, fields in entries_of(effect):
        name, value = fields[b"row"], json.loads(fields[b"value"])
        if name.startswith(b"epoch/"):
            _, number, origin = name.split(b"/")
            known.epochs[(int(number), int(origin))] = ((value[0][0], value[0][1]), value[1])
        elif name.startswith(b"group/") and value[4]:
            known.resets.setdefault(name[6:], set()).add((value[5][0], value[5][1]))


def entries_of(effect: fx.EntriesAdded) -> list[tuple[EntryId, int, dict[bytes, bytes]]]:
    found: list[tuple[EntryId, int, dict[bytes, bytes]]] = []
    for index in range(effect.low, effect.high):
        fields = entry_fields(effect.block.entry(index))
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        found.append((effect.block.id_at(index), effect.block.counter_at(index), named))
    return found
