"""The HTTP port with TLS and a token, asked by httpx and curl; test_monitoring.py has Prometheus."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from crdtstream.processes.ports import free_port
from crdtstream.settings.config import Limits
from tests.running_region import DEADLINE_S, Running, config_of, running, until
from tests.runtime.speakers import certificate, needs_openssl

pytestmark = needs_openssl

TOKEN = "token-of-the-monitoring"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    certificate(tmp_path, "authority", None)
    for name in ("east", "renewed"):
        certificate(tmp_path, name, "authority", 1)
    return tmp_path


def settings_of(tls: Path, **settings: Any) -> dict[str, Any]:
    """TLS with a certificate of its own, and no authority: clients show none."""
    files = {"tls_cert_file": str(tls / "east.pem"), "tls_key_file": str(tls / "east.key")}
    return {"http_port": free_port(), "http_tls": True, **files, **settings}


def client_of(tls: Path, region: Running) -> httpx.AsyncClient:
    context = ssl.create_default_context(cafile=str(tls / "authority.pem"))
    url = f"https://127.0.0.1:{region.loop.config.http_port}"
    return httpx.AsyncClient(base_url=url, verify=context, timeout=DEADLINE_S)


async def seen(tls: Path, port: int | None) -> str:
    """The certificate that the port shows."""
    context = ssl.create_default_context(cafile=str(tls / "authority.pem"))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return ssl.DER_cert_to_PEM_cert(found)


async def test_metrics_ask_for_the_token_and_probes_do_not(tmp_path: Path, tls: Path) -> None:
    limits = Limits(auth_failure_delay_ms=0)
    async with running(config_of(tmp_path, limits, **settings_of(tls, http_token=TOKEN))) as region:
        async with client_of(tls, region) as client:
            assert (await client.get("/healthz")).text == "healthy\n"
            assert (await client.get("/readyz")).text == "ready\n"
            assert "crdtstream_serving 1" in (await client.get("/metrics", headers=BEARER)).text
            without = await client.get("/metrics")
            assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")
            assert "serving" not in without.text and "Authorization: Bearer" in without.text
            wrong = await client.get("/metrics", headers={"Authorization": "Bearer wrong"})
            assert wrong.status_code == 401
        assert region.loop.node.statistics.denied_passwords == 1


async def test_a_wrong_token_is_answered_late(tmp_path: Path, tls: Path) -> None:
    limits = Limits(auth_failure_delay_ms=50)
    config = config_of(tmp_path, limits, **settings_of(tls, http_token=TOKEN))
    async with running(config) as region, client_of(tls, region) as client:
        began_s = asyncio.get_running_loop().time()
        await client.get("/metrics", headers={"Authorization": "Bearer wrong"})
        assert asyncio.get_running_loop().time() - began_s >= 0.05


async def test_certificates_are_renewed_without_a_restart(tmp_path: Path, tls: Path) -> None:
    async with running(config_of(tmp_path, **settings_of(tls))) as region:
        port = region.loop.config.http_port
        assert await seen(tls, port) == (tls / "east.pem").read_text()
        async with client_of(tls, region) as client:
            assert (await client.get("/readyz")).status_code == 200
        for suffix in ("pem", "key"):
            shutil.copy(tls / f"renewed.{suffix}", tls / f"east.{suffix}")
        region.loop.reload()
        assert await seen(tls, port) == (tls / "renewed.pem").read_text()
        async with client_of(tls, region) as client:
            assert (await client.get("/readyz")).status_code == 200


async def test_plain_http_is_counted_and_told(tmp_path: Path, tls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(config_of(tmp_path, **settings_of(tls))) as region:
        reader, writer = await asyncio.open_connection("127.0.0.1", region.loop.config.http_port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(DEADLINE_S):
            assert b"healthy" not in await reader.read()
        writer.close()
        await until(lambda: region.loop.node.statistics.refused_handshakes == 1, "it is counted")
        region.loop.schedule()
        await until(lambda: not region.loop.node.notices, "it is told")
    told = capsys.readouterr()
    assert "of the HTTP port refused: http request" in told.out + told.err


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl(tmp_path: Path, tls: Path) -> None:
    async with running(config_of(tmp_path, **settings_of(tls, http_token=TOKEN))) as region:
        url = f"https://127.0.0.1:{region.loop.config.http_port}/metrics"
        argv = ["curl", "-sS", "--fail", "--cacert", str(tls / "authority.pem"), "-H", f"Authorization: Bearer {TOKEN}"]
        process = await asyncio.create_subprocess_exec(*argv, url, stdout=asyncio.subprocess.PIPE)
        said, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert process.returncode == 0 and b"crdtstream_serving 1" in said
