"""Membership of this region: admitting other origins, being admitted, and continuing after an eviction.

Every start of a process creates a new origin (birth.py), so all of this happens at every start.

**Admission.** An admitted origin may create groups, sponsor other origins and forget tombstones; core/members.py lists
the ways to be admitted. An origin records its admission (`MemberAdmitted`) when it first needs it. Until then the
admission lapses if its sponsor turns out to have ended before the Join. A new data directory serves no clients before
its admission, however often its process restarts; an origin of a directory that was in a cluster, or was written to,
serves everything except XGROUP CREATE. A region without peers that starts with an empty directory founds a cluster of
its own. A region admits itself if no other origin counts.

**Sponsor.** An admitted region writes a Join for each linked origin that has no sponsor, and evicts the earlier origins
of that region. It does so once it holds all effects of these that any region is known to hold, so none of their group
creates is lost. If only one region remembers a birth, that region ends it, once the founder is silent and its region
continues as another origin. After a restart of all regions no linked origin is admitted; then each origin of the
cluster writes a Join for itself, and is admitted once all origins that count have it on disk. If no other region
counts, a region waits for configured peers that it has never heard from, because they may know more.

**Short-lived processes.** An origin that returns with its directory and has made no effect is joined only after it has
been linked for two heartbeats, so a process that restarts repeatedly leaves nothing behind. If a client waits for the
admission meanwhile, the origin writes a Join for itself; that is an effect, which its peers notice.

**Signs of life.** An origin that gives signs of life is not replaced: the newer origin waits, and logs and INFO name
both. An origin of the same data directory has ended after two silent heartbeats, or if this process never heard from
it. Any other origin has ended after `peer_timeout_ms` of silence. With better knowledge an operator uses `--replace`. A
wrong guess costs little: the replaced origin learns of it and returns as another origin. Its effects count, except for
groups that its sponsor did not know of.

There is one exception. A region that is not admitted does not replace another directory of its own region whose
admission is void merely because that directory is silent. The other process may still run in a partition, where it
forgets tombstones that a region admitted meanwhile would not have covered. The region waits until that process is
linked or until another region has replaced it.

**Eviction.** A region learns of its own eviction from an effect, like any other, after the effects before it. It
continues as a new origin of the same directory. Its links are closed and dialled again. Its peers first receive the old
origin's remaining effects, because the new origin's effects depend on them; then one of the peers admits it.
"""

from __future__ import annotations

from crdtstream.core.members import FOUNDER
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import origin_name, region_of
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.links.session import Session
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.membership.admission_state import OwnState
from crdtstream.replication.membership.failure_detector import FailureDetector
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.values.remedy import REMEDY
from crdtstream.replication.values.states import ASKED
from crdtstream.status.events import Notice

HEARTBEATS_OF_PASSING = 2


class Membership:
    """Decides admissions and evictions from births, links and the table of members."""

    __slots__ = (
        "_addresses",
        "_applied",
        "_birth",
        "_detector",
        "_exchange",
        "_replica",
        "_settings",
        "_settled_at",
        "_standing",
        "_started_ms",
        "_turn",
        "leaves",
        "own",
    )

    def __init__(self, replica: Replica, turn: Turn, birth: Birth, exchange: Exchange) -> None:
        self._replica = replica
        self._applied = replica.applied
        self._turn = turn
        self._birth = birth
        self._exchange = exchange
        self._addresses: dict[str, int] = {}
        self._detector = FailureDetector(exchange)
        self._settings = exchange.view.settings
        self._standing = exchange.standing
        self.own = OwnState()
        # The end of the own membership is what this region wants: it continues as no other origin (leaving.py).
        self.leaves = False
        # What decides membership was so when nothing was due at any time; None while something is due.
        self._settled_at: tuple[int, int, int] | None = None
        self._started_ms = 0

    @property
    def admitted(self) -> bool:
        """True if this origin may do what only an admitted one may."""
        return self.own.is_admitted

    @property
    def is_outside(self) -> bool:
        return self.own.is_new and not self._birth.has_heard()

    def want(self) -> None:
        """Somebody needs the admission."""
        self.own.ask()

    # A life

    def start(self, seed: int, now_ms: int) -> None:
        """After recovery."""
        self._started_ms = now_ms
        holds_data = self._applied.vector.total() > 0 and not self._birth.has_heard()
        self.own.start(self._birth.was_in_cluster(), holds_data)
        self._birth.start(seed, self._turn)
        if self._is_alone():
            self._birth.found(self._birth.origin, self._turn)

    def _is_alone(self) -> bool:
        """A new region that has no peers, or none any more, and that nobody knows: it founds a cluster of its own."""
        config = self._settings.config
        if not self.own.is_new or config.peers or config.incarnation or self._birth.founders:
            return False
        return not self._applied.members.origins() and not self._exchange.sessions()

    def met(self, address: str, region: int) -> None:
        """Note the region that answers at a configured peer's address; those met otherwise do not count here."""
        peers = self._settings.config.peers
        self._addresses[address] = region
        self._addresses = {peer: known for peer, known in self._addresses.items() if peer in peers}
        self._settled_at = None

    def is_settled(self) -> bool:
        """Return whether nothing is due at any time: this origin and all linked ones are admitted and stay."""
        if self._settled_at is None or self.own.demand == ASKED:
            return False
        return self._settled_at == (self._applied.members.changes, self._exchange.reports.changes, self._birth.changes)

    def advance(self, now_ms: int) -> None:
        """Do what is due by now: another own origin, the own admission, Joins of other origins."""
        if not self._birth.origin:
            return
        self._exchange.listen(now_ms)
        # The clock may have been set back.
        self._started_ms = min(self._started_ms, now_ms)
        members = self._applied.members
        seen = (members.changes, self._exchange.reports.changes, self._birth.changes)
        for origin in members.evicted():
            self._exchange.progress.end(origin)
            self._detector.end(origin)
        if members.has_ended(self._birth.origin):
            if self.leaves:
                return
            self._come_back("was evicted")
        elif self._exchange.reports.is_shared():
            self._step_aside()
        # An admission that was not said yet lapses with its Join.
        if self.admitted and not self._was_admitted():
            self.own.lapse()
        self._found()
        self._seek_admission(now_ms)
        is_settled = self._sponsor(now_ms) and self.admitted and not self._exchange.reports.are_pending()
        self._settled_at = seen if is_settled else None

    def _come_back(self, why: str) -> None:
        gone = self._birth.origin
        self._birth.become_new(self._turn)
        self.begin_again()
        new = origin_name(self._birth.origin)
        self._exchange.end(f"origin {origin_name(gone)} {why}, its region continues as {new}")

    def begin_again(self) -> None:
        """Start membership over for a new own origin."""
        self.own.replace()
        self._settled_at = None
        self._exchange.reports.clear_shared()

    def _step_aside(self) -> None:
        """Continue as another origin, because another process makes effects under the own one."""
        gone, name = self._birth.origin, self._settings.config.name
        self._exchange.audit.record_shared_origin(gone)
        self._come_back("is at work in another process too")
        text = (
            f"region {name}: origin {origin_name(gone)} is at work in another process too, as after memory of a process"
            " was cloned, so that their effects share dots; this process continues as origin"
            f" {origin_name(self._birth.origin)}. {REMEDY}"
        )
        self._exchange.notices.append(Notice("origin-shared", text))

    # Founders

    def _found(self) -> None:
        """With a new directory, publish the founding row once all peers have greeted, and found the cluster once all
        rows name each other.
        """
        birth, config = self._birth, self._settings.config
        if self._is_alone():
            birth.found(birth.origin, self._turn)
        may_found = self.own.is_new and config.peers and not birth.founders
        if not may_found or not self._has_met_peers() or not self._has_caught_up():
            return
        if self._applied.members.origins():
            # Somebody knows a cluster. A row without neighbours founds nothing, but tells that this region is in none:
            # that is what an admission by all waits for.
            birth.founding.record(birth.origin, birth.count, ())
            return
        birth.founding.record(birth.origin, birth.count, {self._addresses[peer] for peer in config.peers})
        if birth.founding.missing(config.region) or self._outdated():
            return
        for origin in birth.founding.origins():
            birth.found(origin, self._turn)

    def _outdated(self) -> set[int]:
        """The regions that are linked under another origin than their founding row names. They restarted after they
        sent that row, so they may belong to a cluster by now; if they are still new, another row follows.
        """
        linked = {session.peer_origin for session in self._exchange.sessions() if session.is_open}
        rows = self._birth.founding.origins()
        return {region_of(origin) for origin in rows if origin not in linked} & {*map(region_of, linked)}

    def _absent(self) -> list[str]:
        """The configured peers whose region is not linked."""
        greeted = self._exchange.greeted()
        return [peer for peer in self._settings.config.peers if self._addresses.get(peer) not in greeted]

    def _has_met_peers(self) -> bool:
        """Return whether all peers have greeted. A link without a Hello may be a second process of a region."""
        return not self._absent() and not self._exchange.is_greeting()

    def _has_caught_up(self) -> bool:
        """What the linked peers held when they greeted is here: only that shows whether they belong to a cluster."""
        return all(self._applied.vector.descends(one.vector_then) for one in self._exchange.sessions() if one.is_open)

    def _founds_falsely(self, session: Session) -> bool:
        """Return whether the peer founded a cluster of its own although its region already belongs to this one."""
        origin = session.peer_origin
        if origin not in session.founders or origin in self._birth.founders or not self.admitted:
            return False
        known = {*self._applied.members.origins(), *self._birth.founders}
        return any(region_of(origin) == region_of(other) != 0 for other in known if other != origin)

    def _known(self) -> list[int]:
        """Return every origin that appears in members, founders or the vector, ascending."""
        return sorted({*self._applied.members.origins(), *self._birth.founders, *self._applied.vector.as_dict()})

    # Admitted

    def _seek_admission(self, now_ms: int) -> None:
        if self.admitted or not self._standing.may_change_members():
            return
        if self._was_admitted():
            self.own.admit()
        elif self._knows_cluster() and not self._may_be_sponsored():
            self._seek_admission_by_all(now_ms)
        elif self.own.was_asked and not self.own.is_new and not self._applied.counter():
            # A sign for its sponsor. A new directory needs none, and its Join would keep all new ones from founding.
            self._replica.join_member(self._birth.origin)

    def _was_admitted(self) -> bool:
        members, own = self._applied.members, self._birth.origin
        return own in self._birth.founders or members.is_admitted(own) or members.sponsor_of(own) is not None

    def _knows_cluster(self) -> bool:
        return bool(self._applied.members.joined() or self._birth.founders)

    def _may_be_sponsored(self) -> bool:
        """Return whether a linked origin is admitted, and can therefore sponsor this one."""
        members, founders = self._applied.members, self._birth.founders
        linked = self._exchange.direct_origins()
        return any(origin in founders or members.is_admitted(origin) or members.sponsor_of(origin) for origin in linked)

    def _seek_admission_by_all(self, now_ms: int) -> None:
        """Write a Join for the own origin, and be admitted once all origins that count, or those that replaced them,
        have it on disk. It is written only once the origin has made an effect or met a peer, so that a process that
        restarts repeatedly leaves nothing behind.
        """
        if not self._knows_peers():
            return
        own = self._birth.origin
        counted = self._applied.members.counted(own, self._birth.founders_left())
        replaced = self._replaced(counted, now_ms)
        others = [origin for origin in counted if region_of(origin) == region_of(own) and origin not in replaced]
        if self._first_of(others, own):
            return
        if not self._applied.members.joins_of(own):
            if self.own.demand == ASKED or self._applied.counter() or self._exchange.greeted():
                self._replica.join_member(own)
        elif all(self._holds_join(replaced.get(origin, origin)) for origin in counted) and self._evictors_hold_join():
            self._replica.say_admitted(self._applied.members.joins_of(own)[0], True)
            self.own.admit()
            for origin, successor in replaced.items():
                self._replica.evict_member(origin, successor)

    def _knows_peers(self) -> bool:
        """All configured peers have greeted, and those of which nothing is known here have met their own and belong to
        no cluster; a directory that has been at work waits only where it knows of fewer regions than are configured.
        Before that nobody else may count here, while somebody knows that this directory is the copy of one that is at
        work, or older than another one of its region.
        """
        config = self._settings.config
        known = {config.region, *map(region_of, self._known())}
        if len(known) > len(config.peers) and not self.own.is_new:
            return True
        new = {*map(region_of, self._birth.founding.origins())} - self._outdated()
        return self._has_met_peers() and {*self._exchange.greeted()} <= known | new

    def _replaced(self, origins: list[int], now_ms: int) -> dict[int, int]:
        """Origins that no longer run while their region does, each with the origin under which it runs."""
        replaced: dict[int, int] = {}
        for origin in origins:
            successor = self._successor_of(origin, now_ms)
            if successor and self._holds_all_of(origin, now_ms):
                replaced[origin] = successor
        return replaced

    def _successor_of(self, origin: int, now_ms: int) -> int:
        """Return the origin that replaces this one: the own origin, a peer, or an origin whose signs of life were
        relayed; 0 for none, as for another directory of this region that may still run in a partition.
        """
        if origin in self._birth.lineage:
            return 0 if self._detector.is_alive(origin, now_ms, True, self._started_ms) else self._birth.origin
        for session in self._exchange.sessions():
            same = session.peer_region == region_of(origin) and session.peer_origin != origin
            if same and session.is_open and not self._blocks(origin, session, now_ms):
                return session.peer_origin
        own, region = self._birth.origin, region_of(origin)
        if region == region_of(own) and self._settings.config.replace:
            return own
        if self._detector.is_alive(origin, now_ms, False, self._started_ms):
            return 0
        if region != region_of(own):
            return self._exchange.progress.heard_since(region, self._started_ms, origin)
        return own if self.admitted or not self._applied.members.has_ended(origin) else 0

    def _evictors_hold_join(self) -> bool:
        """An evictor of an origin of this directory has forgotten things without it, and counts it again only when it
        has the Join; so the admission waits for its region, even if that was evicted itself and does not know it yet.
        If that region is gone for good, an operator evicts it once more here, when this region knows all that.
        """
        members, progress = self._applied.members, self._exchange.progress
        mine = [*self._birth.lineage, self._birth.origin]
        evictors = {region_of(at) for one in mine for at in members.evictors_of(one) if not self._given_up(at, mine)}
        holders = {region_of(origin) for origin, *_ in progress.rows() if self._holds_join(origin)}
        return evictors <= {*holders, region_of(self._birth.origin)}

    def _given_up(self, origin: int, mine: list[int]) -> bool:
        """An own origin that nobody evicted has evicted that one."""
        members = self._applied.members
        return any(by in mine and not members.evictors_of(by) for by in members.evictors_of(origin))

    def _holds_join(self, origin: int) -> bool:
        """That origin, this one or another, has a Join of this one on disk."""
        if origin == self._birth.origin:
            return True
        durable = self._exchange.progress.durable_of(origin)
        joins = self._applied.members.joins_of(self._birth.origin)
        return any(durable.contains(sponsor, counter) for sponsor, counter in joins)

    def say_admitted(self) -> None:
        """Before the first thing that only an admitted origin may do."""
        members, own = self._applied.members, self._birth.origin
        if self.admitted and not members.is_admitted(own):
            self._replica.say_admitted(members.sponsor_of(own) or FOUNDER, False)

    # Sponsor

    def _sponsor(self, now_ms: int) -> bool:
        """Join each origin that is linked and has no sponsor, and end those in whose place it came; false where
        somebody has to wait.
        """
        self._exchange.view.deferrals.clear()
        if not self.admitted or not self._standing.may_change_members():
            return not self._exchange.sessions()
        settled = self._end_predecessors(now_ms)
        if self._standing.departing:
            # What it sponsors now might be lost with it, and the newcomer would have to be sponsored again.
            return False
        for session in self._exchange.sessions():
            if session.is_open and not self._applied.members.has_ended(session.peer_origin):
                settled = self._look_at(session, now_ms) and settled
        return settled

    def _end_predecessors(self, now_ms: int) -> bool:
        """Those of the own origin, and founders whose region is not linked; false where one of them still counts."""
        others = [*self._others_of(self._birth.origin), *self._founders_far_away()]
        for other, successor in self._replaced(others, now_ms).items():
            self.say_admitted()
            self._replica.evict_member(other, successor)
        return not others

    def _founders_far_away(self) -> list[int]:
        """Founders whose region is not linked and has another origin that counts: a sponsor evicts only founders that
        it knows, and the power may have taken a birth from all regions but this one.
        """
        linked = [*self._exchange.greeted(), self._settings.config.region]
        founders = [origin for origin in self._birth.founders_left() if region_of(origin) not in linked]
        return [origin for origin in founders if self._others_of(origin)]

    def _look_at(self, session: Session, now_ms: int) -> bool:
        origin = session.peer_origin
        others, lacks_sponsor = self._others_of(origin), self._lacks_sponsor(origin)
        if not others and not lacks_sponsor:
            return True
        if self._founds_falsely(session):
            self.say_admitted()
            self._replica.evict_member(origin)
            return False
        alive = [other for other in others if self._blocks(other, session, now_ms)]
        if alive and (not lacks_sponsor or self._defers(alive, origin)):
            return False
        if self._is_passing(session, now_ms):
            return False
        if not all(self._holds_all_of(other, now_ms) for other in [*others, *session.predecessors]):
            return False
        self.say_admitted()
        if lacks_sponsor:
            self._replica.join_member(origin)
        for other in [other for other in others if other not in alive]:
            self._replica.evict_member(other, origin)
        return not alive

    def _is_passing(self, session: Session, now_ms: int) -> bool:
        """It was linked a moment ago, comes back with its directory, and has done nothing yet."""
        if not session.predecessors or session.replaces or self._applied.vector.get(session.peer_origin):
            return False
        passing_ms = HEARTBEATS_OF_PASSING * self._settings.limits.heartbeat_ms
        return 0 <= now_ms - session.opened_ms < passing_ms

    def _defers(self, alive: list[int], origin: int) -> bool:
        """An origin waits for another one of its region."""
        before = self._first_of(alive, origin)
        if before:
            self._exchange.view.deferrals[origin] = before
        return before != 0

    def _first_of(self, alive: list[int], origin: int) -> int:
        """Which of these goes before that one: one that was admitted, or a lower one where none was; 0 for none."""
        members, founders = self._applied.members, self._birth.founders
        admitted = [one for one in alive if members.sponsor_of(one) or members.is_admitted(one) or one in founders]
        return max(admitted or [one for one in alive if one < origin], default=0)

    def _lacks_sponsor(self, origin: int) -> bool:
        members = self._applied.members
        return members.sponsor_of(origin) is None and not members.has_sponsored(self._birth.origin, origin)

    def _others_of(self, origin: int) -> list[int]:
        """The origins of the same region that count."""
        return [other for other in self._counted() if region_of(other) == region_of(origin) and other != origin]

    def _counted(self) -> list[int]:
        """All that count, this origin too."""
        own = self._birth.origin
        return [*self._applied.members.counted(own, self._birth.founders_left()), own]

    def _blocks(self, other: int, session: Session, now_ms: int) -> bool:
        """The other origin of the peer's region may be at work."""
        if session.replaces:
            return False
        is_before = other in session.predecessors
        return other == self._birth.origin or self._detector.is_alive(other, now_ms, is_before, session.opened_ms)

    def _holds_all_of(self, origin: int, now_ms: int) -> bool:
        """True if this region has all that any running region is known to have of that origin."""
        since_ms = max(1, now_ms - self._settings.limits.peer_timeout_ms)
        known = [session.vector_then.get(origin) for session in self._exchange.sessions() if session.is_open]
        known.append(self._exchange.progress.highest_of(origin, since_ms))
        return self._applied.vector.contains(origin, max(known))

    # For clients

    def serving(self) -> bool:
        return self.waiting_for() == ""

    def waiting_for(self) -> str:
        """What clients are told while this region cannot serve; empty when it can."""
        if not self._birth.origin:
            return "the log is being read"
        if self.own.serves:
            return ""
        if self._settings.config.incarnation is not None:
            return ""
        if self._exchange.reports.deferrals():
            return self._waiting_for_another()
        absent = ", ".join(self._absent())
        if absent:
            return f"a new data directory waits to hear from its peers {absent}; --incarnation 0 does not wait for them"
        wait = "waiting until another region admits this origin; --incarnation 0 does not wait for that"
        missing = self._birth.founding.missing(self._settings.config.region)
        if not missing or self._birth.founders or self._applied.members.origins():
            return wait
        names = ", ".join(map(str, missing))
        return f"{wait}; a new cluster begins when all its regions have met, and regions {names} are still missing"

    def _waiting_for_another(self) -> str:
        """The number is in use."""
        name, other = self._exchange.reports.deferrals()[0]
        config = self._settings.config
        return (
            f"region number {config.region} is in use: region {name} hears from origin {origin_name(other)}; give this"
            f" node, {origin_name(self._birth.origin)}, another --region, or stop the other process; --replace takes"
            " its place at once"
        )
