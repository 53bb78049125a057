"""The log records of one turn, in the order in which they were applied.

Local effects collect in the replica; `cut` turns them into records: first the local facts, then the batch to which
those facts refer. A turn is cut early where its batch becomes large (core/values/batch_budget.py). A remote batch is
applied between two cuts, and its bytes are logged as they arrived. The **position** of a record is its number in the
log, from 1. The turn assigns positions before the records are written, which is safe because the log appends them in
this order.
"""

from __future__ import annotations

from typing import Protocol

from crdtstream.core.effects import Batch
from crdtstream.core.entries.block import demand_blocks
from crdtstream.core.foreseeing import demanded_by
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols import codec
from crdtstream.protocols.log_port import NewRecord, Payload
from crdtstream.protocols.transfer_rows import TransferReader
from crdtstream.replication.log.history import History
from crdtstream.replication.log.screening import screen_batch


class Witness(Protocol):
    """Observes changes while `on`: the port to the clients."""

    on: bool

    def publish_prepared(self) -> None:
        """What was prepared here is about to become records."""

    def publish_applied(self, batch: Batch) -> None:
        """Another region's batch was applied."""


class Turn:
    """The records of the current turn."""

    __slots__ = ("_history", "_prepared", "_records", "_replica", "last_position", "witness")

    def __init__(self, replica: Replica, history: History) -> None:
        self._replica = replica
        self._history = history
        self._records: list[NewRecord] = []
        # The attempts to prepare something, when the turn was cut last.
        self._prepared = replica.prepared
        self.last_position = 0
        self.witness: Witness | None = None
        replica.budget.cutter = self.cut

    def add(self, kind: int, payload: Payload) -> int:
        """Add one record; return its position."""
        self._records.append((kind, payload))
        self.last_position += 1
        return self.last_position

    def cut(self) -> None:
        """Turn the effects prepared here so far into records; quickly, if there were no attempts to prepare any."""
        prepared, self._prepared = self._prepared, self._replica.prepared
        if prepared == self._prepared or not self._replica.is_open:
            return
        if self.witness is not None and self.witness.on:
            self.witness.publish_prepared()
        taken = self._replica.drain()
        if taken.facts:
            for payload in codec.fact_records(taken.facts, taken.through):
                self.add(codec.LOCAL, payload)
        if taken.batch is not None:
            self._add_batch(taken.batch, codec.batch_parts(taken.batch))

    def apply(self, header: codec.BatchHeader, payload: bytes) -> None:
        """Apply a remote batch that passed both gates; raises CodecError, ForgottenContext, or NotAtOnce while it may
        wait for spilled blocks, before anything changes.
        """
        batch = codec.decode_effects(header, payload)
        screen_batch(batch, self._replica)
        if self._replica.reads.may_wait:
            demand_blocks(demanded_by(batch, self._replica.applied))
            self._replica.reads.may_wait = False
        self.cut()
        self._replica.applied.apply_batch(batch)
        if self.witness is not None and self.witness.on:
            self.witness.publish_applied(batch)
        self._add_batch(batch, payload)

    def join(self, transfer: int, state: TransferReader) -> bool:
        """Join a complete state; False if it brings nothing new."""
        self.cut()
        own = self._replica.applied.vector
        # What the state covers and this region had not applied: it is in no batch of the log.
        gap = VersionVector(
            {origin: count for origin, count in state.vector.items() if not own.contains(origin, count)}
        )
        if not gap.total():
            return False
        self.rejoin(self.add(codec.JOINED, codec.encode_joined(transfer, gap)), gap, state, 0)
        return True

    def rejoin(self, position: int, gap: VersionVector, state: TransferReader, replayed: int) -> None:
        """Join a state at this position; `replayed` is that position while the log is replayed, else 0."""
        self._replica.join(state, replayed)
        self._history.record_gap(position, gap, self._replica.applied.vector)

    def _add_batch(self, batch: Batch, payload: Payload) -> None:
        self._history.record(self.add(codec.BATCH, payload), batch.origin, batch.last, self._replica.applied.vector)

    def end(self) -> list[NewRecord]:
        """End the turn: cut it, and take its records."""
        self.cut()
        records = self._records
        self._records = []
        return records
