"""A state transfer that is arriving: chunks are staged, and joined as one when the last one is there.

Each chunk is a record of the log, so that after a restart the transfer goes on where it stopped. What is staged is no
state yet: nobody sees it, and it counts in no vector. One transfer at a time: its chunks come from one region, in
order; a chunk that comes twice is passed over.
"""

from __future__ import annotations

from crdtstream.protocols.codec import CodecError
from crdtstream.protocols.transfer_rows import TransferReader


class Staging:
    """The chunks of one transfer from one region, up to `next` (exclusive)."""

    __slots__ = ("byte_count", "next", "region", "state", "transfer")

    def __init__(self, region: int, transfer: int) -> None:
        self.region = region
        self.transfer = transfer
        self.state = TransferReader()
        self.next = 0
        self.byte_count = 0

    def stage(self, index: int, chunk: bytes) -> bool:
        """False for a chunk that was here before."""
        if index < self.next:
            return False
        if index > self.next:
            raise CodecError(f"chunk {index} of a state follows chunk {self.next - 1}")
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
        assert not self.state.done, "a state that is whole was not joined"
