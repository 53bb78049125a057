"""What one turn makes for the log, in the order in which it was applied.

Local effects gather in the replica; `cut` turns them into records: local facts first, then the batch that they are
stamped against. A remote batch is applied between two cuts, and its bytes go to the log as they came. The **position**
of a record is its number in the log, from 1; the turn numbers records before they are written, because the log takes
them in this order.
"""

from __future__ import annotations

from crdtstream.core.causality import VersionVector
from crdtstream.core.replica import Replica
from crdtstream.protocols import codec
from crdtstream.protocols.transfer_rows import TransferReader
from crdtstream.replication.history import History
from crdtstream.replication.screening import screen_batch

Record = tuple[int, bytes]


class Turn:
    """The records of the current turn."""

    __slots__ = ("_history", "_records", "_replica", "last_position", "nonce")

    def __init__(self, replica: Replica, history: History) -> None:
        self._replica = replica
        self._history = history
        self._records: list[Record] = []
        self.nonce = 0
        self.last_position = 0

    def add(self, kind: int, payload: bytes) -> int:
        """One record; returns its position."""
        self._records.append((kind, payload))
        self.last_position += 1
        return self.last_position

    def cut(self) -> None:
        """Close what was prepared here."""
        taken = self._replica.take()
        if taken.facts:
            self.add(codec.LOCAL, codec.encode_facts(taken.facts, taken.through))
        if taken.batch is not None:
            self._add_batch(codec.encode_batch(taken.batch, self.nonce))

    def apply(self, payload: bytes) -> None:
        """A remote batch that passed both gates; raises CodecError before anything changed."""
        batch = codec.decode_batch(payload)
        screen_batch(batch, self._replica)
        self.cut()
        self._replica.apply_batch(batch)
        self._add_batch(payload)

    def join(self, transfer: int, state: TransferReader) -> bool:
        """A whole state; false when it brings nothing."""
        self.cut()
        own = self._replica.vector
        gap = VersionVector({slot: count for slot, count in state.vector.items() if not own.contains(slot, count)})
        if not gap.total():
            return False
        self.rejoin(self.add(codec.JOINED, codec.encode_joined(transfer, gap)), gap, state, 0)
        return True

    def rejoin(self, position: int, gap: VersionVector, state: TransferReader, replayed: int) -> None:
        """Its join at this position; `replayed` is that position when the log is replayed, else 0."""
        self._replica.join(state.streams, state.vector, replayed)
        self._replica.join_members(state.members)
        self._history.note_gap(position, gap, self._replica.vector)

    def _add_batch(self, payload: bytes) -> None:
        self._history.note(self.add(codec.BATCH, payload), self._replica.vector)

    def take(self) -> list[Record]:
        records = self._records
        self._records = []
        return records
