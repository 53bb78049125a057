"""The Redis port on a real socket: what malformed, greedy, slow and strange clients meet; others are served."""

from __future__ import annotations

import asyncio
import random
import resource
import socket
from pathlib import Path
from typing import Any

import pytest
import structlog

from crdtstream.runtime.redis import connections
from crdtstream.runtime.redis.connections import FILES_RESERVED, clients_possible, clients_within_files
from crdtstream.settings.config import Limits
from tests.running_region import Running, Wire, config_of, request, running, until

PONG = b"+PONG\r\n"


async def is_served(region: Running) -> bool:
    return await (await region.connect()).ask("PING") == PONG


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"*x\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*99999999999\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n:5\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*1\r\n$-5\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b"*1\r\n$99999999999\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b'PING "unbalanced\r\n', b"-ERR Protocol error: unbalanced quotes in request\r\n"),
        (b"x" * 70_000, b"-ERR Protocol error: too big inline request\r\n"),
        (b"*" + b"1" * 70_000, b"-ERR Protocol error: too big mbulk count string\r\n"),
    ],
)
async def test_malformed_requests_close_that_client_only(tmp_path: Path, sent: bytes, error: bytes) -> None:
    async with running(config_of(tmp_path)) as region:
        other = await region.connect()
        assert await other.ask("PING") == PONG
        broken = await region.connect()
        await broken.send(request("PING") + sent)
        assert await broken.rest() == PONG + error
        assert await other.ask("PING") == PONG


async def test_garbage_never_ends_the_region(tmp_path: Path) -> None:
    rng = random.Random(5)  # any seed does: pinned so that a failure comes again
    pieces = [b"*3\r\n", b"$4\r\n", b"XADD\r\n", b"\r\n", b"*", b"$-1\r\n", b"PING\r\n", b"\0", request("XLEN", "x")]
    async with running(config_of(tmp_path)) as region:
        for _ in range(200):
            wire = await region.connect()
            wire.writer.write(b"".join(rng.choice([*pieces, rng.randbytes(20)]) for _ in range(rng.randrange(1, 12))))
            wire.writer.close()
        assert await is_served(region)
        await until(lambda: len(region.loop.node.context.clients) == 1, "the others are forgotten")
        region.loop.node.check()


async def test_half_a_request_waits_and_disturbs_nobody(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        data = request("XADD", "x", "1-*", "f", "v" * 1000)
        for part in (data[:5], data[5:40], data[40:-1]):
            await wire.send(part)
            assert await is_served(region)
        await wire.send(data[-1:])
        assert await wire.line() == b"$3\r\n"


async def test_a_pipeline_of_large_replies_lets_others_come_between(tmp_path: Path) -> None:
    """And nothing more is read from its client meanwhile, though it goes on sending."""
    limits = Limits(turn_reply_bytes_max=1 << 16, output_bytes_max=1 << 30)
    async with running(config_of(tmp_path, limits)) as region:
        greedy, other = await region.connect(), await region.connect()
        assert (await other.ask("XADD", "x", "1-*", "f", b"v" * 100_000)).startswith(b"$")
        await other.line()
        await greedy.send((request("XRANGE", "x", "-", "+") + request("ECHO", "y" * 1_000)) * 500 + request("PING"))
        await until(lambda: region.loop.node.serving.is_behind(), "more was asked than a turn takes")
        assert await other.ask("PING") == PONG
        assert region.loop.node.serving.is_behind(), "the answer came between two turns of the other"
        calls = region.loop.node.context.statistics.tally("echo").calls
        assert calls < 500
        greedy.writer.write_eof()
        received = await greedy.rest()
        assert received.count(b"y" * 1_000) == 500 and received.endswith(PONG)


async def test_a_client_that_sends_without_end_is_read_as_fast_as_it_is_served(tmp_path: Path) -> None:
    """It loses nothing to `query_bytes_max`, which is less than all that it sends."""
    limits = Limits(turn_reply_bytes_max=1 << 10, query_bytes_max=1 << 20)
    async with running(config_of(tmp_path, limits)) as region:
        wire = await region.connect()
        wire.writer.write(request("ECHO", "y" * 1_000) * 5_000 + request("PING"))
        wire.writer.write_eof()
        assert (await wire.rest()).endswith(PONG)


async def test_a_pipeline_is_answered_in_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    original = connections.Connections.write

    def counted(self: connections.Connections, client_id: int, reply: bytes) -> None:
        writes.append(len(reply))
        original(self, client_id, reply)

    monkeypatch.setattr(connections.Connections, "write", counted)
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await wire.send(b"".join([request("PING")] * 500))
        for _ in range(500):
            assert await wire.line() == PONG
        assert writes == [500 * len(PONG)]


async def test_quit_in_a_pipeline(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await wire.send(request("PING") + request("QUIT") + request("XADD", "x", "*", "f", "v") + b"*x\r\n")
        assert await wire.rest() == PONG + b"+OK\r\n"
        assert await (await region.connect()).ask("XLEN", "x") == b":0\r\n"


async def test_a_client_may_stop_talking_before_it_has_read(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, fsync="always")) as region:
        wire = await region.connect()
        wire.writer.write(request("XADD", "x", "1-*", "f", "v") + request("XLEN", "x"))
        wire.writer.write_eof()
        assert await wire.rest() == b"$3\r\n1-1\r\n:1\r\n"


async def test_a_blocked_client_that_disconnects(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await wire.send(request("XREAD", "BLOCK", "0", "STREAMS", "x", "$") + request("XADD", "y", "*", "f", "v"))
        await until(lambda: len(region.loop.node.context.parking) == 1, "it waits")
        await wire.close()
        await until(lambda: len(region.loop.node.context.parking) == 0, "it waits no longer")
        other = await region.connect()
        await other.ask("XADD", "x", "1-*", "f", "v")
        await other.line()
        assert await other.ask("XLEN", "y") == b":0\r\n"


# Limits


async def test_more_clients_than_permitted(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, Limits(clients_max=2))) as region:
        await until(lambda: not region.loop.node.context.clients, "the probe is gone")
        first, second = await region.connect(), await region.connect()
        assert await first.ask("PING") == await second.ask("PING") == PONG
        third = await region.connect()
        assert await third.rest() == b"-ERR max number of clients reached\r\n"
        await second.close()
        await until(lambda: len(region.loop.node.context.clients) == 1, "one left")
        assert await is_served(region)


async def test_connections_that_come_and_go(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        port = region.loop.config.port

        def storm() -> None:
            for _ in range(1_500):
                with socket.create_connection(("127.0.0.1", port)):
                    pass

        await asyncio.gather(asyncio.to_thread(storm), asyncio.to_thread(storm))
        assert await is_served(region)
        await until(lambda: len(region.loop.node.context.clients) == 1, "they are forgotten")


async def test_a_request_larger_than_permitted(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, Limits(query_bytes_max=1 << 16))) as region:
        wire = await region.connect()
        await wire.send(b"*2\r\n$4\r\nECHO\r\n$100000\r\n" + bytes(99_000))
        assert await wire.rest() in (b"-ERR Protocol error: query buffer limit exceeded\r\n", b"reset")
        assert await is_served(region)


async def test_a_reader_that_is_too_slow_is_closed(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, Limits(output_bytes_max=1 << 20))) as region:
        writer = await region.connect()
        assert (await writer.ask("XADD", "x", "1-*", "f", b"v" * 100_000)).startswith(b"$")
        slow = await slow_reader(region)
        with structlog.testing.capture_logs() as told:
            for _ in range(400):
                slow.writer.write(request("XRANGE", "x", "-", "+"))
                await asyncio.sleep(0)
            await until(lambda: any("output_bytes_max" in line.get("detail", "") for line in told), "it is told of")
            await until(lambda: len(region.loop.node.context.clients) == 1, "it is closed")
        assert await is_served(region)


async def test_the_client_with_the_most_unread_output_is_closed_for_all(tmp_path: Path) -> None:
    """Each is within its own limit."""
    async with running(config_of(tmp_path, Limits(outputs_bytes_max=10 << 20))) as region:
        writer = await region.connect()
        assert (await writer.ask("XADD", "x", "1-*", "f", b"v" * 1_000_000)).startswith(b"$")
        worst, slow = await slow_reader(region), await slow_reader(region)
        await slow.send(request("XRANGE", "x", "-", "+") * 6)
        await until(lambda: region.loop.node.context.statistics.commands() >= 7, "it is answered")
        with structlog.testing.capture_logs() as told:
            await worst.send(request("XRANGE", "x", "-", "+") * 30)
            await until(lambda: len(region.loop.node.context.clients) == 2, "one is closed")
        closed = [line for line in told if "outputs_bytes_max" in line.get("detail", "")]
        assert len(closed) == 1 and closed[0]["unread_bytes"] > 5 << 20
        assert region.loop.node.context.statistics.output_disconnections == 1
        assert b"v" * 1_000_000 in await slow.reader.readuntil(b"v" * 1_000_000)


async def unread(region: Running) -> Wire:
    """A client that asked for more than fits into the sockets' buffers, and reads none of it."""
    writer = await region.connect()
    assert (await writer.ask("XADD", "x", "1-*", "f", b"v" * 1_000_000)).startswith(b"$")
    slow = await slow_reader(region)
    await slow.send(request("XRANGE", "x", "-", "+") * 20)
    await until(lambda: region.loop.node.context.statistics.commands() >= 21, "it is answered")
    return slow


async def test_a_closed_client_that_reads_nothing_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LINGER_S", 0.01)
    async with running(config_of(tmp_path)) as region:
        slow = await unread(region)
        slow.writer.write_eof()
        await until(lambda: len(region.loop.node.context.clients) == 1, "it is dropped")
        assert await is_served(region)


async def test_a_killed_client_is_dropped_with_what_it_has_not_read(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        await unread(region)
        killer = await region.connect()
        assert await killer.ask("CLIENT", "KILL", "USER", "default") == b":2\r\n"
        await until(lambda: len(region.loop.node.context.clients) == 1, "they are closed")
        assert await killer.ask("PING") == PONG


async def slow_reader(region: Running) -> Wire:
    """Its receive buffer is small and nobody empties it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", region.loop.config.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
    region.wires.append(Wire(reader, writer))
    return region.wires[-1]


async def test_a_client_that_reads_slowly_and_stays_within_its_limit_is_served(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        value = b"v" * 100_000
        await wire.ask("XADD", "x", "1-*", "f", value)
        await wire.line()
        await wire.send(request("XRANGE", "x", "-", "+") * 100)
        await asyncio.sleep(0.05)
        for _ in range(100):
            assert value in await wire.reader.readuntil(value + b"\r\n")


def test_the_limit_of_open_files_bounds_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [1000, 2000]
    monkeypatch.setattr(resource, "getrlimit", lambda _which: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, new: limits.__setitem__(slice(None), list(new)))
    assert clients_within_files(500) == 500
    assert limits == [1000, 2000]
    assert clients_within_files(1500) == 1500
    assert limits == [1500 + FILES_RESERVED, 2000]
    with structlog.testing.capture_logs() as told:
        assert clients_within_files(10_000) == 2000 - FILES_RESERVED
    assert told[0]["event"] == "clients-limited"


async def test_the_limit_in_use_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (FILES_RESERVED + 2, FILES_RESERVED + 2))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, _new: None)
    assert clients_possible() == 2
    async with running(config_of(tmp_path)) as region:
        served = [await region.connect() for _ in range(2)]
        assert [await wire.ask("PING") for wire in served] == [b"+PONG\r\n"] * 2
        third = await region.connect()
        assert await third.line() == b"-ERR max number of clients reached\r\n"
        assert region.loop.node.context.clients_max() == 2
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (hard, resource.RLIM_INFINITY))
    assert clients_possible() == 0


# Who may come in


async def test_a_password_is_asked_for(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, requirepass="secret")) as region:
        wire = await region.connect()
        assert await wire.ask("XLEN", "x") == b"-NOAUTH Authentication required.\r\n"
        assert (await wire.ask("AUTH", "wrong")).startswith(b"-WRONGPASS")
        assert await wire.ask("AUTH", "secret") == b"+OK\r\n"
        assert await wire.ask("XLEN", "x") == b":0\r\n"


async def test_auth_followed_by_what_only_the_authenticated_may_send(tmp_path: Path) -> None:
    """In one piece: the large request is judged after AUTH ran."""
    value = b"v" * 50_000
    async with running(config_of(tmp_path, requirepass="secret")) as region:
        wire = await region.connect()
        fields = [b"f", value] * 10
        await wire.send(request("AUTH", "secret") + request("XADD", "x", "1-*", *fields) + request("XLEN", "x"))
        assert [await wire.line() for _ in range(4)] == [b"+OK\r\n", b"$3\r\n", b"1-1\r\n", b":1\r\n"]
        stranger = await region.connect()
        await stranger.send(request("AUTH", "wrong") + request("XADD", "x", "*", *[b"f", b"v"] * 10))
        said = await stranger.rest()
        assert said.startswith(b"-WRONGPASS")
        assert said.endswith(b"-ERR Protocol error: unauthenticated multibulk length\r\n")


async def test_http_cannot_flush(tmp_path: Path) -> None:
    """As a web page would send it, with the commands in its body."""
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await wire.ask("XADD", "x", "1-*", "f", "v")
        page = await region.connect()
        body = b"\r\nFLUSHALL\r\n"
        await page.send(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert await page.rest() in (b"", b"reset")
        get = await region.connect()
        await get.send(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nFLUSHALL\r\n")
        assert b"+OK" not in await get.rest()
        await wire.line()
        assert await wire.ask("XLEN", "x") == b":1\r\n"


async def test_nothing_runs_behind_a_wrong_password_until_it_is_answered(tmp_path: Path) -> None:
    config = config_of(tmp_path, Limits(auth_failure_delay_ms=50), requirepass="secret")
    async with running(config) as region:
        wire = await region.connect()
        began_s = asyncio.get_running_loop().time()
        await wire.send(request("AUTH", "wrong") + request("AUTH", "wrong") + request("AUTH", "secret"))
        said = [await wire.line() for _ in range(3)]
        assert asyncio.get_running_loop().time() - began_s >= 0.099
        assert [reply.split()[0] for reply in said] == [b"-WRONGPASS", b"-WRONGPASS", b"+OK"]


async def test_what_a_stranger_sends_behind_a_wrong_password_is_bounded(tmp_path: Path) -> None:
    config = config_of(tmp_path, Limits(auth_failure_delay_ms=60_000), requirepass="secret")
    async with running(config) as region:
        wire = await region.connect()
        await wire.send(request("AUTH", "wrong"))
        with structlog.testing.capture_logs() as told:
            await wire.send(request("ECHO", b"v" * 10_000) * 110)
            assert await wire.rest() in (b"", b"reset")
            await until(lambda: any("without a password" in line.get("detail", "") for line in told), "it is told of")


async def test_strangers_meet_protected_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(config_of(tmp_path)) as region:
        monkeypatch.setattr(connections, "is_loopback", lambda _host: False)
        wire = await region.connect()
        said = await wire.rest()
        assert said.startswith(b"-DENIED ") and said.endswith(b"\r\n") and said.count(b"\r\n") == 1


@pytest.mark.parametrize("settings", [{"requirepass": "secret"}, {"protected_mode": False}])
async def test_a_password_or_a_flag_lifts_protected_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    async with running(config_of(tmp_path, **settings)) as region:
        monkeypatch.setattr(connections, "is_loopback", lambda _host: False)
        wire = await region.connect()
        assert (await wire.ask("PING"))[:1] in (b"+", b"-")
        assert not (await wire.ask("PING")).startswith(b"-DENIED")


@pytest.mark.parametrize("command", ["SYNC", "PSYNC ? -1", "EVAL x 0", "GET x"])
async def test_commands_of_other_worlds_are_unknown(tmp_path: Path, command: str) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        assert (await wire.ask(*command.split())).startswith(b"-")
        assert await wire.ask("PING") == PONG


async def test_a_client_is_shown_with_both_ends_of_its_connection(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        wire = await region.connect()
        await wire.send(request("CLIENT", "INFO"))
        await wire.line()
        shown = dict([word.split(b"=", 1) for word in (await wire.line()).split()])
        assert await wire.line() == b"\r\n"
        for name, end in ((b"addr", "sockname"), (b"laddr", "peername")):
            assert shown[name] == "{}:{}".format(*wire.writer.get_extra_info(end)).encode()
        assert await wire.ask("CLIENT", "KILL", "LADDR", shown[b"laddr"], "SKIPME", "yes") == b":0\r\n"
