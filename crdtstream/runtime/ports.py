"""Servers of a region as its loop sees them."""

from __future__ import annotations

from typing import Protocol


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
