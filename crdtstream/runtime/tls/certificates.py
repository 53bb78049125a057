"""Certificates read from files, and read again when the files change, so that they are renewed without a restart.

`Certificates` belong to one port or more; what serves a port asks them for gRPC credentials or for an `ssl` context
once, and new connections get what the files held last. Connections that exist go on as they are. Files that cannot be
used are logged once, and the last ones that could be used stay.

Any server that takes an `ssl.SSLContext` (asyncio, uvicorn) can use `server_context`.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import grpc
import structlog

from crdtstream.runtime.tls.validity import chain_end_s
from crdtstream.settings.config import OPTIONAL, YES, ConfigError

CHECK_S = 10.0
VERIFY = {YES: ssl.CERT_REQUIRED, OPTIONAL: ssl.CERT_OPTIONAL}

logger = structlog.get_logger()


class Pem:
    """What the files hold: a certificate with its key, and the authority of the other side, empty for none; `ends_s` is
    when the certificate ends, or the authority that signed it.
    """

    __slots__ = ("authority", "certificate", "ends_s", "key", "stamp")

    def __init__(self, paths: tuple[str, str, str]) -> None:
        # Before the content: what changes in between is noticed the next time.
        self.stamp = stamp_of(paths)
        self.certificate, self.key, self.authority = [read(path) if path else b"" for path in paths]
        try:
            self.ends_s = chain_end_s(self.certificate, self.authority)
        except ValueError as error:
            raise ConfigError(f"the TLS certificate {paths[0]} cannot be used: {error}") from error

    def server(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(self.key, self.certificate)], self.authority or None)


class Certificates:
    """The certificate of one or more ports. `clients` says whether the other side needs one: yes, optional or no."""

    def __init__(self, certificate: str, key: str, authority: str, clients: str = YES) -> None:
        """Read the files; raises ConfigError."""
        self._paths = (certificate, key, authority)
        self._clients = clients
        self._pem = Pem(self._paths)
        self._context = context_of(self._paths, clients)
        self._failed_stamp: object = None

    @property
    def name(self) -> str:
        return self._paths[0]

    @property
    def ends_s(self) -> int:
        """When the certificate ends, or the authority that signed it: a second since 1970."""
        return self._pem.ends_s

    def refresh(self, force: bool = False) -> bool:
        """Take over files that have changed; true if there were any."""
        stamp = stamp_of(self._paths)
        if not force and (stamp == self._pem.stamp or stamp == self._failed_stamp):
            return False
        try:
            pem, context = Pem(self._paths), context_of(self._paths, self._clients)
        except ConfigError as error:
            self._failed_stamp = stamp
            logger.error("certificate-not-reloaded", reason=str(error))
            return False
        self._pem, self._context = pem, context
        return True

    # Uses

    def server(self) -> grpc.ServerCredentials:
        """Credentials of a gRPC server; each new connection asks for the certificate."""
        told = [self._pem]

        def fetch() -> Any:
            pem = self._pem
            if pem is told[0]:
                return None
            told[0] = pem
            return pem.server()

        return grpc.dynamic_ssl_server_credentials(
            self._pem.server(), fetch, require_client_authentication=self._clients == YES
        )

    def channel(self) -> grpc.ChannelCredentials:
        """Credentials of a gRPC client, for one dial."""
        pem = self._pem
        return grpc.ssl_channel_credentials(pem.authority, pem.key, pem.certificate)

    def server_context(self) -> ssl.SSLContext:
        """A context for a server that stays right: each handshake switches to the files as they were read last."""
        outer = context_of(self._paths, self._clients)

        def switch(connection: ssl.SSLObject, _name: str | None, _outer: ssl.SSLContext) -> None:
            connection.context = self._context

        outer.sni_callback = switch
        return outer

    def client_context(self) -> ssl.SSLContext:
        """A context for a client that shows the certificate."""
        return context_of(self._paths, YES, ssl.PROTOCOL_TLS_CLIENT)


def context_of(paths: tuple[str, str, str], clients: str, protocol: int = ssl.PROTOCOL_TLS_SERVER) -> ssl.SSLContext:
    """Raises ConfigError if the files cannot be loaded, or certificate and key do not match."""
    certificate, key, authority = paths
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    used = f"certificate {certificate} and key {key}"
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
        used = f"authority {authority}"
        if authority:
            context.load_verify_locations(authority)
    except OSError as error:
        raise ConfigError(f"the TLS {used} cannot be used: {error}") from error
    if protocol is ssl.PROTOCOL_TLS_SERVER:
        context.verify_mode = VERIFY.get(clients, ssl.CERT_NONE) if authority else ssl.CERT_NONE
    return context


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"the TLS file {path} cannot be read: {error.strerror}") from error


def stamp_of(paths: tuple[str, str, str]) -> object:
    """Something that differs once a file has been replaced or written."""
    stamps: list[object] = []
    for path in paths:
        try:
            status = Path(path).stat() if path else None
        except OSError:
            status = None
        stamps.append(status and (status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)


class Renewal:
    """All certificates of a region, looked at from time to time."""

    def __init__(self, certificates: list[Certificates]) -> None:
        self._certificates = list(dict.fromkeys(certificates))
        self._next_s = 0.0

    def follow(self, now_s: float) -> None:
        """Look whether files have changed, every `CHECK_S` seconds."""
        if now_s >= self._next_s:
            self._next_s = now_s + CHECK_S
            self.reload(force=False)

    def reload(self, force: bool = True) -> None:
        """Read the files again, even if they do not look changed."""
        for each in self._certificates:
            if each.refresh(force):
                logger.info("certificate-reloaded", certificate=each.name)
