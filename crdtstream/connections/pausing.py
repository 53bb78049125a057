"""CLIENT PAUSE: which commands of clients wait, until when, and the clients whose request waits.

A request that is stopped goes back to the front of its client's backlog, and the client counts as parked; at the end of
the pause its requests run as if they had just arrived, and are checked again. Clients that waited in a blocking command
before the pause are not served by one that is stopped; at its end they look again.

While it lasts, no key is deleted because it has expired, and the upkeep of partitioned streams rests, so the data
change by batches of peers only. As in Redis, several pauses at once are one: it stops what any of them stops, and ends
with the last. The wait of a command for the admission of this region's origin does not end before.

Reference: `pauseActions`, `blockPostponeClient` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.status.availability import PAUSED_ALL, PAUSED_NOTHING, PAUSED_WRITES, Standing

EXEC: Final = "exec"
NAMES: Final = {PAUSED_NOTHING: "none", PAUSED_WRITES: "write", PAUSED_ALL: "all"}


class Pause:
    """The pause of one region's clients; `waiting` are those whose request was stopped, in that order, and `held` says
    that a client that waited before was not served.
    """

    __slots__ = ("_standing", "end_ms", "held", "waiting")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.end_ms = 0
        self.held = False
        self.waiting: dict[int, Client] = {}

    def begin(self, end_ms: int, paused: int, now_ms: int) -> None:
        self.update(now_ms)
        self._standing.paused = max(self._standing.paused, paused)
        self.end_ms = max(self.end_ms, end_ms)

    def end(self) -> None:
        self._standing.paused = PAUSED_NOTHING
        self.end_ms = 0

    def update(self, now_ms: int) -> None:
        """End the pause if its time is over."""
        if self._standing.paused and self.end_ms <= now_ms:
            self.end()

    def shift(self, difference_ms: int) -> None:
        """Move the end with a clock that was set."""
        if self._standing.paused:
            self.end_ms += difference_ms

    def stops(self, command: Command, client: Client) -> bool:
        """True if this command of the client has to wait now."""
        paused = self._standing.paused
        if paused != PAUSED_WRITES or command.pausable:
            return paused != PAUSED_NOTHING
        return command.name == EXEC and client.transaction is not None and client.transaction.pausable

    def postpone(self, client: Client) -> None:
        client.parked = True
        self.waiting[client.id] = client

    def forget(self, client_id: int) -> None:
        self.waiting.pop(client_id, None)

    def drain_waiting(self) -> list[Client]:
        """The clients that need not wait any more, in the order in which they were stopped."""
        taken = list(self.waiting.values())
        self.waiting.clear()
        for client in taken:
            client.parked = False
        return taken

    def describe(self, now_ms: int) -> tuple[str, str, int]:
        """Why clients are paused, which commands are, and for how many milliseconds."""
        self.update(now_ms)
        paused = self._standing.paused
        return "client_pause" if paused else "none", NAMES[paused], self.end_ms - now_ms if paused else 0

    def check(self) -> None:
        assert (self.end_ms > 0) == bool(self._standing.paused), "a pause without an end"
        assert all(client.parked for client in self.waiting.values()), "a client that was stopped is not parked"
