"""The checkers of repeats and resets: what they name. What they pass is in test_delivery_checkers.py."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import Position
from crdtstream.core.groups import positions
from crdtstream.core.groups.group import Group
from crdtstream.core.replica import Replica
from crdtstream.scenarios.reply import Value
from simulations.history import Violation
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
