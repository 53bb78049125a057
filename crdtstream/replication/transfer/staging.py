"""An incoming state transfer: its chunks are staged, and joined all at once when the last one has arrived.

Each chunk is a log record, so after a restart the transfer resumes where it stopped. Staged chunks are not state yet:
no command sees them, and no vector covers them. Full blocks go to `spill`,
so that memory need not hold the whole state. The chunks of a transfer come from one region, in order; duplicates are
skipped.
"""

from __future__ import annotations

from crdtstream.protocols.codec import CodecError
from crdtstream.protocols.state_rows import Spill
from crdtstream.protocols.transfer_rows import TransferReader


class Staging:
    """The chunks of one transfer from one region, up to `next` (exclusive)."""

    __slots__ = ("byte_count", "next", "region", "state", "transfer")

    def __init__(self, region: int, transfer: int, spill: Spill | None = None) -> None:
        self.region = region
        self.transfer = transfer
        self.state = TransferReader(spill)
        self.next = 0
        self.byte_count = 0

    def stage(self, index: int, chunk: bytes) -> bool:
        """Add a chunk; False for a duplicate."""
        if index < self.next:
            return False
        if index > self.next:
            raise CodecError(f"chunk {index} of a state arrived where chunk {self.next} is expected")
        if not chunk:
            raise CodecError(f"chunk {index} of a state is empty")
        self.state.feed(chunk)
        self.next += 1
        self.byte_count += len(chunk)
        return True

    def is_done(self) -> bool:
        return self.state.done

    def check(self) -> None:
        assert (self.next == 0) == (self.byte_count == 0), "chunks without bytes"
        assert not self.state.done, "a complete state was not joined"
