"""When dropped batches are asked for again: as soon as there is room, and when what waits may wait for them."""

from __future__ import annotations

from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.exchange.retry_rounds import Asking
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from tests.replication.exchange.test_arrivals import run

LIMITS = Limits(inbox_bytes_max=100, heartbeat_ms=1_000, peer_timeout_ms=5_000)
INBOX_BYTES = 100_000


def rounds(asking: Asking, held: list[int], applied: list[int] | None = None) -> list[int]:
    """The seconds at which it asks, if so much waits from one second to the next."""
    totals = applied or [0] * len(held)
    return [at for at, size in enumerate(held) if asking.is_due(size, totals[at], LIMITS, 1_000 * at)]


def test_with_room_it_asks_at_once() -> None:
    assert rounds(Asking(), [50, 0]) == [0, 1]


def test_what_shrinks_is_waited_for_and_what_stays_is_not() -> None:
    assert rounds(Asking(), [90, 80, 70, 60, 60]) == [4]


def test_what_comes_and_goes_does_not_hold_it_up_for_ever() -> None:
    assert rounds(Asking(), [60, 90, 60, 90])[0] == 1


def test_rounds_that_bring_nothing_become_rarer_and_are_never_given_up() -> None:
    assert rounds(Asking(), [90] * 24) == [1, 3, 7, 12, 17, 22]


def test_a_round_that_brought_something_is_followed_by_the_next_one_soon() -> None:
    assert rounds(Asking(), [90] * 6, [0, 0, 1, 2, 3, 4]) == [1, 3, 4, 5]


def test_a_clock_that_was_set_back_does_not_stop_it() -> None:
    asking = Asking()
    assert not asking.is_due(90, 0, LIMITS, 1 << 40)
    assert not asking.is_due(90, 0, LIMITS, 5_000)
    assert asking.is_due(90, 0, LIMITS, 6_000)


def carry(cluster: Cluster, *ways: tuple[int, int]) -> None:
    for _ in range(100):
        for sender, receiver in ways:
            cluster.carry(sender, receiver)


def test_what_waits_for_dropped_batches_does_not_keep_them_from_being_asked_for() -> None:
    """Region 4 waits for one batch of region 3, with what regions 1 and 2 sent, together more than the limit. What is
    left when the batches of region 1 are dropped waits for those, and is more than half of the limit.
    """
    limits = Limits(segment_bytes_max=1 << 18, inbox_bytes_max=INBOX_BYTES, peer_timeout_ms=1 << 40)
    cluster = Cluster(4, STRICT, limits=limits)
    cluster.sync()
    run(cluster, 3, "XADD d * f v")
    carry(cluster, (3, 1), (3, 2), (1, 3), (2, 3))
    for _ in range(70):
        run(cluster, 1, "XADD a * f v")
    carry(cluster, (1, 2), (2, 1))
    for _ in range(68):
        run(cluster, 2, "XADD b * f v")
    link, arrivals = cluster.link(1, 4), cluster.node(4).exchange.arrivals
    carry(cluster, (1, 4))
    assert 2 * arrivals.inbox.held_bytes > INBOX_BYTES
    carry(cluster, (2, 4))
    assert arrivals.drops == 1 and 2 * arrivals.inbox.held_bytes > INBOX_BYTES
    for _ in range(10):
        cluster.sync()
        cluster.tick(1_000)
    cluster.sync()
    assert [run(cluster, 4, f"XLEN {key}") for key in "abd"] == [70, 68, 1]
    assert cluster.link(1, 4) is link and arrivals.inbox.waiting_count == 0
    cluster.check()
