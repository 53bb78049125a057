"""Spilling beside the turns: as long as there is too much, in slices, and what that freed goes back to the system."""

from __future__ import annotations

import asyncio

import pytest

from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.region.node import Node
from crdtstream.runtime import process
from crdtstream.runtime import spiller as spiller_module
from crdtstream.runtime.spiller import Spiller
from crdtstream.settings.config import Config, Limits
from crdtstream.storage.log import Log, open_log
from simulations.disk import SimulatedDisk
from tests.core.spilled_blocks import SlowFile

DEADLINE_S = 60.0
BLOCKS = 5


def filled(hot_bytes_max: int) -> Node:
    """A node of which a checkpoint has all blocks but the last."""
    limits = Limits(hot_bytes_max=hot_bytes_max)
    node = Node(Config(name="one", region=1, cluster="c", limits=limits), 1)
    for number in range(1, BLOCKS * BLOCK_ENTRIES + 2):
        node.replica.add_entry((0, b"x"), (number, 0), [b"f", b"v" * 50])
    node.replica.drain()
    file = SlowFile()
    for block in node.replica.keyspace.databases[0][b"x"].trees[0].resting(0, BLOCKS):
        block.pack(node.open_blocks)
        assert file.keep(block)
        block.read = False
    return node


def empty_log() -> Log:
    return open_log(SimulatedDisk(), lambda _position, _kind, _payload: None, salt=1, segment_bytes_max=1 << 20)


def run_until_given_back(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(spiller_module, "LOOK_S", 0.001)
    monkeypatch.setattr(spiller_module, "GIVEN_BACK_BYTES", 1)
    monkeypatch.setattr(process, "trim", lambda: trims.append(1))

    async def run() -> None:
        running = asyncio.get_running_loop().create_task(Spiller(node, empty_log()).run())
        async with asyncio.timeout(DEADLINE_S):
            while not trims:
                assert not running.done() or running.result() is None
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_what_is_too_much_is_spilled_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    node = filled(hot_bytes_max=1)
    run_until_given_back(node, monkeypatch)
    assert node.context.spilling.walk.spills == BLOCKS


def test_a_region_that_keeps_all_in_memory_does_not_look() -> None:
    node = filled(hot_bytes_max=0)
    spiller = Spiller(node, empty_log())
    assert not spiller._slice() and node.context.spilling.walk.walks == 0
