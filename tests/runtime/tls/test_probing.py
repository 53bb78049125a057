"""Why a peer with TLS cannot be reached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import pytest

from crdtstream.processes.ports import free_port
from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.runtime.tls.probing import objection
from tests.runtime.speakers import certificate, needs_openssl

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    for name in ("authority", "stranger"):
        certificate(folder, name, None)
    for name, signer in (("east", "authority"), ("west", "authority"), ("forged", "stranger")):
        certificate(folder, name, signer, 1)
    return folder


def of(tls: Path, name: str, authority: str = "authority") -> Certificates:
    return Certificates(str(tls / f"{name}.pem"), str(tls / f"{name}.key"), str(tls / f"{authority}.pem"))


async def test_reasons(tls: Path) -> None:
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", of(tls, "east").server())
    await server.start()
    try:
        assert await objection(of(tls, "west"), "127.0.0.1", port) == ""
        refused = await objection(of(tls, "forged"), "127.0.0.1", port)
        assert refused.startswith("the peer ") and "certificate of this region" in refused
        mine = await objection(of(tls, "west", "stranger"), "127.0.0.1", port)
        assert mine.startswith("the certificate of the peer is refused: ")
        other_name = await objection(of(tls, "west"), "localhost", port)
        assert "not valid for 'localhost'" in other_name
    finally:
        await server.stop(None)


async def test_nobody_there(tls: Path) -> None:
    assert await objection(of(tls, "west"), "127.0.0.1", free_port()) == ""
    silent = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    assert await objection(of(tls, "west"), "127.0.0.1", silent.sockets[0].getsockname()[1]) == ""
    silent.close()
