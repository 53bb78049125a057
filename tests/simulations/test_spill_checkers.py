"""Checkers of worlds that spill notice what is wrong."""

from __future__ import annotations

from random import Random

import pytest

from crdtstream.connections.blocks.reads import BlockRead
from crdtstream.core.entries.spilled import STAGED, BlockHandle
from crdtstream.replication.wire_pb2 import Message
from crdtstream.storage.staged_blocks import StagedBlocks
from simulations.history import Violation
from simulations.machine import Machine
from simulations.spill_checkers import (
    WAITS_TICKS,
    BlocksCome,
    CountedOnce,
    DamageIsSeen,
    KeptInFiles,
    NothingWaits,
    WaitsUnchanged,
    blocks_of,
)
from simulations.spilling import Spilling
from simulations.world import World
from tests.simulations.test_spilling import spilling


def spilled_region(world: World, count: int = 1) -> tuple[int, Machine]:
    """A region of which so many blocks are spilled, in a world that runs."""
    for number in world.machines:
        world.plan(number, world.tick, number)
        world.plan(number, world._command, number)
    for pair in world.pairs:
        world.plan_dial(pair)

    def found() -> list[int]:
        return [number for number, machine in world.machines.items() if len(spilled_of(machine)) >= count]

    world.run_until(lambda: bool(found()), world.now_ms + 20_000)
    return found()[0], world.machines[found()[0]]


def spilled_of(machine: Machine) -> list[BlockHandle]:
    if not machine.node.context.spilling.walk.spilled_blocks:
        return []
    return [block.handle for block in blocks_of(machine) if block.is_spilled() and block.handle is not None]


def test_a_wait_in_the_middle_of_a_turn_is_noticed() -> None:
    world, checker = spilling(6), NothingWaits()
    assert world.misses is not None
    checker.turned(world, 1)
    world.misses.waits.add(("blocks-00000003", 41))
    world.machines[1].node.replica.reads.waited += 1
    with pytest.raises(Violation, match="in the middle of a turn"):
        checker.turned(world, 1)
    checker.turned(world, 1)


@pytest.mark.parametrize("event", ["asked", "received"])
def test_what_is_open_when_a_request_begins_may_be_read_again_after_it_was_closed(event: str) -> None:
    """What other requests of the turn opened, or a checker that looked before this one."""
    world, checker = spilling(6), NothingWaits()
    number, machine = spilled_region(world)
    block = next(block for block in blocks_of(machine) if block.is_spilled())
    checker.turned(world, number)
    block.opened()
    if event == "asked":
        checker.asked(world, number, [b"XLEN"])
    else:
        checker.received(world, next(iter(world.connections.values())), number, Message(), b"")
    block.drop_content()
    assert block.handle is not None
    block.handle.read()
    machine.node.replica.reads.waited += 1
    checker.turned(world, number)


@pytest.mark.parametrize("same", [True, False], ids=["the same", "another"])
def test_what_was_read_for_a_request_may_be_read_at_once_after_it_was_closed(same: bool) -> None:
    """A block that another one closed is read again, in the turn for which it had been read on a thread."""
    world, checker = spilling(9), NothingWaits()
    number, machine = spilled_region(world, 2)
    handles = spilled_of(machine)
    read, other = handles[0], handles[0 if same else 1]

    def run() -> None:
        other.read()
        machine.node.replica.reads.waited += 1

    checker.turned(world, number)
    world.watch(checker)
    finish = Spilling(world, Random(1))._finish
    if same:
        finish(number, BlockRead([], {read: read.read()}, run))
    else:
        with pytest.raises(Violation, match="in the middle of a turn"):
            finish(number, BlockRead([read], {}, run))


def test_a_command_whose_blocks_never_come_is_noticed() -> None:
    world, checker = spilling(6), BlocksCome()
    number, machine = spilled_region(world)
    assert world.misses is not None
    machine.node.replica.changed.dirty[((0, b"x"), b"g")] = None
    for _ in range(WAITS_TICKS):
        checker.ticked(world, number)
    with pytest.raises(Violation, match="has waited for blocks"):
        checker.ticked(world, number)


def test_a_call_that_nobody_asked_for_is_noticed() -> None:
    world = spilling(6)
    world.machines[1].node.statistics.tally("xadd").calls += 1
    with pytest.raises(Violation, match="counts 1 calls of xadd, and was asked 0"):
        CountedOnce().turned(world, 1)


def test_a_change_before_a_wait_is_noticed() -> None:
    world, checker = spilling(6), WaitsUnchanged()
    checker.asked(world, 1, [b"XDEL"])
    world.machines[1].node.replica.prepared += 1
    with pytest.raises(Violation, match="changed something before"):
        checker.put_off(world, 1, [b"XDEL"])


def test_a_block_in_a_file_that_no_manifest_names_is_noticed() -> None:
    world = spilling(6)
    number, machine = spilled_region(world)
    KeptInFiles().look(world, number)
    machine.checkpointer.manifest = None
    with pytest.raises(Violation, match="is not in the checkpoint in force"):
        KeptInFiles().look(world, number)


def test_a_staged_file_that_is_cut_or_left_behind_is_noticed() -> None:
    world = spilling(6)
    number, machine = spilled_region(world)
    block = next(block for block in blocks_of(machine) if block.is_spilled())
    assert block.handle is not None
    packed = block.handle.read()
    staged = StagedBlocks(machine.disk, machine.node.open_blocks, lambda: 1)
    machine.disk.create(STAGED, 0)
    machine.disk.write(STAGED, 0, packed)
    block.lie_at(BlockHandle(machine.disk.open_file(STAGED), 0, len(packed), block.handle.checksum, False))
    KeptInFiles().look(world, number)
    with pytest.raises(Violation, match=f"keeps {STAGED}, and fetches no state"):
        KeptInFiles().at_end(world)
    file = machine.disk.open_file(STAGED)
    staged.end()
    KeptInFiles().look(world, number)
    file._file.truncate(len(packed) - 1)
    with pytest.raises(Violation, match=f"of the file {STAGED}, at byte 0, is not what was written"):
        KeptInFiles().look(world, number)


def test_a_flipped_bit_is_flipped_back_once_it_was_seen() -> None:
    world = spilling(6)
    number, machine = spilled_region(world)
    files = {name: machine.disk.read(name, 0, machine.disk.size(name)) for name in machine.disk.names()}
    for _ in range(20):
        DamageIsSeen().look(world, number)
    assert files == {name: machine.disk.read(name, 0, machine.disk.size(name)) for name in machine.disk.names()}
    machine.node.context.deferred_work.failures += 1
    with pytest.raises(Violation, match="brought other bytes"):
        DamageIsSeen().turned(world, number)
