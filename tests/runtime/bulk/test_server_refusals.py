"""What the bulk port refuses, and rows that memory or disk have no room for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk.bulk_pb2_grpc import BulkStub
from crdtstream.protocols.log_port import NewRecord
from crdtstream.runtime.links.grpc_transport import TransportError
from crdtstream.runtime.loop import Loop
from crdtstream.runtime.redis.resp_server import RespServer
from crdtstream.settings.config import Limits
from crdtstream.storage.log import Log
from tests.bulk.columns import message_of, row_data, u32
from tests.running_region import DEADLINE_S, config_of, until
from tests.runtime.bulk_ports import refused, rows, serving
from tests.runtime.test_loop import FULL, SmallDisk

# What is refused

garbage = st.one_of(
    st.tuples(st.sampled_from(["ends", "data", "ms", "id_seqs", "stream_of"]), st.binary(max_size=30)),
    st.tuples(st.just("count"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("database"), st.integers(16, 2**32 - 1)),
)


async def test_columns_of_garbage_change_nothing(tmp_path: Path) -> None:
    """Whatever one column says, the message is refused whole, or it says what it said before."""
    async with serving(tmp_path, id_mode="liberal") as port:
        before = await port.write(message_of(rows(3)))

        async def send(name: str, value: Any) -> None:
            message = message_of(rows(3))
            unlike = getattr(message, name) != value
            setattr(message, name, value)
            if unlike and value != b"":
                await refused(port.write(message), grpc.StatusCode.INVALID_ARGUMENT, "")

        running_loop = asyncio.get_running_loop()

        @given(garbage)
        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        def search(one: tuple[str, Any]) -> None:
            asyncio.run_coroutine_threadsafe(send(*one), running_loop).result(DEADLINE_S)

        await asyncio.to_thread(search)
        [head] = (await port.heads(b"s"))[b"s"]
        assert head.head == before.last_seq


async def test_a_bad_row_changes_nothing_of_its_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        data = [row_data(row) for row in rows(5_000)]
        data[4_321] = b"*2\r\n$1\r\nf\r\n$9\r\nx\r\n"
        ends = [sum(map(len, data[: at + 1])) for at in (0,)]
        for one in data[1:]:
            ends.append(ends[-1] + len(one))
        bad = bulk.Rows(streams=[b"s"], count=len(data), ends=u32(ends), data=b"".join(data))
        await refused(port.write(message_of(rows(10)), bad), grpc.StatusCode.INVALID_ARGUMENT, "row 4321: ")
        assert len(await port.read_all(b"s")) == 10


async def test_reads_beyond_what_is_applied_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        written = await port.write(message_of(rows(1)))
        beyond = bulk.Interval(stream=b"s", origin=written.origin, after=0, through=written.last_seq + 100)
        await refused(port.read(beyond), grpc.StatusCode.FAILED_PRECONDITION, "wait until it has applied more")
        asked = bulk.SplitRequest(interval=beyond, entries=1)
        await refused(port.stub.Split(asked), grpc.StatusCode.FAILED_PRECONDITION, "has applied origin 1.")
        backwards = bulk.Interval(stream=b"s", origin=written.origin, after=2, through=1)
        await refused(port.read(backwards), grpc.StatusCode.INVALID_ARGUMENT, "begins after 2")


async def test_a_password_is_asked_for(tmp_path: Path) -> None:
    limits = Limits(stop_checkpoint_ms_max=0, auth_failure_delay_ms=50)
    async with serving(tmp_path, limits, requirepass="geheim") as port:
        ask = port.stub.Describe
        await refused(ask(bulk.DescribeRequest()), grpc.StatusCode.UNAUTHENTICATED, "has a password")
        started = asyncio.get_running_loop().time()
        wrong = ask(bulk.DescribeRequest(), metadata=(("password", "geheim2"),))
        await refused(wrong, grpc.StatusCode.UNAUTHENTICATED, "the password in the metadata is wrong")
        assert asyncio.get_running_loop().time() - started >= 0.05
        assert port.region.loop.node.context.statistics.denied_passwords == 1
        for metadata in (("password", "geheim"), ("password-bin", b"geheim")):
            assert (await ask(bulk.DescribeRequest(), metadata=(metadata,))).name == "east"


async def test_strangers_are_refused_without_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as port:
        monkeypatch.setattr("crdtstream.runtime.bulk.server.host_of", lambda _peer: "10.1.2.3")
        await refused(port.write(message_of(rows(1))), grpc.StatusCode.UNAUTHENTICATED, "protected mode")
    async with serving(tmp_path, protected_mode=False) as port:
        assert (await port.write(message_of(rows(1)))).added == 1


async def test_a_region_that_loads_is_unavailable(tmp_path: Path) -> None:
    async with serving(tmp_path, incarnation=None, peers=("127.0.0.1:1",)) as port:
        await refused(port.stub.Describe(bulk.DescribeRequest()), grpc.StatusCode.UNAVAILABLE, "does not serve yet")


async def test_calls_are_bounded(tmp_path: Path) -> None:
    limits = Limits(stop_checkpoint_ms_max=0, bulk_calls_max=1)
    async with serving(tmp_path, limits) as port:
        first = port.stub.Write()
        await first.write(message_of(rows(1)))
        await until(lambda: port.region.loop.node.replica.keyspace.find((0, b"s")) is not None, "the first call is in")
        async with grpc.aio.insecure_channel(
            port.region.loop._addresses["bulk"], options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            other = BulkStub(channel).Describe(bulk.DescribeRequest())
            await refused(other, grpc.StatusCode.RESOURCE_EXHAUSTED, "bulk_calls_max = 1")
        await first.done_writing()
        assert (await first).added == 1


async def test_a_port_that_is_taken_ends_the_start(tmp_path: Path) -> None:
    async with serving(tmp_path / "one") as port:
        taken = port.region.loop.config.bulk_port
        second = Loop(config_of(tmp_path / "two", bulk_port=taken), RespServer)
        with pytest.raises(TransportError, match="choose another --bulk-port"):
            await second.run()


# Memory and disk


async def test_rows_are_not_staged_while_memory_is_short(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits(stop_checkpoint_ms_max=0, memory_bytes_max=1)) as port:
        await until(lambda: port.region.loop.node.context.standing.memory_short, "memory is short")
        for call in (port.stage(0, rows(1)), port.write(message_of(rows(1)))):
            await refused(call, grpc.StatusCode.RESOURCE_EXHAUSTED, "command not allowed when used memory")


async def test_a_full_disk_refuses_rows_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as port:
        disk = SmallDisk(monkeypatch)
        disk.full = True
        large = message_of([[b"f", b"v" * 1_000]] * 5_000)
        await refused(port.write(large), grpc.StatusCode.UNAVAILABLE, "The disk is full")
        disk.full = False
        await until(lambda: port.region.loop.node.context.standing.writable, "writes are taken again")
        before = len(await port.read_all(b"s"))
        assert before < 5_000
        assert (await port.write(large)).added == 5_000


async def test_nobody_is_told_of_rows_that_are_not_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as port:
        loop = port.region.loop
        append, full = Log.append, [True]

        def guarded(log: Log, records: list[NewRecord]) -> None:
            if full:
                raise FULL
            append(log, records)

        monkeypatch.setattr(Log, "append", guarded)
        waiting = asyncio.ensure_future(port.write(message_of(rows(1))))
        await until(lambda: len(loop._unwritten) > 0 and len(loop._settling) > 0, "the rows wait for room")
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        full.clear()
        assert (await waiting).added == 1
