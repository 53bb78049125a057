"""Which named adds are lost, by the effects alone, whatever any region remembers: the rule of core/names/register.py a
second time.
"""

from __future__ import annotations

from dataclasses import dataclass

from crdtstream.core import effects as fx
from crdtstream.core.effects import Key
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import EntryId
from simulations.network import Network
from simulations.oracle import Row


@dataclass(frozen=True)
class NamedDot:
    """An add under a name, and the context of its effect."""

    dot: Dot
    entry_id: EntryId
    context: VersionVector

    def is_concurrent(self, other: NamedDot) -> bool:
        return not self.context.contains(*other.dot) and not other.context.contains(*self.dot)


def lost_among(adds: list[NamedDot]) -> dict[NamedDot, NamedDot]:
    """Return the lost ones of these, in ascending order, each with the first survivor that is concurrent with it."""
    lost: dict[NamedDot, NamedDot] = {}
    for add in adds:
        rival = next((one for one in adds if one not in lost and before(one, add) and one.is_concurrent(add)), None)
        if rival is not None:
            lost[add] = rival
    return lost


def before(one: NamedDot, other: NamedDot) -> bool:
    return (one.entry_id, one.dot) < (other.entry_id, other.dot)


def named_adds_of(rows: list[Row]) -> dict[tuple[Key, bytes, bytes], list[NamedDot]]:
    """Return the named adds of these effects, each with all that it had seen, ascending by ID and origin."""
    ids: dict[Dot, EntryId] = {}
    found: dict[tuple[Key, bytes, bytes], list[NamedDot]] = {}
    for (origin, counter), context, effect in rows:
        if isinstance(effect, fx.EntriesAdded):
            ids[(origin, counter + effect.width - 1)] = effect.block.id_at(effect.high - 1)
        elif isinstance(effect, fx.EntryNamed):
            # An add may have two names.
            dot = (origin, counter - 1) if (origin, counter - 1) in ids else (origin, counter - 2)
            adds = found.setdefault((effect.key, effect.producer, effect.name), [])
            adds.append(NamedDot(dot, ids[dot], context))
    return {name: sorted(adds, key=lambda one: (one.entry_id, one.dot)) for name, adds in found.items()}


def survivors(world: Network) -> dict[Key, dict[NamedDot, NamedDot]]:
    """Return the lost adds of each key with their survivors, by all that some region still has."""
    found: dict[Key, dict[NamedDot, NamedDot]] = {}
    for (key, _, _), adds in named_adds_of(world.oracle.effects(world.vector())).items():
        found.setdefault(key, {}).update(lost_among(adds))
    return found


def survivors_by_dot(world: Network) -> dict[Dot, Dot]:
    pairs = [pair for losses in survivors(world).values() for pair in losses.items()]
    return {lost.dot: survivor.dot for lost, survivor in pairs}


def strangers_add(world: Network) -> bool:
    """Return whether a region may add before it has heard of the others, so that they may have forgotten its names."""
    settings = world.settings
    late = settings.serving_at_once and (settings.late or world.disks_lost)
    return bool(settings.twin or world.injected["put-back"] or late)


def rivals(world: Network) -> dict[Dot, list[Dot]]:
    """Return for each named add those of its name that are concurrent with it: a region that has forgotten the others
    may take it for lost to one of these, where somebody adds who has not heard of the members.
    """
    rows = world.oracle.effects(world.oracle.vector()) if world.settings.has_named_entries else []
    return {
        add.dot: [one.dot for one in adds if one is not add and one.is_concurrent(add)]
        for adds in named_adds_of(rows).values()
        for add in adds
    }


def acknowledged_by_name(world: Network, key: Key, acknowledged: set[EntryId]) -> set[EntryId]:
    """Return the IDs of the survivors of what has these IDs; of all adds of its name where a name may be forgotten."""
    if strangers_add(world) or world.injected["evict"]:
        return ids_by_name(world, key, acknowledged)
    losses = survivors(world).get(key, {}) if world.settings.has_named_entries else {}
    return {survivor.entry_id for lost, survivor in losses.items() if lost.entry_id in acknowledged}


def ids_by_name(world: Network, key: Key, ids: set[EntryId]) -> set[EntryId]:
    """Return the IDs of all adds whose names some of these entries have: a region may know only some of the adds."""
    found: set[EntryId] = set()
    rows = world.oracle.effects(world.oracle.vector()) if world.settings.has_named_entries else []
    for (known, _, _), adds in named_adds_of(rows).items():
        if known == key and any(add.entry_id in ids for add in adds):
            found.update(add.entry_id for add in adds)
    return found
