"""Requests that wait for spilled blocks (core/entries/spilled.py), and what was read for them.

A request that needs blocks which are not in memory goes back to the front of its client's backlog, and the client
counts as parked; once the blocks were read, the request runs again from its start. It is no blocked client: CLIENT
UNBLOCK does not find it, and nothing ends its wait with nil. A blocked reader whose entries have to be read stays where
it is parked, and is served again. Anything else that needs blocks (a batch of a peer, a slice of the bulk port) is
called back by `then`.

The runtime takes what is `wanted`, reads it on a thread, and hands it to `BlockRead.finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from crdtstream.connections.client import Client
from crdtstream.core.entries.spilled import NONE_HELD, BlockHandle, NotAtOnce

# What stands for a block that cannot be read: opening it finds it damaged.
UNREADABLE = b""


class BlockRead:
    """Blocks that are being read; `held` is all that was read for one request so far."""

    __slots__ = ("_then", "done", "handles", "held")

    def __init__(self, handles: list[BlockHandle], held: dict[BlockHandle, bytes], then: Callable[[], None]) -> None:
        self.handles = handles
        self.held = held
        self.done = False
        self._then = then

    def read(self) -> list[bytes]:
        """The packed forms, on any thread."""
        return [_read(handle) for handle in self.handles]

    def finish(self, found: list[bytes]) -> None:
        """What `read` returned, between two turns."""
        self.held.update(zip(self.handles, found, strict=True))
        self.done = True
        self._then()


def _read(handle: BlockHandle) -> bytes:
    try:
        return handle.read()
    except OSError:
        return UNREADABLE


class BlockReads:
    """The reads of one region; `wanted` have not begun yet."""

    __slots__ = ("_of_client", "read_blocks", "read_bytes", "started", "wanted")

    def __init__(self) -> None:
        self.wanted: list[BlockRead] = []
        # How many were begun since the start, and what they had read.
        self.started = 0
        self.read_blocks = 0
        self.read_bytes = 0
        self._of_client: dict[int, BlockRead] = {}

    def begin(self, missing: NotAtOnce, held: dict[BlockHandle, bytes], then: Callable[[], None]) -> BlockRead:
        """Have these blocks read, too."""
        block_read = BlockRead(missing.handles, held, then)
        self.wanted.append(block_read)
        self.started += 1 if block_read.handles else 0
        self.read_blocks += len(block_read.handles)
        self.read_bytes += sum([handle.length for handle in block_read.handles])
        return block_read

    def begin_for(
        self, client: Client, missing: NotAtOnce, held: dict[BlockHandle, bytes], then: Callable[[Client], None]
    ) -> None:
        """The same for what this client waits for."""
        assert client.id not in self._of_client, f"client {client.id} waits twice"
        self._of_client[client.id] = self.begin(missing, held, partial(then, client))

    def drain(self) -> list[BlockRead]:
        """Take what is to be read."""
        wanted, self.wanted = self.wanted, []
        return wanted

    def awaits(self, client_id: int) -> bool:
        """True if blocks are being read for this client."""
        block_read = self._of_client.get(client_id)
        return block_read is not None and not block_read.done

    def has(self, client_id: int) -> bool:
        """True if a request of this client waits for blocks, or will run again now that they were read."""
        return client_id in self._of_client

    def drain_held(self, client_id: int) -> dict[BlockHandle, bytes]:
        """What was read for the client's request, which runs now."""
        if not self._of_client:
            return NONE_HELD
        block_read = self._of_client.pop(client_id, None)
        return NONE_HELD if block_read is None else block_read.held

    def forget(self, client_id: int) -> None:
        self._of_client.pop(client_id, None)
