"""The state of a connection between MULTI and EXEC.

Reference: `multi.c` of Redis.
"""

from __future__ import annotations

from crdtstream.connections.command import Command

REQUEST_BYTES = 64


class Transaction:
    """The requests queued since MULTI; `refused` is set once a request could not be queued, so that EXEC fails."""

    __slots__ = ("byte_count", "denies_oom", "frees", "pausable", "refused", "requests", "writes")

    def __init__(self) -> None:
        self.requests: list[tuple[Command, list[bytes]]] = []
        self.byte_count = 0
        self.refused = False
        self.writes = False
        # All of its writes free room.
        self.frees = True
        self.denies_oom = False
        self.pausable = False

    def queue(self, command: Command, argv: list[bytes]) -> None:
        self.requests.append((command, argv))
        self.byte_count += REQUEST_BYTES + sum(map(len, argv))
        self.writes = self.writes or command.writes
        self.frees = self.frees and (command.frees or not command.writes)
        self.denies_oom = self.denies_oom or command.denies_oom
        self.pausable = self.pausable or command.pausable
