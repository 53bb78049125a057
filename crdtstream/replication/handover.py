"""The part of a session that moves whole states, both directions of one link.

Sending. While the peer is behind the log (see feed.py), it is offered a state, and sent chunks when it fetches
one; batches go on behind the last chunk. Whoever covers by other ways what is missing, and says so by its progress,
is served from the log again.

Receiving. An offer is taken up when nobody else brings what is missing: at once where this is the only link, else when
nothing of it arrived for `heartbeat_ms`. A region fetches one state at a time.
"""

from __future__ import annotations

from typing import Protocol

from crdtstream.config import Config
from crdtstream.core.causality import VersionVector
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.feed import Feed
from crdtstream.replication.greeting import vector_rows
from crdtstream.replication.history import History
from crdtstream.replication.staging import Staging
from crdtstream.replication.transfer import Transfers


class HandoverHost(Protocol):
    """The region, as far as states are concerned."""

    @property
    def config(self) -> Config: ...
    @property
    def vector(self) -> VersionVector:
        """What is applied."""

    @property
    def history(self) -> History: ...
    @property
    def transfers(self) -> Transfers:
        """The states that are sent."""

    def direct_slots(self) -> list[int]:
        """The current origins of the peers that are linked, ascending."""

    @property
    def staging(self) -> Staging | None:
        """The state that arrives."""

    def claim_fetch(self, handover: Handover) -> bool:
        """Fetch a state over this link and over no other."""

    def is_fetching(self, handover: Handover) -> bool: ...
    def release_fetch(self, handover: Handover) -> None:
        """The peer sends no state any more."""

    def staged(self) -> tuple[int, int]:
        """The transfer whose chunks are staged, and the next chunk; zeros without one."""

    def accept_chunk(self, handover: Handover, chunk: wire.Chunk, now_ms: int) -> str | None:
        """Stage it, and join the state when it is whole; a reason closes the link."""


class Handover:
    """The states of one session."""

    __slots__ = ("_feed", "_host", "_lacking", "_needed", "_offered", "_patient_ms", "_told", "is_sending", "region")

    def __init__(self, host: HandoverHost, feed: Feed) -> None:
        self._host = host
        self._feed = feed
        self.region = 0
        self.is_sending = False
        self._offered: VersionVector | None = None
        self._needed: VersionVector | None = None
        self._lacking = 0
        self._patient_ms = 0
        self._told = (0, 0)

    # Sending

    def begin(self) -> None:
        """The peer's vector is known anew; what is being sent goes on if it is needed still."""
        if not self._feed.behind:
            self._end_sending()

    def heard_progress(self) -> None:
        """The peer covers more than before."""
        transfer = self._host.transfers.of(self.region)
        if self._feed.behind and not self.is_sending:
            if self._feed.catch_up():
                self._end_sending()
        elif transfer is not None and not self.is_sending and self._feed.covers(transfer.vector):
            self._host.transfers.drop(self.region)

    def _end_sending(self) -> None:
        self.is_sending = False
        self._host.transfers.drop(self.region)

    def take_fetch(self, fetch: wire.Fetch) -> None:
        if not self._feed.behind:
            return
        transfers = self._host.transfers
        transfer = transfers.of(self.region)
        if self.is_sending and transfer is not None and transfer.number == fetch.transfer:
            transfer.staged(fetch.next)
        else:
            transfers.fetch(self.region, fetch.transfer, fetch.next)
            self.is_sending = True

    def _fill_offer(self, message: wire.Message) -> None:
        """Another one when the peer covers what it was told of, and meanwhile more has been cut, or joined here."""
        needed = self._host.history.needed()
        if needed != self._offered:
            message.offer.vector.extend(vector_rows(needed))
            self._offered = needed

    def _fill_chunk(self, message: wire.Message, bytes_max: int) -> None:
        transfer = self._host.transfers.of(self.region)
        if transfer is None:
            return
        chunk = transfer.chunk(bytes_max, self._host.config.limits.window_bytes)
        if chunk is not None:
            message.chunk.CopyFrom(wire.Chunk(transfer=transfer.number, index=chunk[0], payload=chunk[1]))
        if transfer.is_sent():
            self._feed.follow(transfer.position, transfer.vector)
            self._offered = None
            self.is_sending = False

    # Receiving

    def take_offer(self, needed: VersionVector, now_ms: int) -> None:
        """Without a vector it is withdrawn."""
        if not needed.total():
            self._needed = None
            self._host.release_fetch(self)
            return
        self._needed = needed
        self._lacking = lacking(self._host.vector, needed)
        self._patient_ms = now_ms

    def take_chunk(self, chunk: wire.Chunk, now_ms: int) -> str | None:
        return self._host.accept_chunk(self, chunk, now_ms) if self._host.is_fetching(self) else None

    def joined(self, vector: VersionVector) -> None:
        """The peer's state, taken at this vector, is joined."""
        self._needed = None
        self._feed.covered(vector)

    def _wants(self, needed: VersionVector, now_ms: int) -> bool:
        """Nobody else brings what is missing."""
        missing = lacking(self._host.vector, needed)
        if missing < self._lacking or now_ms < self._patient_ms:
            self._lacking = missing
            self._patient_ms = now_ms
        waited_ms = now_ms - self._patient_ms
        return len(self._host.direct_slots()) <= 1 or waited_ms >= self._host.config.limits.heartbeat_ms

    def _fill_fetch(self, message: wire.Message, needed: VersionVector, now_ms: int) -> None:
        host = self._host
        if host.is_fetching(self):
            if host.staged() == self._told:
                return
        elif host.vector.descends(needed):
            self._needed = None
            return
        elif not self._wants(needed, now_ms) or not host.claim_fetch(self):
            return
        self._told = host.staged()
        message.fetch.CopyFrom(wire.Fetch(transfer=self._told[0], next=self._told[1]))

    # Both

    def shown(self) -> tuple[str, int, int] | None:
        """Which way a state goes, in how many chunks and bytes by now; None when none does."""
        staging = self._host.staging
        if self._host.is_fetching(self) and staging is not None:
            return ("receiving", staging.next, staging.byte_count)
        transfer = self._host.transfers.of(self.region) if self.is_sending else None
        return None if transfer is None else ("sending", transfer.sent, transfer.byte_count)

    def fill(self, message: wire.Message, bytes_max: int, now_ms: int) -> None:
        """Put in what is due."""
        if self._feed.behind:
            if self.is_sending:
                self._fill_chunk(message, bytes_max)
            elif self._offered is None or self._feed.covers(self._offered):
                self._fill_offer(message)
        elif self._offered is not None:
            message.offer.SetInParent()
            self._offered = None
        if self._needed is not None:
            self._fill_fetch(message, self._needed, now_ms)


def lacking(vector: VersionVector, needed: VersionVector) -> int:
    """How many effects are missing."""
    return sum([max(0, counter - vector.get(slot)) for slot, counter in needed.items()])
