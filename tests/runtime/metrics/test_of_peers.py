"""Peers by name, and their lag; reasons make few series."""

from __future__ import annotations

from collections import Counter

from crdtstream.connections.cluster import PeerStatus, TransferShown
from crdtstream.runtime.links.grpc_transport import GrpcTransport
from crdtstream.runtime.metrics.ages import Ages
from crdtstream.runtime.metrics.of_peers import REASON_CHARACTERS_MAX, peer_families, reason_label
from tests.commands.harness import Region
from tests.runtime.metrics.scraped import Scraped, scraped


class FakeTransport:
    def __init__(self) -> None:
        self.refusals = Counter({("dialled", "10.0.0.3:1"): 4, ("accepted", ""): 2})
        self.dial_failures = Counter({"10.0.0.3:1": 9})


def found_in(region: Region, peers: list[PeerStatus], ages: Ages | None = None) -> Scraped:
    region.configure(peers=("10.0.0.3:1", "10.0.0.4:1"))
    region.neighbours.peers = lambda: peers  # type: ignore[method-assign]
    transport: GrpcTransport = FakeTransport()  # type: ignore[assignment]
    return scraped(peer_families(region.context, transport, ages or Ages()))


def test_a_linked_peer_and_one_that_never_answered() -> None:
    region = Region()
    region.line("XADD s 1-1 f v")
    west = PeerStatus(2, "west", "10.0.0.2:1", "transfer", 40, 2)
    west.sent_bytes, west.transfer = 7, TransferShown("sending", 3, 99)
    north = PeerStatus(0, "", "10.0.0.3:1", "none", 0)
    north.unlinked_ms, north.reason = 5_500, "no route to 10.0.0.3:16379"
    ages = Ages()
    ages.record(1, 1, region.context.now_ms - 2_500)
    found = found_in(region, [west, north], ages)
    assert found.value("peers") == 2
    assert (found.value("peer_linked", peer="west"), found.value("peer_linked", peer="10.0.0.3:1")) == (1, 0)
    assert (found.value("peer_lag_effects", peer="west"), found.value("peer_lag_seconds", peer="west")) == (1, 2.5)
    assert found.value("peer_silent_seconds", peer="west") == 0.04
    assert found.value("peer_sent_bytes_total", peer="west") == 7
    assert found.value("peer_transfer_bytes", peer="west", direction="sending") == 99
    assert found.value("peer_unlinked_seconds", peer="10.0.0.3:1") == 5.5
    assert found.labels("peer_unlinked_info") == [{"peer": "10.0.0.3:1", "reason": "no route to #.#.#.#:#"}]
    assert found.value("refusals_total", side="dialled", peer="10.0.0.3:1") == 4
    assert found.value("refusals_total", side="accepted", peer="") == 2
    assert found.value("dial_failures_total", peer="10.0.0.3:1") == 9
    assert found.value("dial_failures_total", peer="10.0.0.4:1") == 0
    assert found.value("refusals_total", side="dialled", peer="10.0.0.4:1") == 0
    assert found.value("peer_unlinked_seconds", peer="west") == 0
    assert found.value("peer_transfers", peer="west", direction="receiving") == 0


def test_two_origins_of_one_region_make_one_series() -> None:
    gone, back = PeerStatus(2, "west", "", "none", 0, 2), PeerStatus(2, "west", "", "open", 0, 258)
    found = found_in(Region(), [back, gone])
    assert found.value("peer_linked", peer="west") == 1


def test_reasons_are_short() -> None:
    assert reason_label("port 4711 of host-17") == "port # of host-#"
    assert len(reason_label("x" * 1_000)) == REASON_CHARACTERS_MAX
