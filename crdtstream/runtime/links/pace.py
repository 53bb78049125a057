"""How large the messages of one peer may be, so that each of them is through in a fraction of a heartbeat.

Whatever arrives is a sign of life, and a message arrives as a whole: one that takes longer than `peer_timeout_ms` would
cost the link, and with it the message. What a peer waits for, progress and calls, is in the next message, behind those
that are queued. So where a link drains slowly, its messages are small.

A write returns at once until the buffers below are full, and then when they have drained. So what tells how fast a link
is are the last writes together, and a size that was right for a few messages is not doubled before as many bytes went
through as buffers may hold. It begins small, and is kept from one link with a peer to the next.
"""

from __future__ import annotations

from typing import Final

# Smaller messages would cost more than they say.
BYTES_MIN: Final = 16 << 10
# How long a message may take, in heartbeats.
SHARE: Final = 0.25
# Of what the last writes show, how much counts beside one more.
KEPT: Final = 31 / 32
# What may be in the buffers below a write, and must drain before it returns.
BUFFERED_BYTES: Final = 512 << 10
FITS_ALL: Final = 1 << 62
# How many messages go through before their size is doubled.
GROWTH_MESSAGES: Final = 16


class Pace:
    """The size of messages to one peer, at most `bytes_max`."""

    __slots__ = ("_bytes", "_bytes_max", "_bytes_min", "_passed_bytes", "_seconds", "_target_s", "message_bytes")

    def __init__(self, bytes_max: int, heartbeat_ms: int) -> None:
        self._bytes_max = bytes_max
        self._bytes_min = min(BYTES_MIN, bytes_max)
        self._target_s = SHARE * heartbeat_ms / 1000
        self._bytes = self._seconds = 0.0
        self._passed_bytes = 0
        self.message_bytes = self._bytes_min

    def _fitting(self, byte_count: float, seconds: float) -> int:
        """How much is through in time, if so much took so long."""
        return int(byte_count * self._target_s / seconds) if seconds > 0 else FITS_ALL

    def wrote(self, byte_count: int, seconds: float) -> None:
        """A message of so many bytes took so long, or longer where the link was lost meanwhile."""
        self._bytes = KEPT * self._bytes + byte_count
        self._seconds = KEPT * self._seconds + seconds
        fitting = min(self._fitting(self._bytes, self._seconds), self._fitting(byte_count + BUFFERED_BYTES, seconds))
        if fitting < self.message_bytes:
            self._passed_bytes = 0
            self.message_bytes = max(self._bytes_min, fitting)
            return
        self._passed_bytes += byte_count
        if fitting >= 2 * self.message_bytes and self._passed_bytes >= GROWTH_MESSAGES * self.message_bytes:
            self._passed_bytes = 0
            self.message_bytes = min(self._bytes_max, 2 * self.message_bytes)
