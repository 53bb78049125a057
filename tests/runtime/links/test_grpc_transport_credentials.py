"""Certificates: which peers are admitted, and which settings prevent the start."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from crdtstream.runtime.links.grpc_transport import GrpcTransport
from crdtstream.settings.config import ConfigError
from tests.runtime.speakers import Speaker, Transports, certificate, config, needs_openssl, nothing, until


@pytest.mark.parametrize(
    "settings", [{"replication_bind": "0.0.0.0"}, {"replication_bind": "::"}, {"peers": ("10.0.0.9:7101",)}]
)
def test_nothing_leaves_the_machine_in_the_clear(settings: dict[str, object]) -> None:
    exposed = config(1, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not loopback"):
        GrpcTransport(exposed, Speaker(1), nothing, lambda: 0)
    trusted = dataclasses.replace(exposed, insecure_replication=True)
    GrpcTransport(trusted, Speaker(1), nothing, lambda: 0)


def test_a_tls_file_that_is_missing_is_named() -> None:
    files = {"tls_certificate": "/nowhere/a.pem", "tls_key": "b", "tls_authority": "c"}
    with pytest.raises(ConfigError, match=r"/nowhere/a\.pem cannot be read: No such file"):
        GrpcTransport(config(1, **files), Speaker(1), nothing, lambda: 0)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    certificate(folder, "authority", None)
    certificate(folder, "stranger", None)
    for name, signer, region in (("east", "authority", 1), ("west", "authority", 2), ("forged", "stranger", 2)):
        certificate(folder, name, signer, region)
    return folder


def tls(folder: Path, name: str) -> dict[str, str]:
    return {
        "tls_certificate": str(folder / f"{name}.pem"),
        "tls_key": str(folder / f"{name}.key"),
        "tls_authority": str(folder / "authority.pem"),
    }


@needs_openssl
async def test_regions_with_certificates_of_one_authority_meet(transports: Transports, authority: Path) -> None:
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(config(1, **tls(authority, "east")), east)  # type: ignore[arg-type]
    await transports.start(config(2, listening.port, **tls(authority, "west")), west)  # type: ignore[arg-type]
    await until(lambda: east.greetings() == 1 and west.greetings() == 1, "the greeting")
    west.say(b"secret")
    await until(lambda: east.payloads() == [b"secret"])


@needs_openssl
async def test_a_certificate_lets_in_the_region_that_it_names(transports: Transports, authority: Path) -> None:
    """West's, shown by region 3."""
    east, north = Speaker(1), Speaker(3)
    listening = await transports.start(config(1, **tls(authority, "east")), east)  # type: ignore[arg-type]
    await transports.start(config(3, listening.port, **tls(authority, "west")), north)  # type: ignore[arg-type]
    await until(lambda: bool(north.failed), "the refusal")
    (reason,) = north.failed.values()
    assert "region 3 names west, 127.0.0.1, region-2" in reason and "names region-3" in reason
    assert not east.accepted


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
