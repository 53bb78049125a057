"""The newest batches of the log, so that links which keep up are served without reading it.

While there are batches here, they are all of the log from the first one's position on; positions in between belong to
records that no peer is sent. Without links nothing is kept. `History.note` adds them, without a call, because that
happens in every turn.
"""

from __future__ import annotations

from typing import Final

from crdtstream.protocols.log_port import LogRecord

MESSAGES: Final = 4


class Recent:
    """Batches at ascending positions: a few messages of them, or one larger batch."""

    __slots__ = ("bytes_max", "records", "size")

    def __init__(self) -> None:
        self.bytes_max = 0
        self.records: list[LogRecord] = []
        self.size = 0

    def keep(self, links: int, message_bytes: int) -> None:
        """Keep a few messages if there are links."""
        self.bytes_max = MESSAGES * message_bytes if links else 0
        if not links:
            self.clear()

    def shrink(self) -> None:
        """Drop half at once, because taking one from the beginning of a list moves all others."""
        count = 0
        while self.size > self.bytes_max // 2 and count < len(self.records) - 1:
            self.size -= len(self.records[count][2])
            count += 1
        del self.records[:count]

    def clear(self) -> None:
        self.records = []
        self.size = 0

    def read(self, position: int, bytes_max: int) -> list[LogRecord] | None:
        """The batches from this position on: at most `bytes_max` bytes, or one larger batch. None if not all of them
        are here.
        """
        records = self.records
        if not records or position < records[0][0]:
            return None
        low, high = 0, len(records)
        while low < high:
            middle = (low + high) // 2
            if records[middle][0] < position:
                low = middle + 1
            else:
                high = middle
        end, size = low, 0
        while end < len(records) and (end == low or size + len(records[end][2]) <= bytes_max):
            size += len(records[end][2])
            end += 1
        return records[low:end]

    def check(self) -> None:
        assert self.size == sum([len(payload) for _, _, payload in self.records]), "the size is not that of the batches"
        positions = [position for position, _, _ in self.records]
        assert positions == sorted(set(positions)), "the positions do not ascend"
