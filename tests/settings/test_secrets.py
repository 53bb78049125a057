"""Passwords and secrets of one line, and what is said of files that hold none."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.secrets import (
    SECRET_BYTES_MIN,
    replication_secret,
    with_password,
    with_secrets,
    with_token,
)

SECRET = b"s" * SECRET_BYTES_MIN


def test_without_a_file_nothing_is_read() -> None:
    config = Config("east", 1, "c", requirepass="own")
    assert with_password(config) is config
    assert replication_secret(config) == b""


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_end_of_the_line_is_not_part_of_it(tmp_path: Path, end: bytes) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET + end)
    config = Config("east", 1, "c", requirepass_file=str(file), replication_secret_file=str(file))
    assert with_password(config).requirepass == SECRET.decode()
    assert replication_secret(config) == SECRET


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo\n"])
def test_a_file_that_holds_no_single_line_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="must hold one line"):
        with_password(Config("east", 1, "c", requirepass_file=str(file)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "gone")
    with pytest.raises(ConfigError, match=f"password file {path} cannot be read: No such file"):
        with_password(Config("east", 1, "c", requirepass_file=path))
    with pytest.raises(ConfigError, match="replication secret file"):
        replication_secret(Config("east", 1, "c", replication_secret_file=path))


def test_a_secret_that_could_be_guessed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET[1:])
    with pytest.raises(ConfigError, match=r"must have at least 16.*openssl rand"):
        replication_secret(Config("east", 1, "c", replication_secret_file=str(file)))


def test_a_token_is_of_a_file_or_given(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(SECRET + b"\n")
    config = Config("east", 1, "c", http_token_file=str(file), requirepass_file=str(file))
    assert with_secrets(config).http_token == with_secrets(config).requirepass == SECRET.decode()
    given = Config("east", 1, "c", http_token=SECRET.decode())
    assert with_token(given) is given
    with pytest.raises(ConfigError, match="HTTP token file"):
        with_token(Config("east", 1, "c", http_token_file=str(tmp_path / "gone")))


@pytest.mark.parametrize("token", ["x" * (SECRET_BYTES_MIN - 1), "with spaces in its middle", "ünprintable-token"])
def test_a_token_that_no_header_could_carry_or_anybody_guess_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match=r"at least 16 characters.*openssl rand") as raised:
        with_token(Config("east", 1, "c", http_token=token))
    assert token not in str(raised.value)
