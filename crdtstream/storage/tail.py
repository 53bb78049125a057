"""The newest records of the log, kept for a reader that keeps up with it, so that it need not read back what was just
written.

Records are kept only while somebody reads them. Keeping begins when a reader reaches the end of the log, and ends when
more than `bytes_max` is kept unread. A read drops the records before it, so a reader that lags behind the fastest
one reads from disk.

Invariant: positions are contiguous, and the last one is that of the log, unless nothing is kept.
"""

from __future__ import annotations

from crdtstream.protocols.log_port import LogRecord, Payload, joined, size_of

TAIL_BYTES_MAX = 4 << 20


class Tail:
    """The end of one log, as far as it is kept."""

    __slots__ = ("_byte_count", "_followed", "_records", "bytes_max")

    def __init__(self, bytes_max: int = TAIL_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._records: list[tuple[int, int, Payload]] = []
        self._byte_count = 0
        self._followed = False

    def follow(self) -> None:
        """Keep what is appended from now on: a reader has read everything before."""
        self._followed = True

    def record(self, position: int, records: list[tuple[int, Payload]]) -> None:
        """These records were appended, the first of them at this position."""
        if not self._followed:
            return
        for kind, payload in records:
            self._records.append((position, kind, payload))
            self._byte_count += size_of(payload)
            position += 1
        if self._byte_count > self.bytes_max:
            self._followed = False
            self._drop(len(self._records))

    def read(self, position: int, bytes_max: int) -> list[LogRecord]:
        """Records from this position on, with payloads up to `bytes_max` or one that is larger; none if the first of
        them is not kept.
        """
        kept = self._records
        if not kept or position < kept[0][0]:
            return []
        self._drop(position - kept[0][0])
        found: list[LogRecord] = []
        for number, kind, payload in kept:
            size = size_of(payload)
            if found and size > bytes_max:
                break
            found.append((number, kind, joined(payload)))
            bytes_max -= size
        return found

    def _drop(self, count: int) -> None:
        for _, _, payload in self._records[:count]:
            self._byte_count -= size_of(payload)
        del self._records[:count]

    def check(self, last: int) -> None:
        """`last` is the last position of the log."""
        count = len(self._records)
        assert [position for position, _, _ in self._records] == list(range(last - count + 1, last + 1)), "a gap"
        assert self._byte_count == sum([size_of(payload) for _, _, payload in self._records]), "bytes are miscounted"
        assert self._byte_count <= self.bytes_max and (self._followed or not count), "kept for nobody"
