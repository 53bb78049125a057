"""The families of other regions: links, lag, the log that is kept for them, transfers, refusals.

A peer is labelled by its name, or by its configured address until a region has answered there. The text of a failure is
a label of one series for each peer, shown while the peer is not linked; numbers in it are left out, so that ports and
counters make no new series.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client.core import Metric

from crdtstream.connections.cluster import LINK_OPEN, LINK_TRANSFER, PeerStatus
from crdtstream.connections.context import Context
from crdtstream.runtime.links.grpc_transport import ACCEPTED, DIALLED, GrpcTransport
from crdtstream.runtime.metrics.ages import Ages
from crdtstream.runtime.metrics.families import FamilyRows, counters, gauge, gauges

PEER = ("peer",)
DIRECTIONS = ("receiving", "sending")
REASON_CHARACTERS_MAX = 120


def label_of(peer: PeerStatus) -> str:
    return peer.name or peer.address or f"region {peer.region}"


def is_linked(peer: PeerStatus) -> bool:
    return peer.link in (LINK_OPEN, LINK_TRANSFER)


def reason_label(reason: str) -> str:
    return re.sub(r"\d+", "#", reason)[:REASON_CHARACTERS_MAX]


def peer_families(context: Context, transport: GrpcTransport, ages: Ages) -> Iterator[Metric]:
    # One row for each label: of two origins of one region, the one that is linked comes last and stays.
    peers = {label_of(peer): peer for peer in sorted(context.cluster.neighbours.peers(), key=is_linked)}
    labelled = [((label,), peer) for label, peer in sorted(peers.items())]
    named = [(label, peer) for label, peer in labelled if peer.origin]
    configured = max(len(context.settings.config.peers), len(labelled))
    yield gauge("peers", "Regions that this one is, or should be, linked with.", configured)
    yield gauges(
        "peer_linked", "1 if the peer is linked.", PEER, [(label, is_linked(peer)) for label, peer in labelled]
    )
    yield from lag_families(context, ages, named)
    yield gauges("peer_held_back_bytes", "Log kept for the peer.", PEER, held(context, named))
    meaning = "Time since the peer said anything."
    linked = [(label, peer) for label, peer in labelled if is_linked(peer)]
    yield gauges("peer_silent_seconds", meaning, PEER, [(label, peer.silent_ms / 1000) for label, peer in linked])
    meaning = "Bytes of batches sent since the link opened."
    yield counters("peer_sent_bytes_total", meaning, PEER, [(label, peer.sent_bytes) for label, peer in linked])
    meaning = "How long the peer has had no room, so that batches for it wait; 0 while it has room."
    late = [(label, peer.lacking_ms / 1000) for label, peer in linked]
    yield gauges("peer_lacking_seconds", meaning, PEER, late)
    yield from unlinked_families(labelled)
    yield from transfer_families(labelled)
    yield from refusal_families(transport, context.settings.config.peers)


Labelled = list[tuple[tuple[str], PeerStatus]]


def held(context: Context, named: Labelled) -> FamilyRows:
    return [(label, context.cluster.held_back(context.replica.applied, peer.origin)) for label, peer in named]


def lag_families(context: Context, ages: Ages, named: Labelled) -> Iterator[Metric]:
    lags = [(label, context.cluster.lags_of(context.replica.applied.vector, peer)) for label, peer in named]
    meaning = "Effects, entries for the most part, held here that the peer has not applied."
    yield gauges("peer_lag_effects", meaning, PEER, [(label, applied) for label, (applied, _) in lags])
    meaning = "Effects held here that the peer does not have on disk."
    yield gauges("peer_durable_lag_effects", meaning, PEER, [(label, durable) for label, (_, durable) in lags])
    meaning = "Age of the oldest effect of this region that the peer has not applied."
    progress, applied = context.cluster.progress, context.replica.applied
    late = [
        (label, ages.age_ms(progress.applied_of(peer.origin).get(applied.origin), context.now_ms) / 1000)
        for label, peer in named
    ]
    yield gauges("peer_lag_seconds", meaning, PEER, late)


def unlinked_families(labelled: Labelled) -> Iterator[Metric]:
    meaning = "For how long the peer has not been linked; 0 while it is."
    since = [(label, max(0, peer.unlinked_ms) / 1000) for label, peer in labelled]
    yield gauges("peer_unlinked_seconds", meaning, PEER, since)
    meaning = "Why the peer is not linked: the last refusal, or the last error of a dial."
    unlinked = [(label, peer) for label, peer in labelled if peer.unlinked_ms >= 0]
    rows = [((*label, reason_label(peer.reason)), 1.0) for label, peer in unlinked]
    yield gauges("peer_unlinked_info", meaning, ("peer", "reason"), rows)


def transfer_families(labelled: Labelled) -> Iterator[Metric]:
    running = [((*label, direction), bytes_in(peer, direction)) for label, peer in labelled for direction in DIRECTIONS]
    labels = ("peer", "direction")
    rows = [(row, float(byte_count is not None)) for row, byte_count in running]
    yield gauges("peer_transfers", "1 while a whole state is transferred.", labels, rows)
    rows = [(row, float(byte_count or 0)) for row, byte_count in running]
    yield gauges("peer_transfer_bytes", "Bytes of the running state transfer.", labels, rows)


def bytes_in(peer: PeerStatus, direction: str) -> int | None:
    """The bytes of a running transfer in this direction; None if there is none."""
    transfer = peer.transfer
    return transfer.byte_count if transfer is not None and transfer.direction == direction else None


def refusal_families(transport: GrpcTransport, configured: tuple[str, ...]) -> Iterator[Metric]:
    """Those that never happened are shown too: an increase from nothing would not be seen."""
    meaning = "Links refused by either side; peer is the address that was dialled, empty for who dialled in."
    counted = {(ACCEPTED, ""): 0, **{(DIALLED, peer): 0 for peer in configured}, **transport.refusals}
    yield counters("refusals_total", meaning, ("side", "peer"), sorted(counted.items()))
    meaning = "Dials that reached nobody, by configured address."
    rows = [((peer,), float(transport.dial_failures[peer])) for peer in sorted(configured)]
    yield counters("dial_failures_total", meaning, PEER, rows)
