"""Simulated clients that choose who delivers: what they send instead of what was drawn for them."""

from __future__ import annotations

from random import Random

from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster
from simulations.delivery_clients import DeliveryClients
from simulations.property_clients import Argv
from tests.group_delivery import say

CREATE = [b"XGROUP", b"CREATE", b"x", b"g", b"0", b"MKSTREAM", b"CRDT", b"ACKNOWLEDGE", b"EXACT"]
READ = b"XREADGROUP GROUP g a STREAMS x >".split()


def cluster() -> Cluster:
    """Region 1 delivers, and has delivered one of two entries."""
    cluster = Cluster(2, STRICT)
    for number in (1, 2):
        say(cluster, 1, f"XADD x {number}00 f v")
    say(cluster, 1, "XGROUP CREATE x g 0 CRDT DELIVER ORIGIN")
    cluster.sync()
    cluster.live(3_000)
    say(cluster, 1, "XREADGROUP GROUP g a COUNT 1 STREAMS x >")
    return cluster


def sent(argv: Argv, number: int = 1) -> list[list[bytes]]:
    """What is sent in this region instead of a command, one line for each of many draws."""
    clients, replica = DeliveryClients(Random(1), 2), cluster().node(number).replica
    return [[b" ".join(one) for one in clients.changed([argv], replica)] for _ in range(400)]


def test_groups_are_created_with_a_region_that_delivers() -> None:
    lines = {one for lines in sent(CREATE) for one in lines}
    assert b" ".join(CREATE) in lines, "some are left as they are"
    assert any(b"MKSTREAM CRDT DELIVER OWNER 2 TAKEOVER 1000" in line for line in lines)
    assert any(b"DELIVER ORIGIN" in line for line in lines) and any(b"ORDER ALL" in line for line in lines)


def test_readers_move_set_and_reset() -> None:
    found = sent(READ)
    assert all(b" ".join(READ) in lines for lines in found)
    lines = {one for lines in found for one in lines}
    starts = (b"CRDT.GROUP SET x g DELIVER", b"CRDT.GROUP MOVE x g 2", b"CRDT.GROUP RESET x g ID 0", b"XACK x g 100-1")
    assert all(any(line.startswith(start) for line in lines) for start in starts)
    assert not any(b"FORCE" in line for lines in found if lines[0] == b"XACK x g 100-1" for line in lines)


def test_a_reader_that_finds_no_group_creates_it() -> None:
    lines = {one for lines in sent([*READ[:-2], b"y", b">"]) for one in lines}
    assert any(line.startswith(b"XGROUP CREATE y g 0 MKSTREAM CRDT DELIVER") for line in lines)
    assert not any(b"MOVE" in line for line in lines)


def test_other_commands_stay_as_they_are() -> None:
    assert {tuple(lines) for lines in sent([b"DEL", b"x"])} == {(b"DEL x",)}
