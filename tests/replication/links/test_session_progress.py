"""What sessions tell beside batches: progress, births, deferrals and signs of life."""

from __future__ import annotations

from crdtstream.core.values.causality import VersionVector
from crdtstream.replication.links.session import PROGRESS_INTERVAL_MS, Session
from tests.replication.linked_regions import BYTES_MAX, Link, Region, linked, pump_all

# Progress


def test_durable_progress_goes_at_once_and_applied_progress_waits() -> None:
    east, west = Region(1), Region(2)
    west.view.durable_vector = VersionVector()
    link = linked(east, west)
    link.tick(10)
    east.write()
    link.say(0)
    link.hear(1)
    assert link.say(1) is None
    west.view.durable_vector = west.vector.copy()
    link.say(1)
    link.hear(0)
    assert east.progress.durable_of(2).as_dict() == {1: 1}
    assert east.progress.applied_of(2).as_dict() == {1: 1}


def test_applied_progress_goes_after_an_interval() -> None:
    east, west = Region(1), Region(2)
    west.view.durable_vector = VersionVector()
    link = linked(east, west)
    east.write()
    link.pump()
    link.tick(PROGRESS_INTERVAL_MS)
    link.pump()
    assert east.progress.applied_of(2).as_dict() == {1: 1}
    assert east.progress.durable_of(2).as_dict() == {}


def test_progress_of_others_is_passed_on_but_never_echoed() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north)]
    east.write()
    pump_all(links)
    assert north.progress.durable_of(1).as_dict() == {1: 1}
    assert east.progress.durable_of(3).as_dict() == {1: 1}
    rows = [row.slot for message in links[0].said(1, "progress") for row in message.progress.rows]
    assert 1 not in rows
    assert 3 in rows


def test_what_a_peer_told_is_not_told_back() -> None:
    """In a full mesh a row would else go round between all pairs."""
    regions = [Region(1), Region(2), Region(3)]
    links = [linked(regions[a], regions[b]) for a, b in ((0, 1), (1, 2), (0, 2))]
    pump_all(links)
    before = [len(link.history) for link in links]
    regions[0].write()
    pump_all(links)
    rows = [
        row.slot
        for link, start in zip(links, before, strict=True)
        for _, message in link.history[start:]
        for row in message.progress.rows
    ]
    assert rows.count(1) <= 3
    assert len(rows) <= 9


def test_consumed_bytes_are_told_before_they_close_the_window() -> None:
    limits = {"window_bytes": 400}
    east, west = Region(1, **limits), Region(2, **limits)
    west.view.durable_vector = VersionVector()
    link = linked(east, west)
    east.write(50)
    link.say(0)
    link.hear(1)
    assert link.say(1) is None
    east.write(50)
    link.say(0)
    link.hear(1)
    message = link.say(1)
    assert message is not None
    assert message.progress.consumed_bytes == sum(len(record[2]) for record in east.log.records)


def test_progress_carries_only_what_changed() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north)]
    pump_all(links)
    before = len(links[0].history)
    east.write()
    links[0].pump()
    rows = [row.slot for _, message in links[0].history[before:] for row in message.progress.rows]
    assert rows.count(1) == 1
    assert 3 not in rows


def test_a_heartbeat_each_second() -> None:
    link = linked(Region(1), Region(2))
    link.pump()
    count = len(link.history)
    for now_ms in range(100, 3_100, 100):
        link.tick(now_ms)
        link.pump()
    said = [message for _, message in link.history[count:]]
    assert len(said) == 6
    assert all(message.HasField("progress") and not message.progress.rows for message in said)
    assert link.sessions[0].closed is None


def test_a_silent_peer_is_closed() -> None:
    link = linked(Region(1), Region(2))
    link.tick(4_999)
    assert link.sessions[0].closed is None
    link.tick(5_000)
    assert link.sessions[0].closed == "nothing received from the peer for 5000 ms"
    assert link.say(0) is None


def test_a_peer_of_which_part_of_a_message_comes_is_not_silent() -> None:
    link = linked(Region(1), Region(2))
    link.sessions[1].stir(4_000)
    link.tick(6_000)
    assert link.sessions[1].closed is None and link.sessions[0].closed is not None
    link.tick(9_000)
    assert link.sessions[1].closed == "nothing received from the peer for 5000 ms"


def test_a_peer_that_never_greets_is_closed() -> None:
    view = Region(1).look()
    session = Session(view, 0)
    session.outgoing(view, BYTES_MAX, 0)
    session.tick(5_000, view.settings.limits.peer_timeout_ms)
    assert session.closed is not None


def test_a_clock_that_steps_back_silences_nothing() -> None:
    link = Link(Region(1), Region(2), now_ms=10_000_000)
    link.pump()
    count = len(link.history)
    link.tick(1_000)
    link.tick(2_500)
    link.pump()
    assert len(link.history) > count
    assert link.sessions[0].closed is None


# Births


def test_a_greeting_names_the_origins_that_may_be_at_work() -> None:
    east, west = Region(1, seed=4), Region(2)
    west.birth.receive(3, 5, west.turn)
    west.birth.receive(1, 8, west.turn)
    linked(east, west)
    assert east.birth.counts == west.birth.counts == {1: 8, 1025: 0, 2: 0, 3: 5}


def test_a_count_that_changes_is_told_on() -> None:
    """The own origin took another residue, since another one of its region had it."""
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north)]
    pump_all(links)
    east.birth.receive(257, 0, east.turn)
    assert east.birth.count == 1
    pump_all(links)
    assert [region.birth.counts[1] for region in (west, north)] == [1, 1]


def test_a_greeting_says_in_whose_place_an_origin_comes() -> None:
    east, west = Region(1, replace=True), Region(2)
    east.birth.lineage = [257, 513]
    east.birth.found(1, east.turn)
    session = linked(east, west).sessions[1]
    assert (session.predecessors, session.founders, session.replaces) == ([257, 513], [1], True)
    assert session.vector_then == VersionVector()


# Deferrals


def test_a_deferral_is_told_when_it_changes_and_when_it_ends() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    for other in (257, 257, 513, 0, 0):
        east.view.deferrals[2] = other
        link.pump()
    assert west.deferrals_heard == [(257, "east"), (513, "east"), (0, "east")]
    assert east.deferrals_heard == []


def test_a_new_link_tells_of_a_deferral_again() -> None:
    east, west = Region(1), Region(2)
    east.view.deferrals[2] = 257
    for _ in range(2):
        linked(east, west).close()
    assert west.deferrals_heard == [(257, "east")] * 2


# Signs of life


def test_a_sign_of_life_travels_with_its_row_and_is_heard_once() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north)]
    pump_all(links)
    for now_ms in (1_000, 2_000):
        east.view.life += 1
        for link in links:
            link.tick(now_ms)
            link.pump()
        assert [region.progress.sign_ms(1) for region in (west, north)] == [now_ms, now_ms]
    before = len(links[1].history)
    links[1].tick(2_000 + PROGRESS_INTERVAL_MS)
    links[1].pump()
    rows = [row.slot for _, message in links[1].history[before:] for row in message.progress.rows]
    assert 1 not in rows, "it was told"


def test_a_sign_of_life_alone_is_not_urgent() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    link.tick(10)
    link.pump()
    east.view.life += 1
    assert link.say(0) is None
    link.tick(10 + PROGRESS_INTERVAL_MS)
    message = link.say(0)
    assert message is not None and [(row.slot, row.life) for row in message.progress.rows] == [(1, 1)]
    assert not message.progress.rows[0].applied and not message.progress.rows[0].durable


def test_of_a_vector_only_what_grew_is_told() -> None:
    east, west = Region(1), Region(2)
    for _ in range(3):
        east.write()
    west.write()
    link = linked(east, west)
    link.tick(PROGRESS_INTERVAL_MS)
    link.pump()
    before = len(link.history)
    east.write()
    link.pump()
    rows = [row for _, message in link.history[before:] for row in message.progress.rows]
    told = [(row.slot, [(grown.slot, grown.counter) for grown in row.durable]) for row in rows]
    assert told == [(1, [(1, 4)]), (2, [(1, 4)])]
