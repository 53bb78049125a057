"""Anti-entropy with one peer, in both directions of one link; pure.

    linked       nothing was exchanged; both sides send a Hello at once
    greeting     the own Hello is sent; answering: the peer's has arrived. greeting.py compares the two
    open         each side serves what the peer's vector lacks (feed.py) and receives the peer's batches (intake.py)
    refusing     a Refused message waits to be sent
    closed       nothing more is sent; `reason` says why

states.py has the events between them. A session serves a peer as soon as its Hello has arrived.

Messages are pulled: `outgoing` collects everything that is due into one message, or returns None. Progress that is
merely informative never causes a message by itself: it travels with other content, or once every
`PROGRESS_INTERVAL_MS`. Three things that somebody may be waiting for do cause a message: durable progress of this
region's origin, durable progress of origins that the peer has no direct link to, and consumed bytes, which are reported
before they could close the peer's window.

A peer that needs older records than the log holds receives a full state transfer: see handover.py.

The link is ordered and reliable while it lives, and a session ends with its link. So nothing is sent twice: Progress
carries only what grew, a peer's own row is never echoed, and resuming means a new Hello with the current vector. Births
that were unknown at the time of the Hello are sent ahead of progress, so a region that receives a member's progress
already knows every founder that this member knew (founding.py explains why that matters).

Reference: Demers et al., "Epidemic algorithms for replicated database maintenance" (1987), anti-entropy by vectors.
"""

from __future__ import annotations

from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import CodecError, decode_header
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.feed import Apart, Feed
from crdtstream.replication.links.greeting import (
    PARTS_SINCE,
    agreed,
    birth_rows,
    check_hello,
    make_hello,
    named_births,
    protocols_of,
    refusal,
)
from crdtstream.replication.links.handover import Handover
from crdtstream.replication.links.intake import Intake
from crdtstream.replication.links.received import Heard
from crdtstream.replication.links.view import View
from crdtstream.replication.log.holding import LACK_CHARACTERS_MAX, NOTHING_LACKS, Lack
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.transfer.sending import Transfers
from crdtstream.replication.values.bounds import PeerBounds
from crdtstream.replication.values.progress import ProgressRow, Unheard
from crdtstream.replication.values.shared_progress import NOTHING, Shared, rows_that_fit
from crdtstream.replication.values.states import (
    ANSWERING,
    CLOSED,
    CLOSES,
    GREETING,
    HELLO_HEARD,
    HELLO_SENT,
    LINKED,
    OPEN,
    REFUSAL_SENT,
    REFUSES,
    REFUSING,
    SESSION,
    after,
)
from crdtstream.replication.values.wire_values import WireError, to_grown, to_origins, to_vector, vector_rows
from crdtstream.settings.config import Config

PROGRESS_INTERVAL_MS = 100
REASON_CHARACTERS_MAX = 1_000


class Refusal(Exception):
    """Raised when nothing more may be exchanged with this peer; the text is the reason."""


class Session:
    """The state of anti-entropy with one peer."""

    __slots__ = (
        "_asked_direct",
        "_births_told",
        "_deferred_told",
        "_feed",
        "_heard_ms",
        "_lack_told",
        "_leaving_told",
        "_link",
        "_neighbours_told",
        "_progress_ms",
        "_reported_bytes",
        "_rows_told",
        "_sent_ms",
        "_shared",
        "bounds",
        "founders",
        "handover",
        "intake",
        "opened_ms",
        "peer_lack",
        "peer_name",
        "peer_origin",
        "peer_region",
        "predecessors",
        "protocol",
        "reason",
        "replaces",
        "state",
        "unheard",
        "vector_then",
    )

    def __init__(self, view: View, now_ms: int, link: int = 0) -> None:
        limits = view.settings.limits
        self.state = LINKED
        # Why the link is refused or closed.
        self.reason = ""
        self.peer_name = ""
        self.peer_region = 0
        # 0 until the peer has greeted.
        self.peer_origin = 0
        self.predecessors: list[int] = []
        self.founders: list[int] = []
        self.replaces = False
        # The version that both sides speak; 0 until the peer has greeted.
        self.protocol = 0
        # The peer's applied vector at the time of its Hello.
        self.vector_then = VersionVector()
        self.opened_ms = now_ms
        self.unheard = Unheard()
        self._link = link
        self.bounds = PeerBounds()
        self._feed = Feed(view.history, limits.window_bytes, limits.window_messages)
        self.intake = Intake(view.assemblies, limits.batch_bytes_max)
        self.handover = Handover(self._feed, link)
        self._births_told = 0
        self._deferred_told = 0
        self._neighbours_told = 0
        self._leaving_told = False
        self._lack_told = NOTHING_LACKS
        # What the peer has no room in, as far as it says.
        self.peer_lack = Lack()
        self._asked_direct: list[int] = []
        self._shared: dict[int, Shared] = {}
        self._reported_bytes = 0
        self._rows_told = 0
        self._heard_ms = now_ms
        self._sent_ms = now_ms
        self._progress_ms = now_ms

    def _pass(self, event: str) -> None:
        """Every change of the state."""
        self.state = after(SESSION, self.state, event)

    @property
    def is_open(self) -> bool:
        """True if the peer has greeted, and neither side has ended the link."""
        return self.state in (ANSWERING, OPEN)

    @property
    def is_greeting(self) -> bool:
        """True while the peer's Hello is awaited."""
        return self.state in (LINKED, GREETING)

    @property
    def closed(self) -> str | None:
        """Why the link must be closed; None if it may stay."""
        return self.reason if self.state == CLOSED else None

    @property
    def sent_bytes(self) -> int:
        """The total size of the batches sent over this link."""
        return self._feed.total_bytes

    def silent_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self._heard_ms)

    # Heard

    def receive(self, message: wire.Message, view: View, now_ms: int) -> Heard | None:
        """Return what the message means for the region, or None if it ends the link."""
        if self.state in (REFUSING, CLOSED):
            return None
        self._heard_ms = now_ms
        try:
            return self._receive(message, view, now_ms)
        except Refusal as refusal:
            self.refuse(str(refusal))
        except (WireError, CodecError) as error:
            self.refuse_unreadable(error, view.settings.config)
        return None

    def _receive(self, message: wire.Message, view: View, now_ms: int) -> Heard | None:
        if message.HasField("refused"):
            self.close(f"the peer refused: {message.refused.reason[:REASON_CHARACTERS_MAX]}")
            return None
        heard = Heard()
        if message.HasField("hello"):
            self._receive_hello(message.hello, view, heard)
        elif self.is_greeting:
            raise WireError("a message before its Hello")
        if message.HasField("met"):
            heard.receive_met(message.met)
        if message.HasField("links"):
            self._receive_links(message.links, view)
        if message.HasField("room"):
            self.peer_lack.set(message.room.lacking[:LACK_CHARACTERS_MAX], now_ms)
            self._feed.grant(message.room.window_bytes)
        for payload in message.batches.payloads:
            self._receive_batch(payload, message.batches.restart, heard)
        if message.HasField("part"):
            heard.has_part = True
            batch = self.intake.add(message.part, view.replica.applied.vector)
            heard.batches += [] if batch is None else [batch]
        if message.HasField("progress"):
            self._receive_progress(message.progress, view, heard)
        if message.HasField("audit"):
            heard.audit = message.audit
        if message.HasField("deferred"):
            heard.deferred = message.deferred
        if message.HasField("leaving"):
            heard.leaving = message.leaving.through
        self._receive_state(message, view, heard, now_ms)
        heard.calls.extend(message.calls)
        heard.answers.extend(message.answers)
        return heard

    def _receive_state(self, message: wire.Message, view: View, heard: Heard, now_ms: int) -> None:
        if message.HasField("offer"):
            self.intake.interrupt()
            self.handover.receive_offer(to_vector(message.offer.vector), view, now_ms)
        if message.HasField("fetch"):
            self.handover.receive_fetch(message.fetch, view.transfers)
        if message.HasField("chunk") and self.handover.is_fetching(view):
            heard.chunk = message.chunk

    def _receive_hello(self, hello: wire.Hello, view: View, heard: Heard) -> None:
        if not self.is_greeting:
            raise WireError("a second Hello")
        own = self._own_hello(view)
        reason = refusal(own, hello)
        if reason is not None:
            raise Refusal(reason)
        check_hello(hello)
        self.protocol = agreed(protocols_of(own), protocols_of(hello))
        if self.protocol >= PARTS_SINCE:
            self._feed.cutter.greet(hello.unfinished)
        self.peer_name = hello.name
        self.peer_region = hello.region
        self.peer_origin = self.handover.peer = hello.origin
        self.predecessors = to_origins(hello.predecessors)
        self.founders = [row.slot for row in hello.births if row.founder]
        self.replaces = hello.replaces
        self.vector_then = to_vector(hello.vector)
        self.bounds = PeerBounds(hello.bounds)
        self._feed.batch_bytes_max = self.bounds.batch_bytes_max
        view.forwarding.bound(self._link, self.peer_region, self.bounds.message_bytes_max)
        self._serve_from(self.vector_then, to_origins(hello.direct_slots), 0, view.transfers)
        heard.own_counter = self.vector_then.get(view.replica.applied.origin)
        heard.births += named_births(hello)
        self._pass(HELLO_HEARD)

    def _serve_from(self, vector: VersionVector, direct: list[int], restart: int, transfers: Transfers) -> None:
        self._feed.begin(vector, direct, restart)
        self.handover.begin(transfers)

    def _receive_links(self, links: wire.Links, view: View) -> None:
        direct = to_origins(links.direct_slots)
        if links.restart == self._feed.restart:
            self._feed.redirect(direct)
        else:
            self._serve_from(to_vector(links.vector), direct, links.restart, view.transfers)
            if links.parts_dropped:
                self._feed.cutter.forget()

    def _receive_batch(self, payload: bytes, restart: int, heard: Heard) -> None:
        header = decode_header(payload)
        self.intake.record(header.origin, header.last, len(payload), restart)
        heard.batches.append((header, payload))

    def _receive_progress(self, progress: wire.Progress, view: View, heard: Heard) -> None:
        """Merge the peer's progress rows. A row about this region's own origin only shows how far its effects have
        spread.
        """
        own = view.replica.applied.origin
        told: VersionVector | None = None
        for row in progress.rows:
            grown = to_grown(row)
            origin, durable, applied, life = grown
            if applied is not None:
                heard.own_counter = max(heard.own_counter, applied.get(own))
            if origin != own:
                heard.rows.append(grown)
            if origin == self.peer_origin:
                told = applied
            elif origin != own:
                self._shared_of(origin).add(durable, applied, life)
        self._feed.record_progress(progress.consumed_bytes, told)
        if told is not None and (self._feed.behind or view.transfers.running):
            self.handover.heard_progress(view.transfers)

    def _shared_of(self, origin: int) -> Shared:
        shared = self._shared.get(origin)
        if shared is None:
            shared = self._shared[origin] = Shared()
        return shared

    # Said

    def outgoing(self, view: View, bytes_max: int, now_ms: int, apart: Apart = None) -> wire.Message | None:
        """Return one message of at most about `bytes_max` with everything that is due, or None if nothing is due."""
        if self.state in (GREETING, CLOSED):
            return None
        message = wire.Message()
        if self.state == REFUSING:
            message.refused.reason = self.reason
            self._pass(REFUSAL_SENT)
            return message
        if self.state != OPEN:
            self._say_hello(message, view)
        elif not self._fill(message, view, bytes_max, now_ms, apart):
            return None
        self._sent_ms = now_ms
        return message

    def _say_hello(self, message: wire.Message, view: View) -> None:
        message.hello.CopyFrom(self._own_hello(view))
        message.hello.unfinished.extend(view.assemblies.rows())
        self._asked_direct = list(message.hello.direct_slots)
        self._births_told = view.birth.changes
        self._pass(HELLO_SENT)

    def _own_hello(self, view: View) -> wire.Hello:
        return make_hello(view.settings.config, view.birth, view.replica.applied.vector, view.direct, view.versions)

    def _fill(self, message: wire.Message, view: View, bytes_max: int, now_ms: int, apart: list[bytes] | None) -> bool:
        bytes_max = min(bytes_max, self.bounds.message_bytes)
        self._fill_met(message, view.birth)
        self._fill_deferred(message, view)
        self._fill_leaving(message, view)
        self._fill_links(message, view)
        if view.lack != self._lack_told:
            message.room.lacking, message.room.window_bytes = self._lack_told = view.lack
        self.handover.fill(message, view, bytes_max)
        audit = view.audit.due(self.peer_origin)
        if audit is not None:
            message.audit.CopyFrom(audit)
        own = view.replica.applied.origin
        searching = not view.frozen and self._feed.fill(message, bytes_max, view.served_position, own, apart)
        view.forwarding.fill(message, self._link, bytes_max, view.served_position)
        said = searching or bool(message.ListFields())
        return self._fill_progress(message, view, bytes_max, said, now_ms) or said

    def _fill_met(self, message: wire.Message, birth: Birth) -> None:
        """Send every birth and neighbour row whenever one of them changed: changes are rare and the rows are few."""
        if birth.changes != self._births_told:
            message.met.births.extend(birth_rows(birth))
            self._births_told = birth.changes
        if birth.founding.changes != self._neighbours_told:
            for count, origin, regions in birth.founding.rows():
                message.met.neighbours.add(slot=origin, regions=regions, count=count)
            self._neighbours_told = birth.founding.changes

    def _fill_deferred(self, message: wire.Message, view: View) -> None:
        other = view.deferrals.get(self.peer_origin, 0)
        if other != self._deferred_told:
            message.deferred.other = other
            message.deferred.told_by = view.settings.config.name
            self._deferred_told = other

    def _fill_leaving(self, message: wire.Message, view: View) -> None:
        """Ask once on each link; another peer is asked after this one is lost."""
        asked, through = view.leaving
        if asked == self.peer_origin and not self._leaving_told:
            message.leaving.SetInParent()
            message.leaving.through = through
            self._leaving_told = True

    def _fill_links(self, message: wire.Message, view: View) -> None:
        direct = view.direct
        if direct == self._asked_direct and not self.intake.asks_again:
            return
        # Batches that were left to the link of an origin may be missing, or some were dropped: ask for a restart.
        if self.intake.asks_again or not set(direct).issuperset(self._asked_direct):
            message.links.parts_dropped = self.intake.parts_dropped
            self.intake.begin()
            self._reported_bytes = 0
            message.links.vector.extend(vector_rows(view.replica.applied.vector))
        message.links.restart = self.intake.restart
        message.links.direct_slots.extend(direct)
        self._asked_direct = list(direct)

    def _fill_progress(self, message: wire.Message, view: View, bytes_max: int, said: bool, now_ms: int) -> bool:
        """Add progress that is urgent or can travel with other content; also send a heartbeat after a silence, and an
        empty message while the feed is still searching the log, so that the link pulls again.
        """
        limits = view.settings.limits
        self.intake.discount(view.replica.applied.vector)
        unreported = self.intake.consumed_bytes - self._reported_bytes
        rows, urgent = self._changed_rows(view)
        # Report before the window fills: a quarter of it leaves time for the report to travel.
        urgent = urgent or unreported * 4 >= min(limits.window_bytes, self.bounds.window_bytes)
        rides = said or _passed(self._progress_ms, now_ms, PROGRESS_INTERVAL_MS)
        due = urgent or (rides and (unreported > 0 or bool(rows)))
        empty = said and not message.ListFields()
        if not due and not empty and not _passed(self._sent_ms, now_ms, limits.heartbeat_ms):
            return False
        told = rows_that_fit(rows, self._rows_told, bytes_max)
        self._rows_told += max(0, len(told) - 1)
        for origin, durable, applied, life in told:
            message.progress.rows.append(
                wire.ProgressRow(slot=origin, durable=vector_rows(durable), applied=vector_rows(applied), life=life)
            )
            self._shared_of(origin).add(durable, applied, life)
        message.progress.consumed_bytes = self.intake.consumed_bytes
        self._reported_bytes = self.intake.consumed_bytes
        self._progress_ms = now_ms
        return True

    def _changed_rows(self, view: View) -> tuple[list[ProgressRow], bool]:
        """Return the progress that the peer does not know yet, and whether somebody may be waiting for it."""
        rows: list[ProgressRow] = []
        urgent = False
        for origin, durable, applied, life in self._progress_rows(view):
            shared = self._shared.get(origin, NOTHING)
            if durable == shared.durable and applied == shared.applied and life <= shared.life:
                continue
            grown = durable.beyond(shared.durable)
            if grown.total():
                urgent = urgent or origin == view.replica.applied.origin or origin not in self._feed.direct
            rows.append((origin, grown, applied.beyond(shared.applied), life))
        return rows, urgent

    def _progress_rows(self, view: View) -> list[ProgressRow]:
        """Return the row of every known member except the peer itself."""
        own = view.replica.applied.origin
        rows = [row for row in view.progress.rows() if row[0] not in (own, self.peer_origin)]
        rows.append((own, view.durable_vector, view.replica.applied.vector, view.life))
        return rows

    # Ended

    def stir(self, now_ms: int) -> None:
        """Part of a message has come: the peer is not silent."""
        self._heard_ms = max(self._heard_ms, now_ms)

    def excuse(self, stalled_ms: int) -> None:
        """Extend the silence timeout: this region itself was stalled and did not listen for that long."""
        self._heard_ms += stalled_ms

    def tick(self, now_ms: int, timeout_ms: int) -> None:
        """Close the link if the peer has been silent for `timeout_ms`. If the clock was set back, times in the future
        become now.
        """
        self.opened_ms = min(self.opened_ms, now_ms)
        self._heard_ms = min(self._heard_ms, now_ms)
        self._sent_ms = min(self._sent_ms, now_ms)
        self._progress_ms = min(self._progress_ms, now_ms)
        if _passed(self._heard_ms, now_ms, timeout_ms):
            self.close(f"nothing received from the peer for {timeout_ms} ms")

    def refuse(self, reason: str) -> None:
        """Close the link after telling the peer why; only the first reason is kept."""
        if self.state not in (REFUSING, CLOSED):
            self._pass(REFUSES)
            self.reason = reason

    def leave(self, reason: str) -> None:
        """Close the link; a peer that is being refused still receives its reason first."""
        if self.state != REFUSING:
            self.close(reason)

    def close(self, reason: str) -> None:
        """Close the link at once, unless it is closed already."""
        if self.state != CLOSED:
            self._pass(CLOSES)
            self.reason = reason

    def refuse_unreadable(self, error: Exception, config: Config) -> None:
        peer = f"region {self.peer_name} ({self.peer_region})" if self.peer_region else "a peer"
        self.refuse(f"region {config.name} ({config.region}) cannot read what {peer} sent: {error}")

    def check(self) -> None:
        self._feed.check()
        self.intake.check()
        assert self._reported_bytes <= self.intake.consumed_bytes, "more was reported than consumed"
        assert self.state not in (LINKED, ANSWERING) or self._asked_direct == [], (
            "direct links were sent before the Hello"
        )
        for shared in self._shared.values():
            shared.durable.check()
            shared.applied.check()


def _passed(since_ms: int, now_ms: int, interval_ms: int) -> bool:
    return now_ms - since_ms >= interval_ms
