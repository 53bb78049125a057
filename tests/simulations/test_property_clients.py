"""Simulated clients that use properties of groups: what they send instead of what was drawn for them."""

from __future__ import annotations

from random import Random

from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster
from simulations.property_clients import Argv, with_properties
from tests.group_delivery import say

CREATE = [b"XGROUP", b"CREATE", b"x", b"g", b"0"]
READ = b"XREADGROUP GROUP g a STREAMS x >".split()
ACK = b"XACK x g 1-1".split()


def cluster() -> Cluster:
    """Three entries of which region 1 has delivered two."""
    cluster = Cluster(2, STRICT)
    for number in (1, 2, 3):
        say(cluster, 1, f"XADD x {number}00 f v")
    say(cluster, 1, "XGROUP CREATE x g 0")
    say(cluster, 1, "XREADGROUP GROUP g a COUNT 2 STREAMS x >")
    cluster.sync()
    return cluster


def sent(argv: Argv, number: int = 1) -> set[tuple[bytes, ...]]:
    """What may be sent in this region instead of a command, as lines."""
    rng, replica = Random(1), cluster().node(number).replica
    return {tuple(b" ".join(one) for one in with_properties(rng, argv, replica)) for _ in range(200)}


def test_groups_are_created_with_properties() -> None:
    assert {(b" ".join(CREATE),), (b"XGROUP CREATE x g 0 CRDT ACKNOWLEDGE EXACT",)} < sent(CREATE)


def test_readers_set_properties() -> None:
    read = b" ".join(READ)
    assert {(read,), (read, b"CRDT.GROUP SET x g ACKNOWLEDGE EXACT")} < sent(READ)


def test_consumers_acknowledge_the_newest_and_what_nobody_got_here() -> None:
    assert {(b"XACK x g 1-1",), (b"XACK x g 200-1",), (b"XACK x g 300-1",)} < sent(ACK)
    assert not {(b"XACK x g 100-1",)} & sent(ACK)
    assert (b"XACK x g 100-1",) in sent(ACK, 2)


def test_other_commands_stay_as_they_are() -> None:
    assert sent([b"DEL", b"x"]) == {(b"DEL x",)}


def test_without_a_group_nothing_else_is_acknowledged() -> None:
    assert sent([b"XACK", b"x", b"none", b"1-1"]) == {(b"XACK x none 1-1",)}
