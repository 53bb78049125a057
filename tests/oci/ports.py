"""A gateway for tests: over HTTP without a socket, and on a socket in a thread for the real SDK and CLI."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from crdtstream.oci.app import KeySource, make_app
from crdtstream.oci.engine import Engine
from crdtstream.oci.gateway import Gateway, GatewaySettings
from crdtstream.oci.server import OciServer
from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.settings.config import Config
from tests.oci.fake_engine import FakeEngine

BASE = "/20180418"
COMPARTMENT = "ocid1.compartment.oc1..test"
OFF = GatewaySettings(real_limits=False, tools=True)
REAL = GatewaySettings(real_limits=True, tools=True)


def bytes_from(seed: int = 0) -> Callable[[int], bytes]:
    """Different bytes with each call, the same in each test."""
    state = [seed]

    def draw(count: int) -> bytes:
        state[0] += 1
        return state[0].to_bytes(count, "big")

    return draw


class Edge:
    """An application, its engine, and a client."""

    def __init__(self, engine: FakeEngine, gateway: Gateway, client: httpx.AsyncClient) -> None:
        self.engine = engine
        self.gateway = gateway
        self.client = client

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return await self.client.request(method, BASE + path, json=body, **options)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return await self.ask("POST", path, body, **options)

    async def made(self, name: str = "orders", partitions: int = 4, **more: Any) -> str:
        """The ID of a new stream."""
        body = {"name": name, "partitions": partitions, "compartmentId": COMPARTMENT, **more}
        reply = await self.post("/streams", body)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["id"])


@asynccontextmanager
async def edge(settings: GatewaySettings = OFF, keys: KeySource | None = None) -> AsyncIterator[Edge]:
    engine = FakeEngine()
    gateway = Gateway(engine, settings, bytes_from())
    transport = httpx.ASGITransport(make_app(gateway, keys))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
        yield Edge(engine, gateway, client)


def config_of(**settings: Any) -> Config:
    return Config(**{"name": "east", "region": 1, "cluster": "c", "oci_port": 0, "oci_limits": "off", **settings})


@contextmanager
def served(engine: Engine, certificates: Certificates | None = None, **settings: Any) -> Iterator[str]:
    """The URL of a gateway that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = OciServer(config_of(**settings), engine, certificates)

    def within(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    try:
        yield f"{'http' if certificates is None else 'https'}://{within(server.start())}"
    finally:
        within(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def error_of(reply: httpx.Response) -> tuple[int, str]:
    """Status and code; an error has a text, and its request has a name."""
    body = reply.json()
    assert set(body) == {"code", "message"} and body["message"]
    assert len(reply.headers["opc-request-id"].split("/")) == 3
    return reply.status_code, body["code"]
