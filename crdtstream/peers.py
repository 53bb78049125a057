"""The peers as INFO and CRDT.REGIONS show them: linked regions, known regions, addresses that never answered."""

from __future__ import annotations

from crdtstream.clients.context import Peer, TransferShown
from crdtstream.commands.regions import LINK_TRANSFER
from crdtstream.core.causality import region_of
from crdtstream.replication.exchange import Exchange
from crdtstream.replication.membership.contacts import LINKED, Contact, Contacts
from crdtstream.replication.session import Session
from crdtstream.replication.view import View

NOT_LINKED = "none"


def shown_peers(exchange: Exchange, contacts: Contacts, now_ms: int) -> list[Peer]:
    """All peers by region number; addresses that never answered come last."""
    shown = [linked_peer(session, exchange.view, now_ms) for session in exchange.sessions()]
    unlinked = [(region_of(slot), slot) for slot in exchange.unlinked()]
    shown += [Peer(region, exchange.name_of(region), "", NOT_LINKED, 0, slot) for region, slot in unlinked]
    shown.sort(key=lambda peer: peer.region)
    for peer in shown:
        excuse(peer, contacts.of(peer.region), now_ms)
    for contact in contacts.unmet([peer.region for peer in shown]):
        shown.append(Peer(contact.region, "", contact.address, NOT_LINKED, 0))
        excuse(shown[-1], contact, now_ms)
    return shown


def excuse(peer: Peer, contact: Contact | None, now_ms: int) -> None:
    """Set the address of a peer, and if it is not linked, since when and why."""
    if contact is None:
        return
    peer.address = contact.address
    if contact.since_ms != LINKED:
        peer.unlinked_ms = max(0, now_ms - contact.since_ms)
        peer.reason = contact.reason


def linked_peer(session: Session, view: View, now_ms: int) -> Peer:
    shown = session.handover.shown(view)
    link = session.state if shown is None else LINK_TRANSFER
    peer = Peer(session.peer_region, session.peer_name, "", link, session.silent_ms(now_ms), session.peer_origin)
    peer.sent_bytes = session.sent_bytes
    if shown is not None:
        peer.transfer = TransferShown(*shown)
    return peer
