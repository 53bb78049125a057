"""A turn that is not in the log: one that found the disk full, with its records and the replies that must wait."""

from __future__ import annotations

from crdtstream.protocols.log_port import NewRecord
from crdtstream.region.node import Ready

NO_ROOM = "the disk is full: the log cannot hold the latest turn"


class Unsettled(Exception):
    """Something that the node knows is not in the log; the text says why."""


class Unwritten:
    """Records that could not be written, and the replies that depend on them."""

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self._replies: dict[int, bytes] = {}
        self._closing: list[int] = []

    def keep(self, ready: Ready) -> Ready:
        """Keep replies that depend on unwritten records, or follow such a reply on a connection; return the others."""
        due: list[tuple[int, bytes]] = []
        for client_id, reply in ready.replies:
            if ready.records or client_id in self._replies:
                self._replies[client_id] = self._replies.get(client_id, b"") + reply
            else:
                due.append((client_id, reply))
        self._closing += [client_id for client_id in ready.closing if client_id in self._replies]
        return Ready([], due, [client_id for client_id in ready.closing if client_id not in self._replies], False, [])

    def release(self) -> Ready:
        """Return the kept replies, now that the records are written."""
        ready = Ready([], list(self._replies.items()), self._closing, False, [])
        self._replies = {}
        self._closing = []
        return ready

    def __len__(self) -> int:
        return len(self.records)
