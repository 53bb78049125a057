"""Progress of members that exceeds `progress_rows_max` is dropped, reported, and heard again once there is room."""

from __future__ import annotations

from dataclasses import replace

from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.exchange.dropped_progress import REPEATED_MS
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from tests.replication.exchange.test_exchange import exchange_of, limited, run, said, vector_of

ROWS_MAX = 2_000
KEPT, DROPPED = 9, 10
REASON = "there is room for the progress of members again, which a new link tells"


def overfull() -> Cluster:
    """Region 1 tells region 2 of two members, one of which takes too much."""
    cluster = limited(progress_rows_max=ROWS_MAX, peer_timeout_ms=1 << 40)
    rows = vector_of(range(1, 900))
    for origin in (KEPT, DROPPED):
        row = wire.ProgressRow(slot=origin, durable=rows, applied=rows)
        assert said(cluster, progress=wire.Progress(rows=[row])) == ""
    return cluster


def told(cluster: Cluster) -> int:
    return [notice.event for notice in exchange_of(cluster, 2).notices].count("progress-dropped")


def pass_ms(cluster: Cluster, passed_ms: int) -> None:
    """Only for region 2."""
    exchange = exchange_of(cluster, 2)
    cluster.now_ms += passed_ms
    exchange.tick(cluster.now_ms)


def session_reason(cluster: Cluster) -> str:
    return next(one.reason for one in exchange_of(cluster, 2).sessions() if one.peer_region == 1)


def test_what_is_dropped_is_reported_again_and_again_but_not_all_the_time() -> None:
    cluster = overfull()
    assert told(cluster) == 1
    pass_ms(cluster, REPEATED_MS - 1)
    assert told(cluster) == 1
    pass_ms(cluster, 1)
    pass_ms(cluster, 1)
    assert told(cluster) == 2
    pass_ms(cluster, REPEATED_MS)
    assert told(cluster) == 3 and session_reason(cluster) == ""


def test_info_counts_the_members_that_are_unheard() -> None:
    assert "progress_dropped_members:0" in str(run(limited(), 2, "INFO replication"))
    assert "progress_dropped_members:1" in str(run(overfull(), 2, "INFO replication"))


def test_members_are_heard_again_over_a_new_link_when_others_have_left() -> None:
    cluster = overfull()
    exchange = exchange_of(cluster, 2)
    exchange.progress.end(KEPT)
    pass_ms(cluster, REPEATED_MS)
    assert session_reason(cluster) == REASON and told(cluster) == 1
    cluster.sync()
    assert not cluster.link(1, 2).open
    cluster.heal(1, 2)
    cluster.sync()
    row = wire.ProgressRow(slot=DROPPED, durable=vector_of(range(1, 900)))
    assert said(cluster, progress=wire.Progress(rows=[row])) == ""
    assert exchange.progress.told_of(DROPPED).origin_count() == len(row.durable)
    assert "progress_dropped_members:0" in str(run(cluster, 2, "INFO replication"))


def test_members_are_heard_again_when_the_limit_is_higher() -> None:
    cluster = overfull()
    settings = exchange_of(cluster, 2).view.settings
    settings.change(replace(settings.config, limits=Limits(progress_rows_max=2 * ROWS_MAX)))
    pass_ms(cluster, REPEATED_MS)
    assert session_reason(cluster) == REASON


def test_a_clock_that_was_set_back_delays_nothing_for_long() -> None:
    cluster = overfull()
    pass_ms(cluster, -1_000_000)
    pass_ms(cluster, REPEATED_MS)
    assert told(cluster) == 2
