"""Blocks of a state that arrives: spilled beyond half of what is allowed, readable without their name, copied by the
next checkpoint.
"""

from __future__ import annotations

import pytest

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.entries.spilled import STAGED
from crdtstream.core.replica import Replica
from crdtstream.replication.transfer.snapshot import Snapshot
from crdtstream.replication.transfer.staging import Staging
from crdtstream.storage.staged_blocks import StagedBlocks
from simulations.disk import SimulatedDisk
from tests.core.trees import block_of, row

ROWS = [row((number, 1), number, 50) for number in range(1, 101)]


def staged_blocks(disk: SimulatedDisk, allowed_bytes: int) -> StagedBlocks:
    return StagedBlocks(disk, OpenBlockCache(1 << 20), lambda: allowed_bytes)


def filled() -> Replica:
    replica = Replica(1)
    for number in range(1, 1_500):
        replica.add_entry((0, b"x"), (number, 0), [b"f", b"value %d" % number])
        replica.add_entry((0, b"y"), (number, 0), [b"f", b"v"])
    replica.drain()
    return replica


def test_a_staged_state_is_what_it_was_and_mostly_on_the_disk() -> None:
    source, disk = filled(), SimulatedDisk()
    blocks = staged_blocks(disk, 8_000)
    snapshot, staging = Snapshot(source, []), Staging(1, 7, blocks.spill)
    index = 0
    while not staging.is_done():
        chunk = snapshot.chunk(1_000)
        staging.stage(index, chunk)
        index += 1
    blocks.end()
    trees = [stream.trees[1] for stream in staging.state.streams.values()]
    spilled = [[block.is_spilled() for block in tree.blocks()[0]] for tree in trees]
    assert sum(map(sum, spilled)) > sum(map(len, spilled)) // 2 and not any(of_tree[-1] for of_tree in spilled)
    assert STAGED not in disk.names()
    for (database, name), stream in staging.state.streams.items():
        stream.trees[1].check()
        assert stream.trees[1].checksum() == source.keyspace.databases[database][name].trees[1].checksum()


def test_a_small_state_stays_in_memory() -> None:
    disk, block = SimulatedDisk(), block_of(ROWS)
    staged_blocks(disk, 1 << 20).spill(block)
    assert not block.is_spilled() and disk.names() == []


def test_nothing_is_spilled_where_all_is_kept_in_memory() -> None:
    disk, block = SimulatedDisk(), block_of(ROWS)
    staged_blocks(disk, 0).spill(block)
    assert not block.is_spilled() and disk.names() == []


def test_a_disk_without_room_leaves_blocks_in_memory() -> None:
    disk = SimulatedDisk()
    blocks, first, second = staged_blocks(disk, 1), block_of(ROWS), block_of(ROWS)
    blocks.spill(first)
    disk.capacity_bytes = disk.used_bytes()
    blocks.spill(second)
    assert first.is_spilled() and not second.is_spilled()
    second.check()
    disk.capacity_bytes = None
    blocks.end()
    third: Block = block_of(ROWS)
    blocks.spill(third)
    assert third.is_spilled()


def test_a_file_of_a_transfer_that_did_not_end_is_deleted() -> None:
    disk = SimulatedDisk()
    disk.create(STAGED, 10)
    staged_blocks(disk, 1).end()
    assert disk.names() == []


@pytest.mark.parametrize("ends", [False, True])
def test_a_block_stays_readable_when_the_file_has_lost_its_name(ends: bool) -> None:
    disk = SimulatedDisk()
    blocks, block = staged_blocks(disk, 1), block_of(ROWS)
    blocks.spill(block)
    if ends:
        blocks.end()
    assert block.data() == block_of(ROWS).data() and block.checksum() == block_of(ROWS).checksum()
