"""A digest of replicated state: equal in two regions exactly when clients of both must see the same data.

Covered: the table of members; and of each stream, for each origin, the number of live entries and the sum of their
checksums (which also cover their dots); the last ID, entries-added, the max-deleted ID, the expiries and the
properties; and of each group its create dots with their starts and the runs acknowledged under them.

Never covered: local state (consumers, pending entries, cursors); tombstones, which some regions may have forgotten; and
the clock, so an expired key counts until it is deleted. A key that does not exist contributes nothing, even if
tombstones or registers of it remain.

Everything is encoded as fixed-width numbers and length-prefixed bytes, so different states cannot produce the same
input: keys in the order of their places (core/values/key_order.py), all else sorted.

**In slices.** A `Digesting` advances in steps while the region goes on serving. First it hashes entries in blocks that
have no sum yet: nearly all of the work, and valid at any moment, since blocks keep their sums. Then it fixes the moment
by copying the vector, and goes through the keys; a key that is about to change before its turn is digested right then.
So the digest belongs to one vector however much is written meanwhile, and takes as many steps as there are keys. The
largest single step is one key whose blocks are all summed: a microsecond for each block. So meanwhile no block may be
spilled without its sum (core/spill_walk.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from struct import pack
from typing import Final

from crdtstream.core.effects import Key, Position
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.spilled import NotAtOnce
from crdtstream.core.groups.create import NEVER_RESET
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import PropertyRegisters
from crdtstream.core.keyspace import Observer
from crdtstream.core.replica import Replica
from crdtstream.core.streams.properties import StreamProperties
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import U64_MAX
from crdtstream.core.values.key_order import place_of

DIGEST_BYTES = 20
KEYS_A_READ: Final = 64
# The cost of visiting a key, or a block that already has its sum, in units of one entry hashed.
KEY_ENTRIES: Final = 8
BLOCKS_AN_ENTRY: Final = 4
BEFORE_ALL: Final = (-1, 0, b"")


class Digesting(Observer):
    """A digest computed in steps, of every existing key or of one key; call `release` to abandon it early."""

    __slots__ = ("_early", "_is_counted", "_place", "_replica", "_unsummed", "_walk", "digest", "done", "key", "vector")

    def __init__(self, replica: Replica, key: Key | None = None) -> None:
        self.vector: VersionVector | None = None
        self.digest: bytes | None = None
        self.done = False
        self.key = key
        self._replica = replica
        self._early: dict[Key, bytes] = {}
        self._place = BEFORE_ALL
        # The block that the next step hashes.
        self._unsummed: Block | None = None
        self._walk = self._digest_all() if key is None else self._digest_one(key)
        self._is_counted = True
        replica.keyspace.digests += 1

    def step(self, entries_max: int) -> bool:
        """Advance by about `entries_max` entries. True once finished: `digest` then belongs to `vector`, and is None if
        the one key did not exist. Raises NotAtOnce if it needs a spilled block; then it goes on there.
        """
        try:
            self.done = self.done or walk_on(self._walk, entries_max, self._prepare)
        except NotAtOnce:
            raise
        except Exception:
            self.release()
            raise
        if self.done:
            self.release()
        return self.done

    def _prepare(self) -> None:
        if self._unsummed is not None:
            self._unsummed.checksum()
            self._unsummed = None

    def release(self) -> None:
        """End the digest, whether or not it is done."""
        if self._is_counted:
            self._is_counted = False
            self._replica.keyspace.digests -= 1
        if self in self._replica.keyspace.observers:
            self._replica.keyspace.observers.remove(self)

    def is_fixed(self) -> bool:
        """True once the moment of the digest is fixed: later changes have no part in it."""
        return self.vector is not None

    def before_change(self, key: Key) -> None:
        if key not in self._early and (key[0], place_of(key[1]), key[1]) > self._place:
            self._early[key] = self._part_of(key)

    def _digest_one(self, key: Key) -> Iterator[int]:
        yield from self._sum_up(key)
        self.vector = self._replica.applied.vector.copy()
        stream = self._replica.keyspace.known(key)
        self.digest = None if stream is None else digest_stream(stream)

    def _digest_all(self) -> Iterator[int]:
        for number, order in enumerate(self._replica.keyspace.orders):
            cursor, names = order.read(0, KEYS_A_READ)
            while names:
                for name in names:
                    yield from self._sum_up((number, name))
                if not cursor:
                    break
                cursor, names = order.read(cursor, KEYS_A_READ)
        yield from self._digest_at_once()

    def _sum_up(self, key: Key) -> Iterator[int]:
        """Hash the unsummed blocks of a key; yields the cost of each step before performing it."""
        yield KEY_ENTRIES
        stream = self._replica.keyspace.databases[key[0]].get(key[1])
        for tree in [] if stream is None else list(stream.trees.values()):
            blocks, _, _ = tree.blocks()
            for at in range(len(blocks)):
                if blocks[at].unsummed() or at % BLOCKS_AN_ENTRY == 0:
                    self._unsummed = blocks[at]
                    yield 1 + blocks[at].unsummed()

    def _digest_at_once(self) -> Iterator[int]:
        """Digest all keys as of the moment this starts, even if they change before it reaches them."""
        replica = self._replica
        self.vector = replica.applied.vector.copy()
        members = replica.applied.members.lasting_rows()
        total = blake2b(
            packed([len(members), *[number for row in members for number in row]]), digest_size=DIGEST_BYTES
        )
        # A copy, so that keys created after this moment are not visited.
        all_names = [order.names() for order in replica.keyspace.orders]
        replica.keyspace.observers.append(self)
        for number, names in enumerate(all_names):
            for name in names:
                self._place = (number, place_of(name), name)
                part = self._early.pop((number, name), None)
                total.update(self._part_of((number, name)) if part is None else part)
                yield KEY_ENTRIES
        self.digest = total.digest()

    def _part_of(self, key: Key) -> bytes:
        """The digest input of one key; empty if the key does not exist. Nobody may wait here: a walk that is left by an
        exception does not go on.
        """
        stream = self._replica.keyspace.databases[key[0]].get(key[1])
        if stream is None or not stream.exists():
            return b""
        reads = self._replica.reads
        may_wait, reads.may_wait = reads.may_wait, False
        try:
            return packed([key[0], len(key[1])]) + key[1] + digest_stream(stream)
        finally:
            reads.may_wait = may_wait


def digest_replica(replica: Replica) -> bytes:
    """The digest of the table of members and of every existing key."""
    digesting = Digesting(replica)
    while not digesting.step(1 << 30):
        pass
    assert digesting.digest is not None
    return digesting.digest


def digest_stream(stream: Stream) -> bytes:
    live = [origin for origin in sorted(stream.trees) if stream.trees[origin].count]
    numbers = [*stream.top, *stream.max_deleted(), stream.entries_added(), len(stream.groups), len(live)]
    for origin in live:
        tree = stream.trees[origin]
        numbers += (origin, tree.checksum(), tree.count)
    expiries = stream.expiries()
    numbers.append(len(expiries))
    for expiry in expiries:
        numbers += expiry
    if stream.properties is not None:
        numbers += numbers_of_properties(stream.properties)
    digest = blake2b(packed(numbers), digest_size=DIGEST_BYTES)
    for name in sorted(stream.groups):
        digest.update(packed([len(name)]) + name + packed(numbers_of(stream.groups[name])))
    return digest.digest()


def numbers_of(group: Group) -> list[int]:
    """The create dots of a group, each with its start and its runs, as numbers."""
    numbers = [len(group.creates)]
    for dot in sorted(group.creates):
        create = group.creates[dot]
        numbers += dot
        numbers += numbers_of_position(create.start)
        origins = [origin for origin in sorted(create.runs) if create.runs[origin]]
        numbers.append(len(origins))
        for origin in origins:
            pairs = create.runs[origin].pairs()
            numbers += (origin, len(pairs))
            for low, high in pairs:
                numbers += (*low, *high)
        if create.properties:
            numbers += numbers_of_registers(create.properties)
        if create.reset != NEVER_RESET:
            numbers += create.reset
    return numbers


def numbers_of_registers(registers: PropertyRegisters) -> list[int]:
    """PropertyRegisters as numbers, in the order of their names; texts as their lengths and hashes."""
    numbers = [len(registers)]
    for name in sorted(registers):
        number, origin, value = registers[name]
        numbers += (len(name), text_number(name), number, origin, len(value), text_number(value))
    return numbers


def numbers_of_properties(properties: StreamProperties) -> list[int]:
    """The registers of a stream as numbers; texts as their lengths and hashes."""
    rows = properties.rows()
    numbers = [len(rows)]
    for name, origin, counter, number, value in rows:
        numbers += (len(name), text_number(name), origin, counter, number, len(value), text_number(value))
    return numbers


def text_number(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def numbers_of_position(position: Position) -> list[int]:
    """A position as numbers; origins at the default are left out, because they say nothing more."""
    named = [origin for origin in sorted(position.ids) if position.ids[origin] != position.default]
    numbers = [*position.default, len(named)]
    for origin in named:
        numbers += (origin, *position.ids[origin])
    return numbers


def packed(numbers: list[int]) -> bytes:
    """Fixed-width encoding; an entries-added below zero, which another region's offset can cause, wraps around."""
    return pack(f">{len(numbers)}Q", *[number & U64_MAX for number in numbers])


def walk_on(walk: Iterator[int], cost_max: int, prepare: Callable[[], None] | None = None) -> bool:
    """Advance a walk that yields the cost of each step, spending about `cost_max`; true at its end. What may fail and
    be tried again is done by `prepare` before each step: a walk that raises has ended.
    """
    spent = 0
    while spent < cost_max:
        if prepare is not None:
            prepare()
        cost = next(walk, 0)
        if not cost:
            return True
        spent += cost
    return False
