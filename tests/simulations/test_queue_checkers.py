"""The checkers of what properties of groups promise: what they pass, and what they name."""

from __future__ import annotations

import pytest

from crdtstream.core.groups.properties import ACKNOWLEDGE, CONTIGUOUS
from crdtstream.core.values.entry_id import STRICT
from crdtstream.core.values.intervals import IntervalSet
from simulations.cluster import Cluster
from simulations.history import Violation
from simulations.queue_checkers import AcknowledgedExactly, OneProperty, group_of
from tests.group_delivery import say

GROUP = ((0, b"x"), b"g")


def cluster_with(checker: AcknowledgedExactly | None = None) -> Cluster:
    """Three entries in two regions, and a group that acknowledges exactly, all of them delivered in region 1."""
    cluster = Cluster(2, STRICT, checked=("properties",))
    if checker is not None:
        cluster.watch(checker)
    cluster.sync()
    for number in (1, 2, 3):
        say(cluster, 1, f"XADD x {number}00 f v")
    say(cluster, 1, "XGROUP CREATE x g 0 CRDT ACKNOWLEDGE EXACT")
    cluster.sync()
    say(cluster, 1, "XREADGROUP GROUP g a STREAMS x >")
    return cluster


def forget_runs(cluster: Cluster, number: int) -> None:
    group = group_of(cluster, number, GROUP)
    assert group is not None
    group.passed[1] = IntervalSet()


def test_what_is_acknowledged_in_either_region() -> None:
    checker = AcknowledgedExactly()
    cluster = cluster_with(checker)
    assert say(cluster, 1, "XACK x g 200-1") == b":1\r\n"
    assert say(cluster, 2, "XACK x g 300-1 999-1") == b":1\r\n"
    cluster.sync()
    checker.at_end(cluster)
    OneProperty().at_end(cluster)


@pytest.mark.parametrize("acknowledging", [1, 2])
def test_an_entry_that_comes_again(acknowledging: int) -> None:
    checker = AcknowledgedExactly()
    cluster = cluster_with(checker)
    say(cluster, acknowledging, "XACK x g 200-1")
    cluster.sync()
    forget_runs(cluster, 2)
    with pytest.raises(Violation, match=r"exact acknowledgement: region 2 delivers \(1, \(200, 1\)\)"):
        checker.at_end(cluster)


def test_an_entry_that_a_consumer_still_holds() -> None:
    checker = AcknowledgedExactly()
    cluster = cluster_with(checker)
    say(cluster, 2, "XACK x g 200-1")
    with pytest.raises(Violation, match=r"exact acknowledgement: region 1 holds \(1, \(200, 1\)\)"):
        checker.at_end(cluster)


def test_a_reply_that_leaves_out_what_another_region_delivered() -> None:
    checker = AcknowledgedExactly()
    cluster = cluster_with(checker)
    argv = [b"XACK", b"x", b"g", b"200-1", b"300-1"]
    checker.asked(cluster, 2, argv)
    with pytest.raises(Violation, match="exact acknowledgement: region 2 answers 1 to"):
        checker.commanded(cluster, 2, argv, 1)


def test_what_was_acknowledged_before_the_group_did_so_exactly() -> None:
    checker = AcknowledgedExactly()
    cluster = cluster_with(checker)
    say(cluster, 1, "CRDT.GROUP SET x g ACKNOWLEDGE CONTIGUOUS")
    say(cluster, 1, "XACK x g 200-1")
    cluster.sync()
    checker.at_end(cluster)
    say(cluster, 2, "CRDT.GROUP SET x g ACKNOWLEDGE EXACT")
    cluster.sync()
    checker.at_end(cluster)
    forget_runs(cluster, 2)
    with pytest.raises(Violation, match="exact acknowledgement: region 2 delivers"):
        checker.at_end(cluster)


def test_what_is_pending_since_before_a_reset_stays_where_another_region_holds_it() -> None:
    """The first reset voids what region 1 has delivered, and the second one leaves it below the start."""
    checker = AcknowledgedExactly()
    cluster = cluster_with(checker)
    say(cluster, 2, "CRDT.GROUP RESET x g ID 0")
    say(cluster, 2, "XREADGROUP GROUP g a STREAMS x >")
    say(cluster, 2, "CRDT.GROUP RESET x g ID 250")
    cluster.sync()
    assert say(cluster, 1, "XACK x g 200-1") == b":1\r\n"
    cluster.sync()
    checker.at_end(cluster)


@pytest.mark.parametrize("is_reset", [True, False])
def test_what_was_told_to_nobody_when_a_concurrent_create_was_reset(is_reset: bool) -> None:
    checker = AcknowledgedExactly()
    cluster = Cluster(2, STRICT, checked=("properties",))
    cluster.watch(checker)
    cluster.sync()
    for number in (1, 2):
        say(cluster, 1, f"XADD x {number}00 f v")
    cluster.sync()
    cluster.cut(1, 2)
    for number in (1, 2):
        say(cluster, number, "XGROUP CREATE x g 0")
    if is_reset:
        say(cluster, 2, "CRDT.GROUP RESET x g ID 0")
    say(cluster, 1, "XREADGROUP GROUP g a STREAMS x >")
    assert say(cluster, 1, "XACK x g 200-1") == b":1\r\n"
    cluster.heal(1, 2)
    cluster.sync()
    say(cluster, 1, "CRDT.GROUP SET x g ACKNOWLEDGE EXACT")
    cluster.sync()
    checker.at_end(cluster)
    assert (b"200-1" in say(cluster, 2, "XREADGROUP GROUP g a STREAMS x >")) == is_reset


def test_an_acknowledgement_that_is_lost_with_its_machine() -> None:
    checker = AcknowledgedExactly()
    cluster = cluster_with(checker)
    cluster.sync()
    cluster.cut(1, 2)
    say(cluster, 2, "XACK x g 200-1")
    cluster.lose_disk(2, 1)
    cluster.heal(1, 2)
    cluster.sync()
    checker.at_end(cluster)


def test_a_value_that_no_set_left() -> None:
    cluster = cluster_with()
    for number in (1, 2):
        group = group_of(cluster, number, GROUP)
        assert group is not None
        for create in group.creates.values():
            create.properties = {ACKNOWLEDGE: (9, 9, CONTIGUOUS)}
    with pytest.raises(Violation, match=r"properties: region 1, .*: properties"):
        OneProperty().at_end(cluster)


def test_a_value_that_a_region_did_not_choose() -> None:
    cluster = cluster_with()
    group = group_of(cluster, 2, GROUP)
    assert group is not None
    group.properties = {}
    with pytest.raises(Violation, match=r"properties: region 2, .*: the group has {}"):
        OneProperty().at_end(cluster)
