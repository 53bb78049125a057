"""Checkpoints of a region that spills, in small blocks: what is on disk alone is what it was, whatever fails when."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import BlockDamaged
from crdtstream.core.entries.spilled import PLACE_BITS
from crdtstream.core.values.entry_id import STRICT
from crdtstream.storage import checkpoint
from crdtstream.storage.checkpoint import block_file, checkpoint_names, number_of
from crdtstream.storage.disk import DiskError, DiskFailed, DiskFull
from crdtstream.storage.recovery import CheckpointDamaged
from simulations.cluster import Cluster
from simulations.disk import Misses
from simulations.machine import Machine
from simulations.portrait import lasting
from tests.effort import INTERPRETED, examples
from tests.storage.test_checkpoint import (
    LIMITS,
    Crash,
    CrashingDisk,
    _small,
    fill,
    only_named_files,
    run,
    same,
)

__all__ = ["_small"]

# Compiled, the sizes of blocks and files are fixed, and what these tests write fills none.
pytestmark = pytest.mark.skipif(not INTERPRETED, reason="blocks cannot be made small")

SPILLING = replace(LIMITS, hot_bytes_max=1)


def blocks_of(region: Machine) -> list[Block]:
    """All blocks but the last of each tree."""
    streams = [stream for _, stream in region.node.replica.keyspace.streams()]
    return [block for stream in streams for tree in stream.trees.values() for block in tree.blocks()[0][:-1]]


def spill(region: Machine) -> int:
    """Spill whatever can be; returns how many blocks are spilled now."""
    blocks = blocks_of(region)
    for block in blocks:
        if block.handle is not None:
            block.spill(region.node.open_blocks)
            if not block.is_packed:
                block.drop_content()
    return sum(block.is_spilled() for block in blocks)


def spilling_region(fsync: str = "always") -> tuple[Cluster, Machine, CrashingDisk]:
    """One region with spilled blocks, others behind them, and files that are in use in part only."""
    cluster = Cluster(1, STRICT, fsync, limits=SPILLING)
    region = cluster.machines[1]
    disk = region.disk = CrashingDisk()
    cluster.restart(1)
    fill(cluster, 60)
    region.checkpoint()
    assert spill(region) > 8
    run(cluster, "XTRIM x MAXLEN 12")
    run(cluster, "DEL y")
    fill(cluster, 30)
    return cluster, region, disk


def opened(region: Machine) -> int:
    return region.node.open_blocks.opened


def test_checkpoint_and_start_open_no_spilled_block() -> None:
    cluster, region, _ = spilling_region()
    digest = run(cluster, "CRDT.DIGEST")
    before = lasting(region.node)
    spill(region)
    count = opened(region)
    for _ in range(3):
        region.checkpoint()
        assert spill(region) > 5
    assert opened(region) == count
    cluster.restart(1)
    blocks = blocks_of(region)
    assert sum(block.is_spilled() for block in blocks) >= len(blocks) - 3  # but those that a trim cut
    assert all(block.handle for block in blocks) and opened(region) <= 3
    assert region.node.open_blocks.reads.waited == region.node.open_blocks.reads.at_once == 0
    assert same(lasting(region.node), before) and run(cluster, "CRDT.DIGEST") == digest
    region.node.check()


def test_digests_read_no_spilled_block() -> None:
    cluster, region, _ = spilling_region()
    region.checkpoint()
    digest = run(cluster, "CRDT.DIGEST")
    cluster.restart(1)
    reads = region.node.open_blocks.reads
    before = (reads.at_once, reads.waited)
    assert run(cluster, "CRDT.DIGEST") == digest
    assert (reads.at_once, reads.waited) == before


def test_while_much_is_written_blocks_have_no_sums_and_a_digest_reads_them() -> None:
    cluster = Cluster(1, STRICT, limits=SPILLING)
    region = cluster.machines[1]
    fill(cluster, 60)
    region.sums = False
    region.checkpoint()
    assert spill(region) > 10 and all(block.unsummed() for block in blocks_of(region))
    spilled, digest = opened(region), run(cluster, "CRDT.DIGEST")
    assert opened(region) == spilled, "a digest keeps open what it reads"
    cluster.restart(1)
    assert all(block.is_spilled() and block.unsummed() for block in blocks_of(region))
    assert run(cluster, "CRDT.DIGEST") == digest
    assert all(block.is_spilled() and not block.unsummed() for block in blocks_of(region))


def test_all_that_is_sealed_can_be_spilled_after_a_checkpoint() -> None:
    """Also what was too small to pay when it was packed."""
    cluster = Cluster(1, STRICT, limits=SPILLING)
    region = cluster.machines[1]
    fill(cluster, 60)
    blocks = blocks_of(region)
    blocks[0].pack(region.node.open_blocks)
    region.checkpoint()
    assert spill(region) == len(blocks) > 10
    assert all(block.unsummed() == 0 for block in blocks)


def test_a_region_that_does_not_spill_knows_where_its_packed_blocks_lie() -> None:
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    for number in range(60):
        run(cluster, f"XADD x * field {'same ' * 40}{number}".replace("same ", "same"))
    region.checkpoint()
    cluster.restart(1)
    packed = [block for block in blocks_of(region) if block.is_packed]
    assert packed and all(block.handle and not block.is_spilled() for block in packed)
    before = lasting(region.node)
    assert spill(region) >= len(packed)
    assert same(lasting(region.node), before)


# When handles change


def handles(region: Machine) -> list[object]:
    return [block.handle for block in blocks_of(region)]


def committed() -> Machine:
    """A region with a checkpoint that is on the disk, and not concluded."""
    cluster = Cluster(1, STRICT, limits=SPILLING)
    region = cluster.machines[1]
    fill(cluster, 40)
    capture = region.checkpointer.begin()
    while not capture.done:
        capture.step(5)
        region.checkpointer.write(capture.drain_output())
    region.checkpointer.commit(1)
    return region


def test_a_block_gets_its_handle_once_the_checkpoint_is_in_force() -> None:
    region = committed()
    checkpointer = region.checkpointer
    assert not any(handles(region))
    checkpointer.conclude()
    assert not any(handles(region))
    while checkpointer.lay(1):
        pass
    assert all(handles(region))


def test_handles_that_nobody_gave_are_given_before_the_next_checkpoint() -> None:
    region = committed()
    checkpointer = region.checkpointer
    checkpointer.conclude()
    checkpointer.begin()
    assert all(handles(region))


@pytest.mark.parametrize("error", [DiskFailed, DiskFull])
def test_a_checkpoint_that_fails_leaves_all_handles_and_their_files(error: type[Exception]) -> None:
    """At every operation before the manifest."""
    operation, failed = 0, True
    while failed:
        _, region, disk = spilling_region("everysec")
        before, state = handles(region), lasting(region.node)
        spill(region)
        disk.left, disk.error = operation, error
        try:
            region.checkpoint()
            failed = False
        except (DiskFailed, DiskFull):
            assert handles(region) == before
            region.checkpointer.abort()
        except Exception as failure:
            if "the log failed" not in str(failure):
                raise
            break
        disk.left = None
        assert handles(region) == before or not failed
        assert all(block_file(number) in disk.names() for number in numbers(region))
        assert same(lasting(region.node), state)
        count = opened(region)
        spill(region)
        region.checkpoint()
        assert opened(region) == count, "a checkpoint after one that was given up opened a block"
        assert only_named_files(region)
        assert same(lasting(region.node), state)
        operation += 1
    assert operation > 5


def numbers(region: Machine) -> set[int]:
    """The files in which blocks lie."""
    return {block.handle.place >> PLACE_BITS for block in blocks_of(region) if block.handle is not None}


def test_a_checkpoint_that_was_given_up_makes_no_block_be_written_again() -> None:
    """The places that it set are invalid, and those of the handles are not."""
    cluster = Cluster(1, STRICT, limits=SPILLING)
    region = cluster.machines[1]
    fill(cluster, 60)
    region.checkpoint()
    spill(region)
    run(cluster, "XTRIM x MAXLEN 8")
    run(cluster, "DEL y")
    region.checkpoint()  # which finds what is little in use
    spill(region)
    before, named = handles(region), numbers(region)
    doomed = set(region.checkpointer._doomed)
    assert doomed & named
    capture = region.checkpointer.begin()
    while not capture.done:
        capture.step(100)
        region.checkpointer.write(capture.drain_output())
    region.checkpointer.abort()
    region.checkpointer._doomed.clear()
    region.checkpoint()
    assert handles(region) == before
    cluster.restart(1)
    region.node.check()


# Files


def test_a_block_is_readable_by_a_handle_whose_file_is_gone() -> None:
    cluster, region, disk = spilling_region()
    spill(region)
    blocks = {block.handle: block for block in blocks_of(region) if block.is_spilled()}
    before = {handle: handle.read() for handle in blocks if handle is not None}
    named = numbers(region)
    for _ in range(3):
        run(cluster, "XTRIM z MAXLEN 5")
        region.checkpoint()
        spill(region)
    assert not named & numbers(region) and not named & {number_of(name) for name in checkpoint_names(disk)}
    for handle, packed in before.items():
        assert handle.read() == packed and handle.is_whole(packed)
    moved = [block for handle, block in blocks.items() if block.handle is not handle]
    assert moved and all(block.handle is not None and block.handle.is_whole(block.handle.read()) for block in moved)


def test_a_checkpoint_copies_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "COPIED_BYTES_MAX", 1)
    cluster = Cluster(1, STRICT, limits=SPILLING)
    region = cluster.machines[1]
    fill(cluster, 300)
    region.checkpoint()
    spill(region)
    entries = run(cluster, "XRANGE z - +")
    assert isinstance(entries, list)
    run(cluster, f"XDEL z {' '.join(str(entry[0]) for at, entry in enumerate(entries) if at // 4 % 3)}")
    region.checkpoint()
    doomed = len(region.checkpointer._doomed)
    assert doomed > 1
    for _ in range(20):
        before = numbers(region)
        region.checkpoint()
        spill(region)
        assert len(before - numbers(region)) <= 1
    assert not region.checkpointer._doomed
    cluster.restart(1)
    region.node.check()


@pytest.mark.interpreted
def test_files_take_half_as_much_again_as_what_is_in_use() -> None:
    cluster, region, disk = spilling_region()
    for round_number in range(8):
        fill(cluster, 60)
        run(cluster, f"XTRIM x MAXLEN {4 + round_number}")
        run(cluster, "XTRIM z MAXLEN 20")
        for _ in range(3):
            region.checkpoint()
            spill(region)
        live = region.checkpointer.manifest
        assert live is not None
        used = sum(disk.size(block_file(number)) for number, _ in live.block_files)
        stored = sum(block.stored_bytes for tree in trees(region) for block in tree)
        assert used <= 1.5 * (stored + 24 * len(live.block_files))


def trees(region: Machine) -> list[list[Block]]:
    streams = [stream for _, stream in region.node.replica.keyspace.streams()]
    return [tree.blocks()[0] for stream in streams for tree in stream.trees.values()]


# Damage


def test_a_checkpoint_waits_for_acknowledgements_that_wait_for_a_block() -> None:
    cluster = Cluster(1, STRICT, "always", limits=SPILLING)
    region = cluster.machines[1]
    run(cluster, "XGROUP CREATE s g 0 MKSTREAM")
    ids = [str(run(cluster, f"XADD s * f {number}")) for number in range(12)]
    run(cluster, "XREADGROUP GROUP g c STREAMS s >")
    region.checkpoint()
    assert spill(region) > 1
    region.disk.misses, region.reads_blocks = Misses(Random(1), 1.0), False
    run(cluster, f"XACK s g {ids[0]} {ids[1]}")
    assert region.node.replica.changed.dirty and region.node.context.block_reads.wanted
    capture = region.checkpointer.begin()
    assert not capture.step(1_000) and not capture.done and not capture.drain_output()
    region.read_blocks()
    region.perform()
    assert not region.node.replica.changed.dirty
    region.checkpoint()


def test_a_block_that_was_the_last_one_for_a_while_is_spilled_into_the_checkpoint_in_force() -> None:
    """Then it was written raw, and the file where it had been packed is gone."""
    cluster = Cluster(1, STRICT, "always", limits=SPILLING)
    region = cluster.machines[1]
    ids = [str(run(cluster, f"XADD x * f {number}")) for number in range(12)]
    region.checkpoint()
    block = blocks_of(region)[1]
    left = {f"{ms}-{seq}" for ms, seq in block.ids(0, block.count)}
    run(cluster, f"XDEL x {' '.join(each for each in ids if each not in left)}")
    # The second one writes again what is little in use.
    region.checkpoint()
    region.checkpoint()
    for number in range(12):
        run(cluster, f"XADD x * f {number}")
    for _ in range(2):
        assert spill(region) > 0 or block.handle is None
        region.checkpoint()
        manifest = region.checkpointer.manifest
        assert manifest is not None and block in blocks_of(region)
        assert block.handle is not None
        assert block.handle.place >> PLACE_BITS in [number for number, _ in manifest.block_files]


def test_a_damaged_block_fails_the_checkpoint_that_copies_it_and_nothing_else() -> None:
    _, region, disk = spilling_region()
    region.checkpoint()
    spill(region)
    doomed = set(region.checkpointer._doomed)
    victim = next(block for block in blocks_of(region) if block.handle and block.handle.place >> PLACE_BITS in doomed)
    handle, before = victim.handle, handles(region)
    assert handle is not None
    name, index = block_file(handle.place >> PLACE_BITS), handle.place & 0xFFFF
    disk.flip_bit(name, handle.offset)
    with pytest.raises(DiskError, match=f"block {index} of the file {name}, at byte {handle.offset}, is damaged"):
        region.checkpoint()
    region.checkpointer.abort()
    assert handles(region) == before and name in disk.names()
    with pytest.raises(BlockDamaged):
        victim.data()
    disk.flip_bit(name, handle.offset)
    region.checkpoint()
    assert handles(region) != before
    region.node.check()


@pytest.mark.parametrize("opened_by", ["trim", "log"])
@pytest.mark.parametrize("fault", ["bit", "read"])
def test_a_start_that_opens_a_damaged_block_names_its_file_and_its_number(opened_by: str, fault: str) -> None:
    cluster = Cluster(1, STRICT, limits=SPILLING)
    region = cluster.machines[1]
    for number in range(40):
        run(cluster, f"XADD x * field value-{number}")
    if opened_by == "trim":
        run(cluster, "XTRIM x MAXLEN 38")
    region.checkpoint()
    victim = blocks_of(region)[0]
    handle = victim.handle
    assert handle is not None
    if opened_by == "log":
        run(cluster, "XDEL x {}-{}".format(*victim.id_at(1)))
    name, index = block_file(handle.place >> PLACE_BITS), handle.place & 0xFFFF
    region.disk.misses = Misses(Random(1))
    if fault == "bit":
        region.disk.flip_bit(name, handle.offset + 3)
    else:
        region.disk.fail_next_read()
    text = f"{name} is damaged at byte {handle.offset}: block {index} of the file"
    with pytest.raises(CheckpointDamaged, match=text):
        cluster.restart(1)


# Crashes


def test_a_crash_at_every_operation_loses_no_spilled_block() -> None:
    operation, crashed = 0, True
    while crashed:
        for odds in (0.0, 0.5, 1.0):
            cluster, region, disk = spilling_region()
            before = lasting(region.node)
            spill(region)
            disk.left = operation
            try:
                region.checkpoint()
                crashed = False
            except Crash:
                crashed = True
            disk.left = None
            cluster.lose_power(1, Random(operation), odds)
            assert same(lasting(region.node), before), f"operation {operation}, odds {odds}"
            region.node.check()
            region.checkpoint()
            spill(region)
            cluster.restart(1)
            assert same(lasting(region.node), before)
            assert only_named_files(region)
        operation += 1
    assert operation > 20


# Any history

writes = st.builds(lambda name, count: ("add", name, count), st.sampled_from("xyz"), st.integers(1, 9))
trims = st.builds(lambda name, count: ("trim", name, count), st.sampled_from("xyz"), st.integers(0, 9))
removals = st.builds(lambda name, at: ("remove", name, at), st.sampled_from("xyz"), st.integers(0, 20))
KINDS = ("checkpoint", "slice", "abort", "spill", "restart")
others = st.sampled_from([(kind, "", at) for kind in KINDS for at in (1, 9)])
histories = st.lists(st.one_of(writes, trims, removals, others, others), max_size=40)


def perform(cluster: Cluster, step: tuple[str, str, int]) -> None:
    kind, name, number = step
    if kind == "add":
        for at in range(number):
            run(cluster, f"XADD {name} * field value-{at}")
    elif kind == "trim":
        run(cluster, f"XTRIM {name} MAXLEN {number}")
    elif kind == "remove":
        found = run(cluster, f"XRANGE {name} - + COUNT {number + 1}")
        if isinstance(found, list) and found:
            run(cluster, f"XDEL {name} {found[-1][0]}")
    else:
        save(cluster, kind, number)
    cluster.machines[1].node.check()


def save(cluster: Cluster, kind: str, number: int) -> None:
    region = cluster.machines[1]
    if kind == "checkpoint":
        region.checkpoint()
    elif kind == "slice":
        region.checkpoint_step(number)
    elif kind == "abort" and region.checkpointer.capture is not None:
        region.checkpointer.abort()
    elif kind == "spill" and region.config.limits.hot_bytes_max:
        spill(region)
    elif kind == "restart":
        cluster.restart(1)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories)
def test_a_region_that_spills_is_one_that_does_not(history: list[tuple[str, str, int]]) -> None:
    """The twin keeps everything in memory, and takes the same checkpoints."""
    cluster, twin = Cluster(1, STRICT, limits=SPILLING), Cluster(1, STRICT, limits=LIMITS)
    beginning = [("add", name, 9) for name in "xyz"]
    for step in [*beginning, ("checkpoint", "", 1), ("spill", "", 1), *history]:
        perform(cluster, step)
        perform(twin, step)
        spilled, whole = cluster.machines[1].node, twin.machines[1].node
        assert lasting(spilled)["databases"] == lasting(whole)["databases"]
    spill(cluster.machines[1])
    assert run(cluster, "CRDT.DIGEST") == run(twin, "CRDT.DIGEST")
    for each in (cluster, twin):
        each.machines[1].checkpoint()
        each.restart(1)
    assert run(cluster, "CRDT.DIGEST") == run(twin, "CRDT.DIGEST")
    assert lasting(cluster.machines[1].node)["databases"] == lasting(twin.machines[1].node)["databases"]
