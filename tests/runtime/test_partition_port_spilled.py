"""Partitions whose messages are spilled: reads await their blocks, and retention goes on at a later tick."""

from __future__ import annotations

from pathlib import Path

from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.partitions.values import NewMessage, StreamSpec
from tests.core.spilled_blocks import SlowFile, spill_all
from tests.running_region import Running, config_of, running, until

DAY_MS = 86_400_000
MESSAGES = 4 * BLOCK_ENTRIES + 20


async def filled(region: Running) -> list[bytes]:
    port = region.loop.partitions
    await port.create_stream(StreamSpec("s", 1, DAY_MS))
    values = [b"%d" % number for number in range(MESSAGES)]
    for low in range(0, MESSAGES, 200):
        await port.put("s", [NewMessage(0, None, value) for value in values[low : low + 200]])
    node = region.loop.node
    assert spill_all(node.replica.keyspace, SlowFile(), node.context.packing.open_blocks) > 2
    return values


async def test_messages_are_read_from_spilled_blocks(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        values, port = await filled(region), region.loop.partitions
        found: list[bytes] = []
        while len(found) < MESSAGES:
            messages, _ = await port.read("s", 0, len(found), port.epoch("s"), 300, 1 << 20)
            found += [one.value for one in messages]
        assert found == values
        assert await port.offset_at("s", 0, 0) == 0
        assert await port.offset_at("s", 0, 1 << 50) == MESSAGES
        [middle], _ = await port.read("s", 0, 500, port.epoch("s"), 1, 1)
        assert await port.offset_at("s", 0, middle.time_ms) <= 500
        assert region.loop.node.replica.reads.waited == 0


async def test_old_messages_leave_spilled_blocks(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        await filled(region)
        port = region.loop.partitions
        port.move_clock(2 * DAY_MS)
        await until(lambda: port.bounds("s", 0) == (MESSAGES, MESSAGES), "all messages are too old")
        assert region.loop.node.replica.reads.waited == 0
