"""Handover: who is behind the log is offered a state, takes it when nobody else helps, and is served behind it."""

from __future__ import annotations

from typing import Any

from crdtstream.core.values.causality import VersionVector
from crdtstream.replication import wire_pb2 as wire
from tests.replication.linked_regions import Link, Region, batches_of, linked

ELSEWHERE = 515


def behind(effects: int = 20, **settings: Any) -> tuple[Region, Region]:
    """West lacks what east has cut."""
    east, west = Region(1, window_bytes=1024, **settings), Region(2, **settings)
    for _ in range(effects):
        east.write()
    cut(east, effects + 1)
    return east, west


def cut(region: Region, position: int) -> None:
    region.history.mark(region.log.last + 1, region.vector)
    region.log.cut(position)


def offers(link: Link, side: int) -> list[dict[int, int]]:
    said = link.said(side, "offer")
    return [{row.slot: row.counter for row in message.offer.vector} for message in said]


def chunks(link: Link, side: int) -> list[int]:
    return [message.chunk.index for message in link.said(side, "chunk")]


def test_a_state_goes_and_batches_follow() -> None:
    east, west = behind()
    link = linked(east, west)
    link.bytes_max = 20
    link.pump()
    assert offers(link, 0) == [{1: 20}]
    assert chunks(link, 0) == list(range(len(chunks(link, 0)))) and chunks(link, 0)
    assert west.vector.as_dict() == {1: 20} and batches_of(link, 0) == []
    link.bytes_max = 4096
    east.write()
    west.write()
    link.pump()
    assert batches_of(link, 0) == [(1, 21)] and batches_of(link, 1) == [(2, 1)]
    assert east.vector.as_dict() == west.vector.as_dict() == {1: 21, 2: 1}
    assert east.transfers.running.get(2) is None


def test_effects_since_the_snapshot_follow_it() -> None:
    east, west = behind()
    link = Link(east, west)
    link.bytes_max = 20
    while not chunks(link, 0):
        for side in (0, 1):
            link.say(side)
        for side in (0, 1):
            while link.flights[1 - side]:
                link.hear(side)
        east.capture_snapshots()
    east.write()
    link.pump()
    assert west.vector.as_dict() == {1: 21}
    assert link.said(0, "part"), "the batch went in parts, the messages are that small"


def test_the_window_bounds_what_is_under_way() -> None:
    east, west = behind()
    link = Link(east, west)
    link.bytes_max = 1
    east.config = Region(1, window_bytes=1024).config
    for _ in range(4):
        for side in (0, 1):
            link.say(side)
        while link.flights[1]:
            link.hear(0)
        while link.flights[0]:
            link.hear(1)
        east.capture_snapshots()
    transfer = east.transfers.running.get(2)
    assert transfer is not None
    while link.say(0) is not None:
        pass
    assert transfer.sent <= 1024 + 4


# Who waits, and for whom


def two_links() -> tuple[Region, Link]:
    """West is linked to somebody else too."""
    east, west = behind()
    link = Link(east, west)
    west.links[ELSEWHERE] = 1
    link.pump()
    return west, link


def test_who_has_other_links_waits_for_them() -> None:
    west, link = two_links()
    assert offers(link, 0) == [{1: 20}]
    assert not link.said(1, "fetch")
    link.tick(west.config.limits.heartbeat_ms - 1)
    link.pump()
    assert not link.said(1, "fetch")
    link.tick(west.config.limits.heartbeat_ms)
    link.pump()
    assert link.said(1, "fetch")
    assert west.vector.as_dict() == {1: 20}


def test_a_region_that_is_being_helped_waits_on() -> None:
    west, link = two_links()
    for now_ms in range(500, 8000, 500):
        if west.vector.get(1) < 10:
            west.vector.advance(1, west.vector.get(1) + 1)
        link.tick(now_ms)
        link.pump()
        if link.said(1, "fetch"):
            break
    assert west.vector.get(1) == 20
    assert now_ms == 500 * 10 + west.config.limits.heartbeat_ms


def test_what_came_from_elsewhere_is_not_fetched_and_the_log_goes_on() -> None:
    west, link = two_links()
    east = link.hosts[0]
    west.vector.advance(1, 20)
    link.tick(150)
    link.pump()
    assert offers(link, 0) == [{1: 20}, {}]
    link.tick(2_000)
    east.write()
    link.pump()
    assert not link.said(1, "fetch") and not link.said(0, "chunk")
    assert batches_of(link, 0) == [(1, 21)]


def test_one_state_at_a_time() -> None:
    east, west = behind()
    south, _ = behind()
    south.config, south.birth = Region(4).config, Region(4).birth
    first, second = Link(east, west), Link(south, west)
    for now_ms in (0, 0, 0, 1_000, 1_000, 1_000):
        for link in (first, second):
            link.now_ms = now_ms
            link.say(0)
            link.say(1)
            while link.flights[0]:
                link.hear(1)
            while link.flights[1]:
                link.hear(0)
    assert first.said(0, "offer") and second.said(0, "offer")
    assert first.said(1, "fetch") and not second.said(1, "fetch")


def test_a_fetch_of_who_is_not_behind_is_passed_over() -> None:
    east, west = Region(1), Region(2)
    east.write()
    link = linked(east, west)
    link.sessions[0].receive(wire.Message(fetch=wire.Fetch()), east.look(), 0)
    link.pump()
    assert not east.transfers.wanted and not link.said(0, "chunk")


def test_a_chunk_that_nobody_fetches_is_passed_over() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    link.sessions[1].receive(wire.Message(chunk=wire.Chunk(transfer=1, payload=b"x")), west.look(), 0)
    assert west.fetching.staging is None and link.sessions[1].is_open


def test_more_that_was_cut_is_offered_again() -> None:
    """West comes to cover the first offer, when east has cut more."""
    west, link = two_links()
    east = link.hosts[0]
    for _ in range(5):
        east.write()
    cut(east, 26)
    west.vector.advance(1, 20)
    link.tick(150)
    link.pump()
    assert offers(link, 0) == [{1: 20}, {1: 25}]
    link.tick(2_000)
    link.pump()
    assert west.vector == VersionVector({1: 25})


def test_a_state_that_the_peer_has_abandoned_is_released_and_what_it_lacks_is_offered() -> None:
    """West has got by another route what was offered, and given the transfer up; by then east has cut more."""
    # One chunk at a time.
    east, west = Region(1, window_bytes=1), Region(2)
    for _ in range(20):
        east.write()
    cut(east, 21)
    link = Link(east, west)
    link.bytes_max = 1
    for _ in range(4):
        for side in (0, 1):
            link.say(side)
        while link.flights[1]:
            link.hear(0)
        while not east.transfers.running and link.flights[0]:
            link.hear(1)
        east.capture_snapshots()
    assert east.transfers.running and not west.vector.get(1)
    for _ in range(5):
        east.write()
    cut(east, 26)
    west.vector.advance(1, 20)
    west.fetching.abandon("this region lacks memory")
    for flight in link.flights:
        flight.clear()
    link.bytes_max = 4096
    keep_ms = east.config.limits.transfer_keep_ms
    east.transfers.tick([2], keep_ms - 1, keep_ms)
    link.tick(2_000)
    link.pump()
    assert west.vector.get(1) == 20 and east.transfers.running
    east.transfers.tick([2], 1, keep_ms)
    assert not east.transfers.running
    link.tick(4_000)
    link.pump()
    link.tick(6_000)
    link.pump()
    assert west.vector == VersionVector({1: 25})


def test_a_host_that_refuses_a_chunk_closes_the_link() -> None:
    east, west = behind()
    west.refuses = "no room"
    link = Link(east, west)
    link.pump()
    assert [session.closed for session in link.sessions] == ["the peer refused: no room", "no room"]


def test_a_state_that_nobody_offered_is_fetched_where_it_is_needed() -> None:
    """East's log holds all, and yet west cannot apply it."""
    east, west = Region(1), Region(2)
    east.write()
    link = linked(east, west)
    needed = VersionVector({3: 5})
    east.vector.merge(needed)
    link.sessions[1].handover.need(needed)
    link.pump()
    [fetch] = [message.fetch for message in link.said(1, "fetch")][:1]
    assert fetch.unoffered and fetch.transfer == 0
    assert chunks(link, 0) and not link.said(0, "offer")
    assert west.vector.as_dict() == {1: 1, 3: 5}
    east.write()
    link.pump()
    assert west.vector.get(1) == 2, "served from the log again"


def stuck(link: Link) -> None:
    """West cannot apply what east's log holds, up to this."""
    link.hosts[0].vector.advance(ELSEWHERE, 5)
    link.sessions[1].handover.need(VersionVector({ELSEWHERE: 5}))


def round_trip(link: Link) -> None:
    for side in (0, 1):
        link.say(side)
    for side in (0, 1):
        while link.flights[1 - side]:
            link.hear(side)
    link.hosts[0].capture_snapshots()


def receiving() -> Link:
    """West fetches a state that nobody offered, and has staged a part of it."""
    east, west = Region(1), Region(2)
    east.write()
    link = linked(east, west)
    link.bytes_max = 1
    west.links[ELSEWHERE] = 1
    stuck(link)
    while west.fetching.staging is None:
        round_trip(link)
    return link


def test_a_state_that_nobody_offered_is_fetched_again_over_another_link() -> None:
    """East's log serves west on that link too; what is staged is replaced."""
    east, west = receiving().hosts
    west.fetching.link = None
    link = linked(east, west)
    stuck(link)
    link.pump()
    assert chunks(link, 0)[0] == 0
    assert west.vector.get(ELSEWHERE) == 5


def test_a_restart_of_batches_does_not_end_a_state_that_nobody_offered() -> None:
    """West loses a direct origin; east's log has what it lacks, and west still needs the state."""
    link = receiving()
    west = link.hosts[1]
    del west.links[ELSEWHERE]
    link.pump()
    assert link.said(1, "links")
    assert west.vector.get(ELSEWHERE) == 5


def test_a_state_that_nobody_offered_is_needed_also_when_an_offer_is_withdrawn() -> None:
    west, link = two_links()
    stuck(link)
    link.sessions[1].handover.receive_offer(VersionVector(), west.look(), 0)
    link.pump()
    assert west.vector.get(ELSEWHERE) == 5


def test_what_is_staged_of_another_state_does_not_begin_a_third() -> None:
    link = receiving()
    east = link.hosts[0]
    link.sessions[0].receive(wire.Message(fetch=wire.Fetch(transfer=999, next=1, unoffered=True)), east.look(), 0)
    assert not east.transfers.wanted
    link.pump()
    last = link.said(1, "fetch")[-1]
    link.sessions[0].receive(last, east.look(), 0)
    again = wire.Message(fetch=wire.Fetch(transfer=last.fetch.transfer, unoffered=True))
    link.sessions[0].receive(again, east.look(), 0)
    assert not east.transfers.wanted, "it was sent whole"
