"""Certificates that are read again: new connections get the new ones, and unusable files change nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from pathlib import Path

import grpc.aio
import pytest

from crdtstream.runtime.tls.certificates import CHECK_S, Certificates, Renewal
from crdtstream.settings.config import NO, OPTIONAL, ConfigError
from tests.runtime.speakers import certificate, needs_openssl

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    for name in ("authority", "stranger"):
        certificate(folder, name, None)
    for name, signer in (("east", "authority"), ("west", "authority"), ("forged", "stranger")):
        certificate(folder, name, signer, 1)
    return folder


@pytest.fixture
def used(made: Path, tmp_path: Path) -> Path:
    install(made, tmp_path, "east", "authority")
    return tmp_path


def install(made: Path, folder: Path, name: str, authority: str) -> None:
    for source, target in ((f"{name}.pem", "own.pem"), (f"{name}.key", "own.key"), (f"{authority}.pem", "ca.pem")):
        shutil.copy(made / source, folder / target)


def certificates(folder: Path, clients: str = "yes") -> Certificates:
    return Certificates(str(folder / "own.pem"), str(folder / "own.key"), str(folder / "ca.pem"), clients)


def client_of(made: Path, name: str, authority: str = "authority") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(made / f"{authority}.pem"))
    if name:
        context.load_cert_chain(made / f"{name}.pem", made / f"{name}.key")
    return context


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """Both sides in memory. Returns what certificate the client saw; the server has then taken that of the client."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    waiting = [one, other]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    found = other.getpeercert(binary_form=True)
    assert found is not None
    return found


def test_a_context_follows_its_files(made: Path, used: Path) -> None:
    mine = certificates(used)
    context = mine.server_context()
    before = handshake(context, client_of(made, "west"))
    install(made, used, "west", "authority")
    assert handshake(context, client_of(made, "west")) == before
    assert mine.refresh() and not mine.refresh()
    assert handshake(context, client_of(made, "west")) != before


def test_another_authority_decides_who_is_let_in(made: Path, used: Path) -> None:
    mine = certificates(used)
    context = mine.server_context()
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        handshake(context, client_of(made, "forged"))
    install(made, used, "east", "stranger")
    mine.refresh()
    handshake(context, client_of(made, "forged"))
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        handshake(context, client_of(made, "west"))


def test_clients_need_a_certificate_or_may_have_one(made: Path, used: Path) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
        handshake(certificates(used).server_context(), client_of(made, ""))
    for clients in (OPTIONAL, NO):
        handshake(certificates(used, clients).server_context(), client_of(made, ""))
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        handshake(certificates(used, OPTIONAL).server_context(), client_of(made, "forged"))
    handshake(certificates(used, NO).server_context(), client_of(made, "forged"))


@pytest.mark.parametrize("damage", ["", "no certificate"])
def test_files_that_cannot_be_used_leave_the_last_ones(made: Path, used: Path, damage: str) -> None:
    mine = certificates(used)
    context = mine.server_context()
    before = handshake(context, client_of(made, "west"))
    if damage:
        (used / "own.pem").write_text(damage)
    else:
        (used / "own.key").unlink()
    assert not mine.refresh() and not mine.refresh()
    assert handshake(context, client_of(made, "west")) == before
    install(made, used, "west", "authority")
    assert mine.refresh()


def test_a_key_of_another_certificate_is_refused_at_the_start(made: Path, used: Path) -> None:
    shutil.copy(made / "west.key", used / "own.key")
    with pytest.raises(ConfigError, match="key values mismatch"):
        certificates(used)


def test_files_are_looked_at_from_time_to_time(made: Path, used: Path) -> None:
    mine = certificates(used)
    renewal = Renewal([mine, mine])
    context = mine.server_context()
    renewal.follow(100.0)
    before = handshake(context, client_of(made, "west"))
    install(made, used, "west", "authority")
    os.utime(used / "own.pem", (1, 1))
    renewal.follow(100.0 + CHECK_S / 2)
    assert handshake(context, client_of(made, "west")) == before
    renewal.follow(100.0 + CHECK_S)
    assert handshake(context, client_of(made, "west")) != before


async def test_grpc_follows_too(made: Path, used: Path) -> None:
    mine = certificates(used)
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", mine.server())
    await server.start()
    try:
        assert await seen(made, port) == (made / "east.pem").read_bytes()
        install(made, used, "west", "authority")
        mine.refresh()
        assert await seen(made, port) == (made / "west.pem").read_bytes()
    finally:
        await server.stop(None)


async def seen(made: Path, port: int) -> bytes:
    """The certificate of the server, as a file."""
    context = client_of(made, "west")
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return ssl.DER_cert_to_PEM_cert(found).encode()
