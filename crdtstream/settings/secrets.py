"""Secrets in files, so that neither `ps` nor a settings file shows them: the password of the Redis port, the token of
the HTTP port, and the secret that regions share. A file holds one line; the line end is not part of the secret.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from crdtstream.settings.config import Config, ConfigError

SECRET_BYTES_MIN = 16
TOKEN_CHARACTERS = frozenset(map(chr, range(0x21, 0x7F)))


def with_password(config: Config) -> Config:
    """Return the configuration with the password from its file; raises ConfigError."""
    if not config.requirepass_file:
        return config
    line = read_line(config.requirepass_file, "password")
    return dataclasses.replace(config, requirepass=line.decode("utf-8", "surrogateescape"))


def with_token(config: Config) -> Config:
    """Return the configuration with the token of the HTTP port from its file; raises ConfigError for one that cannot be
    read, sent in a header or is easily guessed.
    """
    if config.http_token_file:
        line = read_line(config.http_token_file, "HTTP token")
        config = dataclasses.replace(config, http_token=line.decode("utf-8", "surrogateescape"))
    token = config.http_token
    if token and (len(token) < SECRET_BYTES_MIN or not set(token) <= TOKEN_CHARACTERS):
        raise ConfigError(
            f"the HTTP token must have at least {SECRET_BYTES_MIN} characters, all of them printable ASCII without"
            " spaces: create one with `openssl rand -hex 32`"
        )
    return config


def with_secrets(config: Config) -> Config:
    """Return the configuration with what its files hold; raises ConfigError."""
    return with_token(with_password(config))


def replication_secret(config: Config) -> bytes:
    """Return the replication secret, empty if there is none; raises ConfigError."""
    path = config.replication_secret_file
    if not path:
        return b""
    line = read_line(path, "replication secret")
    if len(line) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"the replication secret in {path} has {len(line)} bytes and must have at least {SECRET_BYTES_MIN}: create"
            " one, the same for all regions, with `openssl rand -hex 32`"
        )
    return line


def read_line(path: str, what: str) -> bytes:
    try:
        line = Path(path).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"the {what} file {path} cannot be read: {error.strerror}") from error
    if not line or b"\n" in line:
        raise ConfigError(f"the {what} file {path} must hold one line, the {what}")
    return line
