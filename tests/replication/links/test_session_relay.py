"""What a session passes on of other regions, and what it does not."""

from __future__ import annotations

from crdtstream.core.effects import Batch, GroupDestroyed
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import (
    encode_batch,
)
from crdtstream.replication.origins.founding import Founding
from tests.replication.linked_regions import Region, batches_of, linked, pump_all


def test_a_region_relays_what_its_peer_does_not_get_itself() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    east.write()
    first = linked(east, west)
    second = linked(west, north)
    assert north.vector.get(1) == 1
    east.write()
    first.pump()
    second.pump()
    assert north.vector.get(1) == 2


def test_direct_origins_are_not_relayed() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north), linked(east, north)]
    pump_all(links)
    east.write()
    pump_all(links)
    assert north.vector.get(1) == west.vector.get(1) == 1
    assert batches_of(links[0], 0) == batches_of(links[2], 0) == [(1, 1)]
    assert batches_of(links[1], 0) == []


def test_what_a_peer_has_sent_is_not_sent_back() -> None:
    """Before it has told its progress, too."""
    east, west, north, south = Region(1), Region(2), Region(3), Region(4)
    links = [linked(south, north), linked(north, east), linked(east, west)]
    south.write()
    pump_all(links)
    assert west.vector.get(4) == 1
    assert batches_of(links[2], 1) == []


def test_an_origin_without_owner_is_relayed() -> None:
    """An earlier origin of a linked region is nobody's own: a peer that has it gives it."""
    east, west = Region(1), Region(2, seed=1)
    payload = encode_batch(Batch(2, 1, 1, VersionVector(), [GroupDestroyed((0, b"k"), b"g")]))
    east.apply(2, 1, payload)
    linked(east, west)
    assert west.vector.get(2) == 1


def test_a_origin_that_is_direct_no_more_is_relayed_from_the_vector_on() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    east_west, west_north, east_north = links = [linked(east, west), linked(west, north), linked(east, north)]
    pump_all(links)
    east.write()
    east_west.pump()
    west_north.pump()
    assert north.vector.get(1) == 0
    east_north.close()
    west_north.pump()
    assert north.vector.get(1) == 1
    restarts = west_north.said(1, "links")
    assert restarts[-1].links.restart == 1
    assert list(restarts[-1].links.direct_slots) == [2]
    east.write()
    east_west.pump()
    west_north.pump()
    assert north.vector.get(1) == 2
    assert batches_of(west_north, 0) == [(1, 1), (1, 2)]


def test_a_origin_that_becomes_direct_restarts_nothing() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north)]
    west.write()
    pump_all(links)
    links.append(linked(east, north))
    pump_all(links)
    assert all(message.links.restart == 0 for side in (0, 1) for message in links[1].said(side, "links"))
    assert batches_of(links[1], 0) == [(2, 1)]


def test_a_restart_opens_a_window_full_of_batches_that_wait() -> None:
    """West's batches wait at north for east's, which came direct until that link was lost."""
    limits = {"window_bytes": 300}
    east, west, north = Region(1, **limits), Region(2, **limits), Region(3, **limits)
    east_west, west_north, east_north = links = [linked(east, west), linked(west, north), linked(east, north)]
    pump_all(links)
    for _ in range(20):
        east.write(100)
    east_west.pump()
    for _ in range(10):
        west.write(100)
    west_north.pump()
    assert north.vector.get(2) == 0
    assert north.waiting
    east_north.close()
    west_north.pump()
    assert north.vector.as_dict() == {1: 20, 2: 10}


def test_a_restart_in_flight_counts_old_batches_in_no_window() -> None:
    limits = {"window_bytes": 300}
    east, west, north = Region(1, **limits), Region(2, **limits), Region(3, **limits)
    east_west, west_north, east_north = links = [linked(east, west), linked(west, north), linked(east, north)]
    pump_all(links)
    for _ in range(20):
        east.write(100)
    east_west.pump()
    for _ in range(10):
        west.write(100)
    for _ in range(5):
        west_north.say(0)
    east_north.close()
    west_north.say(1)
    while west_north.flights[0]:
        west_north.hear(1)
    west_north.pump()
    assert north.vector.as_dict() == {1: 20, 2: 10}


def test_an_origin_that_is_met_later_is_passed_on_before_it_writes() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    first = linked(east, west)
    pump_all([first])
    second = linked(west, north)
    assert 3 not in east.birth.counts
    pump_all([second, first])
    assert east.birth.counts[3] == north.birth.count


def test_births_go_ahead_of_the_progress_of_the_region_that_knew_them() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    first = linked(east, west)
    first.pump()
    second = linked(west, north)
    second.pump()
    west.write()
    west.view.durable_vector = west.vector.copy()
    message = first.say(1)
    assert message is not None and [row.slot for row in message.met.births] == [1, 2, 3]
    assert 2 in [row.slot for row in message.progress.rows]


def test_neighbours_are_passed_on() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north)]
    pump_all(links)
    north.birth.founding.record(3, 0, [2])
    west.birth.founding.record(2, 7, [1, 3])
    pump_all(links)
    assert east.birth.founding.rows() == [(0, 3, (2,)), (7, 2, (1, 3))]
    east.birth.founding = Founding()
    pump_all([linked(east, west)])
    assert east.birth.founding.rows() == [(0, 3, (2,)), (7, 2, (1, 3))], "a new link starts over"
