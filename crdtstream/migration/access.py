"""How a server is reached: its URL, the user and the password, and the files of TLS.

A password in a URL works, but `ps` shows it to every user of the machine; so it comes from a file or the environment
too. Nothing here prints one: texts name a server by `shown`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

SCHEMES: Final = ("redis", "rediss")
TLS: Final = "rediss"
FORM: Final = (
    "the URL of {what} must be redis://[USER@]HOST:PORT[/DATABASE], or rediss:// for TLS; percent-encode special"
    " characters of user and password"
)


class AccessError(ValueError):
    """Why a server cannot be reached as it was described, and what to do; it holds no secret."""


@dataclass(frozen=True)
class Access:
    """`password` is not shown; `authority`, `certificate` and `key` are PEM files."""

    url: str
    user: str = ""
    password: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return f"Access({shown(self.url)!r})"

    def arguments(self, what: str) -> dict[str, Any]:
        """Those of a client of redis-py; raises AccessError."""
        host, port, database = place(self.url, what)
        user, password = self._names(what)
        found: dict[str, Any] = {"host": host, "port": port, "db": database}
        found |= {"username": user or None, "password": password or None}
        encrypted = urlsplit(self.url).scheme == TLS
        files = {"ssl_ca_certs": self.authority, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        given = {name: path for name, path in files.items() if path}
        if given and not encrypted:
            raise AccessError(f"TLS files were given for {shown(self.url)}: write rediss:// in the URL of {what}")
        if bool(self.certificate) != bool(self.key):
            raise AccessError(f"the certificate and the key for {what} go together: give both or none")
        return {**found, **({"ssl": True, **given} if encrypted else {})}

    def _names(self, what: str) -> tuple[str, str]:
        parts = urlsplit(self.url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if password and self.password:
            raise AccessError(f"the password of {what} is in the URL and in a file or variable: give only one of them")
        if user and self.user and user != self.user:
            raise AccessError(f"the URL of {what} names another user than the option: give only one of them")
        if (user or self.user) and not (password or self.password):
            raise AccessError(f"{what} has a user without a password: name the file with the password")
        return user or self.user, password or self.password


def place(url: str, what: str) -> tuple[str, int, int]:
    """Host, port and database; raises AccessError, which shows nothing of a URL that has another form."""
    try:
        parts = urlsplit(url)
        host, port, path = parts.hostname, parts.port or 6379, parts.path.strip("/") or "0"
    except ValueError:
        # urllib quotes what it took for a port, which may be a part of a password.
        raise AccessError(FORM.format(what=what)) from None
    if parts.scheme not in SCHEMES or not host or not path.isdigit() or parts.query or parts.fragment:
        raise AccessError(FORM.format(what=what))
    return host, port, int(path)


def shown(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def password_of(file: Path | None, variable: str, environment: Mapping[str, str] = os.environ) -> str:
    """The first line of the file, or else the variable; raises AccessError."""
    if file is None:
        return environment.get(variable, "")
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise AccessError(f"the password file {file} cannot be read: {reason}") from error


def at(access: Access, host: str, port: int) -> Access:
    """The same for another server: as this user, with these files."""
    parts = urlsplit(access.url)
    user, sign, _ = parts.netloc.rpartition("@")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return replace(access, url=f"{parts.scheme}://{user}{sign}{address}{parts.path}")
