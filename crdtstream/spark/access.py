"""How bulk ports are reached: TLS by the files that the options name, and whose password goes with each call.

Files and secrets are read where they are used, on the driver and on each worker, so that no plan holds them. Channels
that are opened after TLS files have changed use the new ones.
"""

from __future__ import annotations

import os
from typing import Final

import grpc

from crdtstream.spark.options import TLS_FILES, Options

CHANNEL: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
    # A machine that is gone sends nothing: with keepalive, a running call fails before its deadline.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


class Access:
    """What a client of bulk ports shows and asks for."""

    __slots__ = ("_options",)

    def __init__(self, options: Options) -> None:
        self._options = options

    @property
    def key(self) -> tuple[object, ...]:
        """What differs between two ways of access; it holds no secret."""
        names = ("user", "passwordFile", "passwordEnv", "tls", *TLS_FILES)
        return tuple(self._options[name] for name in names)

    def metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """The user and the password of a call, as far as there are any."""
        found = {"user": self._options["user"] or "", "password": self._options.password()}
        return tuple(metadatum(name, value) for name, value in found.items() if value)

    def channel(self, address: str) -> grpc.Channel:
        """Raises OptionError for files that cannot be read."""
        if not self._options["tls"]:
            return grpc.insecure_channel(address, options=CHANNEL)
        options = self._options
        authority, certificate, key = [options.read(name) if options[name] else None for name in TLS_FILES]
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        return grpc.secure_channel(address, credentials, options=CHANNEL)

    def stamp(self) -> object:
        """Something that differs once a TLS file has been replaced or written."""
        return [stamp_of(self._options[name]) for name in TLS_FILES]


def metadatum(name: str, value: str) -> tuple[str, str | bytes]:
    """Metadata is ASCII, unless its name says that it is bytes."""
    return (name, value) if value.isascii() else (f"{name}-bin", value.encode())


def stamp_of(path: str | None) -> object:
    try:
        status = os.stat(path) if path else None
    except OSError:
        return None
    return status and (status.st_mtime_ns, status.st_size, status.st_ino)
