"""With whom no session is held, and what closes one."""

from __future__ import annotations

import pytest

from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.session import Session
from crdtstream.replication.values.states import OPEN
from tests.replication.linked_regions import BYTES_MAX, Link, Region, linked, pump_all


def refused(left: Region, right: Region) -> str:
    """What both sides close with; the same sentence, but for who says it."""
    link = Link(left, right)
    link.pump()
    reasons = [session.closed for session in link.sessions]
    assert None not in reasons
    assert [session.is_open for session in link.sessions] == [False, False]
    assert left.accepted == right.accepted == []
    return str(reasons[0])


def test_other_clusters_are_refused() -> None:
    assert refused(Region(1), Region(2, cluster="other")) == (
        "region east (1) belongs to cluster 'test', region west (2) to cluster 'other': give both the same"
        " --cluster, or remove one from the other's peers"
    )


def test_other_id_modes_are_refused() -> None:
    assert refused(Region(1), Region(2, id_mode="liberal")) == (
        "region east (1) has ID mode strict, region west (2) has liberal: give every region of the cluster the same"
        " --id-mode"
    )


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("protocol_version", "region west (2) speaks protocol version 2 to 5, region east (1) speaks version 9: run"),
        ("format_version", "region west (2) writes batches in format 3 to 4, region east (1) in format 9: run"),
        ("shard", "region west (2) serves shard 0, region east (1) shard 9: connect equal shards"),
    ],
)
def test_other_versions_and_shards_are_refused(field: str, what: str) -> None:
    link = Link(Region(1), Region(2))
    hello = link.sessions[0].outgoing(link.hosts[0].look(), BYTES_MAX, 0)
    assert hello is not None
    setattr(hello.hello, field, 9)
    link.sessions[1].receive(hello, link.hosts[1].look(), 0)
    answer = link.sessions[1].outgoing(link.hosts[1].look(), BYTES_MAX, 0)
    assert answer is not None
    assert answer.refused.reason.startswith(what)
    assert link.sessions[1].closed == answer.refused.reason


def test_other_numbers_of_shards_are_refused() -> None:
    """A region of a release before says nothing of shards: it has one."""
    reason = (
        "region east (1) has 1 shard, region west (2) has 2 shards: give every region of the cluster the same --shards,"
        " which is chosen when the cluster is founded"
    )
    assert refused(Region(1), Region(2, shards=2, shard="0")) == reason
    link = Link(Region(1, shards=2, shard="1"), Region(2, shards=2, shard="1"))
    link.pump()
    assert [session.is_open for session in link.sessions] == [True, True]
    assert refused(Region(1, shards=2, shard="0"), Region(2, shards=2, shard="1")) == (
        "region east (1) serves shard 0, region west (2) shard 1: connect equal shards"
    )


def test_a_connection_to_itself_is_refused() -> None:
    east = Region(1)
    assert refused(east, east) == "region east (1) is connected to itself: remove its own address from its peers"


def test_two_processes_of_one_region_number_are_two_origins() -> None:
    """Whether one of them belongs there is asked elsewhere; nothing that either of them did is lost."""
    east, west, copy = Region(1), Region(2), Region(1, seed=1, name="best")
    links = [linked(east, west), linked(west, copy), linked(east, copy)]
    east.write()
    copy.write()
    pump_all(links)
    assert [region.vector.as_dict() for region in (east, west, copy)] == [{1: 1, 257: 1}] * 3


def test_a_data_directory_that_went_back_in_time_takes_what_it_forgot() -> None:
    east, west = Region(1), Region(2)
    east.write()
    east.write()
    linked(east, west)
    back = Region(1, seed=1)
    back.write()
    linked(back, west)
    assert back.vector.as_dict() == west.vector.as_dict() == {1: 2, 257: 1}


def test_a_hello_that_was_long_under_way_is_no_old_directory() -> None:
    """What east wrote after its Hello reached west by another way before it."""
    east, west, north = Region(1), Region(2), Region(3)
    slow = Link(east, west)
    slow.say(0)
    east.write()
    linked(east, north)
    linked(north, west)
    assert west.vector.get(1) == 1
    slow.pump()
    assert [session.state for session in slow.sessions] == [OPEN, OPEN]


def test_the_refused_side_says_who_refused() -> None:
    link = Link(Region(1), Region(2))
    link.say(1)
    link.sessions[1].receive(wire.Message(refused=wire.Refused(reason="because")), link.hosts[1].look(), 0)
    assert link.sessions[1].closed == "the peer refused: because"
    assert link.say(1) is None


def test_a_host_that_refuses_a_batch_closes_the_link() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    west.refuses = "not this one"
    east.write()
    east.write()
    link.pump()
    assert [session.closed for session in link.sessions] == ["the peer refused: not this one", "not this one"]
    assert west.accepted == []


def greeting(**fields: object) -> wire.Message:
    """What region 1 would say at first, but for these fields."""
    view = Region(1).look()
    message = Session(view, 0).outgoing(view, BYTES_MAX, 0)
    assert message is not None
    for name, value in fields.items():
        message.hello.ClearField(name)  # type: ignore[arg-type]
        message.hello.MergeFrom(wire.Hello(**{name: value}))  # type: ignore[arg-type]
    return message


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (wire.Message(progress=wire.Progress()), "a message before its Hello"),
        (greeting(region=0), "0 is not a valid region number"),
        (greeting(origin=0), "0 is not a valid origin"),
        (greeting(origin=1 << 61), "2305843009213693952 is not a valid origin"),
        (greeting(births=[wire.BirthRow(slot=512)]), "512 is not a valid origin"),
        (greeting(direct_slots=[256]), "256 is not a valid origin"),
        (greeting(vector=[wire.VectorRow(slot=0, counter=1)]), "0 is not a valid origin"),
        (greeting(origin=3), "region 1 greets with an origin of region 3"),
        (greeting(predecessors=[257, 258]), "region 1 greets with an origin of region 2"),
        (greeting(name="x" * 129), "a name has 129 characters, more than 128"),
    ],
)
def test_a_greeting_that_cannot_be_read_is_refused(message: wire.Message, what: str) -> None:
    view = Region(2).look()
    session = Session(view, 0)
    session.receive(message, view, 0)
    answer = session.outgoing(view, BYTES_MAX, 0)
    assert answer is not None
    assert answer.refused.reason.endswith(what)
    assert answer.refused.reason.startswith("region west (2) cannot read what ")


@pytest.mark.parametrize(
    "message",
    [
        wire.Message(hello=wire.Hello()),
        wire.Message(batches=wire.Batches(payloads=[b"nonsense"])),
        wire.Message(batches=wire.Batches(payloads=[b""])),
        wire.Message(links=wire.Links(direct_slots=[0])),
        wire.Message(progress=wire.Progress(rows=[wire.ProgressRow(slot=0)])),
        wire.Message(progress=wire.Progress(rows=[wire.ProgressRow(slot=3, durable=[wire.VectorRow(slot=1 << 20)])])),
        wire.Message(met=wire.Met(births=[wire.BirthRow(slot=256)])),
        wire.Message(met=wire.Met(neighbours=[wire.NeighbourRow(slot=1, regions=[256])])),
    ],
)
def test_a_message_that_cannot_be_read_closes_the_link(message: wire.Message) -> None:
    link = linked(Region(1), Region(2))
    link.sessions[1].receive(message, link.hosts[1].look(), 0)
    link.pump()
    assert str(link.sessions[1].closed).startswith("region west (2) cannot read what region east (1) sent: ")
    assert str(link.sessions[0].closed).startswith("the peer refused: region west (2) cannot read")
