"""Blocks of checkpoints after a start: closed, and of their real size."""

from __future__ import annotations

import pytest

from crdtstream.core.packing_walk import PackingWalk
from crdtstream.core.streams.deleted_streams import FORGOTTEN
from crdtstream.core.values.entry_id import STRICT
from crdtstream.storage.recovery import CheckpointDamaged
from simulations.cluster import Cluster
from simulations.machine import Machine
from simulations.portrait import lasting
from tests.storage.test_checkpoint import LIMITS, fill, run, same


def walk_twice(region: Machine) -> PackingWalk:
    packing = region.node.context.packing
    for _ in range(2):
        region.node.replica.keyspace.now_ms += 1_000
        while packing.step(1_000, 1_000):
            pass
    return packing


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_start_opens_no_block_but_what_a_trim_cut(trimmed: bool) -> None:
    """What is full is packed on disk and closed after the start; the last block of a tree is neither."""
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    fill(cluster, 4000)
    if trimmed:
        run(cluster, "XTRIM x MAXLEN 1001")
    region.checkpoint()
    before = lasting(region.node)
    cluster.restart(1)
    streams = region.node.replica.keyspace.databases[0]
    trees = [tree.blocks()[0] for name in (b"x", b"y", b"z") for tree in streams[name].trees.values()]
    full = [block for blocks in trees for block in blocks[:-1]]
    assert sum(not block.is_packed for block in full) == region.node.open_blocks.opened == trimmed
    assert len(full) > len(trees) and not any(blocks[-1].is_packed for blocks in trees)
    region.node.check()
    assert same(lasting(region.node), before)


def test_idle_work_after_a_start_puts_what_the_checkpoint_packed_into_column_layout() -> None:
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    for number in range(1000):
        run(cluster, f"XADD x * temperature {number * 37 % 41}.{number * 71 % 97} humidity 0.{number * 11 % 89}")
    region.checkpoint()
    before = lasting(region.node)
    cluster.restart(1)
    tree = next(iter(region.node.replica.keyspace.databases[0][b"x"].trees.values()))
    kept = [block.packed_form for block in tree.blocks()[0][:-1]]
    packed_bytes = sum(len(packed_form.packed) for packed_form in kept if packed_form)
    packing = walk_twice(region)
    assert len(kept) > 2 and all(packed_form and packed_form.in_column_layout for packed_form in kept)
    assert (
        sum(len(packed_form.packed) for packed_form in kept if packed_form)
        == packed_bytes - packing.saved_bytes
        < packed_bytes
    )
    assert packing.open_blocks.opened == 0 and same(lasting(region.node), before)


@pytest.mark.parametrize("opened_by", ["trim", "log"])
def test_a_block_that_was_written_wrong_stops_the_start_that_needs_it(opened_by: str) -> None:
    """Its section is intact, so nothing but unpacking the block tells."""
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    for number in range(1200):
        run(cluster, f"XADD x * f {number:08d}")
    if opened_by == "trim":
        run(cluster, "XTRIM x MAXLEN 1101")
    walk_twice(region)
    blocks = next(iter(region.node.replica.keyspace.databases[0][b"x"].trees.values())).blocks()[0]
    packed_forms = [block.packed_form for block in blocks[:2] if block.packed_form is not None]
    packed = [packed_form.packed for packed_form in packed_forms]
    packed_forms[0].packed = packed[1]
    region.checkpoint()
    packed_forms[0].packed = packed[0]
    if opened_by == "log":
        ms, seq = blocks[0].id_at(7)
        run(cluster, f"XDEL x {ms}-{seq}")
    with pytest.raises(
        CheckpointDamaged, match=r"blocks-\d+ is damaged .* block of 256 entries from .* on: it unpacks"
    ):
        cluster.restart(1)


def test_a_stream_that_is_forgotten_before_its_capture_leaves_its_trace() -> None:
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    run(cluster, "XADD first * f v")
    run(cluster, "XADD x * f v")
    run(cluster, "DEL x")
    keyspace, vector = region.node.replica.keyspace, region.node.replica.applied.vector
    keyspace.collect(vector.copy(), 10)
    assert list(keyspace.databases[0]) == [b"first", b"x"]
    assert not region.checkpoint_step(1)
    keyspace.collection.deleted.streams_max = 0
    keyspace.collect(vector.copy(), 10)
    assert list(keyspace.databases[0]) == [b"first", FORGOTTEN]
    region.checkpoint()
    cluster.restart(1)
    assert region.node.replica.keyspace.databases[0][FORGOTTEN].metas.of(1).trimmed_to == 2
