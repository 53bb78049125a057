"""The hash sums of all keys of a region at one vector, as a tree whose branches two regions compare.

A *scope* is a path in the tree, one label for each step; its *rows* are the sums one step further down:

    ()                              keys, members
    (keys,) (keys, d) (keys, d, e)  the keys whose hashes begin with these digits, 6 bits a step
    (keys, d, e, f)                 those keys, by their full hashes
    (keys, d, e, f, hash)           portions of a key: registers, the entries of an origin, groups
    (..., entries of an origin, interval, interval, ...)   intervals of counters, finally single entries
    (..., group)                    starts and runs
    (members,)                      the rows of the table

The tree is built in steps, each of which visits a limited number of entries; it keeps the hash and the sum of each key.
It is only meaningful while the vector of the region does not change.

Invariant: while the replica stands at `vector`, rows are a function of the replicated state alone. A scope has at most
`ROWS_MAX` rows, those with the smallest labels; the others are not compared.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from crdtstream.core import merkle
from crdtstream.core.digest import walk_on
from crdtstream.core.effects import Key
from crdtstream.core.entries.block import Block
from crdtstream.core.merkle import Measure, PortionSums
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream

Scope = tuple[bytes, ...]

KEYS: Final = b"keys"
MEMBERS: Final = b"members"
ROWS_MAX: Final = 64
DIGIT_BITS: Final = 6
HASH_BITS: Final = 64
LEAF_DIGITS: Final = 2
KEY_DEPTH: Final = 4
PORTION_DEPTH: Final = 5
PORTIONS_FOLLOWED: Final = 8
# The fixed cost of visiting a key or a block, in entries.
KEY_ENTRIES: Final = 16
BLOCK_ENTRIES: Final = 4
MODULUS: Final = 1 << 64


class Leaf:
    """The keys whose hashes begin with the same two digits."""

    __slots__ = ("hashes", "keys", "sums", "total")

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.hashes: array[int] = array("Q")
        self.sums: array[int] = array("Q")
        self.total = 0

    def add(self, key: Key, hashed: int, added: int) -> None:
        self.keys.append(key)
        self.hashes.append(hashed)
        self.sums.append(added)
        self.total = (self.total + added) % MODULUS


class HashTree:
    """The hash tree of one state; complete once `step` has set `done`."""

    __slots__ = ("_leaves", "_replica", "_unsummed", "_walk", "done", "vector")

    def __init__(self, replica: Replica) -> None:
        self.vector = replica.applied.vector.copy()
        self.done = False
        self._replica = replica
        self._leaves: dict[int, Leaf] = {}
        # The block that the next step hashes.
        self._unsummed: Block | None = None
        self._walk = self._visits()

    # Building

    def step(self, entries_max: int) -> bool:
        """Continue by about this many entries; True if that completed the tree. Raises NotAtOnce if it needs a spilled
        block; then it goes on there.
        """
        if self.done:
            return False
        self.done = walk_on(self._walk, entries_max, self._prepare)
        return self.done

    def _prepare(self) -> None:
        if self._unsummed is not None:
            self._unsummed.checksum()
            self._unsummed = None

    def _visits(self) -> Iterator[int]:
        """Visit every key and block; yields the cost of the next visit before making it."""
        for number, streams in enumerate(self._replica.keyspace.databases):
            for name in list(streams):
                yield KEY_ENTRIES
                stream = streams.get(name)
                if stream is None or not stream.exists():
                    continue
                measures: dict[int, Measure] = {}
                for origin in sorted(stream.trees):
                    measure = measures[origin] = Measure()
                    blocks, head, _ = stream.trees[origin].blocks()
                    for block in blocks:
                        self._unsummed = None if head else block
                        yield BLOCK_ENTRIES + (block.count - head if head else block.unsummed())
                        measure.add_block(block, head, block.count)
                        head = 0
                self._add((number, name), stream, measures)

    def _add(self, key: Key, stream: Stream, measures: dict[int, Measure]) -> None:
        hashed = merkle.key_hash(key)
        at = prefix(hashed, LEAF_DIGITS)
        leaf = self._leaves.get(at)
        if leaf is None:
            leaf = self._leaves[at] = Leaf()
        leaf.add(key, hashed, merkle.stream_sum(hashed, stream, measures))

    # Asking

    def rows(self, scope: Scope) -> PortionSums | None:
        """Return the rows of a scope, or None if there can be no such scope."""
        rows = self._rows(scope)
        if rows is None or len(rows) <= ROWS_MAX:
            return rows
        return {label: rows[label] for label in sorted(rows)[:ROWS_MAX]}

    def _rows(self, scope: Scope) -> PortionSums | None:
        if not scope:
            total = sum([leaf.total for leaf in self._leaves.values()]) % MODULUS
            members = merkle.member_hashes(self._replica.applied.members)
            return {KEYS: total, MEMBERS: merkle.rows_sum(members)}
        if scope == (MEMBERS,):
            return merkle.member_hashes(self._replica.applied.members)
        if scope[0] != KEYS:
            return None
        if len(scope) <= KEY_DEPTH:
            return self._rows_of_keys(scope)
        key = self.key_of(scope)
        stream = None if key is None else self._replica.keyspace.known(key)
        return {} if stream is None else self._rows_of_key(stream, scope[PORTION_DEPTH:])

    def _rows_of_keys(self, scope: Scope) -> PortionSums | None:
        digits = [label[0] for label in scope[1:] if len(label) == 1 and label[0] < 1 << DIGIT_BITS]
        depth = len(scope) - 1
        if len(digits) != depth:
            return None
        start = 0
        for digit in digits:
            start = start << DIGIT_BITS | digit
        return self._rows_of_leaves(start, depth) if depth < LEAF_DIGITS else self._rows_of_leaf(start, depth)

    def _rows_of_leaves(self, start: int, depth: int) -> PortionSums:
        rows: PortionSums = {}
        for at, leaf in self._leaves.items():
            if at >> DIGIT_BITS * (LEAF_DIGITS - depth) == start:
                label = digit_label(at >> DIGIT_BITS * (LEAF_DIGITS - depth - 1))
                rows[label] = (rows.get(label, 0) + leaf.total) % MODULUS
        return rows

    def _rows_of_leaf(self, start: int, depth: int) -> PortionSums:
        rows: PortionSums = {}
        leaf = self._leaves.get(start >> DIGIT_BITS * (depth - LEAF_DIGITS))
        if leaf is None:
            return rows
        for hashed, added in zip(leaf.hashes, leaf.sums, strict=True):
            if prefix(hashed, depth) == start:
                label = hash_label(hashed) if depth + 1 == KEY_DEPTH else digit_label(prefix(hashed, depth + 1))
                rows[label] = (rows.get(label, 0) + added) % MODULUS
        return rows

    def scope_of(self, key: Key) -> Scope:
        """Return the scope of a key's portions."""
        hashed = merkle.key_hash(key)
        digits = [digit_label(prefix(hashed, depth)) for depth in range(1, KEY_DEPTH)]
        return (KEYS, *digits, hash_label(hashed))

    def key_of(self, scope: Scope) -> Key | None:
        """Return the key whose hash the scope names, if it exists here."""
        label = scope[KEY_DEPTH]
        hashed = int.from_bytes(label, "big") if len(label) == HASH_BITS // 8 else 0
        leaf = self._leaves.get(prefix(hashed, LEAF_DIGITS))
        if leaf is None or hashed not in leaf.hashes:
            return None
        return leaf.keys[leaf.hashes.index(hashed)]

    def _rows_of_key(self, stream: Stream, scope: Scope) -> PortionSums | None:
        if not scope:
            return merkle.stream_hashes(stream, merkle.measures_of(stream))
        for name, group in stream.groups.items():
            if merkle.group_label(name) == scope[0]:
                return merkle.group_hashes(group)
        origin = self._origin_of(scope[0])
        if not origin:
            return {}
        interval = (1, self.vector.get(origin)) if len(scope) == 1 else merkle.interval_of(scope[-1])
        return None if interval is None else merkle.entry_hashes(stream.trees.get(origin), *interval)

    def origin_of(self, scope: Scope) -> int:
        """Return the origin whose entries the scope covers; 0 if it covers something else."""
        return self._origin_of(scope[PORTION_DEPTH]) if len(scope) > PORTION_DEPTH else 0

    def _origin_of(self, label: bytes) -> int:
        return next((origin for origin, _ in self.vector.items() if merkle.entries_label(origin) == label), 0)

    def check(self) -> None:
        for at, leaf in self._leaves.items():
            assert len(leaf.keys) == len(leaf.hashes) == len(leaf.sums), "keys, hashes and sums differ in number"
            assert leaf.total == sum(leaf.sums) % MODULUS, "a leaf's total is not the sum of its keys"
            assert all(prefix(hashed, LEAF_DIGITS) == at for hashed in leaf.hashes), "a key in another's leaf"


def prefix(hashed: int, digits: int) -> int:
    return hashed >> HASH_BITS - DIGIT_BITS * digits


def digit_label(digits: int) -> bytes:
    """Return the label of the last digit."""
    return bytes([digits % (1 << DIGIT_BITS)])


def hash_label(hashed: int) -> bytes:
    return hashed.to_bytes(HASH_BITS // 8, "big")


def leads_on(scope: Scope, label: bytes) -> bool:
    """Return whether this row of the scope has rows of its own."""
    if not scope:
        return True
    if scope[0] == MEMBERS:
        return False
    if len(scope) < PORTION_DEPTH:
        return True
    if len(scope) == PORTION_DEPTH:
        return label.startswith((merkle.ENTRIES, merkle.GROUP))
    return merkle.BETWEEN in label and scope[PORTION_DEPTH].startswith(merkle.ENTRIES)


def narrower(scope: Scope, labels: list[bytes]) -> list[Scope]:
    """Return the scopes to compare next: one branch at most, except at the root and among the portions of a key."""
    most = PORTIONS_FOLLOWED if len(scope) in (0, PORTION_DEPTH) else 1
    return [(*scope, label) for label in labels if leads_on(scope, label)][:most]


def differing(own: PortionSums, theirs: PortionSums) -> list[bytes]:
    """Return the labels whose sums differ, ascending. If rows were cut at `ROWS_MAX`, only labels that both sides could
    know.
    """
    # A side with `ROWS_MAX` rows may have left out larger labels, which then prove nothing.
    ends = [max(rows) for rows in (own, theirs) if len(rows) >= ROWS_MAX]
    labels = sorted({*own, *theirs})
    return [label for label in labels if own.get(label) != theirs.get(label) and all(label <= end for end in ends)]
