"""The bulk port: gRPC calls for programs that move many entries, on the region's event loop.

A call works in slices that run between client commands, and yields to the loop after each slice. The next message of a
client is read when the previous one is done, and the next message to a client is made when the previous one is being
sent, so a slow client costs no memory. A call ends between two slices at its deadline, or when the client cancels it.

A call that changes data replies once the changes are in the log, and durable if `fsync` is `always`; data that it
returns is then durable too. Users, passwords and protected mode work as on the Redis port (`connections/guard.py`).
With `bulk_tls` the port encrypts, and asks for certificates as the TLS port does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import grpc.aio
import structlog

from crdtstream.bulk.errors import RESOURCE_EXHAUSTED, UNAVAILABLE, BulkError, require_serving
from crdtstream.bulk.rights import BulkCaller, record_refusal
from crdtstream.commands.dispatch import find
from crdtstream.connections.acl.log import AUTH
from crdtstream.connections.acl.user import User
from crdtstream.connections.acl.users import DEFAULT
from crdtstream.connections.context import Context
from crdtstream.connections.guard import warn
from crdtstream.runtime.bulk.calls import BulkCalls, ServicerContext
from crdtstream.runtime.bulk.handlers import handlers_of
from crdtstream.runtime.links.grpc_transport import TransportError
from crdtstream.runtime.links.handshake import host_of
from crdtstream.runtime.slices import Result, SlicedLoop, Slices
from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.runtime.tls.credentials import join_address
from crdtstream.settings.config import Config, is_loopback

STOP_S = 0.5
UNAUTHENTICATED = "UNAUTHENTICATED"
PASSWORD = ("password", "password-bin")
USER = ("user", "user-bin")
NO_PASSWORD = (
    "the bulk port has a password: send it in the metadata `password`, or `password-bin` if it is not ASCII, and in"
    " `user` whose it is, unless it is that of the user `default`"
)
WRONG_PASSWORD = "the user or the password in the metadata is wrong, or the user is off"
PROTECTED = (
    "this region is in protected mode because no password is set, and accepts loopback connections only: set"
    " requirepass, or disable protected mode with --no-protected-mode if the network itself is trusted"
)
INTERNAL = "internal error: {} in the bulk port; see the log of this region"

logger = structlog.get_logger()


class BulkServer:
    """Listens, admits calls, and runs their slices."""

    def __init__(
        self, config: Config, loop: SlicedLoop, now_ms: Callable[[], int], certificates: Certificates | None = None
    ) -> None:
        self._config = config
        self._loop = loop
        self._node = loop.node
        self._slices = Slices(loop, now_ms)
        self._certificates = certificates if config.bulk_tls else None
        self._stopping = False
        self.running = 0
        self.calls = 0
        self.refusals: Counter[str] = Counter()
        self._callers: dict[ServicerContext, BulkCaller] = {}
        self._served = BulkCalls(self, self._node.stages)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> str:
        """Listen; return the address. Raises TransportError."""
        self._server = grpc.aio.server(options=options_of(self._config))
        self._server.add_generic_rpc_handlers((handlers_of(self._served, self._admitted),))
        address = join_address(self._config.bulk_bind, self._config.bulk_port or 0)
        try:
            port = self._listen(self._server, address)
        except RuntimeError as error:
            reason = f"cannot listen for bulk calls on {address}: {error}; choose another --bulk-port"
            raise TransportError(reason) from error
        await self._server.start()
        return join_address(self._config.bulk_bind, port)

    def _listen(self, server: grpc.aio.Server, address: str) -> int:
        if self._certificates is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, self._certificates.server())

    @property
    def skipped(self) -> Counter[str]:
        """Rows that were left out, by the reason."""
        return self._served.skipped

    async def stop(self) -> None:
        """Stop: calls end at their next slice, and those that wait for their client end after `STOP_S`."""
        self._stopping = True
        if self._server is not None:
            await self._server.stop(STOP_S)

    # Calls

    @asynccontextmanager
    async def call(self, context: ServicerContext) -> AsyncIterator[BulkCaller]:
        """The caller of a call that was admitted."""
        yield self._callers[context]

    @asynccontextmanager
    async def _admitted(self, context: ServicerContext) -> AsyncIterator[None]:
        """Run one call from admission to end; an error inside becomes its gRPC status."""
        self.running += 1
        self.calls += 1
        try:
            self._callers[context] = await self._admit(context)
            yield
        except BulkError as refusal:
            self.refusals[refusal.code] += 1
            await context.abort(getattr(grpc.StatusCode, refusal.code), refusal.text)
        except (asyncio.CancelledError, grpc.aio.AbortError, GeneratorExit):
            raise
        except Exception as error:
            self.refusals["INTERNAL"] += 1
            logger.exception("bulk-call-failed")
            await context.abort(grpc.StatusCode.INTERNAL, INTERNAL.format(type(error).__name__))
        finally:
            self._callers.pop(context, None)
            self.running -= 1

    async def _admit(self, context: ServicerContext) -> BulkCaller:
        node = self._node.context
        if self.running > node.limits.bulk_calls_max:
            text = f"more than bulk_calls_max = {node.limits.bulk_calls_max} calls at once: try again later"
            raise BulkError(RESOURCE_EXHAUSTED, text)
        host = host_of(context.peer())
        if node.settings.config.protected_mode and node.users.default.nopass and not is_loopback(host):
            raise BulkError(UNAUTHENTICATED, PROTECTED)
        user = await self._authenticate(context, host)
        self._require_running()
        require_serving(node)
        return BulkCaller(user, host, find)

    async def _authenticate(self, context: ServicerContext, host: str) -> User:
        """The user whose name and password the metadata has; without a password, the default user if it needs none."""
        node = self._node.context
        name, password = metadatum(context, USER), metadatum(context, PASSWORD)
        if name is None and (password is None or node.users.default.nopass):
            if node.users.requires_login():
                raise BulkError(UNAUTHENTICATED, NO_PASSWORD)
            return node.users.default
        given = name or DEFAULT
        user = node.users.authenticate(given, password or b"")
        if user is not None:
            return user
        record_refusal(node, AUTH, b"bulk", given, host)
        warn(node, node.alarms.passwords, "wrong-password", f"a bulk call from {host} gave a wrong user or password")
        await asyncio.sleep(node.limits.auth_failure_delay_ms / 1000)
        raise BulkError(UNAUTHENTICATED, WRONG_PASSWORD)

    def _require_running(self) -> None:
        if self._stopping or self._loop.failed:
            raise BulkError(UNAVAILABLE, "this region is shutting down: call another one")

    # Slices

    @contextmanager
    def slice(self, byte_count: int = 0) -> Iterator[Context]:
        """Run code between two commands; `byte_count` is roughly what it adds to the log."""
        self._require_running()
        with self._slices.run(byte_count) as context:
            require_serving(context)
            yield context

    async def perform(self, work: Callable[[Context], Result], byte_count: int = 0) -> Result:
        """Run code between two commands that may need spilled blocks; it then runs again from its start."""

        def checked(context: Context) -> Result:
            require_serving(context)
            return work(context)

        self._require_running()
        return await self._slices.perform(checked, byte_count)

    async def pause(self) -> None:
        """Yield to the event loop."""
        await asyncio.sleep(0)

    async def await_settled(self) -> None:
        """Wait until changes made so far may be confirmed."""
        await self._slices.await_settled()

    async def await_shown(self) -> None:
        """Wait until data read so far may be returned."""
        await self._slices.await_shown()


def metadatum(context: ServicerContext, names: tuple[str, str]) -> bytes | None:
    """The first of these in the metadata of a call."""
    for name, value in context.invocation_metadata() or ():
        if name in names:
            return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return None


def options_of(config: Config) -> list[tuple[str, int]]:
    """An entry may be larger than the largest message accepted, so sent messages are not limited."""
    return [
        ("grpc.max_receive_message_length", config.limits.bulk_message_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", config.limits.bulk_calls_max),
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]
