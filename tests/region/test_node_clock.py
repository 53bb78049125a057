"""A clock that is set back by hours, or lies beyond 2^53: IDs stay unique, nobody waits for the old time to return."""

from __future__ import annotations

import dataclasses

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import Value, read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import CLIENT, Cluster

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
FAR_MS = (1 << 53) + 12_345
TICK_MS = 100
WAITING = 2
LIMITS = Limits(segment_bytes_max=1 << 18, audit_interval_ms=1_000)

# From, to: back by hours, from far beyond to now, to the epoch, and out beyond 2^53.
JUMPS = [(NOW_MS, NOW_MS - 5 * HOUR_MS), (FAR_MS, NOW_MS), (NOW_MS, 1), (NOW_MS, FAR_MS), (FAR_MS, FAR_MS - HOUR_MS)]
jumps = pytest.mark.parametrize(("before_ms", "after_ms"), JUMPS)


def run(cluster: Cluster, number: int, text: str, client_id: int = CLIENT) -> Value:
    reply = cluster.execute(number, text.encode().split(), client_id)
    return None if reply is None else read_reply(reply)


def cluster_at(now_ms: int, **limits: int) -> Cluster:
    """Two regions that have been linked for a while."""
    cluster = Cluster(2, STRICT, limits=dataclasses.replace(LIMITS, **limits))
    pass_time(cluster, TICK_MS)
    pass_time(cluster, now_ms - cluster.now_ms)
    pass_time(cluster, 2_000)
    assert is_open(cluster)
    return cluster


def pass_time(cluster: Cluster, duration_ms: int) -> None:
    """A jump, when it is long or goes back; else in ticks."""
    if not 0 <= duration_ms <= 20_000:
        cluster.tick(duration_ms)
        cluster.sync()
        return
    for _ in range(duration_ms // TICK_MS):
        cluster.tick(TICK_MS)
        cluster.sync()


def test_a_first_tick_that_comes_late_closes_nothing() -> None:
    cluster = Cluster(2, STRICT, limits=LIMITS)
    pass_time(cluster, NOW_MS)
    assert is_open(cluster)


def is_open(cluster: Cluster) -> bool:
    return cluster.link(1, 2).open and all(cluster.node(n).exchange.greeted() for n in (1, 2))


@jumps
def test_ids_are_unique_and_ascend(before_ms: int, after_ms: int) -> None:
    cluster = cluster_at(before_ms)
    ids: list[tuple[int, ...]] = []

    def add(number: int) -> None:
        text = run(cluster, number, "XADD x * f v")
        ids.append(tuple(int(part) for part in str(text).split("-")))

    for number in (1, 2, 1):
        add(number)
        cluster.sync()
    pass_time(cluster, after_ms - cluster.now_ms)
    for number in (1, 2, 1, 1):
        add(number)
        cluster.sync()
    cluster.restart(1)
    for number in (1, 2):
        add(number)
        cluster.sync()
    assert ids == sorted(set(ids))
    for number in (1, 2):
        assert run(cluster, number, "XLEN x") == len(ids)
    cluster.check()


@jumps
def test_who_blocks_waits_no_longer_than_asked(before_ms: int, after_ms: int) -> None:
    cluster = cluster_at(before_ms)
    cluster.machines[1].connect(WAITING, cluster.now_ms)
    assert run(cluster, 1, "XREAD BLOCK 400 STREAMS x $", WAITING) is None
    pass_time(cluster, after_ms - cluster.now_ms)
    pass_time(cluster, 400)
    assert cluster.machines[1].pop_reply(WAITING) == b"*-1\r\n"
    assert run(cluster, 1, "XREAD BLOCK 400 STREAMS x $", WAITING) is None
    pass_time(cluster, 300)
    assert cluster.machines[1].pop_reply(WAITING) is None
    run(cluster, 2, "XADD x * f v")
    cluster.sync()
    assert cluster.machines[1].pop_reply(WAITING) is not None


@jumps
def test_links_stay_and_say_that_they_live(before_ms: int, after_ms: int) -> None:
    cluster = cluster_at(before_ms)
    pass_time(cluster, after_ms - cluster.now_ms)
    run(cluster, 1, "XADD x * f v")
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 1
    pass_time(cluster, 3 * LIMITS.peer_timeout_ms)
    assert is_open(cluster)
    assert cluster.node(1).neighbours.peers()[0].silent_ms <= 2 * LIMITS.heartbeat_ms
    assert run(cluster, 1, "WAIT 0 0") == 0


@jumps
def test_a_peer_that_goes_silent_is_noticed(before_ms: int, after_ms: int) -> None:
    cluster = cluster_at(before_ms)
    cluster.tick(after_ms - cluster.now_ms)
    link = cluster.link(1, 2)
    silent_ms = 0
    while cluster.node(1).link_verdict(link.number) is None:
        silent_ms += TICK_MS
        cluster.tick(TICK_MS)
        assert silent_ms <= 2 * LIMITS.peer_timeout_ms
    assert silent_ms >= LIMITS.peer_timeout_ms - LIMITS.heartbeat_ms


@jumps
def test_times_to_live_are_counted_from_the_clock_of_then(before_ms: int, after_ms: int) -> None:
    cluster = cluster_at(before_ms)
    pass_time(cluster, after_ms - cluster.now_ms)
    run(cluster, 1, "XADD x * f v")
    assert run(cluster, 1, "PEXPIRE x 500") == 1
    cluster.sync()
    assert run(cluster, 2, "PTTL x") == 500
    pass_time(cluster, 400)
    assert run(cluster, 1, "EXISTS x") == run(cluster, 2, "EXISTS x") == 1
    pass_time(cluster, 200)
    assert run(cluster, 1, "EXISTS x") == run(cluster, 2, "EXISTS x") == 0
    cluster.check()


def test_a_time_to_live_from_before_the_jump_ends_at_its_moment() -> None:
    cluster = cluster_at(NOW_MS)
    run(cluster, 1, "XADD x * f v")
    run(cluster, 1, "PEXPIRE x 1000")
    cluster.sync()
    pass_time(cluster, -HOUR_MS)
    assert run(cluster, 2, "PTTL x") == HOUR_MS + 1_000
    pass_time(cluster, HOUR_MS + 1_100)
    assert run(cluster, 1, "EXISTS x") == run(cluster, 2, "EXISTS x") == 0


@jumps
def test_idle_clients_are_closed_in_time(before_ms: int, after_ms: int) -> None:
    cluster = cluster_at(before_ms, client_idle_s_max=3)
    cluster.machines[1].connect(WAITING, cluster.now_ms)
    if after_ms < before_ms:
        pass_time(cluster, after_ms - cluster.now_ms)
        assert WAITING in cluster.node(1).context.clients
    pass_time(cluster, 3_000 + 2 * TICK_MS)
    assert WAITING not in cluster.node(1).context.clients


@jumps
def test_rates_and_audits_go_on(before_ms: int, after_ms: int) -> None:
    cluster = cluster_at(before_ms)
    pass_time(cluster, after_ms - cluster.now_ms)
    for _ in range(5):
        run(cluster, 1, "PING")
    cluster.tick(TICK_MS)
    assert cluster.node(1).context.statistics.commands_per_s() <= 5 * 1000 // TICK_MS
    rounds = cluster.node(1).exchange.audit.rounds
    run(cluster, 1, "XADD x * f v")
    pass_time(cluster, 2_000)
    assert cluster.node(1).exchange.audit.rounds == rounds + 1


@jumps
def test_groups_go_on(before_ms: int, after_ms: int) -> None:
    cluster = cluster_at(before_ms)
    run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM")
    first = run(cluster, 1, "XADD x * f v")
    run(cluster, 1, "XREADGROUP GROUP g a STREAMS x >")
    pass_time(cluster, after_ms - cluster.now_ms)
    second = run(cluster, 1, "XADD x * f v")
    read = run(cluster, 1, "XREADGROUP GROUP g b STREAMS x >")
    assert str(second) in str(read) and str(first) not in str(read)
    rows = run(cluster, 1, "XPENDING x g - + 10")
    assert isinstance(rows, list) and len(rows) == 2
    assert all(isinstance(row, list) and int(str(row[2])) >= 0 for row in rows)
    assert run(cluster, 1, f"XACK x g {first} {second}") == 2
    cluster.check()


@jumps
@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_consumer_left_can_be_claimed_in_time(before_ms: int, after_ms: int, restarts: bool) -> None:
    """What was delivered at a time that has not come again is idle since the clock was set back."""
    cluster = cluster_at(before_ms)
    run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM")
    entry_id = run(cluster, 1, "XADD x * f v")
    run(cluster, 1, "XREADGROUP GROUP g a STREAMS x >")
    pass_time(cluster, after_ms - cluster.now_ms)
    if restarts:
        cluster.restart(1)
    if after_ms < before_ms:
        pass_time(cluster, 900)
        assert run(cluster, 1, "XAUTOCLAIM x g b 1000 0 JUSTID") == ["0-0", [], []]
    pass_time(cluster, 200)
    assert run(cluster, 1, "XPENDING x g IDLE 1000 - + 10") != []
    assert run(cluster, 1, "XAUTOCLAIM x g b 1000 0 JUSTID") == ["0-0", [entry_id], []]
