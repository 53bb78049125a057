"""Servers of a region, and its traces, as its loop sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from crdtstream.runtime.links.link import LinkNode

if TYPE_CHECKING:
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


class TracedNode(LinkNode, Protocol):
    """The node as links see it, with a trace of what they carry."""

    def turn_ended(self) -> None: ...


class TracingPort(Protocol):
    """Spans around what the loop does."""

    def links(self, node: LinkNode, effects: Callable[[], int]) -> TracedNode: ...

    def checkpoint(self) -> AbstractContextManager[None]: ...
