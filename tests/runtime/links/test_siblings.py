"""What one shard publishes reaches the others of its region, whole and in order, and nobody else may send any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
import structlog.testing

from crdtstream.processes.ports import free_port
from crdtstream.processes.waiting import DEADLINE_S
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication import wire_pb2_grpc as wire_grpc
from crdtstream.runtime.links import siblings as module
from crdtstream.runtime.links.handshake import Answers, Handshake
from crdtstream.runtime.links.siblings import PART_BYTES, WAITING_BYTES_MAX, Siblings
from crdtstream.settings.config import Config

EAST = Config(name="east", region=1, cluster="c", shards=2)


class Side(wire_grpc.ReplicationServicer):
    """One shard of two, with a server of its own."""

    def __init__(self, own: int, addresses: list[str], config: Config) -> None:
        self.heard: list[tuple[bytes, bytes]] = []
        self.siblings = Siblings(
            own,
            lambda: addresses,
            grpc.aio.insecure_channel,
            Handshake(config, Answers([], lambda: None)),
            lambda channel, text: self.heard.append((channel, text)),
        )
        self._server = grpc.aio.server()
        wire_grpc.add_ReplicationServicer_to_server(self, self._server)
        self._server.add_insecure_port(addresses[own])

    async def Exchange(self, *_: object) -> AsyncIterator[wire.Envelope]:
        raise AssertionError("a link was opened")
        yield

    async def Placement(self, *_: object) -> wire.PlacementReply:
        raise AssertionError("it was asked")

    async def Publish(  # type: ignore[override]
        self, _requests: object, context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]
    ) -> None:
        await self.siblings.serve(context)

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self.siblings.stop()
        await self._server.stop(None)


@pytest.fixture
async def sides() -> AsyncIterator[Callable[[Config, Config], list[Side]]]:
    made: list[Side] = []

    def pair(one: Config, other: Config) -> list[Side]:
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        made.extend([Side(0, addresses, one), Side(1, addresses, other)])
        return made

    yield pair
    for side in made:
        await side.stop()


async def reached(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.005)


Pair = Callable[[Config, Config], list[Side]]


async def test_messages_arrive_in_order_and_large_ones_whole(sides: Pair) -> None:
    zero, one = sides(EAST, EAST)
    await zero.start()
    await one.start()
    large = bytes(range(256)) * (3 * PART_BYTES // 256) + b"end"
    messages = [(b"c", b"%d" % number) for number in range(100)] + [(b"large", large), (b"empty", b""), (b"", b"x")]
    zero.siblings.publish(messages[:50])
    zero.siblings.publish(messages[50:])
    one.siblings.publish([(b"back", b"y")])
    await reached(lambda: len(one.heard) == len(messages) and zero.heard)
    assert one.heard == messages
    assert zero.heard == [(b"back", b"y")]


async def test_what_cannot_be_sent_is_dropped_and_told_and_the_next_arrives(
    sides: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    zero, one = sides(EAST, EAST)
    with structlog.testing.capture_logs() as logs:
        zero.siblings.publish([(b"c", b"lost")])
        await reached(lambda: logs)
    assert (logs[0]["event"], logs[0]["number"], logs[0]["dropped"]) == ("shard-unreachable", 1, 1)
    await one.start()
    zero.siblings.publish([(b"c", b"found")])
    await reached(lambda: one.heard)
    assert one.heard == [(b"c", b"found")]


async def test_what_waits_is_bounded(sides: Pair) -> None:
    zero, one = sides(EAST, EAST)
    text = bytes(WAITING_BYTES_MAX // 4)
    zero.siblings.publish([(b"", text)] * 6)
    await one.start()
    await reached(lambda: len(one.heard) == 4)
    await asyncio.sleep(0.05)
    assert len(one.heard) == 4


async def test_another_region_and_a_wrong_secret_are_refused(sides: Pair, tmp_path: Path) -> None:
    secret, other = tmp_path / "secret", tmp_path / "other"
    secret.write_bytes(b"s" * 32)
    other.write_bytes(b"o" * 32)
    for config, reason in (
        (replace(EAST, region=2, name="west"), "only shards of region east may"),
        (replace(EAST, replication_secret_file=str(other)), "does not share the replication secret"),
        (EAST, "did not prove the replication secret"),
    ):
        zero, one = sides(config, replace(EAST, replication_secret_file=str(secret)))[-2:]
        await one.start()
        with structlog.testing.capture_logs() as logs:
            zero.siblings.publish([(b"c", b"x")])
            for _ in range(200):
                if logs:
                    break
                zero.siblings.publish([(b"c", b"x")])
                await asyncio.sleep(0.02)
        assert reason in str(logs[0]["reason"]), logs
        assert one.heard == []


async def test_a_shared_secret_is_proved(sides: Pair, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 32)
    config = replace(EAST, replication_secret_file=str(secret))
    zero, one = sides(config, config)
    await one.start()
    zero.siblings.publish([(b"c", b"x")])
    await reached(lambda: one.heard)
    assert one.heard == [(b"c", b"x")]
