"""Anti-entropy with one peer, both directions of one link, pure.

    greeting    both sides say Hello at once; what they compare is in greeting.py
    open        each side serves what the other's vector lacks (feed.py) and takes what it is sent (intake.py)
    refused     a Refused waits to be sent; then `closed` holds the reason and nothing more is said

Messages are pulled: `outgoing` gathers all that is due into one message, or returns None. What is never due by
itself, the progress that only informs, rides along with other things or goes each `PROGRESS_INTERVAL_MS`. What
somebody waits for makes a message of its own: durable progress of the own origin, and of others that the peer does
not hear from themselves; and consumed bytes, before they could close the peer's window.

A peer that the log no longer serves is handed a whole state: see handover.py.

The link keeps order and loses nothing while it lives; a session ends with its link. Nothing needs to be said twice,
so Progress carries only what changed, a peer's own row is never echoed, and resuming is a new Hello with the vector
of then. Births that were not known at the Hello go ahead of progress: whoever hears how far a member is knows every
origin that this member knew (founding.py says what for).

Reference: Demers et al., "Epidemic algorithms for replicated database maintenance" (1987), anti-entropy by vectors.
"""

from __future__ import annotations

from typing import Protocol

from crdtstream.core.causality import Origin, VersionVector
from crdtstream.protocols.codec import BatchHeader, CodecError, decode_header
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.feed import Feed
from crdtstream.replication.founding import Founding
from crdtstream.replication.greeting import (
    WireError,
    check_hello,
    make_hello,
    origin_row,
    origin_rows,
    refusal,
    to_origin,
    to_origins,
    to_regions,
    to_slots,
    to_vector,
    vector_rows,
)
from crdtstream.replication.handover import Handover, HandoverHost
from crdtstream.replication.intake import Intake
from crdtstream.replication.progress import ProgressTable

PROGRESS_INTERVAL_MS = 100
REASON_CHARACTERS_MAX = 1_000

GREETING = "greeting"
OPEN = "open"
REFUSED = "refused"

ProgressRow = tuple[int, VersionVector, VersionVector]


class Refusal(Exception):
    """Why nothing more may be exchanged with this peer."""


class SessionHost(HandoverHost, Protocol):
    """The region that a session speaks for. A reason that it returns closes the link and is sent to the peer."""

    @property
    def origin(self) -> Origin | None:
        """None until its birth is synced."""

    @property
    def durable_vector(self) -> VersionVector: ...
    @property
    def served_position(self) -> int:
        """The last position of the log that peers may see."""

    @property
    def progress(self) -> ProgressTable: ...
    @property
    def founding(self) -> Founding: ...
    def origins(self) -> list[Origin]:
        """Every known birth, the own included once it is on disk."""

    def births_known(self) -> int:
        """How many births are known; grows with each."""

    def accept_batch(self, header: BatchHeader, payload: bytes, link: int) -> str | None: ...
    def bound_unfinished(self) -> str | None:
        """After a part of a batch arrived."""

    def accept_birth(self, origin: Origin) -> str | None:
        """Another origin is met, in a Hello, as the peer's own, or passed on; it may be known already."""

    def birth_synced(self, slot: int) -> bool:
        """That birth is on disk here."""

    def confirm_birth(self, region: int, slot: int) -> None:
        """That region has the birth of our slot on disk."""

    def hear_audit(self, region: int, name: str, heard: wire.Audit) -> None: ...
    def due_audit(self, region: int) -> wire.Audit | None: ...


class Session:
    """What is said to one peer, and what was heard."""

    __slots__ = (
        "_asked_direct",
        "_birth_owed",
        "_birth_told",
        "_births_told",
        "_feed",
        "_heard_ms",
        "_hello_sent",
        "_host",
        "_intake",
        "_link",
        "_neighbours_told",
        "_progress_ms",
        "_reason",
        "_reported_bytes",
        "_sent_ms",
        "_shared",
        "closed",
        "handover",
        "peer_name",
        "peer_origin",
        "peer_region",
        "state",
    )

    def __init__(self, host: SessionHost, now_ms: int, link: int = 0) -> None:
        self._host = host
        self._link = link
        self.state = GREETING
        self.closed: str | None = None
        self.peer_name = ""
        self.peer_region = 0
        self.peer_origin: Origin | None = None
        self._reason = ""
        self._feed = Feed(host.history, host.config.limits.window_bytes)
        self._intake = Intake(host.config.limits.batch_bytes_max)
        self.handover = Handover(host, self._feed)
        self._hello_sent = False
        self._birth_told = False
        self._birth_owed = 0
        self._births_told = 0
        self._neighbours_told = 0
        self._asked_direct: list[int] = []
        self._shared: dict[int, tuple[VersionVector, VersionVector]] = {}
        self._reported_bytes = 0
        self._heard_ms = now_ms
        self._sent_ms = now_ms
        self._progress_ms = now_ms

    @property
    def is_open(self) -> bool:
        return self.state == OPEN and self.closed is None

    @property
    def sent_bytes(self) -> int:
        """Of batches."""
        return self._feed.total_bytes

    @property
    def unfinished_bytes(self) -> int:
        """Of a batch that arrives in parts."""
        return self._intake.unfinished_bytes if self.is_open else 0

    def silent_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self._heard_ms)

    # Heard

    def receive(self, message: wire.Message, now_ms: int) -> None:
        if self.closed is not None or self.state == REFUSED:
            return
        self._heard_ms = now_ms
        try:
            self._take(message, now_ms)
        except Refusal as refusal:
            self.refuse(str(refusal))
        except (WireError, CodecError) as error:
            self.refuse(f"{self._own()} cannot read what {self._peer()} sent: {error}")

    def _take(self, message: wire.Message, now_ms: int) -> None:
        if message.HasField("refused"):
            self.closed = f"the peer refused: {message.refused.reason[:REASON_CHARACTERS_MAX]}"
            return
        if message.HasField("hello"):
            self._take_hello(message.hello)
        elif self.state == GREETING:
            raise WireError("a message before its Hello")
        if self.state == OPEN:
            self._take_rest(message)
            self._take_state(message, now_ms)

    def _take_rest(self, message: wire.Message) -> None:
        if message.HasField("birth"):
            self._take_birth(message.birth)
        if message.HasField("birth_synced"):
            self._host.confirm_birth(self.peer_region, message.birth_synced.slot)
        if message.HasField("met"):
            self._take_met(message.met)
        if message.HasField("links"):
            self._take_links(message.links)
        if message.HasField("batches"):
            for payload in message.batches.payloads:
                self._take_batch(payload, len(payload), message.batches.restart)
        if message.HasField("part"):
            whole = self._intake.piece(message.part)
            _demand(self._host.bound_unfinished())
            if whole is not None:
                self._take_batch(whole, len(message.part.payload), message.part.restart)
        if message.HasField("progress"):
            self._take_progress(message.progress)
        if message.HasField("audit"):
            self._host.hear_audit(self.peer_region, self.peer_name, message.audit)

    def _take_state(self, message: wire.Message, now_ms: int) -> None:
        if message.HasField("offer"):
            self.handover.take_offer(to_vector(message.offer.vector), now_ms)
        if message.HasField("fetch"):
            self.handover.take_fetch(message.fetch)
        if message.HasField("chunk"):
            _demand(self.handover.take_chunk(message.chunk, now_ms))

    def _take_hello(self, hello: wire.Hello) -> None:
        if self.state != GREETING:
            raise WireError("a second Hello")
        check_hello(hello)
        self.peer_name = hello.name
        self.peer_region = self.handover.region = hello.region
        _demand(refusal(self._own_hello(), hello))
        self._serve_from(to_vector(hello.origins), to_slots(hello.direct_slots), 0)
        self.state = OPEN
        for origin in to_origins(hello.origins):
            _demand(self._host.accept_birth(origin))
        if hello.HasField("origin"):
            self._adopt(to_origin(hello.origin))

    def _take_birth(self, birth: wire.Birth) -> None:
        origin = to_origin(birth.origin)
        if self.peer_origin is not None or origin.region != self.peer_region:
            raise WireError(f"a birth of {origin}")
        self._adopt(origin)

    def _take_met(self, met: wire.Met) -> None:
        for origin in to_origins(met.origins):
            _demand(self._host.accept_birth(origin))
        for row in met.neighbours:
            to_slots([row.slot])
            self._host.founding.tell(row.slot, to_regions(row.regions))

    def _adopt(self, origin: Origin) -> None:
        """The peer is this origin, and wants to hear when its birth is on disk here."""
        self.peer_origin = origin
        self._birth_owed = origin.slot
        _demand(self._host.accept_birth(origin))

    def _serve_from(self, vector: VersionVector, direct: list[int], restart: int) -> None:
        self._feed.begin(vector, direct, restart)
        self.handover.begin()

    def _take_links(self, links: wire.Links) -> None:
        direct = to_slots(links.direct_slots)
        if links.restart == self._feed.restart:
            self._feed.redirect(direct)
        else:
            self._serve_from(to_vector(links.vector), direct, links.restart)

    def _take_batch(self, payload: bytes, size_bytes: int, restart: int) -> None:
        header = decode_header(payload)
        self._intake.note(header, size_bytes, restart)
        self._feed.heard(header.slot, header.last)
        _demand(self._host.accept_batch(header, payload, self._link))

    def _take_progress(self, progress: wire.Progress) -> None:
        self._feed.consumed(progress.consumed_bytes)
        origin = self._host.origin
        rows_max = self._host.config.limits.progress_rows_max
        for row in progress.rows:
            to_slots([row.slot])
            durable = to_vector(row.durable)
            applied = to_vector(row.applied)
            if origin is None or row.slot != origin.slot:
                if not self._host.progress.hear(row.slot, durable, applied, rows_max):
                    raise Refusal(f"{self._peer()} tells progress beyond progress_rows_max = {rows_max} rows in all")
                self._shared[row.slot] = (durable, applied)
            if self.peer_origin is not None and row.slot == self.peer_origin.slot:
                self._feed.covered(applied)
                self.handover.heard_progress()

    # Said

    def outgoing(self, bytes_max: int, now_ms: int) -> wire.Message | None:
        """All that is due, in one message of about `bytes_max` at most; None when nothing is."""
        if self.closed is not None:
            return None
        message = wire.Message()
        if self.state == REFUSED:
            message.refused.reason = self._reason
            self.closed = self._reason
            return message
        said = False
        if not self._hello_sent:
            message.hello.CopyFrom(self._own_hello())
            self._asked_direct = list(message.hello.direct_slots)
            self._birth_told = message.hello.HasField("origin")
            self._births_told = self._host.births_known()
            self._hello_sent = True
            said = True
        elif self.state == OPEN:
            said = self._fill(message, bytes_max, now_ms)
        if not said:
            return None
        self._sent_ms = now_ms
        return message

    def _own_hello(self) -> wire.Hello:
        host = self._host
        return make_hello(host.config, host.origin, host.origins(), host.vector, host.direct_slots())

    def _fill(self, message: wire.Message, bytes_max: int, now_ms: int) -> bool:
        host = self._host
        origin = host.origin
        if origin is not None and not self._birth_told:
            message.birth.origin.CopyFrom(origin_row(origin))
            self._birth_told = True
        if self._birth_owed and host.birth_synced(self._birth_owed):
            message.birth_synced.slot = self._birth_owed
            self._birth_owed = 0
        self._fill_met(message)
        self._fill_links(message)
        own_slot = 0 if origin is None else origin.slot
        self.handover.fill(message, bytes_max, now_ms)
        audit = host.due_audit(self.peer_region)
        if audit is not None:
            message.audit.CopyFrom(audit)
        searching = self._feed.fill(message, bytes_max, host.served_position, own_slot)
        said = searching or bool(message.ListFields())
        return self._fill_progress(message, own_slot, said, now_ms) or said

    def _fill_met(self, message: wire.Message) -> None:
        """All that is known, when something is new: it is seldom, and little."""
        host = self._host
        if host.births_known() != self._births_told:
            message.met.origins.extend(origin_rows(host.origins(), host.vector))
            self._births_told = host.births_known()
        if host.founding.changes != self._neighbours_told:
            for slot, regions in host.founding.rows():
                message.met.neighbours.add(slot=slot, regions=regions)
            self._neighbours_told = host.founding.changes

    def _fill_links(self, message: wire.Message) -> None:
        direct = self._host.direct_slots()
        if direct == self._asked_direct:
            return
        if not set(direct).issuperset(self._asked_direct):
            self._intake.begin()
            self._reported_bytes = 0
            message.links.vector.extend(vector_rows(self._host.vector))
        message.links.restart = self._intake.restart
        message.links.direct_slots.extend(direct)
        self._asked_direct = list(direct)

    def _fill_progress(self, message: wire.Message, own_slot: int, said: bool, now_ms: int) -> bool:
        """Progress that is due or can ride along; a heartbeat after a silence, or where a search must go on."""
        self._intake.settle(self._host.vector)
        unreported = self._intake.consumed_bytes - self._reported_bytes
        rows, urgent = self._changed_rows(own_slot)
        urgent = urgent or unreported * 4 >= self._host.config.limits.window_bytes
        rides = said or _passed(self._progress_ms, now_ms, PROGRESS_INTERVAL_MS)
        due = urgent or (rides and (unreported > 0 or bool(rows)))
        empty = said and not message.ListFields()
        if not due and not empty and not _passed(self._sent_ms, now_ms, self._host.config.limits.heartbeat_ms):
            return False
        for slot, durable, applied in rows:
            message.progress.rows.append(
                wire.ProgressRow(slot=slot, durable=vector_rows(durable), applied=vector_rows(applied))
            )
            self._shared[slot] = (durable.copy(), applied.copy())
        message.progress.consumed_bytes = self._intake.consumed_bytes
        self._reported_bytes = self._intake.consumed_bytes
        self._progress_ms = now_ms
        return True

    def _changed_rows(self, own_slot: int) -> tuple[list[ProgressRow], bool]:
        """What the peer does not know yet, and whether somebody may be waiting for it."""
        rows: list[ProgressRow] = []
        urgent = False
        for row in self._progress_rows(own_slot):
            slot, durable, applied = row
            durable_shared, applied_shared = self._shared.get(slot, _NOTHING)
            if durable != durable_shared:
                urgent = urgent or slot == own_slot or slot not in self._feed.direct
                rows.append(row)
            elif applied != applied_shared:
                rows.append(row)
        return rows, urgent

    def _progress_rows(self, own_slot: int) -> list[ProgressRow]:
        """(slot, durable, applied) of every member heard of but the peer itself."""
        host = self._host
        peer_slot = 0 if self.peer_origin is None else self.peer_origin.slot
        rows = [row for row in host.progress.rows() if row[0] not in (own_slot, peer_slot)]
        if own_slot:
            rows.append((own_slot, host.durable_vector, host.vector))
        return rows

    # Ended

    def excuse(self, stalled_ms: int) -> None:
        """This region itself did not listen for so long."""
        self._heard_ms += stalled_ms

    def tick(self, now_ms: int) -> None:
        """Close a link whose peer went silent."""
        self._heard_ms = min(self._heard_ms, now_ms)
        self._sent_ms = min(self._sent_ms, now_ms)
        self._progress_ms = min(self._progress_ms, now_ms)
        timeout_ms = self._host.config.limits.peer_timeout_ms
        if self.closed is None and _passed(self._heard_ms, now_ms, timeout_ms):
            self.closed = f"nothing heard from the peer for {timeout_ms} ms"

    def refuse(self, reason: str) -> None:
        """The first reason counts."""
        if self.state != REFUSED:
            self.state = REFUSED
            self._reason = reason

    def _own(self) -> str:
        return f"region {self._host.config.name} ({self._host.config.region})"

    def _peer(self) -> str:
        return f"region {self.peer_name} ({self.peer_region})" if self.peer_region else "a peer"

    def check(self) -> None:
        self._feed.check()
        self._intake.check()
        assert self._reported_bytes <= self._intake.consumed_bytes, "more was reported than consumed"
        assert self._hello_sent or self.state != OPEN or self._asked_direct == [], "links were told before the Hello"
        for durable, applied in self._shared.values():
            durable.check()
            applied.check()


_NOTHING = (VersionVector(), VersionVector())


def _demand(reason: str | None) -> None:
    if reason is not None:
        raise Refusal(reason)


def _passed(since_ms: int, now_ms: int, interval_ms: int) -> bool:
    return now_ms - since_ms >= interval_ms
