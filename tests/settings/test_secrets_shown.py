"""No secret is shown: not by commands, not in the log, not in the files that are not its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.running_region import config_of, running

SECRETS = ("hush-requirepass", "hush-replication", "hush-user", "hush-wrong", "hush-config", "hush-token")
QUESTIONS = (
    "CONFIG GET *",
    "CONFIG GET requirepass",
    "CONFIG GET http-token",
    "CONFIG GET http_token",
    "CONFIG GET REQUIREP*",
    "INFO everything",
    "CLIENT LIST",
    "SLOWLOG GET 100",
    "ACL LIST",
    "ACL GETUSER ann",
    "ACL LOG",
    "COMMAND DOCS config",
    "CRDT.REGIONS",
)


@pytest.fixture(autouse=True)
def logging() -> Iterator[None]:
    """A change of settings configures the log, for the captured streams of one test."""
    yield
    structlog.reset_defaults()


async def test_secrets_are_in_no_reply_and_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret").write_text("hush-replication-" + "x" * 32)
    settings = config_of(
        tmp_path,
        requirepass="hush-requirepass",
        http_port=0,
        http_token="hush-token-0123456789",
        replication_secret_file=str(tmp_path / "secret"),
    )
    async with running(settings) as region:
        reader, writer = await asyncio.open_connection("127.0.0.1", settings.port)

        async def ask(line: str) -> None:
            writer.write(line.encode() + b"\r\n")

        for line in (
            "CONFIG SET auth_failure_delay_ms 0",
            "AUTH hush-wrong",
            "AUTH hush-requirepass",
            "CONFIG SET auth-failure-delay-ms 0 slowlog-log-slower-than 0",
            "AUTH hush-wrong",
            "AUTH ann hush-wrong",
            "HELLO 2 AUTH default hush-wrong",
            "HELLO 2 AUTH default hush-requirepass",
            "ACL SETUSER ann on >hush-user +@all ~*",
            "ACL SETUSER ann >hush-user +hush",
            "AUTH ann hush-user",
            "MONITOR",
            "CONFIG SET requirepass hush-config",
            *QUESTIONS,
            "QUIT",
        ):
            await ask(line)
        said = (await asyncio.wait_for(reader.read(), 60)).decode("utf-8", "replace")
        writer.close()
        port = region.loop._addresses["http"].rpartition(":")[2]
        for token in ("hush-wrong", "hush-token-0123456789"):
            said += await scraped(int(port), token)
        assert "crdtstream_serving 1" in said
    logged = capsys.readouterr()
    said += logged.out + logged.err
    assert "acl_access_denied_auth" in said and "ann" in said
    for secret in SECRETS:
        assert secret not in said


async def scraped(port: int, token: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    said = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return said.decode()


async def test_what_is_kept_on_disk(tmp_path: Path) -> None:
    """Passwords of users are hashed; neither log nor checkpoint has users at all."""
    (tmp_path / "users.acl").write_text("")
    settings = config_of(tmp_path, aclfile=str(tmp_path / "users.acl"))
    async with running(settings):
        reader, writer = await asyncio.open_connection("127.0.0.1", settings.port)
        writer.write(b"ACL SETUSER ann on >hush-user\r\nACL SAVE\r\nXADD s * a b\r\nSAVE\r\nQUIT\r\n")
        assert (await asyncio.wait_for(reader.read(), 60)).count(b"+OK") == 4
        writer.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 2
    for path in files:
        assert b"hush-user" not in path.read_bytes(), path
    assert "user ann on sanitize-payload #" in (tmp_path / "users.acl").read_text()


async def test_users_of_the_file_are_there_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "users.acl").write_text("user default off\nuser ann on >pw +@all ~*\n")
    settings = config_of(tmp_path, aclfile=str(tmp_path / "users.acl"))
    async with running(settings):
        reader, writer = await asyncio.open_connection("127.0.0.1", settings.port)
        writer.write(b"PING\r\nAUTH ann pw\r\nACL WHOAMI\r\nQUIT\r\n")
        said = await asyncio.wait_for(reader.read(), 60)
        assert said == b"-NOAUTH Authentication required.\r\n+OK\r\n$3\r\nann\r\n+OK\r\n"
        writer.close()
