"""Compression between turns: only while the process has little else to do, and what it freed goes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.region.node import Node
from crdtstream.runtime import packer as packer_module
from crdtstream.runtime import process
from crdtstream.runtime.links.pull_schedule import PullInterval
from crdtstream.runtime.packer import Packer
from crdtstream.settings.config import Config, Limits

DEADLINE_S = 60.0
BLOCKS = 3


def filled(cold_after_ms: int = 1) -> Node:
    """A node with full blocks that were not read since they were filled."""
    node = Node(Config(name="one", region=1, cluster="c", limits=Limits(cold_after_ms=cold_after_ms)), 1)
    for number in range(1, BLOCKS * BLOCK_ENTRIES + 2):
        node.replica.add_entry((0, b"x"), (number, 0), [b"f", b"v" * 50])
    node.replica.drain()
    node.replica.keyspace.now_ms = 10
    node.context.packing.step(1 << 40, cold_after_ms)
    node.replica.keyspace.now_ms = 20
    return node


async def run(packer: Packer, ends: Callable[[], bool]) -> None:
    running = asyncio.get_running_loop().create_task(packer.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not ends():
                assert not running.done() or running.result() is None
                await asyncio.sleep(0.001)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packer_module, "LOOK_S", 0.002)
    monkeypatch.setattr(packer_module, "BUSY", 1e9)


def test_an_idle_region_compresses_and_returns_what_that_frees(monkeypatch: pytest.MonkeyPatch) -> None:
    node = filled()
    trims: list[int] = []
    monkeypatch.setattr(packer_module, "REST_BYTES", 1)
    monkeypatch.setattr(process, "trim", lambda: trims.append(node.context.packing.packed))
    asyncio.run(run(Packer(node), lambda: bool(trims)))
    packing = node.context.packing
    assert (packing.census.blocks, packing.census.packed_blocks, trims) == (BLOCKS, BLOCKS, [BLOCKS])


def test_a_busy_region_compresses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = filled()
    monkeypatch.setattr(packer_module, "BUSY", -1.0)
    looked: list[bool] = []
    is_busy = Packer._is_busy

    def look(packer: Packer) -> bool:
        looked.append(is_busy(packer))
        return looked[-1]

    monkeypatch.setattr(Packer, "_is_busy", look)
    asyncio.run(run(Packer(node), lambda: len(looked) > 3))
    assert all(looked) and node.context.packing.packed == 0
    node.standing.memory_short = True
    asyncio.run(run(Packer(node), lambda: node.context.packing.packed == BLOCKS))


class Times:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.passed_s = self.used_s = 0.0

    def perf_counter(self) -> float:
        return self.passed_s

    def process_time(self) -> float:
        return self.used_s


def test_time_spent_on_compression_is_not_taken_for_load(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Times()
    monkeypatch.setattr(packer_module, "time", times)
    monkeypatch.setattr(packer_module, "BUSY", 0.5)
    monkeypatch.setattr(PullInterval, "waited_s", lambda _: 0.0)
    packer = Packer(filled())
    for own_s, busy in ((0.0, True), (0.25, False), (0.0, True)):
        times.passed_s += 1.0
        times.used_s += 0.7
        packer._own_s = own_s
        assert packer._is_busy() == busy


def test_a_region_that_waits_for_a_processor_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    times, waited_s = Times(), [0.0]
    monkeypatch.setattr(packer_module, "time", times)
    monkeypatch.setattr(packer_module, "BUSY", 0.5)
    monkeypatch.setattr(PullInterval, "waited_s", lambda _: sum(waited_s))
    packer = Packer(filled())
    for waits_s, busy in ((0.0, False), (0.4, True), (0.0, False)):
        times.passed_s += 1.0
        times.used_s += 0.3
        waited_s.append(waits_s)
        assert packer._is_busy() == busy


def test_nothing_happens_if_that_is_off() -> None:
    node = filled(0)
    packer = Packer(node)
    assert not packer._slice()
    assert node.context.packing.walks == 0
