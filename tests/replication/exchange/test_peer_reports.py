"""Reports of peers: each stays until membership has acted on it."""

from __future__ import annotations

from crdtstream.replication.exchange.peer_reports import PeerReports


def test_membership_has_to_act_until_it_has_acted() -> None:
    reports = PeerReports()
    assert not reports.are_pending()
    reports.record_shared()
    assert reports.are_pending() and reports.is_shared()
    reports.clear_shared()
    reports.record_leaving(257, 9)
    assert reports.are_pending() and reports.any_leaving()
    assert (reports.leaving_through(257), reports.leaving_through(258)) == (9, None)
    reports.drop_leaving(257)
    reports.drop_leaving(258)
    assert not reports.are_pending() and not reports.any_leaving()


def test_what_membership_may_act_on_is_counted() -> None:
    reports = PeerReports()
    reports.record_greeting()
    assert reports.changes == 1 and not reports.are_pending()
    reports.record_shared()
    reports.record_leaving(257, 9)
    reports.record_deferral("west", 258)
    assert reports.changes == 3
