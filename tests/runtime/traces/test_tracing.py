"""Spans of regions, kept in memory: commands, batches whose trace goes on in the other region, checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crdtstream.processes.ports import free_port
from crdtstream.settings.config import Limits
from tests.running_region import Running, request, running, until
from tests.runtime.test_partition_port import pair_config

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the extra otel is not installed")

from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.trace import SpanKind, StatusCode  # noqa: E402

from crdtstream.replication.wire_pb2 import Batches, Hello, Message  # noqa: E402
from crdtstream.runtime.traces.tracing import LINKS_MAX, Tracing  # noqa: E402
from tests.running_region import config_of  # noqa: E402


class Traces:
    """What a region told."""

    def __init__(self, sampler: Any = None) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = sdk.TracerProvider(**({} if sampler is None else {"sampler": sampler}))
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(self._provider)

    def named(self, *names: str) -> list[Any]:
        return [span for span in self._exporter.get_finished_spans() if span.name in names]

    def names(self) -> list[str]:
        return [span.name for span in self._exporter.get_finished_spans()]

    def text(self) -> str:
        """All that is sent of the spans."""
        return "".join(span.to_json() for span in self._exporter.get_finished_spans())


@asynccontextmanager
async def traced(directory: Path, **settings: Any) -> AsyncIterator[tuple[Running, Traces]]:
    traces = Traces()
    async with running(config_of(directory, **settings), traces.tracing) as region:
        yield region, traces


async def test_a_command_has_its_name_and_the_number_of_its_keys(tmp_path: Path) -> None:
    async with traced(tmp_path) as (region, traces):
        wire = await region.connect()
        await wire.ask("XADD", "hush-key", "*", "hush-field", "hush-value")
        await wire.ask("XGROUP", "CREATE", "hush-key", "hush-group", "0")
        await wire.ask("DEL", "hush-a", "hush-b", "hush-c")
        await until(lambda: len(traces.named("DEL")) == 1, "the last one is answered")
        (added,), (deleted,) = traces.named("XADD"), traces.named("DEL")
        assert added.kind is SpanKind.SERVER and added.parent is None and added.status.status_code is StatusCode.UNSET
        assert dict(added.attributes) == {
            "db.system.name": "redis",
            "db.operation.name": "XADD",
            "crdtstream.keys": 1,
            "crdtstream.writes": True,
        }
        assert deleted.attributes["crdtstream.keys"] == 3 and len(traces.named("XGROUP CREATE")) == 1
        assert "hush" not in traces.text()


async def test_what_a_client_sends_in_place_of_a_name_is_not_shown(tmp_path: Path) -> None:
    async with traced(tmp_path, requirepass="hush-password") as (region, traces):
        wire = await region.connect()
        await wire.ask("hush-password")
        await wire.ask("AUTH", "hush-password")
        await wire.ask("XGROUP", "hush-group")
        await wire.send(b"hush-inline\r\n*1\r\n$-7\r\nhush")
        await wire.rest()
        await until(lambda: len(traces.named("unknown")) == 3, "all are answered")
        assert len(traces.named("AUTH")) == 1 and "hush" not in traces.text()


async def test_an_error_has_its_code(tmp_path: Path) -> None:
    async with traced(tmp_path) as (region, traces):
        wire = await region.connect()
        await wire.ask("XGROUP", "DESTROY", "none", "hush-group")
        await wire.ask("XREADGROUP", "GROUP", "hush-group", "c", "STREAMS", "none", ">")
        await until(lambda: len(traces.named("XREADGROUP")) == 1, "it is answered")
        (failed,) = traces.named("XREADGROUP")
        assert failed.status.status_code is StatusCode.ERROR and failed.status.description is None
        assert failed.attributes["db.response.status_code"] == "NOGROUP"


async def test_a_pipeline_and_a_client_that_waits(tmp_path: Path) -> None:
    async with traced(tmp_path, limits=Limits(turn_reply_bytes_max=1024, stop_checkpoint_ms_max=0)) as (region, traces):
        wire, other = await region.connect(), await region.connect()
        waiting = request("XREAD", "BLOCK", "0", "STREAMS", "s", "$") + request("XLEN", "s")
        await wire.send(waiting)
        await until(lambda: any(client.parked for client in region.loop.node.clients.values()), "it waits")
        assert traces.named("XREAD", "XLEN") == []
        await other.send(b"".join(request("XADD", "s", "*", "f", "x" * 100) for _ in range(100)))
        for _ in range(200):
            await other.line()
        await wire.line()
        await until(lambda: len(traces.names()) == 102, "all are answered")
        region.loop._server.check()  # type: ignore[attr-defined]
        (read,) = traces.named("XREAD")
        first = min(traces.named("XADD"), key=lambda span: span.start_time)
        assert read.start_time < first.start_time < read.end_time


async def test_spans_of_clients_that_leave_end(tmp_path: Path) -> None:
    async with traced(tmp_path) as (region, traces):
        wire = await region.connect()
        await wire.send(request("XREAD", "BLOCK", "0", "STREAMS", "s", "$") + request("XLEN", "s"))
        await until(lambda: any(client.backlog for client in region.loop.node.clients.values()), "it waits")
        await wire.close()
        await until(lambda: sorted(traces.names()) == ["XLEN", "XREAD"], "both have ended")
        region.loop._server.check()  # type: ignore[attr-defined]


async def test_a_trace_goes_on_in_the_other_region(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    east, west = Traces(), Traces()
    one, two = (pair_config(tmp_path, number, ports) for number in (1, 2))
    async with running(one, east.tracing) as here, running(two, west.tracing) as there:
        await until(lambda: all(each.loop.node.exchange.greeted() for each in (here, there)), "both are linked")
        wire = await here.connect()
        await wire.ask("XADD", "hush-key", "*", "f", "hush-value")
        await until(lambda: holds(there, b"hush-key"), "it arrives")
        (added,) = east.named("XADD")
        # While the two settle on one link, the batch may be sent on both.
        sent, applied = await eventually(
            west, lambda: [(each, child) for each in linked_to(east, added) for child in children_of(west, each)]
        )
        assert (sent.kind, applied.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert applied.context.trace_id == sent.context.trace_id and applied.parent.is_remote
        assert (sent.attributes["crdtstream.peer"], applied.attributes["crdtstream.peer"]) == (2, 1)
        assert applied.attributes["crdtstream.effects"] >= 1 and sent.attributes["crdtstream.batches"] >= 1
        assert "hush" not in east.text() + west.text()


def holds(region: Running, key: bytes) -> bool:
    return region.loop.node.replica.keyspace.databases[0].get(key) is not None


async def eventually(traces: Traces, found: Any) -> Any:
    await until(lambda: bool(found()), f"it is among {traces.names()}")
    return found()[0]


def linked_to(traces: Traces, span: Any) -> list[Any]:
    return [
        each
        for each in traces.named("send batches")
        if span.context.span_id in {link.context.span_id for link in each.links}
    ]


def children_of(traces: Traces, span: Any) -> list[Any]:
    return [
        each for each in traces.named("apply batches") if each.parent and each.parent.span_id == span.context.span_id
    ]


async def test_a_region_without_traces_understands_one_with_them(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    east = Traces()
    one, two = (pair_config(tmp_path, number, ports) for number in (1, 2))
    async with running(one, east.tracing) as here, running(two) as there:
        await until(lambda: all(each.loop.node.exchange.greeted() for each in (here, there)), "both are linked")
        for region, key in ((here, "a"), (there, "b")):
            await (await region.connect()).ask("XADD", key, "*", "f", "v")
        await until(lambda: holds(there, b"a") and holds(here, b"b"), "both hold both")
        await until(lambda: bool(east.named("apply batches")), "what came without a trace is a trace of its own")
        assert all(span.parent is None for span in east.named("apply batches"))


async def test_a_checkpoint_is_a_span(tmp_path: Path) -> None:
    async with traced(tmp_path) as (region, traces):
        wire = await region.connect()
        await wire.ask("XADD", "s", "*", "f", "v")
        await wire.line()
        assert await wire.ask("SAVE") == b"+OK\r\n"
        (checkpoint,) = traces.named("checkpoint")
        await until(lambda: bool(traces.named("SAVE")), "the command has ended")
        (command,) = traces.named("SAVE")
        assert command.start_time < checkpoint.start_time < checkpoint.end_time < command.end_time


def test_links_are_the_newest_since_the_last_send() -> None:
    traces = Traces()
    tracing, message = traces.tracing, Message(batches=Batches(payloads=[b"x"]))
    spans = [tracing.command([b"XADD", b"s", b"*", b"f", b"v"]) for _ in range(LINKS_MAX + 5)]
    for span in spans[:3]:
        tracing.answered(span)
    first = tracing.sent(2, message, 0)
    again = tracing.sent(2, message, first)
    for span in spans[3:]:
        tracing.answered(span)
    tracing.sent(2, message, again)
    sends = [[link.context.span_id for link in span.links] for span in traces.named("send batches")]
    numbers = [span.context.span_id for span in spans]
    assert sends == [numbers[:3], [], numbers[-LINKS_MAX:]]


def test_reads_are_no_reason_to_send() -> None:
    traces = Traces()
    traces.tracing.answered(traces.tracing.command([b"XLEN", b"s"]))
    traces.tracing.answered(traces.tracing.command([b"XADD", b"s"]), "ERR")
    assert traces.tracing.sent(2, Message(), 0) == 0


def test_what_is_not_sampled_is_not_told_to_peers() -> None:
    traces = Traces(sdk.sampling.ALWAYS_OFF)
    message = Message(batches=Batches(payloads=[b"x"]))
    traces.tracing.answered(traces.tracing.command([b"XADD", b"s", b"*", b"f", b"v"]))
    traces.tracing.sent(2, message, 0)
    traces.tracing.applied(traces.tracing.received(2, message), 1)
    assert message.traceparent == "" and traces.names() == []


@pytest.mark.parametrize(
    "traceparent", ["garbage", "00-0-0-00", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 100_000]
)
def test_a_trace_that_cannot_be_read_begins_anew(traceparent: str) -> None:
    traces = Traces()
    message = Message(batches=Batches(payloads=[b"x"]), traceparent=traceparent)
    traces.tracing.applied(traces.tracing.received(2, message), 1)
    (span,) = traces.named("apply batches")
    assert span.parent is None and "xxx" not in traces.text()


async def test_links_know_their_peers() -> None:
    """Messages without batches pass without a span."""

    class Node:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: arguments

    traces = Traces()
    links = traces.tracing.links(Node(), lambda: 7)
    links.receive(1, Message(hello=Hello(region=3)), 1, 0)
    links.receive(1, Message(batches=Batches(payloads=[b"x"])), 1, 0)
    assert traces.names() == []
    links.turn_ended()
    (span,) = traces.named("apply batches")
    assert (span.attributes["crdtstream.peer"], span.attributes["crdtstream.effects"]) == (3, 0)
    links.link_closed(1, "gone", 0)
    await asyncio.sleep(0)
    assert links._peers == {}
