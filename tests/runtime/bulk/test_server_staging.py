"""Rows that are staged, published and discarded over the bulk port."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import pytest

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.runtime.metrics.of_region import bulk_families
from crdtstream.settings.config import Limits
from tests.bulk.columns import message_of
from tests.running_region import until
from tests.runtime.bulk_ports import refused, rows, serving
from tests.runtime.metrics.scraped import scraped


async def test_staged_rows_are_seen_once_they_are_published(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        parts = [rows(3_000), rows(5)]
        staged = [await port.stage(number, part) for number, part in enumerate(parts)]
        assert [one.rows for one in staged] == [3_000, 5]
        assert staged[0].checksum != staged[1].checksum
        assert await port.heads(b"s") == {b"s": []}
        published = await port.publish([one.stage for one in staged])
        assert (published.added, published.repeated) == (3_005, False)
        assert [entry[2] for entry in await port.read_all(b"s")] == parts[0] + parts[1]
        assert (await port.publish([one.stage for one in staged])).repeated
        assert len(port.region.loop.node.stages) == 0


async def test_the_same_rows_in_other_messages_have_the_same_checksum(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        one = await port.stage(0, rows(2_000))
        other = await port.stage(1, rows(2_000), message_rows=7)
        assert (one.checksum, one.stage != other.stage) == (other.checksum, True)


async def test_two_publishes_at_once_add_rows_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        staged = await port.stage(0, rows(20_000))
        found = await asyncio.gather(*(port.publish([staged.stage]) for _ in range(3)))
        assert sorted(one.repeated for one in found) == [False, True, True]
        [head] = (await port.heads(b"s"))[b"s"]
        assert head.length == 20_000


async def test_a_publish_that_is_given_up_is_gone_on_with(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        staged = await port.stage(0, rows(50_000))
        call = port.stub.Publish(bulk.PublishRequest(application="app", batch=1, stages=[staged.stage]))
        await until(lambda: port.region.loop.node.replica.keyspace.find((0, b"s")) is not None, "some rows are there")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        published = await port.publish([staged.stage])
        assert published.added < 50_000
        assert [entry[2] for entry in await port.read_all(b"s")] == rows(50_000)


async def test_stages_are_discarded(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        staged = await port.stage(0, rows(5))
        discarded = await port.stub.Discard(bulk.DiscardRequest(application="app", batch=1))
        assert discarded.stages == 1
        await refused(port.publish([staged.stage]), grpc.StatusCode.ABORTED, "stage its rows again")


async def test_what_is_known_of_an_application_that_ended_is_forgotten(tmp_path: Path) -> None:
    ledger = b"crdtstream:published:app"
    async with serving(tmp_path) as port:
        await port.publish([(await port.stage(0, rows(5))).stage])
        assert (await port.heads(ledger))[ledger].pop().length == 1
        for _ in range(2):
            await port.stub.Discard(bulk.DiscardRequest(application="app", batch=1, ledger=True))
            assert port.region.loop.node.replica.keyspace.find((0, ledger)) is None
        await refused(
            port.stub.Discard(bulk.DiscardRequest(ledger=True)), grpc.StatusCode.INVALID_ARGUMENT, "1 to 256 characters"
        )
        assert [entry[2] for entry in await port.read_all(b"s")] == rows(5)


async def test_stages_are_bounded_and_what_did_not_fit_leaves(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits(stop_checkpoint_ms_max=0, bulk_stage_bytes_max=100_000)) as port:
        await refused(port.stage(0, rows(5_000)), grpc.StatusCode.RESOURCE_EXHAUSTED, "bulk_stage_bytes_max = 100000")
        stages = port.region.loop.node.stages
        await until(lambda: len(stages) == 0, "the stage is gone")
        assert stages.byte_count == 0
        await port.publish([(await port.stage(0, rows(1_000))).stage])


async def test_idle_stages_leave(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits(stop_checkpoint_ms_max=0, bulk_stage_idle_s_max=0)) as port:
        await port.stage(0, rows(5))
        await until(lambda: len(port.region.loop.node.stages) == 0, "the stage is gone")


async def test_the_rows_of_a_client_that_gave_up_make_room_for_those_of_the_next(tmp_path: Path) -> None:
    """Whether its call ended before or behind its last message: nobody was told the name of its stage."""
    async with serving(tmp_path) as port:
        call = port.stub.Stage()
        await call.write(bulk.StagedRows(application="app", batch=1, rows=message_of(rows(5))))
        stages, server = port.region.loop.node.stages, port.region.loop.bulk
        assert server is not None
        await until(lambda: stages.byte_count > 0, "the rows are there")
        call.cancel()
        await until(lambda: server.running == 0, "the call is over")
        await port.stage(0, rows(1))
        assert len(stages) == 1


async def test_what_is_published_survives_and_stages_do_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        await port.publish([(await port.stage(0, rows(100))).stage])
        second = await port.stage(0, rows(100), batch=2)
    async with serving(tmp_path) as port:
        assert (await port.publish([(await port.stage(0, rows(100))).stage])).repeated
        await refused(port.publish([second.stage], 2), grpc.StatusCode.ABORTED, "restarted")
        assert len(await port.read_all(b"s")) == 100


async def test_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path, id_mode="liberal") as port:
        await port.publish([(await port.stage(0, rows(5))).stage])
        await port.publish([(await port.stage(0, rows(5))).stage])
        server = port.region.loop.bulk
        assert server is not None
        found = scraped([*bulk_families(port.region.loop.node, server)])
        assert found.value("bulk_rows_skipped_total", reason="published") == 0, "the same rows are in the stream"
        other = await port.stage(0, rows(7, 9))
        request = bulk.PublishRequest(application="app", batch=1, stages=[other.stage], skip_published=True)
        assert (await port.stub.Publish(request)).skipped == 7
        named = message_of(rows(2), [b"t"], ids=[(9, 1), (9, 2)], skip_lower_ids=True)
        assert ((await port.write(named)).skipped, (await port.write(named)).skipped) == (0, 2)
        found = scraped([*bulk_families(port.region.loop.node, server)])
        assert found.value("bulk_rows_skipped_total", reason="published") == 7
        assert found.value("bulk_rows_skipped_total", reason="lower-id") == 2
