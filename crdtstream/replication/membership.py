"""This region among the others: whom it admits, whether others have admitted it, and its life after an eviction.

**Sponsor.** A region prepares `MemberJoined` for each peer that it is linked to and that has not joined, as soon as it
may: once its own birth is stored by those that must store it, and it was admitted itself, or founds the cluster (as far
as it knows nobody has done anything, and it knows all who may, founding.py), or goes on after an unclean stop, with all
that its older origin had on disk and counted for. Regions that are new at once found the cluster together; whoever
comes later is admitted, also behind another one that is new.

**Admitted.** An origin is a member once it has applied a Join of itself, and says which one it follows. A new data
directory serves no client before that. An origin that comes after an older one of the same directory, after an unclean
stop or an eviction, serves at once all but XGROUP CREATE, whose effect alone must follow what others have forgotten
(core/members.py). Where no other region is a member, and it was not evicted, there is nothing to wait for.

**Evicted.** A region hears of its own eviction as of any other effect, with what it lacks. It goes on as a new origin
of the same directory: its links are closed and dialled anew, its peers take the old origin's tail first, because the
new one's effects follow it, and one of them admits it.
"""

from __future__ import annotations

from crdtstream.core.causality import incarnation_of, region_of
from crdtstream.core.replica import Replica
from crdtstream.replication.birth import Birth
from crdtstream.replication.exchange import Exchange
from crdtstream.replication.turn import Turn
from crdtstream.replication.wire_pb2 import Message


class Membership:
    """What follows from births, links and the table of members."""

    __slots__ = ("_birth", "_changes", "_effects_met", "_exchange", "_replica", "_turn")

    def __init__(self, replica: Replica, turn: Turn, birth: Birth, exchange: Exchange) -> None:
        self._replica = replica
        self._turn = turn
        self._birth = birth
        self._exchange = exchange
        self._effects_met = False
        self._changes = 0

    def served(self) -> bool:
        """An origin of this directory has been at work before: its region need not ask whether it may."""
        vector, members = self._replica.vector, self._replica.members
        return any(vector.get(slot) or members.is_joined(slot) for slot in self._birth.own_slots())

    def hear(self, message: Message) -> None:
        """Whether anybody has done anything."""
        if message.HasField("hello"):
            self._effects_met = self._effects_met or any(row.counter for row in message.hello.origins)

    def advance(self) -> None:
        """Whatever is due by now: the own birth, another one, Joins of others."""
        untouched = not self._effects_met and self._replica.vector.total() == 0
        self._birth.advance(self._exchange.greeted(), self._turn, untouched)
        members = self._replica.members
        if members.is_evicted(self._birth.slot()):
            self._come_back()
        self._replica.slot = self._birth.slot()
        self._turn.nonce = self._birth.nonce()
        sponsor = members.sponsor_of(self._birth.slot())
        self._birth.joined = sponsor is not None
        if members.changes != self._changes:
            self._changes = members.changes
            self._exchange.end("a newer origin of the peer's region has joined", self._followed())
        if self._exchange.greeted() and self._exchange.writable and self._birth.may_sponsor():
            if sponsor is not None and self._owes_follow():
                self._replica.follow_sponsor(sponsor)
            self._sponsor()

    def _owes_follow(self) -> bool:
        """This origin has not said whom it follows. A founder, at work before it was admitted, follows nobody."""
        if self._replica.members.follows(self._birth.slot()):
            return False
        return self._replica.counter() == 0 or bool(self._older())

    def _come_back(self) -> None:
        gone = self._birth.slot()
        self._birth.bear_anew(self._turn)
        self._exchange.end(
            f"origin {region_of(gone)}.{incarnation_of(gone)} was evicted, its region goes on as"
            f" {region_of(gone)}.{incarnation_of(self._birth.slot())}"
        )

    def _followed(self) -> list[int]:
        members = self._replica.members
        return [slot for slot in self._exchange.direct_slots() if members.is_followed(slot)]

    def _sponsor(self) -> None:
        members, own = self._replica.members, self._birth.slot()
        if self.applies() and self._was_evicted():
            return
        for slot in self._exchange.direct_slots():
            known = members.sponsor_of(slot) is not None or members.has_sponsored(own, slot)
            if not (known or members.is_evicted(slot) or members.is_followed(slot)):
                self._replica.join_member(slot)

    def applies(self) -> bool:
        """This origin comes after another one of its region that was a member, and has not been admitted yet, or has
        not said by whom.
        """
        members, own = self._replica.members, self._birth.slot()
        if members.sponsor_of(own) is not None:
            return self._owes_follow()
        config = self._exchange.config
        replaces_disk = bool(config.incarnation and config.peers) and incarnation_of(own) == config.incarnation
        others = any(region_of(slot) != region_of(own) for slot in members.joined())
        return replaces_disk or self._was_evicted() or (others and bool(self._older()))

    def _was_evicted(self) -> bool:
        """Whoever evicted this region may have forgotten what it must follow, even if that one is gone by now."""
        return any(self._replica.members.is_evicted(slot) for slot in self._older())

    def _older(self) -> list[int]:
        """This region's origins that were members before this one, or founders whose admission is not known here."""
        own = self._birth.slot()
        known = {*self._replica.members.slots(), *(slot for slot, _ in self._replica.vector.items())}
        return [slot for slot in sorted(known) if region_of(slot) == region_of(own) and slot < own]

    # For operators

    def held_back(self, slot: int) -> int:
        """The bytes of the log that are kept for this origin: from what it does not have on disk on."""
        history = self._exchange.history
        durable = self._exchange.progress.durable_of(slot)
        if history.log is None or durable.descends(self._exchange.durable_vector):
            return 0
        return history.log.bytes_from(history.position_for(durable) or history.first_position())
