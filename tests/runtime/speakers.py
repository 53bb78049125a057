"""Nodes that only speak and listen, and the transports between them."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crdtstream.processes.waiting import DEADLINE_S
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.greeting import PROTOCOL_VERSION
from crdtstream.runtime.links.grpc_transport import GrpcTransport
from crdtstream.runtime.links.handshake import NONCE_KEY, REGION_KEY, Metadata
from crdtstream.runtime.links.link import LinkNode
from crdtstream.settings.config import Config, Limits

LIMITS = Limits(backoff_ms_min=5, backoff_ms_max=50, peer_timeout_ms=60_000, message_bytes_max=1 << 20)
NAMES = {1: "east", 2: "west", 3: "north"}


class Speaker:
    """A node that greets, says what it is told to say on every link, and refuses when asked to."""

    def __init__(self, region: int, name: str = "", origin: int = 0) -> None:
        self.region = region
        self.origin = origin or region
        self.name = name or NAMES[region]
        self.unwelcome = "nobody"
        self.protocol = PROTOCOL_VERSION
        self.open: dict[int, bool] = {}
        self.met: dict[str, int] = {}
        self.failed: dict[str, str] = {}
        self.accepted = 0
        self.outbox: dict[int, list[wire.Message]] = {}
        self.heard: list[tuple[int, wire.Message]] = []
        self.closed: list[tuple[int, str]] = []
        self.verdicts: dict[int, str] = {}
        self.refuses = ""
        self.stirred: list[tuple[int, int]] = []
        self.pulls = 0
        self.turns = 0
        self.transport: GrpcTransport | None = None

    def link_stirs(self, link_id: int, now_ms: int) -> None:
        self.stirred.append((link_id, now_ms))

    def link_opened(self, link_id: int, dialled: bool, now_ms: int) -> None:
        self.open[link_id] = dialled
        self.accepted += not dialled
        hello = wire.Hello(
            region=self.region,
            name=self.name,
            origin=self.origin,
            protocol_version=2,
            protocol_version_max=self.protocol,
        )
        self.outbox[link_id] = [wire.Message(hello=hello)]

    def welcomes(self, hello: wire.Hello) -> bool:
        return hello.name != self.unwelcome

    def peer_met(self, address: str, region: int) -> None:
        self.met[address] = region

    def peer_dialled(self, address: str, reached: str) -> None:
        pass

    def peer_failed(self, address: str, reason: str) -> None:
        self.failed[address] = reason

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> None:
        del self.open[link_id]
        self.closed.append((link_id, reason))

    def receive(self, link_id: int, message: wire.Message, byte_count: int, now_ms: int) -> None:
        assert byte_count, "a message without a size"
        assert link_id in self.open, "a closed link was heard"
        self.heard.append((link_id, message))
        if message.HasField("refused"):
            self.verdicts[link_id] = f"the peer refused: {message.refused.reason}"
        elif self.refuses or (message.HasField("hello") and not self.welcomes(message.hello)):
            self.outbox[link_id].append(wire.Message(refused=wire.Refused(reason=self.refuses)))

    def outgoing(
        self, link_id: int, bytes_max: int, now_ms: int, apart: list[bytes] | None = None
    ) -> wire.Message | None:
        assert link_id in self.open, "a closed link was pulled"
        self.pulls += 1
        message = self.outbox[link_id].pop(0) if self.outbox[link_id] else None
        if message is not None and message.HasField("refused"):
            self.verdicts[link_id] = message.refused.reason
        return message

    def link_verdict(self, link_id: int) -> str | None:
        return self.verdicts.get(link_id)

    def turn(self) -> None:
        self.turns += 1
        if self.transport is not None:
            self.transport.wake()

    def say(self, *payloads: bytes) -> None:
        for link_id in self.open:
            self.outbox[link_id].append(wire.Message(batches=wire.Batches(payloads=payloads)))
        self.turn()

    def payloads(self) -> list[bytes]:
        return [payload for _, message in self.heard for payload in message.batches.payloads]

    def greetings(self) -> int:
        return sum(message.HasField("hello") for _, message in self.heard)


def config(region: int, *peers: int, port: int = 0, **settings: Any) -> Config:
    base = Config(
        name=NAMES[region],
        region=region,
        cluster="test",
        replication_port=port,
        peers=tuple(f"127.0.0.1:{peer}" for peer in peers),
        allowed_regions=(1, 2, 3),
        limits=LIMITS,
    )
    return dataclasses.replace(base, **settings)


class Transports:
    """What a test started, stopped at its end."""

    def __init__(self) -> None:
        self.running: list[GrpcTransport] = []
        self.failures: list[Exception] = []

    async def start(self, settings: Config, node: LinkNode) -> GrpcTransport:
        turn = node.turn if isinstance(node, Speaker) else nothing
        transport = GrpcTransport(settings, node, turn, lambda: 0, self.failures.append)
        if isinstance(node, Speaker):
            node.transport = transport
        await transport.start()
        self.running.append(transport)
        return transport

    async def stop(self, transport: GrpcTransport) -> None:
        self.running.remove(transport)
        await transport.stop()


def nothing() -> None:
    return None


async def until(condition: Callable[[], bool], what: str = "it") -> None:
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"{what} never came") from None


async def pair(transports: Transports) -> tuple[Speaker, Speaker]:
    """West dials east."""
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port), west)
    await until(lambda: east.greetings() == 1 and west.greetings() == 1, "the greeting")
    return east, west


def claim(region: int) -> Metadata:
    """What a stream says of itself before it begins."""
    return [(REGION_KEY, str(region)), (NONCE_KEY, bytes(32))]


def certificate(folder: Path, name: str, signer: str | None, region: int = 0) -> None:
    """A key and a certificate for loopback, by `signer` or by itself; it names the region if there is one."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
    run = ["openssl", "req", "-x509", "-subj", f"/CN={name}", "-days", "1", *key, "-out", f"{name}.pem"]
    if signer is None:
        run += ["-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
    else:
        run += [
            "-addext",
            f"subjectAltName=IP:127.0.0.1,DNS:region-{region}",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]
        run += ["-CA", f"{signer}.pem", "-CAkey", f"{signer}.key"]
    subprocess.run(run, cwd=folder, check=True, capture_output=True)


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
