"""The bulk port of a region in this event loop, called by a real gRPC client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import structlog

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk.writing import add_slice
from crdtstream.runtime.bulk.calls import GATHERED_BYTES, GATHERED_MAX
from crdtstream.runtime.turns import RegionFailed
from crdtstream.settings.config import Limits
from crdtstream.storage.disk import RealDisk
from tests.bulk.columns import Fields, entries_of, message_of
from tests.commands.harness import FakeAdmission
from tests.running_region import DEADLINE_S, until
from tests.runtime.bulk_ports import refused, rows, serving

# Reading and writing


async def test_what_was_written_is_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        written = await port.write(message_of(rows(3_000)), message_of(rows(2)))
        assert (written.added, written.skipped) == (3_002, 0)
        [head] = (await port.heads(b"s"))[b"s"]
        assert (head.head, head.length, head.origin) == (written.last_seq, 3_002, written.origin)
        messages = await port.read(bulk.Interval(stream=b"s", origin=head.origin, after=0, through=head.head))
        assert len(messages) > 50 and all(len(message.data) <= 1 << 10 for message in messages)
        entries = [entry for message in messages for entry in entries_of(message)]
        assert [entry[2] for entry in entries] == rows(3_000) + rows(2)
        wire = await port.region.connect()
        assert await wire.ask("XLEN", "s") == b":3002\r\n"


async def test_an_xadd_and_a_row_are_alike(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        wire = await port.region.connect()
        await wire.ask("XADD", "s", "*", "f", "one")
        await wire.line()
        await port.write(message_of([[b"f", b"two"]]))
        await wire.send(b"*4\r\n$6\r\nXRANGE\r\n$1\r\ns\r\n$1\r\n-\r\n$1\r\n+\r\n")
        reply = [await wire.line() for _ in range(1 + 2 * 8)]
        entries = await port.read_all(b"s")
        assert [entry[2][1] for entry in entries] == [b"one", b"two"]
        assert [line for line in reply if line in (b"one\r\n", b"two\r\n")] == [b"one\r\n", b"two\r\n"]
        assert reply[3] == b"%d-%d\r\n" % entries[0][1] and reply[11] == b"%d-%d\r\n" % entries[1][1]


async def test_small_messages_come_together_if_the_caller_wants_several(tmp_path: Path) -> None:
    names = [b"s%d" % number for number in range(2 * GATHERED_MAX + 1)]
    async with serving(tmp_path) as port:
        written = await port.write(message_of(rows(len(names)), names, list(range(len(names)))))
        heads = [each async for each in port.stub.Heads(bulk.HeadsRequest(streams=names, several=True))]
        assert [len(each.more) for each in heads] == [GATHERED_MAX, GATHERED_MAX - 1]
        found = [each.stream for head in heads for each in (head, *head.more)]
        assert found == names
        intervals = [bulk.Interval(stream=name, origin=written.origin, through=written.last_seq) for name in names]
        apart = await port.read(*intervals)
        assert len(apart) == len(names) and not any(each.more for each in apart)
        together = [each async for each in port.stub.Read(bulk.ReadRequest(intervals=intervals, several=True))]
        assert len(together) < len(apart) / 100
        flat = [entries for message in together for entries in (message, *message.more)]
        for one, other in zip(flat, apart, strict=True):
            assert (one.interval, one.count, one.data) == (other.interval, other.count, other.data)


async def test_a_large_message_stays_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits(bulk_message_bytes=GATHERED_BYTES)) as port:
        written = await port.write(message_of([[b"f", b"v" * 40_000]] * 6))
        interval = bulk.Interval(stream=b"s", origin=written.origin, through=written.last_seq)
        messages = [each async for each in port.stub.Read(bulk.ReadRequest(intervals=[interval], several=True))]
        assert max(each.ByteSize() for each in messages) < 2 * GATHERED_BYTES
        assert sum(entries.count for each in messages for entries in (each, *each.more)) == 6


async def test_intervals_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        both = message_of(rows(100), [b"a", b"b"], [at % 2 for at in range(100)])
        written = await port.write(both)
        through = written.last_seq
        asked = [
            bulk.Interval(stream=name, origin=written.origin, after=after, through=through)
            for name, after in ((b"b", 0), (b"a", 0), (b"none", 0), (b"a", through - 60))
        ]
        found: dict[int, list[Fields]] = {}
        for message in await port.read(*asked):
            found.setdefault(message.interval, []).extend(entry[2] for entry in entries_of(message))
        assert list(found) == [0, 1, 3] or list(found) == [0, 1]
        assert (found[0], found[1]) == (rows(100)[1::2], rows(100)[::2])


async def test_positions_and_pieces(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        written = await port.write(message_of(rows(100)))
        origin, last = written.origin, written.last_seq
        position = bulk.StreamPosition(stream=b"s", seqs=[bulk.VectorRow(origin=origin, seq=last - 30)])
        [head] = (await port.heads(b"s", positions=[position], before_ms=2**63))[b"s"]
        assert (head.waiting, head.at, head.first) == (30, last, last - 99)
        interval = bulk.Interval(stream=b"s", origin=origin, after=0, through=last)
        split = await port.stub.Split(bulk.SplitRequest(interval=interval, entries=40))
        assert (list(split.through), list(split.entries)) == ([last - 60, last - 20, last], [40, 40, 20])
        assert list(await port.heads()) == [b"s"]
        assert await port.heads(pattern=b"x*") == {}
        assert await port.heads(b"none") == {b"none": []}


async def test_who_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        written = await port.write(message_of(rows(1)))
        found = await port.stub.Describe(bulk.DescribeRequest())
        assert (found.name, found.region, found.cluster, found.id_mode) == ("east", 1, "c", "strict")
        assert found.origin == written.origin
        assert {row.origin: row.seq for row in found.applied}[found.origin] >= written.last_seq


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_rows_survive_a_restart(tmp_path: Path, fsync: str) -> None:
    async with serving(tmp_path, fsync=fsync) as port:
        await port.write(message_of(rows(2_500)))
    async with serving(tmp_path, fsync=fsync) as port:
        assert [entry[2] for entry in await port.read_all(b"s")] == rows(2_500)


async def test_written_means_durable_under_fsync_always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer comes behind a sync that covers what it tells of."""
    async with serving(tmp_path, fsync="always") as port:
        log = port.region.loop.log
        for _ in range(3):
            await port.write(message_of(rows(10)))
            assert log.synced_position == log.last_position
        synced: list[int] = []
        original = RealDisk.sync

        def counted(disk: RealDisk, name: str) -> None:
            synced.append(1)
            original(disk, name)

        monkeypatch.setattr(RealDisk, "sync", counted)
        await port.write(message_of(rows(10)))
        assert synced


async def test_waiting_readers_are_woken(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        wire = await port.region.connect()
        waiting = asyncio.create_task(wire.ask("XREAD", "BLOCK", "0", "STREAMS", "s", "$"))
        await until(lambda: len(port.region.loop.node.context.parking) == 1, "the reader waits")
        await port.write(message_of(rows(1)))
        assert await waiting == b"*1\r\n"


async def test_a_watched_key_that_rows_changed_fails_the_transaction(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        wire = await port.region.connect()
        assert await wire.ask("WATCH", "s") == b"+OK\r\n"
        await port.write(message_of(rows(1)))
        await wire.ask("MULTI")
        await wire.ask("PING")
        assert await wire.ask("EXEC") == b"*-1\r\n"


# Groups


async def test_a_position_is_acknowledged(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        written = await port.write(message_of(rows(5_000)))
        origin, last = written.origin, written.last_seq
        position = bulk.StreamPosition(stream=b"s", seqs=[bulk.VectorRow(origin=origin, seq=last - 10)])
        request = bulk.AdvanceRequest(group=b"g", positions=[position])
        await refused(port.stub.Advance(request), grpc.StatusCode.NOT_FOUND, "no such consumer group 'g'")
        request.create = True
        assert (await port.stub.Advance(request)).entries == 4_990
        [frontier] = [one async for one in port.stub.Frontiers(bulk.FrontiersRequest(streams=[b"s"]))]
        assert (frontier.stream, frontier.group, frontier.pending) == (b"s", b"g", 0)
        assert [(row.origin, row.seq) for row in frontier.acknowledged] == [(origin, last - 10)]
        wire = await port.region.connect()
        assert await wire.ask("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">") == b"*1\r\n"
        for _ in range(9):
            line = await wire.line()
        assert line == b"$1\r\n"
    async with serving(tmp_path) as port:
        [frontier] = [one async for one in port.stub.Frontiers(bulk.FrontiersRequest())]
        assert ([(row.origin, row.seq) for row in frontier.acknowledged], frontier.pending) == (
            [(origin, last - 10)],
            1,
        )


async def test_groups_wait_until_the_region_is_admitted(tmp_path: Path) -> None:
    """A region with a peer that is down serves, and is not admitted."""
    async with serving(tmp_path) as port:
        await port.write(message_of(rows(1)))
    limits = Limits(stop_checkpoint_ms_max=0, admission_wait_ms=100)
    async with serving(tmp_path, limits) as port:
        context = port.region.loop.node.context
        assert context.cluster.admission is not None
        await until(lambda: not context.standing.loading, "the region serves")
        context.cluster.admission = admission = FakeAdmission()
        position = bulk.StreamPosition(stream=b"s", seqs=[bulk.VectorRow(origin=1, seq=1)])
        request = bulk.AdvanceRequest(group=b"g", positions=[position], create=True)
        await refused(port.stub.Advance(request), grpc.StatusCode.UNAVAILABLE, "cannot create groups until")
        assert admission.wanted and not admission.said


# The end of a call


async def test_a_call_ends_at_its_deadline(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:

        async def endless() -> AsyncIterator[bulk.Rows]:
            while True:
                yield message_of(rows(1))

        await refused(port.stub.Write(endless(), timeout=0.3), grpc.StatusCode.DEADLINE_EXCEEDED, "")
        server = port.region.loop.bulk
        assert server is not None
        await until(lambda: server.running == 0, "the call is over")
        assert (await port.write(message_of(rows(1)))).added == 1


async def test_a_call_that_is_given_up_ends(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        call = port.stub.Write()
        await call.write(message_of(rows(1)))
        server = port.region.loop.bulk
        assert server is not None
        await until(lambda: server.running == 1, "the call is in")
        call.cancel()
        await until(lambda: server.running == 0, "the call is over")


async def test_a_stop_ends_calls(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        call = port.stub.Write()
        await call.write(message_of(rows(1)))
        await until(lambda: port.region.loop.node.replica.keyspace.find((0, b"s")) is not None, "the row is in")
        port.region.loop.stop()
        async with asyncio.timeout(DEADLINE_S / 6):
            await port.region.task
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await call


async def test_a_fault_of_ours_ends_the_call_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError

    async with serving(tmp_path) as port:
        with monkeypatch.context() as patch, structlog.testing.capture_logs() as told:
            patch.setattr("crdtstream.runtime.bulk.calls.heads_of", broken)
            await refused(port.heads(b"s"), grpc.StatusCode.INTERNAL, "ZeroDivisionError in the bulk port")
        assert [line["event"] for line in told] == ["bulk-call-failed"]
        assert await port.heads(b"s") == {b"s": []}


async def test_a_fault_behind_a_change_ends_the_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and log may differ: nothing is appended any more, and the next start takes the log's word."""

    def broken(*arguments: Any) -> None:
        add_slice(*arguments)
        raise ZeroDivisionError

    async with serving(tmp_path) as port:
        monkeypatch.setattr("crdtstream.runtime.bulk.calls.add_slice", broken)
        port.region.may_fail = True
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await port.write(message_of(rows(1)))
        await until(lambda: port.region.loop.failed, "the region ends")
        with pytest.raises(RegionFailed, match="ZeroDivisionError"):
            await asyncio.shield(port.region.task)
    monkeypatch.undo()
    async with serving(tmp_path) as port:
        assert await port.heads(b"s") == {b"s": []}


async def test_the_port_is_told_in_the_log(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as told:
        async with serving(tmp_path, bulk_port=0) as port:
            address = port.region.loop._addresses["bulk"]
            await until(lambda: any(line["event"] == "serving" for line in told), "the region serves")
    assert address.startswith("127.0.0.1:") and not address.endswith(":0")
    assert {line["bulk"] for line in told if line["event"] in ("listening", "serving")} == {address}
