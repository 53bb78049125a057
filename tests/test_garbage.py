"""A running region under noise and strangers, on both of its ports: it does not die, grow, or change its data."""

from __future__ import annotations

import random
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import msgpack
import pytest
import zstandard

from crdtstream.processes.region import RegionProcess, Regions, regions_in
from crdtstream.processes.waiting import until
from crdtstream.protocols.codec import FORMAT_VERSION
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.authorisation import NONCE_BYTES
from crdtstream.replication.links.greeting import PROTOCOL_VERSION
from crdtstream.runtime.links.envelope import EnvelopePacker
from crdtstream.runtime.links.handshake import NONCE_KEY, REGION_KEY

GROWTH_BYTES_MAX = 96 << 20
STRANGER = 9
REPLY_S = 30.0
CHUNK_BYTES = 1 << 16
HALF_OPEN = 100
HOLD_S = 0.1


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RegionProcess, RegionProcess]]:
    with regions_in(tmp_path_factory.mktemp("garbage")) as made:
        yield linked(made)


def linked(regions: Regions, **settings: object) -> tuple[RegionProcess, RegionProcess]:
    east, west = regions.make(1, 2)
    east.start(west, incarnation=0, allow_region=STRANGER, **settings)
    west.start(east, incarnation=0, **settings)
    for region in (east, west):
        region.await_serving()
    for number in range(100):
        east.ask("XADD", "x", "*", "n", number)
    regions.await_agreement()
    return east, west


def resident_bytes(region: RegionProcess) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{region.pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


@contextmanager
def unharmed(east: RegionProcess, west: RegionProcess) -> Iterator[None]:
    """What is done meanwhile to east leaves it as it was, serving and replicating."""
    held = east.ask("XRANGE", "x", "-", "+")
    keys = east.ask("DBSIZE")
    before = resident_bytes(east)
    yield
    assert east.state() == "ok"
    assert east.ask("XRANGE", "x", "-", "+") == held
    assert east.ask("DBSIZE") == keys
    assert "Traceback" not in east.log()
    assert resident_bytes(east) - before < GROWTH_BYTES_MAX
    added = east.ask("XADD", "x", "*", "after", "noise")
    until(lambda: west.ask("XRANGE", "x", added, added), lambda: f"west gets what east adds: {east.log_end()}")
    back = west.ask("XADD", "x", "*", "after", "noise")
    until(lambda: east.ask("XRANGE", "x", back, back), lambda: f"east gets what west adds: {east.log_end()}")


def say(port: int, pieces: Iterable[bytes]) -> bytes:
    """What the port answers until it hangs up, or has nothing more to say."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), REPLY_S) as connection, suppress(OSError):
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(CHUNK_BYTES):
            heard += chunk
    return heard


def noise(seed: int, size: int = 4_096) -> bytes:
    return random.Random(seed).randbytes(size)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAMES = [
    b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x04\x08\x00\x00\x00\x00\x01\x7f\xff\xff\xff",
    b"\x00\x10\x00\x01\x04\x00\x00\x00\x01" + noise(1),
    b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8),
]


def test_noise_on_the_replication_port(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    with unharmed(east, west):
        port = east.replication_port
        said = [noise(seed) for seed in range(50)]
        said += [
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01" + noise(2),
            b"*1\r\n$4\r\nPING\r\n",
            b"\n" * 9_999,
        ]
        said += [PREFACE + frame * count for frame in FRAMES for count in (1, 100)]
        said += [PREFACE + noise(seed) for seed in range(50)]
        for text in said:
            say(port, [text])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(HALF_OPEN)]
        assert east.ask("PING") == b"PONG"
        for connection in silent:
            connection.close()


UNFINISHED = (b"*2\r\n$4\r\nECHO\r\n$%d\r\nx" % (1 << 28), b"*1000000\r\n$1\r\nx\r\n")
HOSTILE_REQUESTS = [
    b"*1000000000\r\n",
    b"*2147483648\r\n$1\r\nx\r\n",
    b"*-9223372036854775808\r\n",
    b"*99999999999999999999999\r\n",
    b"*2\r\n$4\r\nECHO\r\n$1000000000\r\nx",
    b"*2\r\n$4\r\nECHO\r\n$-5\r\n",
    b"*2\r\n$4\r\nECHO\r\n:5\r\n",
    b"*1\r\n*1\r\n*1\r\n*1\r\n",
    b"*3\r\n$4\r\nXADD\r\n$1\r\nx\r\n$1\r\n*\r\n",
    b"*1\r\n$4\r\nPI",
    b"$5\r\nhello\r\n",
    b"%1000000\r\n+a\r\n+b\r\n",
    b'XADD x * f "unbalanced\r\n',
    b"\x00" * 100_000,
    b"'" * 60_000 + b"\r\n",
    b"*0\r\n" * 100_000,
    b"\r\n" * 100_000,
    b"*1\r\n$0\r\n\r\n" * 10_000,
    b"*5\r\n$4\r\nXADD\r\n$1\r\nx\r\n$20\r\n18446744073709551616\r\n$1\r\nf\r\n$1\r\nv\r\n",
    b"*4\r\n$6\r\nXRANGE\r\n$1\r\nx\r\n$3\r\n-1-\r\n$40\r\n" + b"9" * 40 + b"\r\n",
    b"*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$40\r\n" + b"*?" * 20 + b"\r\n",
    b"*3\r\n$4\r\nSCAN\r\n$1\r\n0\r\n$60\r\n" + b"[" * 60 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
]


def test_noise_on_the_redis_port(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    with unharmed(east, west):
        for text in [*HOSTILE_REQUESTS, *(noise(seed) for seed in range(100))]:
            say(east.port, [text])
        for seed in range(50):
            say(east.port, [b"*%d\r\n" % random.Random(seed).randrange(1, 9) + noise(seed)])
        say(east.port, (bytes(CHUNK_BYTES) for _ in range(512)))
        silent = [socket.create_connection(("127.0.0.1", east.port)) for _ in range(HALF_OPEN)]
        for number, connection in enumerate(silent):
            connection.sendall(
                b"*2\r\n$4\r\nECHO\r\n$%d\r\nx" % (1 << 28) if number % 2 else b"*1000000\r\n$1\r\nx\r\n"
            )
        assert east.ask("PING") == b"PONG"
        for connection in silent:
            connection.close()


def exchange(port: int, envelopes: Iterable[bytes]) -> None:
    """What a stranger that is allowed says in one stream, until the region ends it, or has had time to hear all."""
    ended = threading.Event()

    def said() -> Iterator[bytes]:
        yield from envelopes
        ended.wait(HOLD_S)

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        streamed: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            "/crdtstream.replication.Replication/Exchange"
        )
        metadata = ((REGION_KEY, str(STRANGER)), (NONCE_KEY, bytes(NONCE_BYTES)))
        call = streamed(said(), timeout=REPLY_S, metadata=metadata)
        with suppress(grpc.RpcError):
            for _ in call:
                pass
        ended.set()


def packed(*messages: wire.Message) -> list[bytes]:
    packer = EnvelopePacker()
    return [packer.pack(message).SerializeToString() for message in messages]


def hello(**changes: Any) -> wire.Message:
    made = wire.Hello(
        protocol_version=PROTOCOL_VERSION,
        format_version=FORMAT_VERSION,
        cluster="tests",
        name="stranger",
        region=STRANGER,
        id_mode="strict",
    )
    for name, value in changes.items():
        if isinstance(value, list):
            getattr(made, name).extend(value)
        else:
            setattr(made, name, value)
    return wire.Message(hello=made)


def test_strangers_over_grpc(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    compressor = zstandard.ZstdCompressor().compressobj()
    bomb = compressor.compress(bytes(1 << 28)) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    wide = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    ).compress(noise(1, 1 << 20))
    envelopes = [
        *(noise(seed, 200) for seed in range(20)),
        *(wire.Envelope(zstd=noise(seed), size_bytes=4_096).SerializeToString() for seed in range(20)),
        wire.Envelope(zstd=b"", size_bytes=(1 << 32) - 1).SerializeToString(),
        *(wire.Envelope(zstd=bomb, size_bytes=size).SerializeToString() for size in (1, 4 << 20, 1 << 28)),
        wire.Envelope(zstd=wide, size_bytes=1 << 20).SerializeToString(),
        *(compressed(noise(seed, 500)) for seed in range(40)),
        bytes(5 << 20),
    ]
    with unharmed(east, west):
        for envelope in envelopes:
            exchange(east.replication_port, [envelope])
        for message in (wire.Message(progress=wire.Progress(consumed_bytes=1 << 63)), wire.Message(), batches(b"x")):
            exchange(east.replication_port, packed(message))


def compressed(text: bytes) -> bytes:
    """A sound zstd stream of what is perhaps no message."""
    compressor = zstandard.ZstdCompressor().compressobj()
    data = compressor.compress(text) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return wire.Envelope(zstd=data, size_bytes=len(text)).SerializeToString()


def batches(*payloads: bytes, restart: int = 0) -> wire.Message:
    return wire.Message(batches=wire.Batches(restart=restart, payloads=payloads))


def bounded(version: int, **told: int) -> wire.Message:
    made = hello(origin=STRANGER, protocol_version=version)
    made.hello.bounds.CopyFrom(wire.Bounds(**told))
    return made


TINY: list[dict[str, int]] = [{"message_bytes_max": 1}, {"batch_bytes_max": 1}]
FAR = (1 << 63, (1 << 64) - 1)
ABSURD_HELLOS = [
    hello(region=0),
    hello(region=256),
    hello(region=1),
    hello(name="n" * 100_000),
    hello(cluster="c" * 1_000_000),
    hello(origin=STRANGER, direct_slots=[FAR[1]]),
    hello(origin=STRANGER, direct_slots=[STRANGER] * 500_000),
    hello(origin=STRANGER, vector=[wire.VectorRow(slot=0, counter=1)]),
    hello(origin=STRANGER, vector=[wire.VectorRow(slot=FAR[1], counter=1)]),
    hello(origin=STRANGER, births=[wire.BirthRow(slot=256, count=1)]),
    *(
        hello(origin=STRANGER, births=[wire.BirthRow(slot=STRANGER, count=1, addresses=addresses)])
        for addresses in ({"redis": "nowhere"}, {"r" * 5_000: "host:1"}, {f"r{each}": "host:1" for each in range(17)})
    ),
    hello(origin=STRANGER, predecessors=[FAR[0]]),
    hello(origin=STRANGER, predecessors=[2]),
    *(hello(origin=far) for far in FAR),
    hello(origin=0),
    hello(origin=2),
    *(hello(origin=STRANGER, births=[wire.BirthRow(slot=origin, batch_bytes_max=1)]) for origin in (STRANGER, 2)),
    *(bounded(version, **told) for version in (4, PROTOCOL_VERSION) for told in TINY),
]
GREETED = hello(origin=STRANGER)
AFTER_HELLO = [
    GREETED,
    wire.Message(met=wire.Met(births=[wire.BirthRow(slot=258, count=(1 << 32) - 1)])),
    wire.Message(met=wire.Met(births=[wire.BirthRow(slot=FAR[1], count=1)])),
    *(
        wire.Message(met=wire.Met(births=[wire.BirthRow(slot=origin, batch_bytes_max=1)]))
        for origin in (STRANGER, 2, 258)
    ),
    wire.Message(met=wire.Met(neighbours=[wire.NeighbourRow(slot=STRANGER, regions=[1, 2, (1 << 32) - 1])])),
    wire.Message(deferred=wire.Deferred(other=1, told_by="somebody")),
    wire.Message(deferred=wire.Deferred(other=FAR[1])),
    wire.Message(links=wire.Links(restart=(1 << 32) - 1, vector=[wire.VectorRow(slot=1, counter=FAR[1])])),
    wire.Message(links=wire.Links(direct_slots=[0])),
    wire.Message(progress=wire.Progress(consumed_bytes=FAR[1])),
    wire.Message(
        progress=wire.Progress(
            rows=[
                wire.ProgressRow(slot=origin, durable=[wire.VectorRow(slot=1, counter=FAR[1])]) for origin in (1, 2, 9)
            ]
        )
    ),
    wire.Message(progress=wire.Progress(rows=[wire.ProgressRow(slot=1 << 20)])),
    wire.Message(progress=wire.Progress(rows=[wire.ProgressRow(slot=1, life=FAR[1])])),
    wire.Message(part=wire.Part(index=5, count=9, payload=b"x")),
    wire.Message(part=wire.Part(index=0, count=(1 << 32) - 1, payload=b"x")),
    *(batches(noise(seed, 300)) for seed in range(20)),
    *(wire.Message(chunk=wire.Chunk(transfer=seed, index=seed % 3, payload=noise(seed))) for seed in range(6)),
    wire.Message(fetch=wire.Fetch(transfer=FAR[1])),
    wire.Message(offer=wire.Offer(vector=[wire.VectorRow(slot=STRANGER, counter=FAR[1])])),
]


def test_a_stranger_with_an_absurd_hello(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    with unharmed(east, west):
        for message in ABSURD_HELLOS:
            exchange(east.replication_port, packed(message))
        assert f"link-opened region={east.name} peer=9" not in east.log()


def test_a_stranger_with_a_sound_hello(pair: tuple[RegionProcess, RegionProcess]) -> None:
    """It is allowed, and knows the cluster's name; what it says then is judged one by one."""
    east, west = pair
    with unharmed(east, west):
        for message in AFTER_HELLO:
            exchange(east.replication_port, packed(GREETED, message))


def batch_at(first: int, effects: bytes = b"") -> bytes:
    """One of the stranger's, with nothing in its context."""
    return bytes(msgpack.packb((STRANGER, first, first, b""))) + effects


def numbered(origins: range) -> list[wire.VectorRow]:
    return [wire.VectorRow(slot=origin, counter=1 << 40) for origin in origins if origin % 256]


def parts() -> Iterator[wire.Message]:
    for index in range(300):
        yield wire.Message(part=wire.Part(index=index, count=1 << 31, payload=bytes(1 << 20)))


def gaps() -> Iterator[wire.Message]:
    """Batches that wait for ever, each of a few bytes."""
    for low in range(2, 200_002, 10_000):
        yield batches(*[batch_at(first) for first in range(low, low + 10_000)])


def repeats() -> Iterator[wire.Message]:
    for _ in range(20):
        yield batches(*[batch_at(2)] * 60_000)


def progress() -> Iterator[wire.Message]:
    vector = numbered(range(1, 10_000))
    for origin in range(1, 150):
        yield wire.Message(progress=wire.Progress(rows=[wire.ProgressRow(slot=origin, durable=vector, applied=vector)]))


FLOODS = [
    (parts, "a batch exceeds batch_bytes_max = 8388608 bytes"),
    (gaps, ""),
    (repeats, ""),
    (progress, "region stranger (9) sends more progress than progress_rows_max = 20000 rows allow: raise the limit"),
]


def test_a_flood_over_a_sound_stream_takes_what_the_limits_say(tmp_path: Path) -> None:
    """Hundreds of megabytes if all of it was kept."""
    settings = tmp_path / "settings.toml"
    settings.write_text(
        "[limits]\nbatch_bytes_max = 8388608\ninbox_bytes_max = 8388608\nprogress_rows_max = 20000\n"
        "query_bytes_max = 8388608\n"
    )
    with regions_in(tmp_path) as made:
        east, west = linked(made, config=settings)
        for flood, reason in FLOODS:
            with unharmed(east, west):
                exchange(east.replication_port, packed(GREETED, *flood()))
                until(lambda told=reason: told in east.log(), east.log)  # type: ignore[misc]


def test_what_was_logged_meanwhile_is_replayed(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    for message in AFTER_HELLO:
        exchange(east.replication_port, packed(GREETED, message))
    with unharmed(east, west):
        east.kill()
        east.start(west, incarnation=0, allow_region=STRANGER)
        east.await_serving()
