"""The Redis port with TLS, on both event loops: redis-cli, refused clients, and both protocols of a port."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crdtstream.connections.shards import ShardAddress, map_of
from crdtstream.processes.ports import free_port
from crdtstream.runtime.loop import Loop
from crdtstream.runtime.redis.resp_server import RespServer
from crdtstream.runtime.tls.port import TlsPort
from tests.running_region import DEADLINE_S, Running, config_of, running, until
from tests.runtime.speakers import certificate, needs_openssl

pytestmark = [needs_openssl, pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    for name in ("authority", "stranger"):
        certificate(folder, name, None)
    for name, signer in (("east", "authority"), ("ann", "authority"), ("forged", "stranger")):
        certificate(folder, name, signer, 1)
    return folder


def files_of(tls: Path) -> dict[str, Any]:
    files = {"tls_certificate": "east.pem", "tls_key": "east.key", "tls_authority": "authority.pem"}
    return {name: str(tls / file) for name, file in files.items()}


@asynccontextmanager
async def guarded(directory: Path, tls: Path, **settings: Any) -> AsyncIterator[Running]:
    config = config_of(directory, **files_of(tls), **settings)
    async with running(config) as region:
        await until(lambda: "redis_tls" in region.loop._addresses, "the TLS port is open")
        yield region


async def cli(region: Running, tls: Path, name: str, *words: str) -> str:
    """What redis-cli prints, with the certificate of that name."""
    argv = ["redis-cli", "-p", region.loop._addresses["redis_tls"].rpartition(":")[2]]
    argv += ["--tls", "--cacert", str(tls / "authority.pem"), "--no-auth-warning"]
    if name:
        argv += ["--cert", str(tls / f"{name}.pem"), "--key", str(tls / f"{name}.key")]
    process = await asyncio.create_subprocess_exec(
        *argv, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return said.decode().strip()


async def test_redis_cli_with_a_certificate_and_a_user(tmp_path: Path, tls: Path) -> None:
    async with guarded(tmp_path, tls, tls_port=free_port()) as region:
        assert await cli(region, tls, "ann", "ACL", "SETUSER", "ann", "on", ">pw", "+@stream", "~s*") == "OK"
        as_ann = ("--user", "ann", "--pass", "pw")
        assert "-" in await cli(region, tls, "ann", *as_ann, "XADD", "s", "*", "f", "x" * 100_000)
        assert len(await cli(region, tls, "ann", *as_ann, "XRANGE", "s", "-", "+")) > 100_000
        refusal = await cli(region, tls, "ann", *as_ann, "FLUSHALL")
        assert refusal == "NOPERM User ann has no permissions to run the 'flushall' command"
        plain = await asyncio.open_connection("127.0.0.1", region.loop.config.port)
        plain[1].write(b"PING\r\n")
        assert await plain[0].readline() == b"+PONG\r\n"
        plain[1].close()


async def test_each_client_is_sent_to_ports_of_its_kind(tmp_path: Path, tls: Path) -> None:
    async with guarded(tmp_path, tls, tls_port=free_port(), tls_auth_clients="no", requirepass="") as region:
        addresses = [ShardAddress("127.0.0.1", 7000 + number, 7100 + number) for number in range(2)]
        region.loop.node.follow_shards(map_of("c", 1, 0, addresses, 1))
        assert await cli(region, tls, "", "XLEN", "a") == "MOVED 15495 127.0.0.1:7101"
        wire = await region.connect()
        assert await wire.ask("XLEN", "a") == b"-MOVED 15495 127.0.0.1:7001\r\n"


async def test_wrong_certificates_are_refused_with_a_reason(
    tmp_path: Path, tls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with guarded(tmp_path, tls, tls_port=free_port()) as region:
        statistics = region.loop.node.statistics
        for count, name in enumerate(("forged", ""), 1):
            assert "PONG" not in await cli(region, tls, name, "PING")
            await until(lambda count=count: statistics.refused_handshakes == count, "the refusal")  # type: ignore[misc]
        assert await cli(region, tls, "ann", "PING") == "PONG"
        assert "tls_handshakes_refused:2" in await cli(region, tls, "ann", "INFO", "stats")
        ends = region.loop.certificates
        assert ends is not None
        assert f"redis={ends.ends_s}" in await cli(region, tls, "ann", "INFO", "server")
    assert "refused: its certificate is refused: unable to get local issuer certificate" in capsys.readouterr().out


async def test_clients_without_a_certificate_where_they_need_none(tmp_path: Path, tls: Path) -> None:
    async with guarded(tmp_path, tls, tls_port=free_port(), tls_auth_clients="no") as region:
        assert await cli(region, tls, "", "PING") == "PONG"


async def test_the_tls_port_alone(tmp_path: Path, tls: Path) -> None:
    config = config_of(tmp_path, **files_of(tls), tls_port=free_port())
    loop = Loop(replace(config, port=0), RespServer)
    task = asyncio.create_task(loop.run())
    await until(lambda: "redis_tls" in loop._addresses, "the TLS port is open")
    assert "redis" not in loop._addresses
    loop.stop()
    await task


class Echo(asyncio.Protocol):
    """Keeps what arrives, also before the connection is made."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def connection_made(self, _transport: asyncio.BaseTransport) -> None:
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.events.append(data)


async def test_handshakes_are_bounded(tls: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls / "east.pem", tls / "east.key")
    refused: list[str] = []
    port = TlsPort(context, Echo, lambda _transport, reason: refused.append(reason), 2)
    server = await asyncio.get_running_loop().create_server(port.protocol, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    strangers = [await asyncio.open_connection(*address) for _ in range(3)]
    await until(lambda: refused == ["2 handshakes are going on"], "the third")
    for _, writer in strangers:
        writer.close()
    await until(lambda: len(refused) == 3, "the others give up")
    port.stop()
    server.close()
