"""Deferred tasks: run once their blocks are there, again by `then` or at a tick, and never half."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crdtstream.connections.blocks.reads import BlockReads
from crdtstream.core.deferred_work import TICKS_MAX, DeferredWork
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import BlockDamaged, OpenBlockCache
from crdtstream.core.replica import Replica
from tests.core.spilled_blocks import SlowFile, spill_tree
from tests.core.trees import row, tree_of


class Bench:
    """Deferred tasks that look up entries of one spilled tree; what they did is in `done`."""

    def __init__(self) -> None:
        self.file, self.open_blocks = SlowFile(), OpenBlockCache(0)
        self.tree: EntryTree = tree_of([row((number, 1), number, 40) for number in range(1, 800)])
        assert spill_tree(self.tree, self.file, self.open_blocks) > 1
        replica = Replica(1)
        replica.reads = self.open_blocks.reads
        replica.reads.on = True
        self.reads = BlockReads()
        self.deferred_work = DeferredWork(replica, self.reads)
        self.done: list[int] = []

    def look_up(self, *numbers: int) -> Callable[[], None]:
        def work() -> None:
            found = [number for number in numbers if self.tree.find((number, 1)) is not None]
            self.done += found

        return work

    def read(self) -> None:
        for block_read in self.reads.drain():
            block_read.finish(block_read.read())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_deferred_task_that_needs_nothing_is_run_at_once(bench: Bench) -> None:
    assert bench.deferred_work.run("one", bench.look_up(799)) and bench.done == [799]
    assert not bench.reads.wanted


def test_a_deferred_task_waits_for_its_block_and_is_run_again_with_it(bench: Bench) -> None:
    again: list[int] = []
    assert not bench.deferred_work.run("one", bench.look_up(3), lambda: again.append(1))
    assert bench.deferred_work.awaits("one") and not bench.deferred_work.run("one", bench.look_up(3))
    assert bench.deferred_work.run("other", bench.look_up(799)), "others do not wait behind it"
    bench.read()
    assert again == [1] and not bench.deferred_work.awaits("one")
    assert bench.deferred_work.run("one", bench.look_up(3)) and bench.done == [799, 3]
    assert bench.open_blocks.reads.waited == 0 and not len(bench.deferred_work)


def test_what_was_read_before_is_held_while_more_is_read(bench: Bench) -> None:
    tries = 0
    while not bench.deferred_work.run("one", bench.look_up(3, 300)):
        bench.read()
        tries += 1
    assert tries == 2 and bench.done == [3, 300]


def test_a_read_that_fails_is_tried_again_when_the_task_is_looked_at(bench: Bench) -> None:
    again: list[int] = []
    whole = bytes(bench.file.data)
    bench.file.data[:] = bytes(len(whole))
    assert not bench.deferred_work.run("one", bench.look_up(3), lambda: again.append(1))
    bench.read()
    assert again == [] and bench.deferred_work.failures == 1 and list(bench.deferred_work.held_up) == ["one"]
    assert not bench.deferred_work.run("one", bench.look_up(3)), "it reads once more"
    bench.file.data[:] = whole
    bench.read()
    assert bench.deferred_work.run("one", bench.look_up(3)) and not bench.deferred_work.held_up


def test_an_impatient_task_raises_what_the_read_brought(bench: Bench) -> None:
    bench.file.data[:] = bytes(len(bench.file.data))
    assert not bench.deferred_work.run("one", bench.look_up(3), is_patient=False)
    bench.read()
    with pytest.raises(BlockDamaged):
        bench.deferred_work.run("one", bench.look_up(3), is_patient=False)
    assert not len(bench.deferred_work) and not bench.deferred_work.held_up, "who asked has the error"


def test_what_nobody_asks_for_again_is_dropped(bench: Bench) -> None:
    bench.deferred_work.run("one", bench.look_up(3))
    bench.deferred_work.tick()
    bench.read()
    for _ in range(TICKS_MAX):
        bench.deferred_work.tick()
    assert len(bench.deferred_work) == 1
    bench.deferred_work.tick()
    assert not len(bench.deferred_work)
