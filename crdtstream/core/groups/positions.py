"""Moving the position of a group: SETID and XCLAIM LASTID in this region, RESET in all of them."""

from __future__ import annotations

from crdtstream.core.effects import UNKNOWN_ENTRIES_READ, Position, ResetName
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.group import Group
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId
from crdtstream.core.values.intervals import IntervalSet


def set_position(group: Group, trees: ByOrigin[EntryTree], position: Position, entries_read: int) -> None:
    """Nothing at or below the position is wanted, everything above it is, even entries inside runs."""
    origins = sorted({*trees, *group.passed, *position.ids, *group.floor.ids})
    for origin in origins:
        _set_position_of(group, origin, trees.get(origin), position.get(origin))
    floor = {origin: min(group.floor.get(origin), position.get(origin)) for origin in origins}
    group.floor = Position(position.default, floor)
    group.entries_read = entries_read
    group.rebuild_passed()


def _set_position_of(group: Group, origin: int, tree: EntryTree | None, target: EntryId) -> None:
    floor = group.floor.get(origin)
    # Backwards: readers here want again what runs of any region cover, up to the highest ID seen so far.
    if target <= group.position_of(origin):
        seen = _highest_seen(group, origin, tree)
        if seen > target:
            group.replay.setdefault(origin, IntervalSet()).add(target, seen)
    for known in (group.delivered.get(origin), group.skipped.get(origin)):
        if known is not None:
            known.remove(target, ID_MAX)
    # Forwards: what was not delivered up to the target is not wanted any more.
    if target > floor:
        group.skipped.setdefault(origin, IntervalSet()).add(floor, target)
        delivered = group.delivered.get(origin)
        if delivered is not None:
            group.skipped[origin] = group.skipped[origin].minus(delivered)


def _highest_seen(group: Group, origin: int, tree: EntryTree | None) -> EntryId:
    """The last entry's ID, or the end of the last run if that is higher (its entries may be deleted by now)."""
    last = None if tree is None else tree.last_id()
    acked = group.acked.get(origin)
    return max(last or ID_MIN, (None if acked is None else acked.max()) or ID_MIN)


def raise_position(group: Group, trees: ByOrigin[EntryTree], entry_id: EntryId) -> None:
    """Nothing up to this ID is wanted any more."""
    origins = {*trees, *group.passed, *group.floor.ids}
    for origin in sorted(origins):
        floor = group.floor.get(origin)
        if floor < entry_id and group.position_of(origin) < entry_id:
            passed = group.passed.get(origin) or IntervalSet()
            for low, high in passed.gaps(floor, entry_id):
                group.skipped.setdefault(origin, IntervalSet()).add(low, high)
    if group.floor.default < entry_id:
        ids = {origin: group.floor.get(origin) for origin in sorted(origins)}
        group.floor = Position(entry_id, ids)
    group.rebuild_passed()


def reset_group(group: Group, creates: list[Dot], reset: ResetName, start: Position) -> bool:
    """Begin again behind this start; false if no create that survives here is named, or a later reset counts."""
    alive = [group.creates[dot] for dot in creates if dot in group.creates]
    restarted = [create for create in alive if create.restart(reset, start)]
    if restarted:
        restart(group, start)
        group.derive()
    return bool(restarted)


def restart(group: Group, above: Position) -> None:
    """What this region knows of deliveries above the start that a reset has set is void; pending entries stay, as after
    SETID. A concurrent create may let the group begin below it. Call `derive` then.
    """
    group.floor = group.start()
    group.replay = {}
    group.entries_read = UNKNOWN_ENTRIES_READ
    for origin, delivered in group.delivered.items():
        delivered.remove(above.get(origin), ID_MAX)
    for origin, skipped in group.skipped.items():
        skipped.remove(above.get(origin), ID_MAX)
