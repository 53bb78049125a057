"""The checkers of who delivers: what they pass, and what they name."""

from __future__ import annotations

import pytest

from crdtstream.commands import delivery as delivery_commands
from crdtstream.core.groups.group import Group
from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.region.delivering import Delivering
from simulations.checking import Checker
from simulations.cluster import Cluster
from simulations.delivery_checkers import DeliverersAgree, DeliversByRecord, HearsFirst, OneConsumer
from simulations.history import Violation
from simulations.repeat_checkers import Repeats, Resets
from tests.group_delivery import LIMITS, TAKEOVER_MS, ask, away, back, say

# The last reader of these stories gets what the checker does not allow.
READ = "XREADGROUP GROUP g a COUNT 2 STREAMS x >"


def formed(properties: str, *checkers: Checker) -> Cluster:
    """Two regions with two entries of each, and a group that region 1 delivers."""
    cluster = Cluster(2, LIBERAL, limits=LIMITS, checked=("properties",))
    for checker in checkers:
        cluster.watch(checker)
    for number in (1, 2):
        say(cluster, number, f"XADD x {number}-1 f v")
        say(cluster, number, f"XADD x {number}-2 f v")
    cluster.live(1_000)
    say(cluster, 1, f"XGROUP CREATE x g 0 CRDT {properties} TAKEOVER {TAKEOVER_MS}")
    cluster.live(1_000)
    return cluster


def test_a_story_in_which_all_hold() -> None:
    checkers = [DeliversByRecord(), HearsFirst(), OneConsumer(), Repeats(), DeliverersAgree(), Resets()]
    cluster = formed("DELIVER OWNER 1 ORDER ALL", *checkers)
    assert b"1-1" in say(cluster, 1, READ)
    say(cluster, 1, "XACK x g 1-1 1-2")
    assert say(cluster, 1, "CRDT.GROUP MOVE x g 2") == b"+OK\r\n"
    cluster.live(500)
    assert b"2-1" in say(cluster, 2, READ)
    away(cluster, 2)
    for _ in range(5):
        cluster.live(TAKEOVER_MS // 3)
        ask(cluster, 1, READ)
    back(cluster, 2)
    cluster.live(3 * TAKEOVER_MS)
    say(cluster, 2, "CRDT.GROUP RESET x g ID 0")
    cluster.live(500)
    assert b"1-1" in say(cluster, 1, "XAUTOCLAIM x g a 0 0") or b"1-1" in say(cluster, 1, READ)
    for checker in checkers:
        checker.at_end(cluster)


@pytest.mark.interpreted
def test_an_entry_that_another_region_delivers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = formed("DELIVER OWNER 1", DeliversByRecord())
    monkeypatch.setattr(Group, "withholds", lambda *_: False)
    assert b"1-1" in say(cluster, 1, READ)
    with pytest.raises(Violation, match=r"one deliverer: region 2 gives \(1, \(1, 1\)\)"):
        say(cluster, 2, READ)


@pytest.mark.interpreted
def test_a_region_that_delivers_without_having_heard_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = formed("DELIVER OWNER 1", HearsFirst())
    away(cluster, 2)
    cluster.restart(1)
    assert say(cluster, 1, READ) == b"*-1\r\n"
    monkeypatch.setattr(Delivering, "awaited", lambda *_: [])
    with pytest.raises(Violation, match=r"heard first: region 1 gives .* and has not heard region 2, for 0 ms"):
        say(cluster, 1, READ)


@pytest.mark.interpreted
def test_a_region_that_does_not_wait_for_what_it_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = formed("DELIVER OWNER 1", HearsFirst())
    away(cluster, 2)
    cluster.live(2 * TAKEOVER_MS)
    applied = cluster.node(2).replica.applied
    vector = applied.vector.copy()
    vector.advance(applied.origin, applied.counter() + 5)
    cluster.node(1).exchange.progress.merge_row((applied.origin, None, vector, 1_000), 1 << 62, cluster.clock_ms(1))
    cluster.tick(10)
    assert say(cluster, 1, READ) == b"*-1\r\n"
    monkeypatch.setattr(Delivering, "awaited", lambda *_: [])
    with pytest.raises(Violation, match=r"heard first: .* has not applied what region 2 had"):
        say(cluster, 1, READ)


@pytest.mark.interpreted
def test_a_consumer_that_gets_entries_while_another_one_holds_some(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = formed("DELIVER OWNER 1 ORDER ALL", OneConsumer())
    say(cluster, 1, READ)
    assert say(cluster, 1, "XREADGROUP GROUP g b STREAMS x >") == b"*-1\r\n"
    assert b"1-1" in say(cluster, 1, "XAUTOCLAIM x g b 0 0")
    monkeypatch.setattr(delivery_commands, "is_held_by_others", lambda *_: False)
    with pytest.raises(Violation, match=r"one consumer: region 1: .* others hold {\(1, \(1, 1\)\): b'b'"):
        say(cluster, 1, READ)


@pytest.mark.interpreted
def test_a_region_that_waits_for_ever_and_one_that_names_another_deliverer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = formed("DELIVER OWNER 1")
    DeliverersAgree().at_end(cluster)
    group = cluster.node(2).replica.keyspace.databases[0][b"x"].groups[b"g"]
    monkeypatch.setattr(type(group.rules), "deliverer", lambda *_: 2)
    with pytest.raises(Violation, match=r"deliverers agree: region 1, .*: says 2 for 1, expected 1"):
        DeliverersAgree().at_end(cluster)
    monkeypatch.setattr(Delivering, "awaited", lambda *_: [2])
    with pytest.raises(Violation, match=r"deliverers agree: region 1, .*: waits for regions \[2\]"):
        DeliverersAgree().at_end(cluster)
