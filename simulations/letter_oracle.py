"""Which dead letters were written and brought back, by the effects alone, whatever any region remembers."""

from __future__ import annotations

from dataclasses import dataclass

from crdtstream.core import effects as fx
from crdtstream.core.effects import Key
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.names.adding import STORE
from crdtstream.core.names.letters import TRAILER_ITEMS, origin_of
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import EntryId, parse_id
from simulations.history import GroupName
from simulations.network import Network
from simulations.oracle import Row

Lays = tuple[tuple[Dot, tuple[int, int]], ...]


@dataclass
class LetterRow:
    """A letter, the group and the entry that it is of, and the creates and resets under which that was acknowledged;
    none if it was not.
    """

    dot: Dot
    group: GroupName
    source: tuple[int, EntryId]
    lays: Lays = ()


def letters_of(rows: list[Row], letters_key: bytes) -> list[LetterRow]:
    """Return all letters that these effects wrote, in their order."""
    found: list[LetterRow] = []
    last: dict[int, LetterRow] = {}
    for (origin, counter), _, effect in rows:
        if isinstance(effect, fx.EntriesAdded) and effect.key == (0, letters_key):
            for index in range(effect.low, effect.high):
                letter = letter_at(effect.block.entry(index), (origin, counter + index - effect.low))
                found.append(letter)
                last[origin] = letter
        elif isinstance(effect, fx.Acknowledged) and origin in last and not last[origin].lays:
            letter = last[origin]
            pieces = effect.runs.get(letter.source[0], [])
            if (effect.key, effect.group) == letter.group and any(
                low < letter.source[1] <= high for low, high in pieces
            ):
                resets = effect.resets or [(0, 0)] * len(effect.creates)
                letter.lays = tuple(zip(effect.creates, resets, strict=True))
        elif not isinstance(effect, fx.EntryNamed | fx.Acknowledged):
            # What comes later is no part of the letter.
            last.pop(origin, None)
    return found


def letter_at(entry: bytes, dot: Dot) -> LetterRow:
    fields = entry_fields(entry)
    came = origin_of(fields)
    values = fields[-TRAILER_ITEMS + 1 :: 2]
    entry_id = parse_id(values[2], 0)
    assert came is not None and entry_id is not None, f"{fields} is no letter"
    return LetterRow(dot, ((0, came.key), came.group), (int(values[3]), entry_id))


def redriven(rows: list[Row], letters_key: bytes) -> dict[Dot, list[tuple[Key, EntryId]]]:
    """Return the letters that were brought back, each with the entries that it became: one for each region that did it
    before it had heard of the others.
    """
    found: dict[Dot, list[tuple[Key, EntryId]]] = {}
    added: dict[int, EntryId] = {}
    for (origin, _), _, effect in rows:
        if isinstance(effect, fx.EntriesAdded):
            added[origin] = effect.block.id_at(effect.high - 1)
        elif isinstance(effect, fx.EntryNamed) and effect.producer == STORE and effect.key != (0, letters_key):
            letter_origin, _, counter = effect.name.partition(b"-")
            entries = found.setdefault((int(letter_origin), int(counter)), [])
            entries.append((effect.key, added[origin]))
    return found


def acknowledged_by_store(world: Network, key: bytes, name: bytes) -> set[EntryId]:
    """Return the IDs that no consumer acknowledged: of letters, and of what came back for another group."""
    if not world.settings.has_letters:
        return set()
    rows = world.oracle.effects(world.oracle.vector())
    letters = letters_of(rows, world.letters)
    found = {one.source[1] for one in letters if one.group == ((0, key), name)}
    groups = {one.dot: one.group for one in letters}
    for dot, entries in redriven(rows, world.letters).items():
        if groups.get(dot) != ((0, key), name):
            found |= {entry_id for known, entry_id in entries if known == (0, key)}
    return found
