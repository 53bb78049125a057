"""The gateway with TLS: httpx and the SDK with a CA bundle, and certificates that are renewed while it serves."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from crdtstream.processes.waiting import until
from crdtstream.runtime.tls.certificates import Certificates
from tests.oci.fake_engine import FakeEngine
from tests.oci.ports import served
from tests.oci.sdk import Clients, Gateway, gateways, oci
from tests.runtime.speakers import certificate, needs_openssl

pytestmark = needs_openssl


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    for name in ("authority", "stranger"):
        certificate(tmp_path, name, None)
    for name in ("east", "renewed"):
        certificate(tmp_path, name, "authority", 1)
    return tmp_path


def trusting(tls: Path, authority: str = "authority") -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(tls / f"{authority}.pem"))


def serial_of(tls: Path, url: str) -> bytes:
    with httpx.Client(verify=trusting(tls)) as client, client.stream("GET", f"{url}/healthz") as reply:
        assert reply.read() == b'{"status":"ok"}'
        found = reply.extensions["network_stream"].get_extra_info("ssl_object").getpeercert(True)
        return bytes(found)


def test_new_connections_see_the_new_certificate(tls: Path) -> None:
    own = Certificates(str(tls / "east.pem"), str(tls / "east.key"), "", "no")
    with served(FakeEngine(), certificates=own, oci_tls=True) as url, httpx.Client(verify=trusting(tls)) as kept:
        assert url.startswith("https://")
        before = serial_of(tls, url)
        assert kept.get(f"{url}/healthz").status_code == 200
        for suffix in ("pem", "key"):
            shutil.copy(tls / f"renewed.{suffix}", tls / f"east.{suffix}")
        assert own.refresh()
        assert serial_of(tls, url) != before
        assert kept.get(f"{url}/healthz").status_code == 200, "a connection that exists goes on"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/healthz", verify=trusting(tls, "stranger"))
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{url.replace('https', 'http')}/healthz")
        assert serial_of(tls, url) != before, "and it serves on"


@pytest.fixture
def gateway(tmp_path: Path, tls: Path) -> Iterator[Gateway]:
    files: dict[str, Any] = {"tls_cert_file": tls / "east.pem", "tls_key_file": tls / "east.key"}
    with gateways(tmp_path, oci_tls=True, init_streams="orders:1", **files) as (one,):
        one.url = one.url.replace("http:", "https:")
        yield one


def test_the_sdk_with_a_bundle_of_authorities(gateway: Gateway, tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)  # they would be used in place of the client's own
    clients = Clients(gateway.url, authorities=str(tls / "authority.pem"))
    stream = clients.stream("guarded", 1)
    clients.put(stream, (None, "one"), (None, "two"))
    assert clients.get(stream, clients.cursor(stream))[0] == ["one", "two"]
    assert clients.admin.get_stream(stream).data.messages_endpoint == gateway.url
    untrusting = Clients(gateway.url, authorities=str(tls / "stranger.pem"))
    with pytest.raises(oci.exceptions.RequestException, match="CERTIFICATE_VERIFY_FAILED"):
        untrusting.admin.get_stream(stream)


def test_a_region_reloads_the_files_on_a_signal(gateway: Gateway, tls: Path) -> None:
    before = serial_of(tls, gateway.url)
    for suffix in ("pem", "key"):
        shutil.copy(tls / f"renewed.{suffix}", tls / f"east.{suffix}")
    gateway.region.signal(1)
    until(lambda: "event=certificate-reloaded" in gateway.region.log(), "the files are read again")
    assert serial_of(tls, gateway.url) != before
