"""Two transports on loopback in one event loop, each with a node that only says and hears."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc.aio
import pytest
import structlog.testing
import zstandard

from crdtstream.config import Config, ConfigError, Limits
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.wire_pb2_grpc import ReplicationStub
from crdtstream.runtime import grpc_transport
from crdtstream.runtime.envelope import Packer, Unpacker
from crdtstream.runtime.grpc_transport import CONTESTED, DISPLACED_MAX, SUPERSEDED, GrpcTransport, TransportError
from crdtstream.runtime.link import LinkNode
from nemesis.region_process import DEADLINE_S, free_port

LIMITS = Limits(backoff_ms_min=5, backoff_ms_max=50, peer_timeout_ms=60_000, message_bytes_max=1 << 20)
NAMES = {1: "east", 2: "west", 3: "north"}


class Speaker:
    """A node that greets, says what it is told to say on every link, and refuses when asked to."""

    def __init__(self, region: int, name: str = "") -> None:
        self.region = region
        self.name = name or NAMES[region]
        self.unwelcome = "nobody"
        self.open: dict[int, bool] = {}
        self.met: dict[str, int] = {}
        self.outbox: dict[int, list[wire.Message]] = {}
        self.heard: list[tuple[int, wire.Message]] = []
        self.closed: list[tuple[int, str]] = []
        self.verdicts: dict[int, str] = {}
        self.refuses = ""
        self.pulls = 0
        self.turns = 0
        self.transport: GrpcTransport | None = None

    def link_opened(self, link_id: int, dialled: bool, now_ms: int) -> None:
        self.open[link_id] = dialled
        hello = wire.Hello(region=self.region, name=self.name)
        self.outbox[link_id] = [wire.Message(hello=hello)]

    def welcomes(self, hello: wire.Hello) -> bool:
        return hello.name != self.unwelcome

    def peer_met(self, address: str, region: int) -> None:
        self.met[address] = region

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> None:
        del self.open[link_id]
        self.closed.append((link_id, reason))

    def receive(self, link_id: int, message: wire.Message, now_ms: int) -> None:
        assert link_id in self.open, "a closed link was heard"
        self.heard.append((link_id, message))
        if message.HasField("refused"):
            self.verdicts[link_id] = f"the peer refused: {message.refused.reason}"
        elif self.refuses or (message.HasField("hello") and not self.welcomes(message.hello)):
            self.outbox[link_id].append(wire.Message(refused=wire.Refused(reason=self.refuses)))

    def outgoing(self, link_id: int, bytes_max: int, now_ms: int) -> wire.Message | None:
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


def config(region: int, *peers: int, port: int = 0, **settings: object) -> Config:
    base = Config(
        name=NAMES[region],
        region=region,
        cluster="test",
        replication_port=port,
        peers=tuple(f"127.0.0.1:{peer}" for peer in peers),
        limits=LIMITS,
    )
    return dataclasses.replace(base, **settings)  # type: ignore[arg-type]


Starter = Callable[[Config, Speaker], "asyncio.Future[GrpcTransport]"]


class Transports:
    """What a test started, stopped at its end."""

    def __init__(self) -> None:
        self.running: list[GrpcTransport] = []
        self.failures: list[Exception] = []

    async def start(self, settings: Config, node: LinkNode) -> GrpcTransport:
        turn = node.turn if isinstance(node, Speaker) else _nothing
        transport = GrpcTransport(settings, node, turn, lambda: 0, self.failures.append)
        if isinstance(node, Speaker):
            node.transport = transport
        await transport.start()
        self.running.append(transport)
        return transport

    async def stop(self, transport: GrpcTransport) -> None:
        self.running.remove(transport)
        await transport.stop()


def _nothing() -> None:
    return None


@pytest.fixture
async def transports() -> AsyncIterator[Transports]:
    started = Transports()
    yield started
    for transport in list(started.running):
        await started.stop(transport)


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


async def test_both_sides_greet_and_hear_each_other(transports: Transports) -> None:
    east, west = await pair(transports)
    assert list(east.open.values()) == [False]
    assert list(west.open.values()) == [True]
    east.say(b"from east")
    west.say(b"from west", b"again")
    await until(lambda: bool(east.payloads()) and bool(west.payloads()))
    assert west.payloads() == [b"from east"]
    assert east.payloads() == [b"from west", b"again"]
    assert east.turns > 0
    assert [transport.linked_regions() for transport in transports.running] == [[2], [1]]


async def test_messages_keep_their_order_and_large_ones_pass(transports: Transports) -> None:
    east, west = await pair(transports)
    payloads = [bytes([number]) * (1 << 19 if number % 10 == 0 else 10) for number in range(30)]
    for payload in payloads:
        east.say(payload)
    await until(lambda: len(west.payloads()) == 30)
    assert west.payloads() == payloads


async def test_wakes_between_two_pulls_make_one_pull(transports: Transports) -> None:
    east, _ = await pair(transports)
    assert east.transport is not None
    await asyncio.sleep(0.05)
    before = east.pulls
    for _ in range(200):
        east.transport.wake()
        await asyncio.sleep(0)
    assert east.pulls - before < 20


async def test_a_lost_link_is_dialled_again(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    port = free_port()
    first = await transports.start(config(1, port=port), east)
    await transports.start(config(2, port), west)
    await until(lambda: west.greetings() == 1, "the greeting")
    await transports.stop(first)
    await until(lambda: not west.open, "the loss")
    await transports.start(config(1, port=port), east)
    await until(lambda: west.greetings() == 2 and bool(east.open), "the return")
    west.say(b"back")
    await until(lambda: east.payloads() == [b"back"])


async def test_a_peer_that_comes_late_is_met(transports: Transports) -> None:
    west, east = Speaker(2), Speaker(1)
    port = free_port()
    await transports.start(config(2, port), west)
    await asyncio.sleep(0.03)
    assert not west.open
    assert not west.closed
    await transports.start(config(1, port=port), east)
    await until(lambda: west.greetings() == 1, "the greeting")


async def test_two_that_dial_each_other_keep_the_stream_of_the_lower_region(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    ports = free_port(), free_port()
    await transports.start(config(2, ports[0], port=ports[1]), west)
    await transports.start(config(1, ports[1], port=ports[0]), east)

    def settled() -> bool:
        return list(east.open.values()) == [True] and list(west.open.values()) == [False]

    await until(lambda: bool(east.met and west.met) and settled(), "the choice between two streams")
    await asyncio.sleep(0.2)
    assert settled()
    count = east.greetings()
    await asyncio.sleep(0.2)
    assert east.greetings() == count
    east.say(b"x")
    west.say(b"y")
    await until(lambda: west.payloads() == [b"x"] and east.payloads() == [b"y"])
    ends = {grpc_transport.SUPERSEDED, "the peer ended the stream", "the peer tore the stream down"}
    assert {reason for _, reason in east.closed} <= ends


async def test_a_peer_configured_twice_has_one_stream(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port, listening.port), west)
    await until(lambda: east.greetings() >= 2, "both greetings")
    await until(lambda: len(east.open) == len(west.open) == 1, "one stream")


async def test_two_processes_of_one_region_do_not_take_turns_for_ever(transports: Transports) -> None:
    east, copies = Speaker(1), [Speaker(2), Speaker(2)]
    with structlog.testing.capture_logs() as told:
        listening = await transports.start(config(1), east)
        for copy in copies:
            await transports.start(config(2, listening.port), copy)
        contested = [CONTESTED] * 3
        await until(lambda: [why for _, why in east.closed if why == CONTESTED][:3] == contested, "three more tries")
    assert [why for _, why in east.closed].count(SUPERSEDED) == DISPLACED_MAX
    assert len([line for line in told if line.get("reason") == CONTESTED]) == 1
    assert listening.linked_regions() == [2]
    east.say(b"one of them is linked")
    await until(lambda: any(copy.payloads() for copy in copies))


async def test_who_is_refused_takes_nobodys_place(transports: Transports) -> None:
    """A region of another cluster with the number of one of ours, which dials us by mistake."""
    east, west, stranger = Speaker(1), Speaker(2), Speaker(2, "staging")
    east.unwelcome = "staging"
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port), west)
    await until(lambda: west.greetings() == 1 and listening.linked_regions() == [2], "the link")
    await transports.start(config(2, listening.port), stranger)
    await until(lambda: len(stranger.closed) >= 3, "three more tries")
    assert west.closed == [] and west.greetings() == 1
    east.say(b"still linked")
    await until(lambda: west.payloads() == [b"still linked"])


async def test_a_dialler_learns_who_answers_at_an_address(transports: Transports) -> None:
    """Also when the stream that it dialled is given up for another one between the same regions."""
    east, west = Speaker(1), Speaker(2)
    first_port, second_port = free_port(), free_port()
    await transports.start(config(1, second_port, port=first_port), east)
    await transports.start(config(2, first_port, port=second_port), west)
    await until(lambda: bool(east.met and west.met), "both know")
    assert east.met == {f"127.0.0.1:{second_port}": 2}
    assert west.met == {f"127.0.0.1:{first_port}": 1}


async def test_links_to_different_regions_live_side_by_side(transports: Transports) -> None:
    east, west, north = Speaker(1), Speaker(2), Speaker(3)
    first = await transports.start(config(1), east)
    second = await transports.start(config(2, first.port), west)
    await transports.start(config(3, first.port, second.port), north)
    await until(lambda: all(node.greetings() == 2 for node in (east, west, north)), "the greetings")
    assert second.linked_regions() == [1, 3]


@pytest.mark.parametrize("who", ["listener", "dialler"])
async def test_a_refusal_reaches_the_other_side(transports: Transports, who: str) -> None:
    east, west = Speaker(1), Speaker(2)
    refuser, refused = (east, west) if who == "listener" else (west, east)
    refuser.refuses = "wrong cluster"
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port), west)
    await until(lambda: bool(refuser.closed) and bool(refused.closed), "the end")
    assert refuser.closed[0][1] == "wrong cluster"
    assert refused.closed[0][1] == "the peer refused: wrong cluster"


async def test_a_verdict_ends_a_link_whose_write_hangs(transports: Transports) -> None:
    """The peer reads nothing, so the stream's own window fills and the write never returns."""
    east = Speaker(1)
    listening = await transports.start(config(1), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        call = ReplicationStub(channel).Exchange()
        await call.write(Packer().pack(wire.Message(hello=wire.Hello(region=2))))
        await until(lambda: east.greetings() == 1)
        for number in range(64):
            east.say(noise(number))
        pulls = -1
        while pulls != east.pulls:
            pulls = east.pulls
            await asyncio.sleep(0.1)
        (link_id,) = east.open
        assert len(east.outbox[link_id]) > 0
        east.verdicts[link_id] = "nothing heard from the peer"
        east.turn()
        assert east.closed == [(link_id, "nothing heard from the peer")]


def noise(seed: int) -> bytes:
    import random

    return random.Random(seed).randbytes(500_000)


async def test_a_compressed_bomb_ends_its_link_and_nothing_else(transports: Transports) -> None:
    east, west = await pair(transports)
    compressor = zstandard.ZstdCompressor().compressobj()
    bomb = compressor.compress(bytes(1 << 28)) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    assert len(bomb) < 1 << 16
    port = transports.running[0].port
    for said in (10, LIMITS.message_bytes_max, 1 << 28):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = ReplicationStub(channel).Exchange()
            await call.write(wire.Envelope(zstd=bomb, size_bytes=said))
            while await call.read() is not grpc.aio.EOF:
                pass
    assert len(east.closed) == 3
    assert all(reason.startswith("cannot read what the peer sent: ") for _, reason in east.closed)
    west.say(b"still here")
    await until(lambda: east.payloads() == [b"still here"])
    assert not transports.failures


async def test_bytes_that_are_no_envelope_end_their_link_and_nothing_else(transports: Transports) -> None:
    east, west = await pair(transports)
    port = transports.running[0].port
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        exchange = channel.stream_stream("/crdtstream.replication.Replication/Exchange")
        for garbage in (b"\xff" * 20, b"\x0a\xff", b"GET / HTTP/1.1\r\n\r\n") * 20:
            call = exchange()
            await call.write(garbage)
            async with asyncio.timeout(DEADLINE_S):
                while await call.read() is not grpc.aio.EOF:
                    pass
    assert [reason.partition(":")[0] for _, reason in east.closed] == ["cannot read what the peer sent"] * 60
    assert not transports.failures
    west.say(b"still here")
    await until(lambda: east.payloads() == [b"still here"])


async def test_an_envelope_larger_than_permitted_ends_its_link(transports: Transports) -> None:
    east = Speaker(1)
    listening = await transports.start(config(1), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        call = ReplicationStub(channel).Exchange()
        await call.write(wire.Envelope(zstd=bytes(2 << 20), size_bytes=5))
        await until(lambda: bool(east.closed), "the end")
    assert not east.heard


async def test_the_wire_is_what_the_contract_says(transports: Transports) -> None:
    east = Speaker(1)
    listening = await transports.start(config(1), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        call = ReplicationStub(channel).Exchange()
        unpacker = Unpacker(1 << 20)
        envelope = await call.read()
        assert isinstance(envelope, wire.Envelope)
        assert unpacker.unpack(envelope).hello.name == "east"


async def test_a_node_that_fails_is_reported(transports: Transports) -> None:
    class Broken(Speaker):
        def receive(self, link_id: int, message: wire.Message, now_ms: int) -> None:
            raise ZeroDivisionError

    east = Broken(1)
    listening = await transports.start(config(1), east)
    await transports.start(config(2, listening.port), Speaker(2))
    await until(lambda: bool(transports.failures), "the failure")
    assert isinstance(transports.failures[0], ZeroDivisionError)


async def test_stopping_closes_links_and_frees_the_port(transports: Transports) -> None:
    east, west = await pair(transports)
    listening = transports.running[0]
    await transports.stop(listening)
    assert [reason for _, reason in east.closed] == ["this region stops"]
    await until(lambda: bool(west.closed), "the end")
    await transports.start(config(1, port=listening.port), Speaker(1))


async def test_a_port_in_use_is_named(transports: Transports) -> None:
    listening = await transports.start(config(1), Speaker(1))
    with pytest.raises(TransportError, match=rf"cannot listen .* 127\.0\.0\.1:{listening.port}.*--replication-port"):
        await GrpcTransport(config(2, port=listening.port), Speaker(2), _nothing, lambda: 0).start()


async def test_what_fails_again_is_told_once(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    west.refuses = "wrong cluster"
    with structlog.testing.capture_logs() as told:
        listening = await transports.start(config(1), east)
        await transports.start(config(2, listening.port, free_port()), west)
        await until(lambda: len(east.closed) >= 3, "three refusals")
        await until(lambda: any(line["event"] == "cannot connect" for line in told), "nobody answers")
    reasons = sorted(str(line["reason"]) for line in told if line["event"] == "link closed")
    assert reasons == ["the peer refused: wrong cluster", "wrong cluster"]
    assert len([line for line in told if line["event"] == "cannot connect"]) == 1
    assert {line["log_level"] for line in told} == {"warning"}


async def test_what_a_region_cannot_read_is_told_once_as_a_warning(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    small = dataclasses.replace(LIMITS, message_bytes=1 << 10, message_bytes_max=1 << 12)
    with structlog.testing.capture_logs() as told:
        listening = await transports.start(config(1, limits=small), east)
        await transports.start(config(2, listening.port), west)
        for ends in range(3):
            await until(lambda ends=ends: west.greetings() > ends, "a greeting")  # type: ignore[misc]
            west.say(bytes(1 << 13))
            await until(lambda ends=ends: len(west.closed) > ends, "the end")  # type: ignore[misc]
    closed = [line for line in told if line["event"] == "link closed"]
    assert [line["log_level"] for line in closed] == ["warning"]
    assert "where 1 to 4096 are permitted" in str(closed[0]["reason"])


async def test_links_that_open_and_end_are_told(transports: Transports) -> None:
    with structlog.testing.capture_logs() as told:
        east, _ = await pair(transports)
        east.say(b"x")
        await until(lambda: any(line["event"] == "link opened" for line in told))
        await transports.stop(transports.running[0])
        await until(lambda: any(line["event"] == "link lost" for line in told))
    opened = next(line for line in told if line["event"] == "link opened")
    assert (opened["region"], opened["name"], opened["side"]) == (1, "east", "dialled")


# Credentials


@pytest.mark.parametrize(
    "settings", [{"replication_bind": "0.0.0.0"}, {"replication_bind": "::"}, {"peers": ("10.0.0.9:7101",)}]
)
def test_nothing_leaves_the_machine_in_the_clear(settings: dict[str, object]) -> None:
    exposed = config(1, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not loopback"):
        GrpcTransport(exposed, Speaker(1), _nothing, lambda: 0)
    trusted = dataclasses.replace(exposed, insecure_replication=True)
    GrpcTransport(trusted, Speaker(1), _nothing, lambda: 0)


def test_a_tls_file_that_is_missing_is_named() -> None:
    files = {"tls_certificate": "/nowhere/a.pem", "tls_key": "b", "tls_authority": "c"}
    with pytest.raises(ConfigError, match=r"/nowhere/a\.pem cannot be read: No such file"):
        GrpcTransport(config(1, **files), Speaker(1), _nothing, lambda: 0)  # type: ignore[arg-type]


def certificate(folder: Path, name: str, signer: str | None) -> None:
    """A key and a certificate for loopback, by `signer` or by itself."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
    run = ["openssl", "req", "-x509", "-subj", f"/CN={name}", "-days", "1", *key, "-out", f"{name}.pem"]
    if signer is None:
        run += ["-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
    else:
        run += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
        run += ["-CA", f"{signer}.pem", "-CAkey", f"{signer}.key"]
    subprocess.run(run, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    certificate(folder, "authority", None)
    certificate(folder, "stranger", None)
    for name, signer in (("east", "authority"), ("west", "authority"), ("forged", "stranger")):
        certificate(folder, name, signer)
    return folder


def tls(folder: Path, name: str) -> dict[str, str]:
    return {
        "tls_certificate": str(folder / f"{name}.pem"),
        "tls_key": str(folder / f"{name}.key"),
        "tls_authority": str(folder / "authority.pem"),
    }


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")


@needs_openssl
async def test_regions_with_certificates_of_one_authority_meet(transports: Transports, authority: Path) -> None:
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1, **tls(authority, "east")), east)  # type: ignore[arg-type]
    await transports.start(config(2, listening.port, **tls(authority, "west")), west)  # type: ignore[arg-type]
    await until(lambda: east.greetings() == 1 and west.greetings() == 1, "the greeting")
    west.say(b"secret")
    await until(lambda: east.payloads() == [b"secret"])


@needs_openssl
@pytest.mark.parametrize("who", ["forged", ""])
async def test_strangers_are_kept_out(transports: Transports, authority: Path, who: str) -> None:
    """A certificate of another authority, or none at all."""
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1, **tls(authority, "east")), east)  # type: ignore[arg-type]
    settings = tls(authority, who) if who else {}
    await transports.start(config(2, listening.port, **settings), west)  # type: ignore[arg-type]
    await asyncio.sleep(0.3)
    assert not east.open
    assert not east.closed
    assert not west.greetings()
