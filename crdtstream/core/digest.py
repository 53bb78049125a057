"""A digest of replicated state: equal in two regions exactly when clients of both must see the same.

Covered: the table of members; of each stream live dots as ranges for each origin, the sum of live entries' checksums,
the top, entries-added, the highest deleted ID, the expiries, and of each group its create dots with their starts and
the runs acknowledged under them.
Never covered: local state (consumers, pending entries, cursors), tombstones, which some regions may have forgotten, and
the clock: a key that is hidden by now counts until it is deleted. A key that does not exist has no part in it, whatever
is remembered of it.

Everything is written as fixed-width numbers and length-prefixed bytes, in sorted order, so that two states cannot run
into the same bytes.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import pack

from crdtstream.core.effects import Position
from crdtstream.core.entry_id import U64_MAX
from crdtstream.core.group import Group
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream

DIGEST_BYTES = 20


def digest_replica(replica: Replica) -> bytes:
    """The digest of the members and of every key that exists, in the order of databases and names."""
    members = replica.members.rows()
    total = blake2b(packed([len(members), *[number for row in members for number in row]]), digest_size=DIGEST_BYTES)
    for database, streams in enumerate(replica.databases):
        for name in sorted(streams):
            stream = streams[name]
            if stream.exists():
                total.update(packed([database, len(name)]) + name + digest_stream(stream))
    return total.digest()


def digest_stream(stream: Stream) -> bytes:
    live = [slot for slot in sorted(stream.trees) if stream.trees[slot].count]
    numbers = [*stream.top, *stream.max_deleted(), stream.entries_added(), len(stream.groups), len(live)]
    for slot in live:
        tree = stream.trees[slot]
        ranges = tree.counter_ranges()
        numbers += (slot, tree.checksum(), len(ranges))
        for pair in ranges:
            numbers += pair
    expiries = stream.expiries()
    numbers.append(len(expiries))
    for expiry in expiries:
        numbers += expiry
    digest = blake2b(packed(numbers), digest_size=DIGEST_BYTES)
    for name in sorted(stream.groups):
        digest.update(packed([len(name)]) + name + packed(numbers_of(stream.groups[name])))
    return digest.digest()


def numbers_of(group: Group) -> list[int]:
    """Create dots, each with its start and its runs."""
    numbers = [len(group.creates)]
    for dot in sorted(group.creates):
        create = group.creates[dot]
        numbers += dot
        numbers += numbers_of_position(create.start)
        slots = [slot for slot in sorted(create.runs) if create.runs[slot]]
        numbers.append(len(slots))
        for slot in slots:
            pairs = create.runs[slot].pairs()
            numbers += (slot, len(pairs))
            for low, high in pairs:
                numbers += (*low, *high)
    return numbers


def numbers_of_position(position: Position) -> list[int]:
    """Origins that stand at the default say nothing more."""
    named = [slot for slot in sorted(position.ids) if position.ids[slot] != position.default]
    numbers = [*position.default, len(named)]
    for slot in named:
        numbers += (slot, *position.ids[slot])
    return numbers


def packed(numbers: list[int]) -> bytes:
    """Fixed width; an entries-added below zero, which a foreign offset can make, wraps around."""
    return pack(f">{len(numbers)}Q", *[number & U64_MAX for number in numbers])
