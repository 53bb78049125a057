"""Dead letters: a copy of an entry that could not be processed, under a name that makes it one in all regions.

The name is the group, the create and the reset under which the entry was poison, and the entry's own name, or its dot:
so two groups that send one entry to one key make two letters, and two regions that do it at once make one. A letter
whose name is known is not written again. With the letter goes an acknowledgement of the entry, always exact and always
in the same batch: else a region could have the letter and deliver the entry, and write a second one.

Going back is named by the letter's dot. In one batch the entry is added to its stream, acknowledged for every other
group that is known here, and the letter is removed.

The fields of a letter are those of the entry and then `TRAILER`, which says where it came from.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from crdtstream.core.effects import CounterRange, Key
from crdtstream.core.groups.group import Group
from crdtstream.core.local_facts import PendingDropped
from crdtstream.core.names.adding import STORE, add_named, is_known
from crdtstream.core.names.duplicates import acknowledge_lost, remove_lost
from crdtstream.core.names.register import AddName
from crdtstream.core.replica import Replica
from crdtstream.core.sizes import EFFECT_BYTES, INTERVAL_BYTES, ORIGIN_BYTES, RANGE_BYTES, entry_bytes
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import EntryId, id_below
from crdtstream.core.values.origin_intervals import OriginIntervals

# The key and the group that the entry comes from, its ID and origin there, how often it was delivered, and how many
# times it became a letter.
TRAILER: Final = (b"crdt-source", b"crdt-group", b"crdt-id", b"crdt-origin", b"crdt-deliveries", b"crdt-hops")
TRAILER_ITEMS: Final = 2 * len(TRAILER)
HOPS_MAX: Final = 16
NAME_BYTES: Final = 16
# A letter: its entry, two names, and the acknowledgement.
EFFECTS: Final = 4


class LetterOrigin:
    """Where a letter came from, as its trailer says."""

    __slots__ = ("group", "hops", "key")

    def __init__(self, key: bytes, group: bytes, hops: int) -> None:
        self.key = key
        self.group = group
        self.hops = hops


def origin_of(fields: list[bytes]) -> LetterOrigin | None:
    """Where the entry with these fields came from; None if it is no letter."""
    if len(fields) <= TRAILER_ITEMS or tuple(fields[-TRAILER_ITEMS::2]) != TRAILER:
        return None
    values = fields[-TRAILER_ITEMS + 1 :: 2]
    if not (values[5].isdigit() and len(values[5]) <= len(b"%d" % HOPS_MAX)):
        return None
    return LetterOrigin(values[0], values[1], int(values[5]))


def hops_of(fields: list[bytes]) -> int:
    found = origin_of(fields)
    return 0 if found is None else found.hops


class PoisonEntry:
    """A pending entry of a group that is to become a letter."""

    __slots__ = ("deliveries", "entry_id", "fields", "group", "key", "origin")

    def __init__(
        self, key: Key, group: bytes, origin: int, entry_id: EntryId, deliveries: int, fields: list[bytes]
    ) -> None:
        self.key = key
        self.group = group
        self.origin = origin
        self.entry_id = entry_id
        self.deliveries = deliveries
        self.fields = fields

    def letter_fields(self) -> list[bytes]:
        values = (self.key[1], self.group, b"%d-%d" % self.entry_id, b"%d" % self.origin, b"%d" % self.deliveries)
        trailer = zip(TRAILER, (*values, b"%d" % (hops_of(self.fields) + 1)), strict=True)
        return self.fields + [item for pair in trailer for item in pair]


def letter_names(stream: Stream, poison: PoisonEntry) -> list[AddName]:
    """The names of the letter: by the dot of its source, and by the source's name if that is known. Regions forget a
    name at different times, so it alone would not do; and two adds under one name have two dots.
    """
    dot = b"%d-%d" % (poison.origin, stream.trees[poison.origin].counter_of(poison.entry_id))
    register = None if stream.producers is None else stream.producers.register
    names = [] if register is None else register.names_of(poison.origin, poison.entry_id)
    sources: list[list[bytes]] = [[dot], list(min(names))] if names else [[dot]]
    return [(STORE, letter_name(stream, poison, source)) for source in sources]


def letter_name(stream: Stream, poison: PoisonEntry, source: list[bytes]) -> bytes:
    group = stream.groups[poison.group]
    create = min(group.creates)
    parts = [poison.group, b"%d-%d" % create, b"%d-%d" % group.creates[create].reset]
    text = b"".join([b"%d:%b" % (len(part), part) for part in parts + source])
    return blake2b(text, digest_size=NAME_BYTES).digest()


def write_letter(replica: Replica, poison: PoisonEntry, letters: Key, letter_id: EntryId) -> bool:
    """Move a pending entry that lives to this key, under this ID; false if no batch has room for it."""
    key, name = poison.key, poison.group
    # What is told before belongs to earlier batches.
    replica.acknowledge_key(key)
    _decide(replica, key, letters)
    stream = replica.keyspace.databases[key[0]][key[1]]
    fields = poison.letter_fields()
    budget, was_whole = replica.budget, replica.budget.whole
    if not budget.allow_besides(_letter_bytes(stream, poison, letters, fields)):
        return False
    budget.whole = True
    try:
        names = letter_names(stream, poison)
        if not any(is_known(replica, letters, STORE, letter) for _, letter in names):
            add_named(replica, letters, letter_id, fields, names[0], names[1] if len(names) > 1 else None)
        if stream.producers is not None:
            acknowledge_lost(replica, key, name, [poison.entry_id])
        acknowledge_exactly(replica, key, name, poison.origin, poison.entry_id)
    finally:
        budget.whole = was_whole
    return True


def acknowledge_exactly(replica: Replica, key: Key, name: bytes, origin: int, entry_id: EntryId) -> None:
    """Drop a pending entry, and acknowledge it in all regions, whatever the group's property says."""
    piece = (id_below(entry_id), entry_id)
    replica.record(PendingDropped(key, name, OriginIntervals(origin, *piece)))
    acked = replica.keyspace.databases[key[0]][key[1]].groups[name].acked.get(origin)
    if acked is None or not acked.contains(entry_id):
        replica.prepare_runs(key, name, {origin: [piece]})


class Letter:
    """A letter under the dead-letter key: its dot, its ID there, and the fields that its entry had."""

    __slots__ = ("dot", "fields", "key", "letter_id")

    def __init__(self, key: Key, dot: Dot, letter_id: EntryId, fields: list[bytes]) -> None:
        self.key = key
        self.dot = dot
        self.letter_id = letter_id
        self.fields = fields


def return_letter(replica: Replica, key: Key, name: bytes, letter: Letter, entry_id: EntryId) -> bool:
    """Add the entry of a letter to its stream again, under this ID, for this group alone, and remove the letter; false
    if no batch has room for that.
    """
    replica.acknowledge_key(key)
    _decide(replica, key, letter.key)
    budget, was_whole = replica.budget, replica.budget.whole
    if not budget.allow_besides(return_bytes(replica, key, letter)):
        return False
    budget.whole = True
    try:
        _add_again(replica, key, name, letter, entry_id)
        ranges: dict[int, list[CounterRange]] = {letter.dot[0]: [(letter.dot[1], letter.dot[1])]}
        replica.remove_entries(letter.key, ranges, False, letter.letter_id)
    finally:
        budget.whole = was_whole
    return True


def _add_again(replica: Replica, key: Key, name: bytes, letter: Letter, entry_id: EntryId) -> None:
    back = b"%d-%d" % letter.dot
    if is_known(replica, key, STORE, back):
        return
    add_named(replica, key, entry_id, letter.fields, (STORE, back))
    for other in sorted(replica.keyspace.databases[key[0]][key[1]].groups):
        if other != name:
            replica.prepare_runs(key, other, {replica.applied.origin: [(id_below(entry_id), entry_id)]})


def _decide(replica: Replica, *keys: Key) -> None:
    """Adds under one name that met are decided before something is prepared that has to be in one batch."""
    for key in keys:
        if key in replica.keyspace.named.met:
            remove_lost(replica, key)


def _letter_bytes(stream: Stream, poison: PoisonEntry, letters: Key, fields: list[bytes]) -> int:
    size = entry_bytes(letters[1], fields) + EFFECTS * (EFFECT_BYTES + len(letters[1])) + 2 * NAME_BYTES
    # Twice: what is acknowledged with it may be the entry that stays of several with its name, and new runs.
    return size + 4 * _acknowledgement_bytes(stream.groups[poison.group], poison.key, poison.group)


def return_bytes(replica: Replica, key: Key, letter: Letter) -> int:
    """What bringing a letter back takes in a batch."""
    size = entry_bytes(key[1], letter.fields) + EFFECTS * (EFFECT_BYTES + len(key[1]) + len(letter.key[1]))
    groups = replica.keyspace.databases[key[0]][key[1]].groups
    acknowledged = sum([_acknowledgement_bytes(group, key, name) for name, group in groups.items()])
    return size + acknowledged + ORIGIN_BYTES + RANGE_BYTES + NAME_BYTES


def _acknowledgement_bytes(group: Group, key: Key, name: bytes) -> int:
    return EFFECT_BYTES + len(key[1]) + len(name) + ORIGIN_BYTES * (2 * len(group.creates) + 1) + INTERVAL_BYTES
