"""A shard finds its own shard of another region by the address of shard 0 there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import grpc.aio
import pytest

from crdtstream.processes.ports import free_port
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication import wire_pb2_grpc as wire_grpc
from crdtstream.runtime.links.routes import Routes
from crdtstream.settings.config import Config

ONE = Config(name="east", region=1, cluster="c")


class Peer(wire_grpc.ReplicationServicer):
    """Shard 0 of another region, as far as it tells where the others are."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self.epoch = 1
        self.asked = 0

    async def Exchange(self, *_: object) -> AsyncIterator[wire.Envelope]:
        raise AssertionError("a link was opened")
        yield

    async def Publish(self, *_: object) -> AsyncIterator[wire.Envelope]:
        raise AssertionError("something was published")
        yield

    async def Placement(
        self,
        request: wire.PlacementRequest,
        context: grpc.aio.ServicerContext[wire.PlacementRequest, wire.PlacementReply],
    ) -> wire.PlacementReply:
        self.asked += 1
        if not self.addresses:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this region has one shard")
        return wire.PlacementReply(addresses=self.addresses, epoch=self.epoch)


@pytest.fixture
async def port() -> int:
    return free_port()


async def serving(port: int, peer: Peer) -> grpc.aio.Server:
    server = grpc.aio.server()
    wire_grpc.add_ReplicationServicer_to_server(peer, server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server


def routes_of(shard: int, peer: str, shards: int = 3) -> Routes:
    config = replace(ONE, shards=shards, shard=str(shard), peers=(peer,))
    return Routes(config, grpc.aio.insecure_channel)


@pytest.mark.parametrize(
    ("addresses", "reached"),
    [
        (["a:1", "b:2", "c:3"], "c:3"),
        (["", "", ""], "beside"),
        (["a:1", "b:2"], "beside"),
        (["a:1", "b:2", "nonsense"], "beside"),
        ([], "beside"),
    ],
)
async def test_what_a_region_answers_is_dialled(port: int, addresses: list[str], reached: str) -> None:
    base = f"127.0.0.1:{port}"
    server = await serving(port, Peer(addresses))
    try:
        found = await routes_of(2, base).address_of(base)
    finally:
        await server.stop(None)
    assert found == (f"127.0.0.1:{port + 2}" if reached == "beside" else reached)


async def test_the_last_answer_holds_while_nobody_answers(port: int) -> None:
    base = f"127.0.0.1:{port}"
    routes = routes_of(1, base)
    assert await routes.address_of(base) == f"127.0.0.1:{port + 1}"
    server = await serving(port, Peer(["a:1", "b:2", "c:3"]))
    assert await routes.address_of(base) == "b:2"
    await server.stop(None)
    assert await routes.address_of(base) == "b:2"
    routes.follow([])
    routes.follow([base])
    assert await routes.address_of(base) == f"127.0.0.1:{port + 1}"


async def test_shard_0_and_announced_addresses_are_dialled_as_they_are(port: int) -> None:
    base = f"127.0.0.1:{port}"
    peer = Peer(["a:1", "b:2", "c:3"])
    server = await serving(port, peer)
    try:
        assert await routes_of(0, base).address_of(base) == base
        assert await routes_of(1, base).address_of("other:9") == "other:9"
        one = Routes(replace(ONE, peers=(base,)), grpc.aio.insecure_channel)
        assert await one.address_of(base) == base
    finally:
        await server.stop(None)
    assert peer.asked == 0
