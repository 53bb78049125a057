"""Expiry as a node runs it: by ticks, before commands, on a full disk only out of the reserve; random keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import Value, read_reply
from crdtstream.settings.config import Limits
from crdtstream.status.availability import TICK_BYTES
from simulations.cluster import CLIENT, Cluster

WAITING = 7


def run(cluster: Cluster, number: int, text: str, client_id: int = CLIENT) -> Value:
    reply = cluster.execute(number, text.encode().split(), client_id)
    return None if reply is None else read_reply(reply)


def expiring(regions: int = 2, limits: Limits | None = None) -> Cluster:
    """Everyone knows `x`, which region 1 lets expire at 1000."""
    cluster = Cluster(regions, STRICT, limits=limits)
    run(cluster, 1, "XADD x * f v")
    run(cluster, 1, "XGROUP CREATE x g $")
    run(cluster, 1, "PEXPIREAT x 1000")
    cluster.sync()
    return cluster


def knows(cluster: Cluster, number: int) -> bool:
    return cluster.node(number).replica.keyspace.known((0, b"x")) is not None


def test_a_tick_deletes_at_the_owner_only() -> None:
    cluster = expiring()
    cluster.cut(1, 2)
    cluster.tick(1000 - cluster.now_ms)
    assert knows(cluster, 1)
    cluster.tick(1)
    assert not knows(cluster, 1)
    assert knows(cluster, 2)
    cluster.heal(1, 2)
    cluster.sync()
    assert not knows(cluster, 2)
    cluster.check()


def test_a_command_finds_it_deleted() -> None:
    cluster = expiring()
    cluster.now_ms = 1001
    run(cluster, 1, "PING")
    assert not knows(cluster, 1)


def test_a_full_disk_takes_deletions_out_of_its_reserve() -> None:
    cluster = expiring()
    cluster.node(1).writable(False, TICK_BYTES - 1, TICK_BYTES)
    cluster.tick(1000)
    assert knows(cluster, 1)
    assert run(cluster, 1, "EXISTS x") == 0
    cluster.node(1).writable(False, TICK_BYTES, TICK_BYTES)
    cluster.tick(1)
    assert not knows(cluster, 1)


@pytest.mark.parametrize("number", [1, 2])
def test_a_group_reader_learns_that_its_key_is_gone(number: int) -> None:
    """Also where the key only hides."""
    cluster = expiring()
    cluster.cut(1, 2)
    region = cluster.machines[number]
    region.connect(WAITING, cluster.now_ms)
    assert run(cluster, number, "XREADGROUP GROUP g c BLOCK 0 STREAMS x >", WAITING) is None
    cluster.tick(1000)
    reply = region.pop_reply(WAITING)
    assert reply is not None
    assert reply.startswith(b"-NOGROUP ")
    cluster.check()


def test_a_restart_knows_when_keys_expire() -> None:
    cluster = expiring()
    cluster.restart(1)
    assert run(cluster, 1, "PEXPIRETIME x") == 1000
    cluster.tick(1000)
    assert not knows(cluster, 1)
    cluster.check()


def test_a_region_takes_over() -> None:
    cluster = expiring(3, Limits(expiry_takeover_ms=500))
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    cluster.tick(1500 - cluster.now_ms)
    assert knows(cluster, 2)
    cluster.tick(1)
    assert not knows(cluster, 2)
    assert not knows(cluster, 3)


def test_a_region_takes_over_in_the_tick_in_which_it_begins_to_serve() -> None:
    """Region 2 is new, and waits while its sponsor has no room for a Join; then it is told not to wait."""
    cluster = Cluster(2, STRICT, absent=(2,))
    run(cluster, 1, "XADD x * f v")
    run(cluster, 1, "PEXPIREAT x 1000")
    cluster.node(1).writable(False)
    cluster.add(2, 1)
    cluster.sync()
    node = cluster.node(2)
    later_ms = 1001 + node.context.limits.expiry_takeover_ms
    node.tick(later_ms - 1)
    assert knows(cluster, 2) and not node.membership.serving()
    node.settings.change(replace(node.settings.config, incarnation=0))
    node.tick(later_ms)
    assert node.membership.serving() and not knows(cluster, 2)


def test_many_keys_take_several_turns() -> None:
    cluster = Cluster(1, STRICT, limits=Limits(expired_keys_max=10))
    for number in range(25):
        run(cluster, 1, f"XADD k{number} * f v")
        run(cluster, 1, f"PEXPIREAT k{number} 1000")
    cluster.tick(1000)
    replica = cluster.node(1).replica
    assert len(replica.keyspace.known_keys(0)) == 15
    assert run(cluster, 1, "DBSIZE") == 0
    run(cluster, 1, "PING")
    assert replica.keyspace.known_keys(0) == []


def draws(cluster: Cluster, count: int) -> list[Value]:
    return [run(cluster, 1, "RANDOMKEY") for _ in range(count)]


def filled() -> Cluster:
    cluster = Cluster(1, STRICT)
    for number in range(20):
        run(cluster, 1, f"XADD k{number} * f v")
    return cluster


def test_random_keys_follow_from_what_the_node_was_given() -> None:
    first = draws(filled(), 60)
    assert draws(filled(), 60) == first
    assert len(set(map(str, first))) > 10


def test_random_keys_exist() -> None:
    cluster = filled()
    for number in range(1, 20):
        run(cluster, 1, f"DEL k{number}")
    assert set(map(str, draws(cluster, 10))) == {"k0"}
    run(cluster, 1, "DEL k0")
    assert draws(cluster, 2) == [None, None]
