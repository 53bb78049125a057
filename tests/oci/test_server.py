"""The server in a thread of its own: it listens, serves, and stops; what cannot work is named before."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest

from crdtstream.oci.server import DEVELOPMENT, OciServer, check
from crdtstream.runtime.links.grpc_transport import TransportError
from crdtstream.settings.config import ConfigError
from tests.oci.fake_engine import FakeEngine
from tests.oci.ports import config_of, served
from tests.oci.test_keys import inline


def test_it_serves_and_stops(capsys: pytest.CaptureFixture[str]) -> None:
    with served(FakeEngine(), init_streams="orders:2") as url:
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
        assert httpx.get(f"{url}/20180418/streams/ocid1.stream.oc1..orders").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz")
    assert capsys.readouterr().out.count(DEVELOPMENT) == 1


def test_requests_run_beside_each_other() -> None:
    async def ask(url: str) -> list[int]:
        async with httpx.AsyncClient() as client:
            replies = await asyncio.gather(*[client.get(f"{url}/healthz") for _ in range(20)])
            return [reply.status_code for reply in replies]

    with served(FakeEngine()) as url:
        assert asyncio.run(ask(url)) == [200] * 20


async def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = OciServer(config_of(oci_port=taken.getsockname()[1]), FakeEngine())
        with pytest.raises(TransportError, match="choose another --oci-port"):
            await server.start()
        await server.stop()


def test_beyond_loopback_keys_are_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"oci-bind 0\.0\.0\.0 is not loopback: name the keys"):
        OciServer(config_of(oci_bind="0.0.0.0"), FakeEngine())
    (tmp_path / "keys.toml").write_text(inline())
    keys = str(tmp_path / "keys.toml")
    with pytest.raises(ConfigError, match=r"oci-bind 0\.0\.0\.0 is not loopback.*give --oci-tls, or --insecure-oci"):
        OciServer(config_of(oci_bind="0.0.0.0", oci_keys=keys), FakeEngine())
    OciServer(config_of(oci_bind="0.0.0.0", oci_keys=keys, insecure_oci=True), FakeEngine())


def test_what_cannot_work_is_named(tmp_path: Path) -> None:
    check(config_of())
    with pytest.raises(ConfigError, match="init-streams"):
        check(config_of(init_streams="orders"))
    with pytest.raises(ConfigError, match=r"the keys file .* cannot be read"):
        check(config_of(oci_keys=str(tmp_path / "none")))
