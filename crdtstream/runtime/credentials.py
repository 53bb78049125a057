"""The credentials of the replication port: TLS with certificates of one authority on both sides, or loopback only.

Replication in plain text beyond this machine is refused at the start, whichever side dials, unless the configuration
declares the network itself trusted.
"""

from __future__ import annotations

from pathlib import Path

import grpc

from crdtstream.config import Config, ConfigError, is_loopback


class Credentials:
    """A certificate with its key, and the authority that issued the certificates of both sides."""

    __slots__ = ("_authority", "_certificate", "_key")

    def __init__(self, certificate: bytes, key: bytes, authority: bytes) -> None:
        self._certificate = certificate
        self._key = key
        self._authority = authority

    def server(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials(
            [(self._key, self._certificate)], root_certificates=self._authority, require_client_auth=True
        )

    def channel(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self._authority, self._key, self._certificate)


def read_credentials(config: Config) -> Credentials | None:
    """Return None without TLS; raises ConfigError for missing files or for plain text beyond loopback."""
    if not config.tls_certificate:
        _refuse_exposure(config)
        return None
    return Credentials(_read(config.tls_certificate), _read(config.tls_key), _read(config.tls_authority))


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"the TLS file {path} cannot be read: {error.strerror}") from error


def _refuse_exposure(config: Config) -> None:
    if config.insecure_replication:
        return
    hosts = [config.replication_bind, *(split_address(peer)[0] for peer in config.peers)]
    for host in hosts:
        if not is_loopback(host):
            raise ConfigError(
                f"{host} is not loopback, so replication would be sent in plain text: configure the three TLS files,"
                " or --insecure-replication if the network itself is trusted"
            )


def split_address(address: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 host may be in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
