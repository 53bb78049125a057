"""Acknowledgements of entries that are lost to another one of their name: they acknowledge the survivor.

A region passes on what was acknowledged of the lost entry, by its own consumers or in another region, before or after
it learned of the survivor. A run may also pass over an entry because it was removed, so a run proves something only of
an entry that lives when it is applied. What it proves is remembered with the add, because the entry may be gone when
the survivor arrives.
"""

from __future__ import annotations

from crdtstream.core.effects import Acknowledged
from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.create import NEVER_RESET
from crdtstream.core.groups.group import Group
from crdtstream.core.names.register import NamedAdd, NamedCreates, NameRegister
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, EntryId, next_id
from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import OriginIntervals


def record_dropped(stream: Stream, name: bytes, group: Group, intervals: OriginIntervals) -> None:
    """Consumers of this region acknowledge these intervals: remember it for the named entries that live in them."""
    creates = [(dot, create.reset) for dot, create in sorted(group.creates.items())]
    _record(stream, name, creates, intervals.as_dict())


def record_runs(stream: Stream, effect: Acknowledged) -> None:
    """As `record_dropped`, for runs of any region."""
    resets = effect.resets or [NEVER_RESET] * len(effect.creates)
    _record(stream, effect.group, list(zip(effect.creates, resets, strict=False)), effect.runs)


def _record(stream: Stream, name: bytes, creates: NamedCreates, pieces: dict[int, list[Interval]]) -> None:
    register = None if stream.producers is None else stream.producers.register
    if register is None:
        return
    for origin, intervals in pieces.items():
        tree = stream.trees.get(origin)
        for low, high in intervals if tree is not None else []:
            for add in _named_within(tree, register, origin, low, high) if tree is not None else []:
                add.acknowledge(name, creates)


def _named_within(tree: EntryTree, register: NameRegister, origin: int, low: EntryId, high: EntryId) -> list[NamedAdd]:
    """The named entries of this tree in (low, high]; it looks at all that live there, or at all names."""
    first = next_id(low) or ID_MAX
    blocks = tree.overlapping(first, high)
    if _looks_at_names(blocks, register):
        return [add for add in _names_between(register, origin, low, high) if tree.counter_of(add.entry_id)]
    found: list[NamedAdd] = []
    for part in tree.slices(first, high, -1, False):
        for index in range(part.low, part.high):
            found += register.adds_with(origin, part.block.id_at(index))
    return found


def _looks_at_names(blocks: list[Block], register: NameRegister) -> bool:
    return sum([block.count for block in blocks]) > len(register)


def _names_between(register: NameRegister, origin: int, low: EntryId, high: EntryId) -> list[NamedAdd]:
    adds = [add for _, some in register.items() for add in some if add.dot[0] == origin]
    return [add for add in adds if low < add.entry_id <= high]


def named_blocks(stream: Stream, runs: dict[int, list[Interval]]) -> list[Block]:
    """The spilled blocks that `record_runs` opens for an effect with these runs; opens none."""
    register = None if stream.producers is None else stream.producers.register
    if register is None:
        return []
    found: list[Block] = []
    for origin, intervals in runs.items():
        tree = stream.trees.get(origin)
        for low, high in intervals if tree is not None else []:
            found += _opened_within(tree, register, origin, low, high) if tree is not None else []
    return found


def demand_runs(stream: Stream | None, names: list[bytes], intervals_max: int) -> None:
    """Have the spilled blocks read that the new runs of these groups open."""
    if stream is not None:
        for group in [stream.groups[name] for name in names if name in stream.groups]:
            demand_blocks(named_blocks(stream, group.look_for_runs(stream.trees, intervals_max)))


def _opened_within(tree: EntryTree, register: NameRegister, origin: int, low: EntryId, high: EntryId) -> list[Block]:
    blocks = tree.overlapping(next_id(low) or ID_MAX, high)
    if _looks_at_names(blocks, register):
        return tree.spilled_with(sorted([add.entry_id for add in _names_between(register, origin, low, high)]))
    return [block for block in blocks if block.is_spilled()]


def is_acknowledged(stream: Stream, name: bytes, group: Group, add: NamedAdd) -> bool:
    """True if the group, as it is now, has surely acknowledged this entry."""
    for dot, reset in add.acknowledged.get(name, []):
        create = group.creates.get(dot)
        if create is not None and create.reset == reset:
            return True
    origin = add.dot[0]
    acked, replay = group.acked.get(origin), group.replay.get(origin)
    if acked is None or not acked.contains(add.entry_id) or not stream.holds(origin, add.entry_id):
        return False
    return replay is None or not replay.contains(add.entry_id)
