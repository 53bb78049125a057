"""Bytes that are no message of the contract: refused after the caller is known, and no error of the region's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.runtime.bulk.handlers import SERVICE
from tests.bulk.columns import message_of
from tests.running_region import DEADLINE_S, until
from tests.runtime.bulk_ports import Port, refused, rows, serving

MALFORMED = (b"\xff" * 20, b"\x0a\xff", b"GET / HTTP/1.1\r\n\r\n", b"\x0a\x05ab")
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@asynccontextmanager
async def channel_of(port: Port) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(port.region.loop._addresses["bulk"]) as channel:
        yield channel


async def answer(channel: Any, name: str, *messages: bytes, password: str = "") -> object:
    """Call this method with bytes, and take all that it answers."""
    method = SERVICE.methods_by_name[name]
    path = f"/{SERVICE.full_name}/{name}"
    options = {"timeout": DEADLINE_S, "metadata": (("password", password),) if password else ()}
    if method.client_streaming:
        return await channel.stream_unary(path)(iter(messages), **options)
    if method.server_streaming:
        return [reply async for reply in channel.unary_stream(path)(messages[0], **options)]
    return await channel.unary_unary(path)(messages[0], **options)


@pytest.mark.parametrize("name", [method.name for method in SERVICE.methods])
async def test_every_call_refuses_what_it_cannot_decode(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as port, channel_of(port) as channel:
        for data in MALFORMED:
            await refused(answer(channel, name, data), INVALID, "is no crdtstream.bulk.")
        server = port.region.loop.bulk
        assert server is not None and not server.refusals["INTERNAL"]
        # A call is counted until its handler has returned, which is after its answer.
        await until(lambda: not server.running, "all calls ended")


@pytest.mark.parametrize("name", [method.name for method in SERVICE.methods])
async def test_nothing_is_decoded_of_a_stranger(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path, requirepass="secret") as port, channel_of(port) as channel:
        call = answer(channel, name, MALFORMED[0])
        await refused(call, grpc.StatusCode.UNAUTHENTICATED, "the bulk port has a password")
        await refused(answer(channel, name, MALFORMED[0], password="secret"), INVALID, "is no crdtstream.bulk.")


async def test_what_came_before_a_malformed_message_stays(tmp_path: Path) -> None:
    async with serving(tmp_path) as port, channel_of(port) as channel:
        good = message_of(rows(3)).SerializeToString()
        await refused(answer(channel, "Write", good, MALFORMED[0]), INVALID, "is no crdtstream.bulk.Rows")
        [head] = (await port.heads(b"s"))[b"s"]
        assert head.head - head.trimmed == 3
        await until(lambda: port.region.loop.bulk is not None and not port.region.loop.bulk.running, "all calls ended")
        assert (await port.stub.Describe(bulk.DescribeRequest(), timeout=DEADLINE_S)).region == 1
