"""Walks that pack what nobody reads."""

from __future__ import annotations

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Position
from crdtstream.core.entries.block import BLOCK_ENTRIES, Block
from crdtstream.core.entries.block_list import NO_TAIL
from crdtstream.core.entries.packed_block import BlockDamaged
from crdtstream.core.groups.group import Group
from crdtstream.core.packing_walk import PACK_COST, PackingWalk
from crdtstream.core.replica import Replica
from tests.core.histories import copied

AFTER_MS = 1_000
ALL = 1 << 40


def filled(keys: int, blocks: int) -> tuple[Replica, PackingWalk]:
    """Streams of this many full blocks each, and one entry more."""
    replica = Replica(1)
    replica.keyspace.now_ms = 10 * AFTER_MS
    for key in range(keys):
        for number in range(1, blocks * BLOCK_ENTRIES + 2):
            replica.add_entry((0, b"key-%d" % key), (number, 0), [b"f", b"value"])
    replica.drain()
    return replica, PackingWalk(replica.keyspace)


def blocks_of(replica: Replica) -> list[Block]:
    trees = [tree for _, stream in replica.keyspace.streams() for tree in stream.trees.values()]
    return [block for tree in trees for block in tree.blocks()[0]]


def walk(replica: Replica, packing: PackingWalk) -> None:
    """Let time pass and walk once."""
    replica.keyspace.now_ms += AFTER_MS
    while packing.step(100, AFTER_MS):
        packing.check()
    packing.check()


def test_the_second_walk_packs_what_the_first_saw() -> None:
    replica, packing = filled(3, 2)
    walk(replica, packing)
    assert (packing.walks, packing.census.blocks, packing.census.packed_blocks) == (1, 6, 0)
    walk(replica, packing)
    assert (packing.walks, packing.census.blocks, packing.census.packed_blocks) == (2, 6, 6)
    assert [block.is_packed for block in blocks_of(replica)] == [True, True, False] * 3
    assert packing.census.packed_bytes == sum(
        len(b.packed_form.packed) for b in blocks_of(replica) if b.packed_form is not None
    )
    assert packing.saved_bytes > 6 * BLOCK_ENTRIES * 40


def test_small_blocks_of_another_region_are_gathered() -> None:
    source, replica = Replica(2), Replica(1)
    number = 0
    for count in (100, 90, 66, 192, 64, 150, 106, 70):
        for _ in range(count):
            number += 1
            source.add_entry((0, b"key"), (number, 0), [b"f", b"value"])
        batch = source.drain().batch
        assert batch is not None
        replica.apply_batch(copied(batch))
    assert [block.count for block in blocks_of(replica)] == [100, 90, 66, 192, 64, 150, 106, 70]
    replica.keyspace.now_ms = 10 * AFTER_MS
    packing = PackingWalk(replica.keyspace)
    walk(replica, packing)
    walk(replica, packing)
    assert [block.count for block in blocks_of(replica)] == [BLOCK_ENTRIES, 192, BLOCK_ENTRIES, 64, 70]
    assert [block.is_packed for block in blocks_of(replica)] == [True, True, True, True, False]
    assert (packing.packed, packing.census.blocks, packing.census.packed_blocks) == (4, 4, 4)
    assert digest_replica(replica) == digest_replica(source)
    replica.check()


def test_groups_leave_the_blocks_that_are_gathered() -> None:
    """Or else what a group read last would stay in memory as it was."""
    source, replica = Replica(2), Replica(1)
    for number in range(1, 301):
        source.add_entry((0, b"key"), (number, 0), [b"f", b"value"])
        if number % 75 == 0:
            batch = source.drain().batch
            assert batch is not None
            replica.apply_batch(copied(batch))
    stream, group = replica.keyspace.databases[0][b"key"], Group((1, 1), Position(), -1)
    stream.groups = {b"g": group}
    delivery = group.next_entries(stream.chains, 10)
    group.apply_delivered(stream.trees, b"consumer", 1, delivery.intervals, True, delivery.offer)
    assert group._read_cursor._block is blocks_of(replica)[0]
    packing = PackingWalk(replica.keyspace)
    for _ in range(3):
        walk(replica, packing)
    assert blocks_of(replica)[0].count == 225 and group._read_cursor._block is NO_TAIL
    delivery = group.next_entries(stream.chains, 10)
    assert [run.block.id_at(run.low) for run in delivery.runs] == [(11, 0)]


def test_a_damaged_block_is_left_to_whoever_reads_it() -> None:
    replica, packing = filled(1, 3)
    walk(replica, packing)
    walk(replica, packing)
    first, second, *_ = [block.packed_form for block in blocks_of(replica) if block.packed_form is not None]
    for packed_form in (first, second):
        packed_form.is_layout_tried = False
    first.packed = first.packed[:-4]
    for _ in range(2):
        walk(replica, packing)
    assert packing.damaged == 1 and second.is_layout_tried
    with pytest.raises(BlockDamaged):
        blocks_of(replica)[0].data()


def test_what_is_read_between_walks_stays() -> None:
    replica, packing = filled(1, 2)
    for _ in range(3):
        blocks_of(replica)[0].entry(7)
        walk(replica, packing)
    assert [block.is_packed for block in blocks_of(replica)] == [False, True, False]
    assert packing.census.packed_blocks == 1


def test_no_walk_begins_before_its_time() -> None:
    replica, packing = filled(1, 2)
    walk(replica, packing)
    assert not packing.step(ALL, AFTER_MS)
    replica.keyspace.now_ms += AFTER_MS - 1
    assert not packing.step(ALL, AFTER_MS)
    assert packing.walks == 1
    replica.keyspace.now_ms -= 5 * AFTER_MS
    assert not packing.step(ALL, AFTER_MS)
    assert packing.walks == 2, "a clock that was set back held the walks"


def test_nothing_is_packed_if_that_is_off() -> None:
    replica, packing = filled(1, 2)
    replica.keyspace.now_ms += AFTER_MS
    assert not packing.step(ALL, 0)
    assert packing.walks == 0


def test_a_step_costs_about_what_it_may() -> None:
    replica, packing = filled(2, 3)
    walk(replica, packing)
    replica.keyspace.now_ms += AFTER_MS
    steps = 0
    while packing.step(PACK_COST, AFTER_MS):
        steps += 1
        assert packing.packed <= steps
    assert packing.census.packed_blocks == 6


def test_a_walk_survives_what_happens_to_its_keys() -> None:
    replica, packing = filled(40, 1)
    walk(replica, packing)
    replica.keyspace.now_ms += AFTER_MS
    number = 0
    while packing.step(1, AFTER_MS):
        replica.keyspace.check()
        if number < 40:
            replica.delete_stream((0, b"key-%d" % number))
            replica.add_entry((0, b"new-%d" % number), (1, 0), [b"f", b"value"])
        number += 1
    packing.check()
    walk(replica, packing)
    assert packing.census.blocks == 0


def test_opened_blocks_are_closed_by_a_later_walk() -> None:
    replica, packing = filled(1, 2)
    walk(replica, packing)
    walk(replica, packing)
    block = blocks_of(replica)[0]
    block.entry(3)
    walk(replica, packing)
    assert not block.is_packed
    walk(replica, packing)
    assert block.is_packed and packing.open_blocks.open_bytes == 0
    assert packing.packed == 2, "a block was packed twice"
