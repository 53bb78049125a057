"""The checkers of repeats and resets: what they name. What they pass is in test_delivery_checkers.py."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import Position
from crdtstream.core.groups import positions
from crdtstream.core.groups.group import Group
from crdtstream.core.replica import Replica
from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import Value
from simulations.cluster import Cluster
from simulations.history import Violation
from simulations.queue_checkers import group_of
from simulations.repeat_checkers import Repeats, Resets
from tests.group_delivery import say
from tests.simulations.test_delivery_checkers import READ, formed


@pytest.mark.interpreted
def test_a_move_that_does_not_tell_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = formed("DELIVER OWNER 1 ACKNOWLEDGE CONTIGUOUS", Repeats())
    say(cluster, 1, READ)
    say(cluster, 1, "XACK x g 1-2")
    monkeypatch.setattr(Replica, "acknowledge_delivered", lambda *_: None)
    say(cluster, 1, "CRDT.GROUP MOVE x g 2 FORCE")
    cluster.live(500)
    assert b"1-1" in say(cluster, 2, "XREADGROUP GROUP g a COUNT 1 STREAMS x >"), "it was pending"
    with pytest.raises(Violation, match=r"repeats: region 2 gives \(1, \(1, 2\)\) to .* before Moved"):
        say(cluster, 2, READ)


def test_an_entry_that_comes_twice() -> None:
    cluster = formed("DELIVER OWNER 1", Repeats())
    say(cluster, 1, READ)
    group = cluster.node(1).replica.keyspace.databases[0][b"x"].groups[b"g"]
    group.passed[1].remove((0, 0), (9, 9))
    group.reset_cursor()
    with pytest.raises(Violation, match=r"repeats: region 1 gives \(1, \(1, 1\)\) to .* a second time"):
        say(cluster, 1, READ)


@pytest.mark.parametrize("together", [True, False])
def test_one_of_two_entries_with_one_id_is_gone_before_the_reply_is_looked_at(together: bool) -> None:
    """They were given by one command, or one after the other."""
    checker = Repeats()
    cluster = formed("DELIVER OWNER 1", checker)
    for number in (1, 2):
        say(cluster, number, "XADD x 9-1 f v")
    cluster.live(500)
    asked = [READ.encode().split() for _ in range(1 if together else 2)]
    for argv in asked:
        checker.asked(cluster, 1, argv)
    tree = cluster.node(1).replica.keyspace.databases[0][b"x"].trees[2]
    tree.remove_counters(tree.counter_of((9, 1)), tree.counter_of((9, 1)))
    one: Value = ["9-1", ["f", "v"]]
    for argv in asked:
        checker.commanded(cluster, 1, argv, [["x", [one, one] if together else [one]]])


def test_an_entry_of_which_the_region_knows_that_it_was_acknowledged() -> None:
    cluster = formed("DELIVER OWNER 1", Repeats())
    assert say(cluster, 2, "XACK x g 1-1") == b":1\r\n"
    cluster.live(500)
    group = cluster.node(1).replica.keyspace.databases[0][b"x"].groups[b"g"]
    group.passed[1].remove((0, 0), (9, 9))
    group.reset_cursor()
    with pytest.raises(Violation, match=r"repeats: region 1 gives \(1, \(1, 1\)\) .* knows \(2, \d+\) that"):
        say(cluster, 1, READ)


def restart_nothing(group: Group, _: Position) -> None:
    """Apply the start of a reset, and leave what was delivered."""
    group.floor = group.start()


@pytest.mark.interpreted
def test_what_does_not_come_again_after_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = Resets()
    cluster = formed("DELIVER OWNER 1", checker)
    say(cluster, 1, READ)
    say(cluster, 1, "XACK x g 1-1 1-2")
    monkeypatch.setattr(positions, "restart", restart_nothing)
    say(cluster, 1, "CRDT.GROUP RESET x g ID 0")
    cluster.sync()
    with pytest.raises(Violation, match=r"reset: .*: never delivered again \[\(1, 1\), \(1, 2\)\] of region 1"):
        checker.at_end(cluster)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_what_was_acknowledged_under_a_concurrent_create_that_was_not_reset(is_recorded: bool) -> None:
    """Region 1 tells under the create of region 2 what was acknowledged before it knew of that, and of the reset by
    region 3.
    """
    checker = Resets()
    cluster = Cluster(3, STRICT, checked=("properties",))
    cluster.watch(checker)
    cluster.sync()
    say(cluster, 1, "XADD x 1 f v")
    cluster.sync()
    for pair in ((1, 2), (1, 3), (2, 3)):
        cluster.cut(*pair)
    for line in (
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g a STREAMS x >",
        "XACK x g 1-1",
        "CRDT.GROUP RESET x g ID 1-1",
    ):
        say(cluster, 1, line)
    say(cluster, 2, "XGROUP CREATE x g 0")
    for line in ("XGROUP CREATE x g 0", "CRDT.GROUP RESET x g ID 0"):
        say(cluster, 3, line)
    cluster.heal(1, 2)
    cluster.sync()
    cluster.heal(1, 3)
    cluster.sync()
    if is_recorded:
        checker.at_end(cluster)
        return
    group = group_of(cluster, 1, ((0, b"x"), b"g"))
    assert group is not None
    for create in group.creates.values():
        create.runs = {}
    with pytest.raises(Violation, match=r"reset: .*: never delivered again \[\(1, 1\)\] of region 1"):
        checker.at_end(cluster)


def test_a_reset_that_a_region_does_not_know() -> None:
    cluster = formed("DELIVER OWNER 1")
    say(cluster, 1, "CRDT.GROUP RESET x g ID 1-1")
    cluster.sync()
    Resets().at_end(cluster)
    group = cluster.node(2).replica.keyspace.databases[0][b"x"].groups[b"g"]
    for create in group.creates.values():
        create.reset = (0, 0)
    with pytest.raises(Violation, match=r"reset: region 2, .*: resets"):
        Resets().at_end(cluster)
