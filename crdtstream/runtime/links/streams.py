"""Both ends of a gRPC stream between two regions, as links use them, and the options of their connection."""

from __future__ import annotations

from typing import Final

import grpc.aio

from crdtstream.replication import wire_pb2 as wire

# An envelope may be slightly larger than its message.
ENVELOPE_BYTES: Final = 64 << 10
# Heartbeats detect a silent peer; the pings of gRPC do no more than to find connections that no link uses. On a
# saturated link pings come late, and so does what TCP confirms: after this time gRPC and TCP (`TCP_USER_TIMEOUT`) give
# up the connection, so it is far beyond `peer_timeout_ms`.
KEEPALIVE_MS: Final = 60_000
# What the other end may send ahead before this one allows more. What allows it waits behind bulk in the other
# direction, for seconds on a saturated link, and the stream would stand still meanwhile. What a region reads at once
# needs no such bound; that of replication is `window_bytes`.
LOOKAHEAD_BYTES: Final = 8 << 20
SEE_LOG: Final = ": its log says why"
# In the trailing metadata of a stream: why the side that was dialled ended it.
REASON_KEY: Final = "crdtstream-reason-bin"
REASON_BYTES_MAX: Final = 1_000


class Accepted:
    """A stream seen from the server."""

    def __init__(self, context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]) -> None:
        self._context = context

    async def read(self) -> object:
        return await self._context.read()

    async def write(self, envelope: wire.Envelope) -> None:
        await self._context.write(envelope)

    async def done_writing(self) -> None:
        """Nothing to do: the written data is sent when the handler returns."""

    def end(self, reason: str) -> None:
        """Say why the stream ends, before its handler returns."""
        self._context.set_trailing_metadata(((REASON_KEY, reason.encode()[:REASON_BYTES_MAX]),))

    async def farewell(self) -> str:
        """A stream that its dialler ends carries no text."""
        return SEE_LOG


class Dialled:
    """A stream seen from the client."""

    def __init__(self, call: grpc.aio.StreamStreamCall[wire.Envelope, wire.Envelope]) -> None:
        self._call = call

    async def read(self) -> object:
        return await self._call.read()

    async def write(self, envelope: wire.Envelope) -> None:
        await self._call.write(envelope)

    async def done_writing(self) -> None:
        """Wait until the server has read everything and ends the stream; an earlier cancel could overtake
        written data.
        """
        await self._call.done_writing()
        await self._call.code()

    async def farewell(self) -> str:
        reason = dict(await self._call.trailing_metadata() or ()).get(REASON_KEY)
        return f": {reason[:REASON_BYTES_MAX].decode(errors='replace')}" if isinstance(reason, bytes) else SEE_LOG


def grpc_options(message_bytes_max: int) -> list[tuple[str, int]]:
    size = message_bytes_max + ENVELOPE_BYTES
    return [
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", size),
        ("grpc.so_reuseport", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.http2.lookahead_bytes", LOOKAHEAD_BYTES),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]
