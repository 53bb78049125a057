"""The peers as INFO and CRDT.REGIONS show them: linked regions, known regions, addresses that never answered."""

from __future__ import annotations

from crdtstream.connections.cluster import LINK_OPEN, LINK_TRANSFER, PeerStatus, TransferShown
from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.replication.exchange.dropped_progress import unheard_count
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.links.session import Session
from crdtstream.replication.links.view import View
from crdtstream.replication.membership.contacts import LINKED, Contact, Contacts
from crdtstream.replication.membership.lookout import Lookout
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.origins.facts import REPLICATION, address_at

NOT_LINKED = "none"
LINK_REFUSED = "refused"
UNKNOWN_COUNT = -1
EVICTED = "its region was evicted, so remove this address from the peers"


class Neighbours:
    """What commands are told of other regions, each time from the exchange, the births and the contacts."""

    __slots__ = ("_birth", "_exchange", "_lookout", "contacts")

    def __init__(self, exchange: Exchange, birth: Birth, contacts: Contacts) -> None:
        self._exchange = exchange
        self._birth = birth
        self.contacts = contacts
        self._lookout = Lookout(exchange, birth)

    def tick(self, now_ms: int) -> None:
        self.observe(now_ms)
        self._lookout.tick(now_ms)

    def to_dial(self) -> list[str]:
        """The addresses of the configured peers, and with `discover_peers` those that other regions announce."""
        view = self._exchange.view
        announced: dict[str, int] = {}
        if view.settings.config.discover_peers:
            members = view.replica.applied.members
            origins = [*self._birth.counts, *members.origins(), *self._birth.founders]
            present = {region_of(origin) for origin in origins if not members.is_evicted(origin)}
            for region, _, addresses in self._birth.addresses.rows():
                address = address_at(addresses, REPLICATION)
                if address and region in present:
                    announced[address] = region
        self.contacts.discover(announced, self._exchange.greeted(), view.replica.keyspace.now_ms)
        return self.contacts.dialled()

    def addresses_of(self, region: int) -> tuple[tuple[str, str], ...]:
        return self._birth.addresses_of(region)

    def observe(self, now_ms: int) -> None:
        """Note since when regions are linked, or not."""
        self.contacts.observe(self._exchange.greeted(), now_ms)

    def follow(self, peers: tuple[str, ...]) -> None:
        """These are the configured peers from now on: links with the regions of removed ones are closed, whichever side
        dialled, and the peer is told why.
        """
        view = self._exchange.view
        removed = self.contacts.configure(peers, view.replica.keyspace.now_ms)
        for session in self._exchange.sessions() if removed else []:
            if session.peer_region in removed:
                name = view.settings.config.name
                session.refuse(f"region {name} no longer has region {session.peer_region} as a peer")

    def peers(self) -> list[PeerStatus]:
        now_ms = self._exchange.view.replica.keyspace.now_ms
        self.observe(now_ms)
        return shown_peers(self._exchange, self.contacts, now_ms)

    def linked(self) -> list[int]:
        return self._exchange.direct_origins()

    def counted(self) -> list[int]:
        return self._exchange.counted()

    def near(self) -> VersionVector:
        """What this region and all that are linked, or were within `log_yield_ms`, have on their disks. What the others
        lack, earlier origins of linked regions too, they get from a linked region or as a state.
        """
        exchange = self._exchange
        near = exchange.view.durable_vector.copy()
        origins = [session.peer_origin for session in exchange.sessions() if session.is_open]
        origins += [origin for origin in exchange.unlinked() if not self._is_long_away(region_of(origin))]
        for origin in origins:
            near = near.meet(exchange.progress.told_of(origin))
        return near

    def _is_long_away(self, region: int) -> bool:
        view, contact = self._exchange.view, self.contacts.of(region)
        since_ms = self.contacts.began_ms if contact is None else contact.since_ms
        limit_ms = view.settings.limits.log_yield_ms
        return 0 < limit_ms <= view.replica.keyspace.now_ms - since_ms

    def durable(self) -> VersionVector:
        return self._exchange.view.durable_vector

    def waits(self) -> tuple[str, int, int, int]:
        lack, now_ms = self._exchange.arrivals.holding.lack, self._exchange.view.replica.keyspace.now_ms
        return (lack.lacking, lack.waited_ms(now_ms), *self._exchange.waiting())

    def unheard(self) -> int:
        return unheard_count(self._exchange.sessions())

    def name_of(self, region: int) -> str:
        return self._birth.name_of(region)

    def format_of(self, region: int) -> int:
        return self._birth.format_of(region)

    def cannot_read(self, format_version: int) -> list[int]:
        return self._birth.cannot_read(format_version, self.linked())

    def count_of(self, origin: int) -> int:
        return self._birth.counts.get(origin, UNKNOWN_COUNT)

    def held_back(self, origin: int) -> int:
        """The bytes of the log that are kept for this origin: from what it does not have on disk on."""
        history, durable = self._exchange.history, self._exchange.progress.told_of(origin)
        if history.log is None or durable.descends(self._exchange.view.durable_vector):
            return 0
        return history.log.bytes_from(history.position_for(durable) or history.first_position())


def shown_peers(exchange: Exchange, contacts: Contacts, now_ms: int) -> list[PeerStatus]:
    """All peers by region number; addresses that never answered come last."""
    shown = [linked_peer(session, exchange.view, now_ms) for session in exchange.sessions()]
    shown += [unlinked_peer(origin, exchange, contacts, now_ms) for origin in exchange.unlinked()]
    shown.sort(key=lambda peer: peer.region)
    for peer in shown:
        excuse(peer, contacts.of(peer.region), now_ms)
    for contact in contacts.unmet([peer.region for peer in shown]):
        shown.append(PeerStatus(contact.region, exchange.name_of(contact.region), contact.reached, NOT_LINKED, 0))
        excuse(shown[-1], contact, now_ms)
        shown[-1].silent_ms = max(0, shown[-1].unlinked_ms)
        record_eviction(shown[-1], exchange)
    return shown


def unlinked_peer(origin: int, exchange: Exchange, contacts: Contacts, now_ms: int) -> PeerStatus:
    """A member without a link: it is silent since its last sign of life, over whatever regions that came."""
    region = region_of(origin)
    sign_ms = exchange.progress.sign_ms(origin) or contacts.began_ms
    return PeerStatus(region, exchange.name_of(region), "", NOT_LINKED, max(0, now_ms - sign_ms), origin)


def record_eviction(peer: PeerStatus, exchange: Exchange) -> None:
    """The address of a region that was evicted stays among the peers until it is removed: nothing is owed to it."""
    evicted = {region_of(origin) for origin in exchange.view.replica.applied.members.evicted()}
    if peer.region in evicted:
        peer.evicted = True
        peer.reason = f"{EVICTED}: {peer.reason}"


def excuse(peer: PeerStatus, contact: Contact | None, now_ms: int) -> None:
    """Set the address of a peer, and if it is not linked, since when and why."""
    if contact is None:
        return
    peer.address = contact.reached
    if contact.since_ms != LINKED:
        peer.unlinked_ms = max(0, now_ms - contact.since_ms)
        peer.reason = contact.reason


def linked_peer(session: Session, view: View, now_ms: int) -> PeerStatus:
    shown = session.handover.shown(view)
    link = (LINK_OPEN if session.is_open else LINK_REFUSED) if shown is None else LINK_TRANSFER
    peer = PeerStatus(session.peer_region, session.peer_name, "", link, session.silent_ms(now_ms), session.peer_origin)
    peer.sent_bytes = session.sent_bytes
    if session.is_open:
        peer.lacking, peer.lacking_ms = session.peer_lack.lacking, session.peer_lack.waited_ms(now_ms)
    if shown is not None:
        peer.transfer = TransferShown(*shown)
    return peer
