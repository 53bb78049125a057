"""Sessions over in-memory links: batches, windows, parts, audits, and convergence over any topology."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.protocols.codec import (
    START,
)
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.greeting import PARTS_SINCE, Versions
from tests.replication.linked_regions import BYTES_MAX, Link, Region, batches_of, linked

# Serving


def test_what_each_side_lacks_arrives() -> None:
    east, west = Region(1), Region(2)
    for _ in range(3):
        east.write()
    west.write()
    link = linked(east, west)
    assert east.vector.as_dict() == west.vector.as_dict() == {1: 3, 2: 1}
    assert batches_of(link, 0) == [(1, 1), (1, 2), (1, 3)]
    assert len(link.said(0, "batches")) == 1
    assert link.sessions[1].peer_name == "east"
    assert link.sessions[1].peer_region == 1
    assert link.sessions[1].peer_origin == east.birth.origin


def test_nothing_is_said_while_nothing_happens() -> None:
    link = linked(Region(1), Region(2))
    count = len(link.history)
    link.tick(500)
    link.pump()
    assert len(link.history) == count


def test_only_what_may_be_served_is_sent() -> None:
    east, west = Region(1), Region(2)
    east.serves_all = False
    link = linked(east, west)
    east.write()
    east.write()
    east.served = 1
    link.pump()
    assert west.vector.get(1) == 1
    east.served = 2
    link.pump()
    assert west.vector.get(1) == 2


def test_a_lost_link_resumes_by_vector() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    for _ in range(5):
        east.write()
    link.bytes_max = 60
    link.say(0)
    link.hear(1)
    link.say(0)
    before = west.vector.get(1)
    assert 0 < before < 5
    link.close()
    again = linked(east, west)
    assert west.vector.get(1) == 5
    assert batches_of(again, 0) == [(1, counter) for counter in range(before + 1, 6)]


def test_a_message_holds_no_more_than_asked_for() -> None:
    east, west = Region(1), Region(2)
    for _ in range(50):
        east.write(100)
    link = Link(east, west)
    link.bytes_max = 500
    link.pump()
    sizes = [sum(map(len, message.batches.payloads)) for message in link.said(0, "batches")]
    assert max(sizes) <= 500
    assert len(sizes) < 25
    assert west.vector.get(1) == 50


def test_records_of_other_kinds_are_stepped_over() -> None:
    east, west = Region(1), Region(2)
    east.log.append(START, b"")
    east.write()
    east.log.append(START, b"")
    east.write()
    linked(east, west)
    assert west.vector.get(1) == 2


def test_a_long_search_is_cut_into_calls() -> None:
    """Records that the peer is not to have cost a call each few reads, and each says so to be called again."""
    east, west = Region(1), Region(2)
    link = linked(east, west)
    for _ in range(500):
        east.log.append(START, b"x" * 100)
    east.write()
    link.bytes_max = 1000
    reads = east.log.reads
    message = link.say(0)
    assert message is not None
    assert east.log.reads - reads <= 2
    link.pump()
    assert west.vector.get(1) == 1


# Window


def test_the_window_stops_the_sender_until_batches_are_applied() -> None:
    east, west = Region(1), Region(2, window_bytes=400)
    east.view.settings.change(dataclasses.replace(east.config, limits=west.config.limits))
    link = linked(east, west)
    sizes = [len(east.write(100)) for _ in range(20)]
    for _ in range(50):
        link.say(0)
    sent = [payload for message in link.said(0, "batches") for payload in message.batches.payloads]
    assert sum(map(len, sent[:-1])) < 400 <= sum(map(len, sent))
    link.pump()
    assert west.vector.get(1) == len(sizes)


def test_a_batch_that_waits_for_another_holds_the_window() -> None:
    east, west = Region(1, window_bytes=300), Region(2, window_bytes=300)
    east.vector.advance(3, 1)
    link = linked(east, west)
    for _ in range(10):
        east.write(100)
    link.pump()
    assert west.vector.get(1) == 0
    assert 0 < len(batches_of(link, 0)) < 5
    west.vector.advance(3, 1)
    west.settle()
    link.pump()
    assert west.vector.get(1) == 10


def test_one_batch_larger_than_the_window_goes() -> None:
    east, west = Region(1, window_bytes=50), Region(2, window_bytes=50)
    link = linked(east, west)
    east.write(1000)
    east.write(1000)
    link.pump()
    assert west.vector.get(1) == 2


# Parts


def test_a_large_batch_travels_in_parts() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    east.write()
    east.write(20_000)
    east.write()
    link.pump()
    assert west.vector.get(1) == 3
    parts = [message.part for message in link.said(0, "part")]
    assert [part.offset_bytes for part in parts] == [BYTES_MAX * at for at in range(5)]
    assert all(len(part.payload) <= BYTES_MAX for part in parts)
    assert west.log.records == east.log.records


def test_a_peer_of_the_release_before_is_sent_numbered_parts_and_sends_them() -> None:
    east, west = Region(1), Region(2)
    west.view.versions = Versions(protocol=(2, PARTS_SINCE - 1))
    link = linked(east, west)
    for region in (east, west):
        region.write(20_000)
    link.pump()
    for side in (0, 1):
        parts = [message.part for message in link.said(side, "part")]
        assert [(part.index, part.count) for part in parts] == [(at, 5) for at in range(5)]
        assert not any(part.HasField("batch") for part in parts)
    assert west.vector == east.vector


def test_parts_pass_a_smaller_window() -> None:
    east, west = Region(1, window_bytes=1000), Region(2, window_bytes=1000)
    link = linked(east, west)
    for _ in range(3):
        east.write(20_000)
    link.pump()
    assert west.vector.get(1) == 3


def cut_after(link: Link, parts: int) -> None:
    """Let so many messages of the first side arrive, and lose the link."""
    for _ in range(parts):
        link.say(0)
        link.hear(1)
    link.close()


def test_a_batch_in_parts_goes_on_where_its_link_was_lost() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    east.write(20_000)
    cut_after(link, 2)
    offsets = []
    for _ in range(3):
        link = Link(east, west)
        link.say(1)
        link.hear(0)
        cut_after(link, 2)
        offsets += [message.part.offset_bytes for message in link.said(0, "part")]
    assert offsets == [2 * BYTES_MAX, 3 * BYTES_MAX, 4 * BYTES_MAX]
    assert west.vector.get(1) == 1


def test_another_peer_goes_on_with_parts_of_another_size() -> None:
    """The origin is lost for ever, and a third region holds its batch."""
    east, west, north = Region(1), Region(2), Region(3)
    link = linked(east, west)
    east.write(20_000)
    linked(east, north).close()
    cut_after(link, 2)
    other = Link(north, west)
    other.bytes_max = 1_000
    other.pump()
    parts = [message.part for message in other.said(0, "part")]
    assert parts[0].offset_bytes == 2 * BYTES_MAX and len(parts[0].payload) == 1_000
    assert west.vector.get(1) == 1 and not west.view.assemblies.rows()


def test_parts_that_the_receiver_dropped_are_sent_from_the_start_at_once() -> None:
    """It was sent something else between two parts, and had no room for what it kept."""
    east, west = Region(1), Region(2)
    link = linked(east, west)
    east.write(20_000)
    for at in range(3):
        link.say(0)
        if at == 1:
            west.view.assemblies.clear()
            link.sessions[1].intake.interrupt()
        link.hear(1)
    link.sessions[1].intake.ask_again()
    link.pump()
    offsets = [message.part.offset_bytes for message in link.said(0, "part")]
    assert offsets[offsets.index(0, 1) :] == [BYTES_MAX * at for at in range(5)]
    assert len(offsets) <= 3 + 1 + 5, "at most one part is on its way when it is asked again"
    assert [message.links.parts_dropped for message in link.said(1, "links") if message.links.restart] == [True]
    assert west.vector.get(1) == 1


def test_a_restart_between_parts_sends_no_byte_again() -> None:
    """Another link of the receiver was lost, so it asks its peer for all that it lacks."""
    east, west = Region(1), Region(2)
    link = linked(east, west)
    west.links[99 << 8 | 3] = 1
    link.pump()
    east.write(20_000)
    for _ in range(2):
        link.say(0)
        link.hear(1)
    west.links.pop(99 << 8 | 3)
    link.pump()
    assert [message.part.offset_bytes for message in link.said(0, "part")] == [BYTES_MAX * at for at in range(5)]
    assert [message.part.restart for message in link.said(0, "part")] == [0, 0, 0, 1, 1]
    assert west.vector.get(1) == 1


@pytest.mark.parametrize(
    ("index", "count", "what"),
    [
        (1, 3, "part 1 of 3 arrived after 0 of 0 parts"),
        (0, 0, "part 0 of 0 arrived after 0 of 0 parts"),
        (3, 3, "part 3 of 3 arrived after 0 of 0 parts"),
    ],
)
def test_a_part_out_of_order_closes_the_link(index: int, count: int, what: str) -> None:
    link = linked(Region(1), Region(2))
    session = link.sessions[1]
    session.receive(wire.Message(part=wire.Part(index=index, count=count, payload=b"x")), link.hosts[1].look(), 0)
    link.pump()
    assert session.closed == f"region west (2) cannot read what region east (1) sent: {what}"


# Any topology, any order


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_regions_converge_over_any_connected_topology(data: st.DataObject) -> None:
    """Random writes, deliveries and lost links; then every link lives and all regions hold everything."""
    limits = {"window_bytes": 400}
    regions = [Region(number, **limits) for number in (1, 2, 3, 4)]
    pairs = data.draw(st.sampled_from([((0, 1), (1, 2), (2, 3)), ((0, 1), (1, 2), (2, 3), (0, 3)), MESH]))
    links = {pair: Link(regions[pair[0]], regions[pair[1]]) for pair in pairs}
    for _ in range(data.draw(st.integers(0, 40))):
        pair = data.draw(st.sampled_from(pairs))
        action = data.draw(st.sampled_from(("write", "say", "say", "hear", "hear", "pump", "lose")))
        link = links[pair]
        link.bytes_max = 300
        side = data.draw(st.integers(0, 1))
        if action == "write":
            regions[pair[side]].write(data.draw(st.integers(1, 1000)))
        elif action == "say":
            link.say(side)
        elif action == "hear" and link.flights[1 - side]:
            link.hear(side)
        elif action == "pump":
            link.pump()
        elif action == "lose":
            link.close()
            links[pair] = Link(regions[pair[0]], regions[pair[1]])
    for now_ms in range(200, 3_200, 200):
        for link in links.values():
            link.tick(now_ms)
            link.pump()
    vectors = [region.vector.as_dict() for region in regions]
    assert all(vector == vectors[0] for vector in vectors)
    assert all(not region.waiting for region in regions)
    for region in regions:
        for other in regions:
            if other is not region:
                assert region.progress.durable_of(other.config.region).as_dict() == vectors[0]


MESH = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


# Audits


@pytest.mark.interpreted
def test_an_audit_is_carried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    due = {2: wire.Audit(scope=[b"keys"], labels=[b"a"], sums=[1 << 63], key="x")}
    monkeypatch.setattr(east.view, "audit", SimpleNamespace(due=lambda peer: due.pop(peer, None)))
    link.pump()
    [told] = [heard.audit for heard in west.heard if heard.audit is not None]
    assert (told.sums[0], told.key) == (1 << 63, "x")
    assert not any(heard.audit for heard in east.heard)
