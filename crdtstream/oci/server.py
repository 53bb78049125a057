"""The gateway of a region: uvicorn on the region's event loop, without signal handlers of its own.

Without a keys file it is in development mode: it accepts any signature or none, says so once, and listens on loopback
alone. With `oci_tls` it encrypts; clients show no certificate, because they sign. Streams of `init_streams` are created
in the background, as soon as the region takes writes.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from prometheus_client.core import Metric

from crdtstream.oci.app import make_app
from crdtstream.oci.engine import Engine
from crdtstream.oci.gateway import Gateway, GatewaySettings
from crdtstream.oci.init_streams import create_all, init_streams
from crdtstream.oci.keys import ApiKeys, read_keys
from crdtstream.runtime.links.grpc_transport import TransportError
from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.runtime.tls.credentials import join_address
from crdtstream.settings.config import Config, require_guarded

STOP_S: Final = 1
BACKLOG: Final = 2_048
DEVELOPMENT: Final = (
    "the OCI gateway is in development mode: it accepts any signature or none; name the keys it should accept with"
    " --oci-keys"
)

logger = structlog.get_logger()


class EmbeddedServer(uvicorn.Server):
    """Signals are the region's business."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def check(config: Config) -> None:
    """Raise ConfigError if the gateway could not start with these settings."""
    require_guarded(config)
    init_streams(config.init_streams)
    if config.oci_keys:
        read_keys(Path(config.oci_keys))


def context_factory(certificates: Certificates | None) -> Callable[..., ssl.SSLContext] | None:
    """What makes uvicorn's TLS context, which follows the files; None without TLS."""
    return None if certificates is None else lambda _config, _default: certificates.server_context()


class OciServer:
    """Listens from `start` until `stop`. Raises ConfigError when the settings cannot work."""

    def __init__(self, config: Config, engine: Engine, certificates: Certificates | None = None) -> None:
        require_guarded(config)
        self._config = config
        self._streams = init_streams(config.init_streams)
        keys = ApiKeys(Path(config.oci_keys)) if config.oci_keys else None
        self._gateway = Gateway(engine, GatewaySettings.of(config), secrets.token_bytes)
        app = make_app(self._gateway, None if keys is None else keys.current)
        self._server = EmbeddedServer(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=STOP_S,
                ssl_context_factory=context_factory(certificates if config.oci_tls else None),
            )
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> str:
        """Listen; return the address. Raises TransportError."""
        listening = self._listen()
        serving = asyncio.create_task(self._server.serve([listening]))
        self._tasks.append(serving)
        while not self._server.started and not serving.done():
            await asyncio.sleep(0)
        if serving.done():
            serving.result()
        if not self._config.oci_keys:
            logger.warning("oci-development-mode", detail=DEVELOPMENT)
        if self._streams:
            self._tasks.append(asyncio.create_task(create_all(self._gateway, self._streams)))
        host, port = listening.getsockname()[:2]
        return join_address(host, port)

    def families(self) -> Iterator[Metric]:
        """What `/metrics` shows of the gateway."""
        return self._gateway.usage.families()

    def _listen(self) -> socket.socket:
        host, port = self._config.oci_bind, self._config.oci_port or 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            address = join_address(host, port)
            text = f"cannot listen for OCI calls on {address}: {error.strerror}; choose another --oci-port"
            raise TransportError(text) from error

    async def stop(self) -> None:
        """Requests that run may end within `STOP_S`."""
        self._server.should_exit = True
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
