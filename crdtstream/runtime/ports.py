"""Servers of a region as its loop sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import Metric


class ClientPort(Protocol):
    """The server of the clients that the node answers."""

    async def start(self) -> dict[str, str]: ...

    def stop(self) -> None: ...

    def write(self, client_id: int, reply: bytes) -> None: ...

    def close(self, client_id: int) -> None: ...

    def turn_ended(self) -> None: ...


class EdgePort(Protocol):
    """Another port of the region, served on the same event loop."""

    async def start(self) -> str: ...

    async def stop(self) -> None: ...


class GatewayPort(EdgePort, Protocol):
    """A port for clients of partitioned streams, which `/metrics` shows."""

    def families(self) -> Iterator[Metric]: ...
