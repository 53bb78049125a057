"""The part of a session that transfers full states, in both directions of one link.

Sending. A peer that is behind the log (see feed.py) is offered a state; if it fetches one, it is sent in chunks.
Batches resume behind the last chunk. If the peer receives the missing effects by another route, and reports that in its
progress, it is served from the log again.

Receiving. An offer is accepted if no other peer delivers what is missing: at once if this is the only link, otherwise
when none of it has arrived for `heartbeat_ms`. A region fetches one state at a time. Staged chunks are kept while their
region is away or still has that state; if it is linked and no longer offers a state, another transfer replaces them.

Unoffered. A batch whose context the receiver has forgotten (`Replica.forget_contexts`) cannot be applied, even though
the sender's log holds it. The receiver then fetches the sender's state at once, and marks every such fetch as
unoffered: the sender cannot know otherwise, neither after a lost link nor after a restart of its batches.
"""

from __future__ import annotations

from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.feed import Feed
from crdtstream.replication.links.view import View
from crdtstream.replication.transfer.sending import Transfers
from crdtstream.replication.values.wire_values import vector_rows


class Handover:
    """The state transfers of one session."""

    __slots__ = (
        "_feed",
        "_is_unoffered",
        "_lacking",
        "_link",
        "_needed",
        "_offered",
        "_patient_ms",
        "_sent",
        "_told",
        "_unoffered",
        "demanded",
        "is_sending",
        "peer",
    )

    def __init__(self, feed: Feed, link: int) -> None:
        self._feed = feed
        self._link = link
        self.peer = 0
        self.is_sending = False
        # The peer needs this transfer although the log holds everything that it lacks.
        self._is_unoffered = False
        # The transfer whose chunks were all sent on this link.
        self._sent: int | None = None
        self._offered: VersionVector | None = None
        # The vector that the peer offers, and the one that only its unoffered state can bring.
        self._needed: VersionVector | None = None
        self._unoffered: VersionVector | None = None
        self._lacking = 0
        self._patient_ms = 0
        self._told: tuple[int, int] | None = None
        # The peer's state will replace this region's state, so it is fetched whatever the vectors say.
        self.demanded = False

    # Sending

    def begin(self, transfers: Transfers) -> None:
        """Handle a new vector of the peer: a running transfer continues if the peer still needs it."""
        if self.is_sending and self._is_unoffered:
            self._feed.fall_behind()
        elif not self._feed.behind:
            self._end_sending(transfers)

    def heard_progress(self, transfers: Transfers) -> None:
        """Handle progress of the peer: resume from the log, or drop a transfer that the peer no longer needs. A peer
        that gave a transfer up for lack of room, and has the rest by another route, fetches nothing any more.
        """
        if self.is_sending and self._is_unoffered:
            return
        transfer = transfers.running.get(self.peer)
        if self._feed.behind:
            if self._feed.catch_up():
                self._end_sending(transfers)
        elif transfer is not None and self._feed.covers(transfer.vector):
            transfers.drop(self.peer)

    def _end_sending(self, transfers: Transfers) -> None:
        self.is_sending = False
        transfers.drop(self.peer)

    @property
    def region(self) -> int:
        return region_of(self.peer)

    def receive_fetch(self, fetch: wire.Fetch, transfers: Transfers) -> None:
        """Handle a request: the first of a transfer starts it, later ones confirm staged chunks, even of a transfer
        that ended.
        """
        if not self._feed.behind:
            if not fetch.unoffered or fetch.transfer == self._sent:
                return
            self._feed.fall_behind()
        transfer = transfers.running.get(self.peer)
        if not self.is_sending or transfer is None or not fetch.transfer:
            transfers.fetch(self.peer, fetch.transfer, fetch.next)
            self.is_sending = True
            self._is_unoffered = fetch.unoffered
        elif transfer.number == fetch.transfer:
            transfer.record_staged(fetch.next)

    def _fill_offer(self, message: wire.Message, needed: VersionVector) -> None:
        """Offer a state; again when the peer covers the last offer but the log has since been cut further, or a join
        added a gap.
        """
        if needed != self._offered:
            message.offer.vector.extend(vector_rows(needed))
            self._offered = needed

    def _fill_chunk(self, message: wire.Message, view: View, bytes_max: int) -> None:
        transfer = view.transfers.running.get(self.peer)
        if transfer is None:
            if not view.transfers.has(self.peer):
                # It was released, because the peer has abandoned it. What the peer lacks still, and the log has not, is
                # offered again.
                self.is_sending = False
                if not self._feed.catch_up():
                    self._offered = None
            return
        chunk = transfer.chunk(bytes_max, view.settings.limits.window_bytes)
        if chunk is not None:
            message.chunk.CopyFrom(wire.Chunk(transfer=transfer.number, index=chunk[0], payload=chunk[1]))
        if transfer.is_sent():
            self._feed.resume_after(transfer.position, transfer.vector)
            self._offered = None
            self._sent = transfer.number
            self.is_sending = False

    # Receiving

    def receive_offer(self, needed: VersionVector, view: View, now_ms: int) -> None:
        """Handle an offer; one without a vector withdraws it."""
        if self.demanded:
            return
        if not needed.total():
            self._needed = None
            if self.is_fetching(view):
                view.fetching.abandon("it is no longer needed")
            return
        self._needed = needed
        self._lacking = lacking(view.replica.applied.vector, needed)
        self._patient_ms = now_ms

    def need(self, vector: VersionVector) -> None:
        """Fetch the peer's state although it offers none: its log holds a batch that cannot be applied here."""
        if self._unoffered is None:
            self._unoffered = VersionVector()
        self._unoffered.merge(vector)

    def demand(self) -> None:
        """Fetch the peer's state unconditionally, to replace this region's state."""
        self.demanded = True

    @property
    def is_needed(self) -> bool:
        """Return whether the peer's state was needed when last checked."""
        return self.demanded or self._needed is not None or self._unoffered is not None

    def is_fetching(self, view: View) -> bool:
        """Return whether the peer's state arrives over this link."""
        return view.fetching.link == self._link

    def begin_fetch(self, view: View) -> None:
        self._told = None
        view.fetching.begin(self._link)

    def record_joined(self, vector: VersionVector) -> None:
        """Record that the peer's state, taken at this vector, was joined. What it offered since is needed still."""
        if self._needed is not None and vector.descends(self._needed):
            self._needed = None
        self._feed.record_covered(vector)

    def wants_fetch(self, view: View, now_ms: int) -> bool:
        """Return whether effects are missing that no other peer delivers."""
        if self.demanded:
            return True
        vector = view.replica.applied.vector
        if self._unoffered is not None and vector.descends(self._unoffered):
            self._unoffered = None
        if self._needed is not None and vector.descends(self._needed):
            self._needed = None
        return self._unoffered is not None or (self._needed is not None and self._is_urgent(self._needed, view, now_ms))

    def _is_urgent(self, needed: VersionVector, view: View, now_ms: int) -> bool:
        """Return whether no other peer delivers what is missing: this is the only link, or nothing arrived for a
        heartbeat.
        """
        missing = lacking(view.replica.applied.vector, needed)
        # Some of it arrived, or the clock was set back: start waiting again.
        if missing < self._lacking or now_ms < self._patient_ms:
            self._lacking = missing
            self._patient_ms = now_ms
        waited_ms = now_ms - self._patient_ms
        return len(view.direct) <= 1 or waited_ms >= view.settings.limits.heartbeat_ms

    def _fill_fetch(self, message: wire.Message, view: View) -> None:
        """Request chunks when the transfer begins, and confirm them as more are staged."""
        staged = view.fetching.staged()
        if staged == self._told:
            return
        self._told = staged
        unoffered = self.demanded or self._unoffered is not None
        message.fetch.CopyFrom(wire.Fetch(transfer=staged[0], next=staged[1], unoffered=unoffered))

    # Both

    def shown(self, view: View) -> tuple[str, int, int] | None:
        """Return the direction of a running transfer with its chunks and bytes so far; None if there is none."""
        staging = view.fetching.staging
        if self.is_fetching(view) and staging is not None:
            return ("receiving", staging.next, staging.byte_count)
        transfer = view.transfers.running.get(self.peer) if self.is_sending else None
        return None if transfer is None else ("sending", transfer.sent, transfer.byte_count)

    def fill(self, message: wire.Message, view: View, bytes_max: int) -> None:
        """Add what is due to the message."""
        if self._feed.behind:
            if self.is_sending:
                self._fill_chunk(message, view, bytes_max)
            elif self._offered is None or self._feed.covers(self._offered):
                self._fill_offer(message, self._feed.needed())
        elif self._offered is not None:
            message.offer.SetInParent()
            self._offered = None
        if self.is_fetching(view):
            self._fill_fetch(message, view)


def lacking(vector: VersionVector, needed: VersionVector) -> int:
    """Count the missing effects."""
    return sum([max(0, counter - vector.get(origin)) for origin, counter in needed.items()])
