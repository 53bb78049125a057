"""What clients may use of one turn: bytes of replies and time, so that no pipeline delays all other clients.

A client runs its requests until its *share*, a fraction of the turn, is used up. Then other clients get their shares.
It continues in this turn if some of the turn is left, and otherwise in a later turn. Two things are never cut short:
the last share of a turn, because it would be the same client's share each time; and a single request, which may exceed
a whole turn. Time is measured by the stopwatch; without a stopwatch only bytes count.
"""

from __future__ import annotations

from typing import Final

MS_NS: Final = 1_000_000
SHARES: Final = 4


class Allowance:
    """The use of the current turn; `reply_bytes` is the size of all replies in it."""

    __slots__ = ("_bytes_end", "_ns_begin", "_ns_end", "_took_ns", "reply_bytes")

    def __init__(self) -> None:
        self.reply_bytes = 0
        self._took_ns = 0
        self._bytes_end = 0
        self._ns_begin = 0
        self._ns_end = 0

    def begin_turn(self) -> None:
        self.reply_bytes = self._took_ns = 0

    def open_share(self, now_ns: int, bytes_max: int, ms_max: int) -> bool:
        """Begin a client's share of a turn with these bounds; false if nothing is left of the turn."""
        ns_max = ms_max * MS_NS
        self._bytes_end = self.reply_bytes + bytes_max // SHARES
        self._ns_begin = now_ns
        self._ns_end = now_ns + ns_max // SHARES
        return self.reply_bytes < bytes_max and self._took_ns < ns_max

    def has_more(self, now_ns: int) -> bool:
        """True if the client's share allows another request."""
        return self.reply_bytes < self._bytes_end and now_ns < self._ns_end

    def close_share(self, now_ns: int) -> None:
        """What the client has used counts. It may use what is left of its share, and close it again."""
        self._took_ns += now_ns - self._ns_begin
        self._ns_begin = now_ns
