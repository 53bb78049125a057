"""Which peers are accepted, over gRPC on loopback: transports with speakers, and raw streams with false claims."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import structlog.testing

from crdtstream.processes.ports import free_port
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.authorisation import DIALLER, NONCE_BYTES, prove
from crdtstream.replication.wire_pb2_grpc import ReplicationStub
from crdtstream.runtime.links import handshake
from crdtstream.runtime.links.envelope import EnvelopePacker
from crdtstream.runtime.links.handshake import NONCE_KEY, PROOF_KEY, REGION_KEY, Answers, Said
from crdtstream.settings.config import Config
from tests.runtime.speakers import Speaker, Transports, config, until

SECRET = b"a secret of the regions"


def alone(region: int, *peers: int, port: int = 0, **settings: Any) -> Config:
    """Without a list of allowed regions, unless it is given."""
    return config(region, *peers, port=port, **{"allowed_regions": (), **settings})


@pytest.fixture
def secret(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    return {"replication_secret_file": str(file)}


def introduction(region: int) -> list[tuple[str, str | bytes]]:
    return [(REGION_KEY, str(region)), (NONCE_KEY, bytes(NONCE_BYTES))]


async def refused_of(listening: Config, dialling: Config, transports: Transports) -> list[str]:
    """The reasons that the dialled side tells; nothing of the caller reached its node."""
    east, west = Speaker(1), Speaker(2)
    with structlog.testing.capture_logs() as told:
        first = await transports.start(listening, east)
        peers = (*dialling.peers, f"127.0.0.1:{first.port}")
        await transports.start(dataclasses.replace(dialling, peers=peers), west)
        await until(lambda: any("peer refused" in reason for _, reason in west.closed), "the refusal")
    assert not east.accepted and not east.heard
    return [str(line["reason"]) for line in told if line["event"] == "link-refused"]


async def test_a_region_that_nobody_named_is_refused(transports: Transports) -> None:
    (reason,) = await refused_of(alone(1), alone(2), transports)
    assert reason.startswith("region east has no way to authenticate region 2")


async def test_neighbours_on_loopback_that_name_each_other_need_nothing(transports: Transports) -> None:
    """The one that starts later is not known yet at the address where it answers: its stream waits until it is."""
    east, west = Speaker(1), Speaker(2)
    ports = free_port(), free_port()
    with structlog.testing.capture_logs() as told:
        await transports.start(alone(2, ports[0], port=ports[1]), west)
        await asyncio.sleep(0.1)
        await transports.start(alone(1, ports[1], port=ports[0]), east)
        await until(lambda: len(east.open) == len(west.open) == 1 and bool(east.greetings()), "the link")
    assert [line for line in told if line["log_level"] == "warning"] == []


async def test_a_region_at_another_address_than_it_is_named_at_is_refused(transports: Transports) -> None:
    """North answers where east dials; west, which nobody named, says that it is region 2."""
    north = await transports.start(alone(3, port=free_port()), Speaker(3))
    reasons = await refused_of(alone(1, north.port), alone(2), transports)
    assert any("has no way to authenticate region 2" in reason for reason in reasons)


async def test_neighbours_that_are_not_on_loopback_are_refused(
    transports: Transports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "is_loopback", lambda _host: False)
    ports = free_port(), free_port()
    reasons = await refused_of(alone(1, ports[1], port=ports[0]), alone(2, port=ports[1]), transports)
    assert any("has no way to authenticate region 2" in reason for reason in reasons)


async def test_an_allowed_region_is_let_in(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    first = await transports.start(alone(1, allowed_regions=(2,)), east)
    await transports.start(alone(2, first.port), west)
    await until(lambda: bool(east.greetings() and west.greetings()), "the greeting")


async def test_a_region_that_is_not_allowed_is_refused(transports: Transports) -> None:
    (reason,) = await refused_of(alone(1, allowed_regions=(3,)), alone(2), transports)
    assert reason.startswith("region east does not allow region 2")


async def test_a_shared_secret_lets_in(transports: Transports, secret: dict[str, Any]) -> None:
    east, west = Speaker(1), Speaker(2)
    first = await transports.start(alone(1, **secret), east)
    await transports.start(alone(2, first.port, **secret), west)
    await until(lambda: bool(east.greetings() and west.greetings()), "the greeting")


async def test_a_region_without_the_secret_is_refused(transports: Transports, secret: dict[str, Any]) -> None:
    (reason,) = await refused_of(alone(1, **secret), alone(2), transports)
    assert reason.startswith("region 2 did not prove the replication secret")


async def test_another_secret_is_noticed_by_the_dialler(
    transports: Transports, secret: dict[str, Any], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"another secret of the regions")
    with structlog.testing.capture_logs() as told:
        first = await transports.start(alone(1, **secret), Speaker(1))
        await transports.start(alone(2, first.port, replication_secret_file=str(other)), Speaker(2))
        await until(lambda: any(line["event"] == "link-refused" for line in told), "the refusal")
    assert any("does not share the replication secret of region west" in str(line.get("reason")) for line in told)


async def test_a_region_with_a_secret_may_dial_one_that_has_none(
    transports: Transports, secret: dict[str, Any]
) -> None:
    east, west = Speaker(1), Speaker(2)
    first = await transports.start(alone(1, allowed_regions=(2,)), east)
    await transports.start(alone(2, first.port, **secret), west)
    await until(lambda: bool(east.greetings() and west.greetings()), "the greeting")


@pytest.mark.parametrize("lie", ["proof of another nonce", "proof of another region", "no proof", "its own proof"])
async def test_a_proof_that_does_not_fit_is_refused(transports: Transports, secret: dict[str, Any], lie: str) -> None:
    east = Speaker(1)
    first = await transports.start(alone(1, **secret), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{first.port}") as channel:
        nonce = bytes(NONCE_BYTES)
        call = ReplicationStub(channel).Exchange(metadata=[(REGION_KEY, "2"), (NONCE_KEY, nonce)])
        answered = Said(await call.initial_metadata())
        proofs = {
            "proof of another nonce": prove(SECRET, DIALLER, (2, 1), (nonce, nonce)),
            "proof of another region": prove(SECRET, DIALLER, (3, 1), (nonce, answered.nonce)),
            "no proof": b"",
            "its own proof": answered.proof,
        }
        await call.write(wire.Envelope(proof=proofs[lie]))
        with pytest.raises(grpc.aio.AioRpcError, match="did not prove"):
            await call.read()
    assert not east.open and not east.closed


async def test_the_right_proof_of_a_raw_stream_is_taken(transports: Transports, secret: dict[str, Any]) -> None:
    east = Speaker(1)
    first = await transports.start(alone(1, **secret), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{first.port}") as channel:
        nonce = bytes(NONCE_BYTES)
        call = ReplicationStub(channel).Exchange(metadata=[(REGION_KEY, "2"), (NONCE_KEY, nonce)])
        answered = Said(await call.initial_metadata())
        await call.write(wire.Envelope(proof=prove(SECRET, DIALLER, (2, 1), (nonce, answered.nonce))))
        await call.write(EnvelopePacker().pack(wire.Message(hello=wire.Hello(region=2))))
        await until(lambda: east.greetings() == 1, "the greeting")


async def test_a_region_that_greets_as_another_is_not_heard(transports: Transports) -> None:
    east = Speaker(1)
    first = await transports.start(alone(1, allowed_regions=(2,)), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{first.port}") as channel:
        call = ReplicationStub(channel).Exchange(metadata=introduction(2))
        await call.write(EnvelopePacker().pack(wire.Message(hello=wire.Hello(region=3))))
        await until(lambda: bool(east.closed), "the end")
    assert east.closed[0][1] == "region 2 greets as region 3"
    assert not east.heard


async def test_a_stream_of_nobody_is_refused(transports: Transports) -> None:
    east = Speaker(1)
    first = await transports.start(alone(1, allowed_regions=(2,)), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{first.port}") as channel:
        call = ReplicationStub(channel).Exchange()
        with pytest.raises(grpc.aio.AioRpcError, match="does not name its region"):
            await call.read()
    assert not east.open and not east.closed


async def test_each_reason_is_told_once_whatever_is_claimed_meanwhile(transports: Transports) -> None:
    first = await transports.start(alone(1, allowed_regions=(4,)), Speaker(1))
    with structlog.testing.capture_logs() as told:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{first.port}") as channel:
            for region in (2, 3) * 5:
                with pytest.raises(grpc.aio.AioRpcError, match=f"does not allow region {region}"):
                    await ReplicationStub(channel).Exchange(metadata=introduction(region)).read()
    assert len([line for line in told if line["event"] == "link-refused"]) == 2


async def test_the_answers_that_are_open_are_waited_for() -> None:
    sought: list[None] = []
    answers = Answers(["a:1", "b:1"], lambda: sought.append(None))
    wanted = asyncio.create_task(answers.include(7))
    await until(lambda: len(sought) == 1, "it asks for a dial")
    answers.record("a:1", 3)
    await until(lambda: len(sought) == 2, "it asks again")
    assert not wanted.done()
    answers.record("b:1", 7)
    assert await wanted
    assert not await answers.include(8)
    assert await answers.include(3)


async def test_answers_follow_the_addresses() -> None:
    answers = Answers(["a:1"], lambda: None)
    wanted = asyncio.create_task(answers.include(7))
    await asyncio.sleep(0)
    answers.follow(["b:1"])
    answers.record("a:1", 7)
    await asyncio.sleep(0)
    assert not wanted.done(), "an address that was removed does not count"
    answers.record("b:1", 7)
    assert await wanted
    answers.follow([])
    assert not await answers.include(7)


def test_metadata_that_are_not_ours_say_nothing() -> None:
    assert (Said(None).region, Said([(REGION_KEY, b"7")]).region, Said([(PROOF_KEY, "x")]).proof) == (0, 0, b"")
