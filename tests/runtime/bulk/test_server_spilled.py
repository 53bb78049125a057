"""The bulk port on spilled streams: a slice awaits the blocks that it needs, and runs again from its start."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.core.entries.block import BLOCK_ENTRIES
from tests.bulk.columns import entries_of, message_of
from tests.core.spilled_blocks import SlowFile, spill_all
from tests.runtime.bulk_ports import Port, rows, serving

ENTRIES = 6 * BLOCK_ENTRIES + 20


class StalledFile(SlowFile):
    """Answers once it is `open`."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()

    def read(self, offset: int, length: int) -> bytes:
        self.open.wait()
        return super().read(offset, length)


async def write(port: Port) -> tuple[int, int]:
    """Two streams by turns, so that their counters are listed; origin and last seq."""
    written = await port.write(message_of(rows(ENTRIES, 40), [b"a", b"b"], [at % 2 for at in range(ENTRIES)]))
    return written.origin, written.last_seq


def spill(port: Port) -> StalledFile:
    node, file = port.region.loop.node, StalledFile()
    assert spill_all(node.replica.keyspace, file, node.context.packing.open_blocks) > 3
    return file


async def everything(port: Port, origin: int, last: int) -> list[object]:
    found: list[object] = []
    for name in (b"a", b"b"):
        middle = last - ENTRIES // 2
        position = bulk.StreamPosition(stream=name, seqs=[bulk.VectorRow(origin=origin, seq=middle)])
        found.append((await port.heads(name, positions=[position], before_ms=2**63))[name])
        interval = bulk.Interval(stream=name, origin=origin, after=middle, through=last - 3)
        split = await port.stub.Split(bulk.SplitRequest(interval=interval, entries=100))
        found.append((list(split.through), list(split.entries)))
        found.append([entry for message in await port.read(interval) for entry in entries_of(message)])
        found.append(await port.read_all(name))
        frontiers = [one async for one in port.stub.Frontiers(bulk.FrontiersRequest(streams=[name]))]
        found.append(frontiers)
    return found


async def test_what_is_read_is_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        origin, last = await write(port)
        await (await port.region.connect()).ask("XGROUP", "CREATE", "a", "g", "0")
        expected = await everything(port, origin, last)
        spill(port)
        assert await everything(port, origin, last) == expected
        assert port.region.loop.node.replica.reads.waited == 0
        assert port.region.loop.node.context.block_reads.started > 0


async def test_a_scan_opens_no_block(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        await write(port)
        spill(port)
        node = port.region.loop.node
        opened = node.context.packing.open_blocks.opened
        for name in (b"a", b"b"):
            assert len(await port.read_all(name)) == ENTRIES // 2
        # Those in which a message begins; the others are only viewed.
        assert node.context.packing.open_blocks.opened - opened <= 2 * 3
        assert node.replica.reads.waited == 0


async def test_positions_are_acknowledged(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        origin, _ = await write(port)
        wire = await port.region.connect()
        await wire.ask("XGROUP", "CREATE", "a", "g", "0")
        seqs = [entry[0] for entry in await port.read_all(b"a")]
        spill(port)
        position = bulk.StreamPosition(stream=b"a", seqs=[bulk.VectorRow(origin=origin, seq=seqs[299])])
        request = bulk.AdvanceRequest(group=b"g", consumer="c", positions=[position])
        assert (await port.stub.Advance(request)).entries == 300
        [frontier] = [one async for one in port.stub.Frontiers(bulk.FrontiersRequest(streams=[b"a"]))]
        assert frontier.acknowledged[0].seq == seqs[300] - 1
        assert port.region.loop.node.replica.reads.waited == 0


async def test_a_disk_that_does_not_answer_delays_one_call(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        await write(port)
        file = spill(port)
        file.open.clear()
        reading = asyncio.ensure_future(port.read_all(b"a"))
        wire = await port.region.connect()
        for _ in range(20):
            assert await wire.ask("PING") == b"+PONG\r\n"
        assert not reading.done()
        file.open.set()
        assert len(await reading) == ENTRIES // 2
