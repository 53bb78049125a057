"""FailureDetector: silence counts from when this region first asked, or from the last sign of life."""

from __future__ import annotations

from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.membership.failure_detector import HEARTBEATS_OF_SILENCE, FailureDetector
from simulations.cluster import Cluster
from tests.replication.membership.living_clusters import HEARTBEAT_MS, TIMEOUT_MS, live, origin

UNHEARD = 2 + 256
LONG_AGO_MS = 1
NOW_MS = 10 * TIMEOUT_MS


def failure_detector() -> FailureDetector:
    return FailureDetector(Cluster(2, STRICT).node(1).exchange)


def test_an_origin_that_is_heard_of_late_may_still_give_its_first_sign() -> None:
    """As where a partition ends: its effects come over one link, while the one to its dead predecessor seems open."""
    origins = failure_detector()
    assert origins.is_alive(UNHEARD, NOW_MS, False, LONG_AGO_MS)
    assert origins.is_alive(UNHEARD, NOW_MS + TIMEOUT_MS - 1, False, LONG_AGO_MS)
    assert not origins.is_alive(UNHEARD, NOW_MS + TIMEOUT_MS, False, LONG_AGO_MS)


def test_one_whose_membership_has_ended_is_asked_about_for_the_first_time_again() -> None:
    origins = failure_detector()
    origins.is_alive(UNHEARD, NOW_MS, False, LONG_AGO_MS)
    origins.end(UNHEARD)
    assert origins.is_alive(UNHEARD, NOW_MS + TIMEOUT_MS, False, LONG_AGO_MS)


def test_while_this_region_did_not_listen_nobody_was_silent() -> None:
    """As where the process was suspended: the signs of an origin that it was about to hear are still under way."""
    exchange = Cluster(2, STRICT).node(1).exchange
    origins = FailureDetector(exchange)
    exchange.listen(NOW_MS)
    assert origins.is_alive(UNHEARD, NOW_MS, False, LONG_AGO_MS)
    resumed_ms = NOW_MS + 5 * TIMEOUT_MS
    exchange.listen(resumed_ms)
    left_ms = TIMEOUT_MS - exchange.view.settings.limits.heartbeat_ms
    assert origins.is_alive(UNHEARD, resumed_ms + left_ms - 1, False, LONG_AGO_MS)
    assert not origins.is_alive(UNHEARD, resumed_ms + left_ms, False, LONG_AGO_MS)


def test_a_clock_that_was_set_back_keeps_nobody_alive() -> None:
    origins = failure_detector()
    origins.is_alive(UNHEARD, NOW_MS, False, LONG_AGO_MS)
    assert origins.is_alive(UNHEARD, LONG_AGO_MS, False, LONG_AGO_MS)
    assert not origins.is_alive(UNHEARD, LONG_AGO_MS + TIMEOUT_MS, False, LONG_AGO_MS)


def test_the_same_directory_is_silent_at_once_unless_it_gave_a_sign() -> None:
    assert not failure_detector().is_alive(UNHEARD, NOW_MS, True, LONG_AGO_MS)
    cluster = Cluster(2, STRICT)
    live(cluster, 2 * HEARTBEAT_MS)
    origins, peer = FailureDetector(cluster.node(1).exchange), origin(cluster, 2)
    sign_ms = cluster.node(1).exchange.progress.sign_ms(peer)
    assert origins.is_alive(peer, sign_ms + HEARTBEATS_OF_SILENCE * HEARTBEAT_MS - 1, True, LONG_AGO_MS)
    assert not origins.is_alive(peer, sign_ms + HEARTBEATS_OF_SILENCE * HEARTBEAT_MS, True, LONG_AGO_MS)
