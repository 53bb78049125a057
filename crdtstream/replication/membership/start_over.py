"""A region replaces its state with another region's, and hands over what only it had.

After the memory of a process was cloned, two processes continue as one origin and make different effects under one dot;
the regions that received them from one and from the other differ for ever (audit.py detects this). An operator then
names the region whose state is right, the **source**, and each region that must replace its state with it. The region

    levels     rejects clients, stays linked to the source only, and goes on exchanging batches with it until the source
               has on disk everything that was here at the beginning. Then both know what only one of the two had done,
               and the removals known to the source are known here. If they reject each other's batches, this cannot
               succeed, and the region continues after `peer_timeout_ms`.
    fetches    receives the source's full state, like a new region; batches are neither sent nor applied.
    replaces   in one turn, logs that the staged state replaces everything here, starts another origin, and adds under
               it the entries that only this region had (core/starting_over.py defines which). Then it serves clients
               and is linked again, and its peers send what is new to that state.
    hands over creates the groups that only it had, once the new origin is admitted.

A crash before that record is logged loses nothing: the region still has its old state, and the command can be given
again. After it, the replay computes from the old state and the staged one what to hand over; a record after the last
handed-over batch says that this is complete.

Invariant: what is still to be handed over is on this disk until a batch with it is.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.entries.packed_block import BlockDamaged
from crdtstream.core.replica import Replica
from crdtstream.core.starting_over import LeftBehind, hand_over_groups, hand_over_layer, left_behind
from crdtstream.core.values.causality import VersionVector, origin_name
from crdtstream.protocols import codec
from crdtstream.protocols.codec import CodecError
from crdtstream.protocols.transfer_rows import TransferReader
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.links.session import Session
from crdtstream.replication.log.screening import screen_state
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.membership.membership import Membership
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.values.states import (
    BEGINS,
    ENDS,
    FETCHING,
    HANDED_OVER,
    HANDING_OVER,
    IDLE,
    LEAVES_GROUPS,
    LEVELLED,
    LEVELLING,
    START_OVER,
    after,
)
from crdtstream.status.events import Notice

BATCH_BYTES: Final = 1 << 18


class StartOver:
    """At most one start-over at a time. `step` is its state (states.py); `source` is the region whose state is taken,
    0 for none; `count` counts completed ones, and `last_source` and `last_ms` say which and when the last one of this
    process was.
    """

    __slots__ = (
        "_before",
        "_birth",
        "_exchange",
        "_left",
        "_linked_ms",
        "_membership",
        "_replica",
        "_settings",
        "_since_ms",
        "_standing",
        "_turn",
        "count",
        "last_ms",
        "last_source",
        "replaced",
        "source",
        "step",
    )

    def __init__(self, replica: Replica, turn: Turn, birth: Birth, exchange: Exchange, membership: Membership) -> None:
        self._replica = replica
        self._turn = turn
        self._birth = birth
        self._exchange = exchange
        self._membership = membership
        self._settings = exchange.view.settings
        self._standing = exchange.standing
        self.step = IDLE
        self.source = 0
        self.count = 0
        self.last_source = 0
        self.last_ms = 0
        # True after the state was replaced in this turn.
        self.replaced = False
        self._before = VersionVector()
        self._since_ms = 0
        self._linked_ms = 0
        self._left = LeftBehind()

    def _pass(self, event: str) -> None:
        """Every change of the step; no batches are applied or sent while the state is fetched."""
        self.step = after(START_OVER, self.step, event)
        self._exchange.view.frozen = self.step == FETCHING

    # Requests

    def begin(self, source: int, now_ms: int) -> str | None:
        """Start, and return None; or return the reason why not."""
        name = self._settings.config.name
        if source == self._settings.config.region:
            return f"region {name} ({source}) cannot start over from its own state: name another region"
        if self.source:
            return (
                f"region {name} is already starting over from region {self.source}: see INFO replication for progress"
            )
        if self._exchange.unlinked_ms(source) >= self._settings.limits.peer_timeout_ms:
            return (
                f"region {source} is not linked, so its state cannot be taken: CRDT.REGIONS shows why, and which"
                " regions are linked"
            )
        lacking = self._standing.lacking
        if lacking:
            return (
                f"region {name} has no room for the state of another one: make room first, on its disk or in its memory"
                f" (it lacks {lacking})"
            )
        self._pass(BEGINS)
        self.source = source
        self._before = self._replica.applied.vector.copy()
        self._since_ms = self._linked_ms = now_ms
        self._exchange.fetching.abandon("the region starts over")
        text = f"region {name} starts to replace its state with that of region {source}"
        self._exchange.news.append(Notice("start-over-begun", text))
        # From the next command on, not only from the next turn.
        self._standing.loading = self.waiting_for()
        return None

    def state(self) -> str:
        """The progress, for INFO; empty when nothing is left to do."""
        if self.source:
            doing = "fetching from" if self.step == FETCHING else "levelling with"
            return f"{doing} region {self.source}"
        return f"{len(self._left.groups)} groups to hand over" if self._left.groups else ""

    def waiting_for(self) -> str:
        """The error for clients during a start-over; empty when they are served."""
        if not self.source:
            return ""
        return f"this region is starting over from region {self.source}'s state: see INFO replication for progress"

    def is_pending(self) -> bool:
        """Return whether groups remain to be handed over. Only the log holds them: a checkpoint would lose them."""
        return bool(self._left.groups)

    # Steps

    def advance(self, now_ms: int) -> None:
        """Do whatever is due."""
        if self.step in (LEVELLING, FETCHING):
            self._leave_others()
            self._go_on(now_ms)
        elif self.step == HANDING_OVER and self._membership.admitted and self._standing.writable:
            self._membership.say_admitted()
            hand_over_groups(self._replica, self._left)
            self._turn.cut()
            self._turn.add(codec.HANDED_OVER, codec.encode_number(0))
            self._pass(HANDED_OVER)

    def _session_of(self, region: int) -> Session | None:
        sessions = self._exchange.sessions()
        return next((session for session in sessions if session.is_open and session.peer_region == region), None)

    def _leave_others(self) -> None:
        """Close all other links: effects that the source lacks would be lost again when its state replaces this one."""
        for session in self._exchange.sessions():
            if session.peer_region != self.source:
                session.close(f"region {self._settings.config.name} starts over from region {self.source}")

    def _go_on(self, now_ms: int) -> None:
        exchange = self._exchange
        self._since_ms, self._linked_ms = min(self._since_ms, now_ms), min(self._linked_ms, now_ms)
        timeout_ms = self._settings.limits.peer_timeout_ms
        session = self._session_of(self.source)
        if session is None:
            if now_ms - self._linked_ms >= timeout_ms:
                self._give_up(f"region {self.source} was not linked for {timeout_ms} ms")
            return
        self._linked_ms = now_ms
        complete = exchange.reports.complete_state()
        if complete is not None:
            self._replace(complete.transfer, complete.state, now_ms)
            return
        if self.step == LEVELLING and (now_ms - self._since_ms >= timeout_ms or self._is_level(session)):
            self._pass(LEVELLED)
        if self.step == FETCHING:
            session.handover.demand()

    def _is_level(self, session: Session) -> bool:
        settled = self._replica.is_settled()
        return settled and self._exchange.progress.holds_all(session.peer_origin, self._before)

    def _give_up(self, reason: str) -> None:
        self._exchange.fetching.abandon(reason)
        name = self._settings.config.name
        text = f"region {name} did not start over from region {self.source} and keeps its state"
        text += f": {reason}; repeat CRDT.STARTOVER once that is fixed"
        self._exchange.notices.append(Notice("start-over-failed", text))
        self._end("the start-over was abandoned")

    def _end(self, reason: str) -> None:
        """Finish, and close all links: peers were sent nothing for a while, or effects of the replaced state."""
        self.source = 0
        self._pass(LEAVES_GROUPS if self._left.groups else ENDS)
        self._exchange.reports.drop_state()
        self._exchange.end(reason)

    # Replacement

    def _replace(self, transfer: int, state: TransferReader, now_ms: int) -> None:
        try:
            # Screened against an empty replica: it replaces what is here, so a fork with it is no reason to reject it.
            screen_state(state, Replica(0))
            left = self._left_behind(state)
        except (BlockDamaged, CodecError) as error:
            self._give_up(str(error))
            return
        self._turn.cut()
        position = self._turn.add(codec.STARTED_OVER, codec.encode_number(transfer))
        self._replace_state(position, state, left, 0)
        for origin in state.founders:
            self._birth.found(origin, self._turn)
        gone = self._birth.origin
        self._birth.become_new(self._turn)
        self._membership.begin_again()
        entries = self._hand_over()
        self.replaced = True
        self.last_source, self.last_ms = self.source, now_ms
        self._report(gone, entries)
        self._end(f"origin {origin_name(gone)} has ended, its region started over as {origin_name(self._birth.origin)}")

    def _left_behind(self, state: TransferReader) -> LeftBehind:
        return left_behind(self._replica, state, [self._birth.origin, *self._birth.lineage])

    def _replace_state(self, position: int, state: TransferReader, left: LeftBehind, replayed: int) -> None:
        """Replace this region's state, which leaves this behind; `replayed` is that log position while the log is
        replayed, else 0.
        """
        left.groups = self._left.groups + left.groups
        self._left = left
        self._replica.replace(state, replayed)
        self._exchange.begin_again(position + 1)
        self.count += 1

    def _hand_over(self) -> int:
        """Add the entries under the new origin; where several share an ID, each gets an origin of its own."""
        count, size = self._left.entry_count(), 0
        while self._left.entries:
            for byte_count in hand_over_layer(self._replica, self._left):
                size += byte_count
                if size >= BATCH_BYTES:
                    self._turn.cut()
                    size = 0
            self._turn.cut()
            if self._left.entries:
                self._birth.become_new(self._turn)
        self._turn.add(codec.HANDED_OVER, codec.encode_number(len(self._left.groups)))
        return count

    def _report(self, gone: int, entries: int) -> None:
        groups = len(self._left.groups)
        text = (
            f"region {self._settings.config.name} has started over from the state of region {self.source}: origin"
            f" {origin_name(gone)} continues as {origin_name(self._birth.origin)}, {entries} entries were handed over,"
            f" {groups} groups follow once it is admitted"
        )
        self._exchange.news.append(Notice("start-over-done", text))

    # Replay

    def replay(self, position: int, payload: bytes) -> None:
        transfer = codec.decode_number(payload, "transfer")
        staging = self._exchange.fetching.staging
        if staging is None or staging.transfer != transfer or not staging.is_done():
            raise CodecError("a record replaces the state with one that was not staged")
        self._replace_state(position, staging.state, self._left_behind(staging.state), position)
        self._exchange.fetching.staging = None

    def replay_handed_over(self, payload: bytes) -> None:
        self._left.entries.clear()
        if not codec.decode_number(payload, "groups"):
            self._left.groups = []

    def resume(self) -> None:
        """Hand over, after a start, what the log does not record as handed over."""
        if self._left.groups:
            self._pass(LEAVES_GROUPS)
        if self._left.entries:
            self._hand_over()
