"""What a region asks of its clients: user, password and TLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Access:
    """What a region asks for: user and password, and on a TLS port authority, certificate and key, as files."""

    user: str | None = None
    password: str | None = None
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None

    def arguments(self) -> dict[str, Any]:
        """For a client of redis-py. An authority means TLS."""
        found: dict[str, Any] = {"username": self.user, "password": self.password}
        if self.authority:
            files = {"ssl_ca_certs": self.authority, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
            found.update(ssl=True, **files)
        return found
