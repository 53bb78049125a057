"""ACL LOG: the latest refusals. A refusal like one of the last minute counts there instead of making a new entry.

What a client sent is shortened to `TEXT_BYTES_MAX`, because the log is kept in memory and anybody can fill it.

Reference: `addACLLogEntry` of Redis.
"""

from __future__ import annotations

from typing import Final

GROUPING_MS: Final = 60_000
TEXT_BYTES_MAX: Final = 1024
AUTH: Final = "auth"
TOP_LEVEL: Final = "toplevel"
IN_MULTI: Final = "multi"


class AclLogEntry:
    """`reason` is command, key, channel or auth; `within` is toplevel or multi."""

    __slots__ = ("client", "count", "created_ms", "number", "reason", "subject", "updated_ms", "username", "within")

    def __init__(self, reason: str, within: str, subject: bytes, username: bytes, client: bytes, now_ms: int) -> None:
        self.reason = reason
        self.within = within
        self.subject = subject[:TEXT_BYTES_MAX]
        self.username = username[:TEXT_BYTES_MAX]
        self.client = client
        self.count = 1
        self.number = 0
        self.created_ms = now_ms
        self.updated_ms = now_ms

    def is_like(self, other: AclLogEntry) -> bool:
        return (
            self.reason == other.reason
            and self.within == other.within
            and self.subject == other.subject
            and self.username == other.username
            and abs(self.updated_ms - other.updated_ms) <= GROUPING_MS
        )


class AclLog:
    """The entries, newest first."""

    __slots__ = ("_entries_max", "_next", "entries")

    def __init__(self) -> None:
        self.entries: list[AclLogEntry] = []
        self._entries_max = 128
        self._next = 0

    def limit(self, entries_max: int) -> None:
        self._entries_max = entries_max
        del self.entries[entries_max:]

    def add(self, entry: AclLogEntry) -> None:
        for at, known in enumerate(self.entries):
            if known.is_like(entry):
                known.count += 1
                known.updated_ms, known.client = entry.updated_ms, entry.client
                self.entries.insert(0, self.entries.pop(at))
                return
        entry.number = self._next
        self._next += 1
        self.entries.insert(0, entry)
        del self.entries[self._entries_max :]

    def clear(self) -> None:
        self.entries = []
