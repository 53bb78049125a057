"""Sessions over in-memory links between regions that are nothing but a log, a vector and a naive inbox."""

from __future__ import annotations

import dataclasses
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.config import Config, Limits
from crdtstream.core.causality import Origin, VersionVector
from crdtstream.core.effects import Batch, GroupDestroyed
from crdtstream.core.replica import Replica
from crdtstream.protocols.codec import (
    BATCH,
    BIRTH,
    JOINED,
    BatchHeader,
    decode_header,
    encode_batch,
    encode_joined,
)
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.founding import Founding
from crdtstream.replication.handover import Handover
from crdtstream.replication.history import Damage, History
from crdtstream.replication.progress import ProgressTable
from crdtstream.replication.session import OPEN, PROGRESS_INTERVAL_MS, Session
from crdtstream.replication.snapshot import Snapshot
from crdtstream.replication.staging import Staging
from crdtstream.replication.transfer import Transfer, Transfers

BYTES_MAX = 4096
NAMES = {1: "east", 2: "west", 3: "north", 4: "south"}


class MemoryLog:
    """Records from position 1; `cut` forgets the oldest."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, bytes]] = []
        self.last = 0
        self.reads = 0
        self.damages: list[Damage] = []

    def append(self, kind: int, payload: bytes) -> int:
        self.last += 1
        self.records.append((self.last, kind, payload))
        return self.last

    def cut(self, position: int) -> None:
        self.records = [record for record in self.records if record[0] >= position]

    @property
    def first_position(self) -> int:
        return self.records[0][0] if self.records else self.last + 1

    @property
    def last_position(self) -> int:
        return self.last

    def read(self, position: int, bytes_max: int) -> list[tuple[int, int, bytes]]:
        self.reads += 1
        found: list[tuple[int, int, bytes]] = []
        size = 0
        for record in self.records:
            if record[0] >= position and (not found or size + len(record[2]) <= bytes_max):
                found.append(record)
                size += len(record[2])
            elif found:
                break
        return found


class Region:
    """A host: applies what passes both gates, and is durable at once unless told otherwise."""

    def __init__(self, number: int, born: bool = True, **settings: object) -> None:
        limits = {name: value for name, value in settings.items() if name in Limits.__dataclass_fields__}
        others = {name: value for name, value in settings.items() if name not in limits}
        values = {"name": NAMES[number], "cluster": "test", "limits": dataclasses.replace(Limits(), **limits)} | others
        self.config = Config(region=number, **values)  # type: ignore[arg-type]
        self.origin = Origin(number, 0, 1000 + number) if born else None
        self.births: dict[int, Origin] = {} if self.origin is None else {self.origin.slot: self.origin}
        self.vector = VersionVector()
        self.durable_vector = self.vector
        self.log = MemoryLog()
        self.history = History(self.log)
        self.progress = ProgressTable()
        self.waiting: list[tuple[BatchHeader, bytes]] = []
        self.accepted: list[tuple[int, int, int]] = []
        self.links: dict[int, int] = {}
        self.births_synced = True
        self.founding = Founding()
        self.confirmed: list[tuple[int, int]] = []
        self.audits_heard: list[tuple[int, str, wire.Audit]] = []
        self.audits_due: dict[int, wire.Audit] = {}
        self.serves_all = True
        self.served = 0
        self.refuses = ""
        self.transfers = Transfers()
        self.staging: Staging | None = None
        self.fetcher: Handover | None = None

    @property
    def served_position(self) -> int:
        return self.log.last if self.serves_all else self.served

    def origins(self) -> list[Origin]:
        return [self.births[slot] for slot in sorted(self.births)]

    def births_known(self) -> int:
        return len(self.births)

    def direct_slots(self) -> list[int]:
        return sorted(self.links)

    def bound_unfinished(self) -> str | None:
        return None

    def accept_batch(self, header: BatchHeader, payload: bytes, link: int) -> str | None:
        if self.refuses:
            return self.refuses
        self.accepted.append((header.slot, header.first, header.last))
        self.waiting.append((header, payload))
        self.settle()
        return None

    def settle(self) -> None:
        moved = True
        while moved:
            moved = False
            for header, payload in list(self.waiting):
                known = self.vector.contains(header.slot, header.last)
                ready = header.first == self.vector.get(header.slot) + 1 and self.vector.descends(header.context)
                if known or ready:
                    self.waiting.remove((header, payload))
                if ready and not known:
                    self.apply(header.slot, header.last, payload)
                    moved = True

    def apply(self, slot: int, last: int, payload: bytes) -> None:
        self.vector.advance(slot, last)
        self.history.note(self.log.append(BATCH, payload), self.vector)

    def accept_birth(self, origin: Origin) -> str | None:
        known = self.births.setdefault(origin.slot, origin)
        return None if known == origin else "two nonces"

    def take_snapshots(self) -> None:
        for region in list(self.transfers.wanted):
            replica = Replica(0)
            replica.vector = self.vector.copy()
            self.transfers.begin(region, Transfer(self.log.last, self.log.last, Snapshot(replica, self.origins())))

    def claim_fetch(self, handover: Handover) -> bool:
        self.fetcher = self.fetcher or handover
        return self.fetcher is handover

    def is_fetching(self, handover: Handover) -> bool:
        return self.fetcher is handover

    def release_fetch(self, handover: Handover) -> None:
        if self.fetcher is handover:
            self.fetcher = self.staging = None

    def staged(self) -> tuple[int, int]:
        return (0, 0) if self.staging is None else (self.staging.transfer, self.staging.next)

    def accept_chunk(self, handover: Handover, chunk: wire.Chunk, now_ms: int) -> str | None:
        if self.refuses:
            return self.refuses
        if self.staging is None or self.staging.transfer != chunk.transfer:
            self.staging = Staging(handover.region, chunk.transfer)
        self.staging.stage(chunk.index, chunk.payload)
        if self.staging.is_done():
            self.join(self.staging.state.vector)
            handover.joined(self.staging.state.vector)
            self.fetcher = self.staging = None
        return None

    def join(self, vector: VersionVector) -> None:
        gap = VersionVector({slot: c for slot, c in vector.items() if not self.vector.contains(slot, c)})
        self.vector.merge(vector)
        self.history.note_gap(self.log.append(JOINED, encode_joined(1, gap)), gap, self.vector)
        self.settle()

    def birth_synced(self, slot: int) -> bool:
        return self.births_synced and slot in self.births

    def confirm_birth(self, region: int, slot: int) -> None:
        self.confirmed.append((region, slot))

    def hear_audit(self, region: int, name: str, heard: wire.Audit) -> None:
        self.audits_heard.append((region, name, heard))

    def due_audit(self, region: int) -> wire.Audit | None:
        return self.audits_due.pop(region, None)

    def write(self, size_bytes: int = 10) -> bytes:
        assert self.origin is not None
        slot = self.origin.slot
        counter = self.vector.get(slot) + 1
        context = self.vector.copy()
        batch = Batch(slot, counter, counter, context, [GroupDestroyed((0, b"key"), b"g" * size_bytes)])
        payload = encode_batch(batch, self.origin.nonce)
        self.apply(slot, counter, payload)
        return payload


class Link:
    """A stream between two regions that keeps order; messages travel as bytes."""

    def __init__(self, left: Region, right: Region, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.hosts = (left, right)
        self.sessions = (Session(left, now_ms), Session(right, now_ms))
        self.flights: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self.history: list[tuple[int, wire.Message]] = []
        self.bytes_max = BYTES_MAX

    def say(self, side: int) -> wire.Message | None:
        message = self.sessions[side].outgoing(self.bytes_max, self.now_ms)
        self.sessions[side].check()
        if message is not None:
            self.history.append((side, message))
            self.flights[side].append(message.SerializeToString())
        return message

    def hear(self, side: int) -> None:
        """`side` takes the next message from the other one."""
        message = wire.Message.FromString(self.flights[1 - side].popleft())
        self.sessions[side].receive(message, self.now_ms)
        self.sessions[side].check()
        self.hosts[side].progress.settle(self.hosts[side].vector)
        self._mark_links()

    def _mark_links(self) -> None:
        for host, other, session in zip(self.hosts, reversed(self.hosts), self.sessions, strict=True):
            origin = other.origin
            if session.is_open and origin is not None:
                host.links[origin.slot] = 1

    def pump(self, rounds: int = 1000) -> None:
        """Until neither side has anything to say."""
        for _ in range(rounds):
            silent = [self.say(side) for side in (0, 1)] == [None, None]
            for side in (0, 1):
                while self.flights[1 - side]:
                    self.hear(side)
                    silent = False
            for host in self.hosts:
                silent = silent and not host.transfers.wanted
                host.take_snapshots()
            if silent:
                return
        raise AssertionError("the sessions never fall silent")

    def tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for session in self.sessions:
            session.tick(now_ms)

    def close(self) -> None:
        for host, other in zip(self.hosts, reversed(self.hosts), strict=True):
            if other.origin is not None:
                host.links.pop(other.origin.slot, None)

    def said(self, side: int, field: str) -> list[wire.Message]:
        return [message for speaker, message in self.history if speaker == side and message.HasField(field)]


def linked(left: Region, right: Region) -> Link:
    link = Link(left, right)
    link.pump()
    assert [session.state for session in link.sessions] == [OPEN, OPEN], [s.closed for s in link.sessions]
    return link


def batches_of(link: Link, side: int) -> list[tuple[int, int]]:
    """(slot, last) of everything that a side sent, in order."""
    payloads = [payload for message in link.said(side, "batches") for payload in message.batches.payloads]
    return [(header.slot, header.last) for header in map(decode_header, payloads)]


def refused(left: Region, right: Region) -> str:
    """What both sides close with; the same sentence, but for who says it."""
    link = Link(left, right)
    link.pump()
    reasons = [session.closed for session in link.sessions]
    assert None not in reasons
    assert [session.is_open for session in link.sessions] == [False, False]
    assert left.accepted == right.accepted == []
    return str(reasons[0])


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
    assert link.sessions[1].peer_origin == east.origin


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
    east.log.append(BIRTH, b"")
    east.write()
    east.log.append(BIRTH, b"")
    east.write()
    linked(east, west)
    assert west.vector.get(1) == 2


def test_a_long_search_is_cut_into_calls() -> None:
    """Records that the peer is not to have cost a call each few reads, and each says so to be called again."""
    east, west = Region(1), Region(2)
    link = linked(east, west)
    for _ in range(500):
        east.log.append(BIRTH, b"x" * 100)
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
    east.config = dataclasses.replace(east.config, limits=west.config.limits)
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
    west.births[3] = east.births[3] = Origin(3, 0, 1003)
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
    assert [part.index for part in parts] == list(range(5))
    assert all(len(part.payload) <= BYTES_MAX for part in parts)
    assert west.log.records == east.log.records


def test_parts_pass_a_smaller_window() -> None:
    east, west = Region(1, window_bytes=1000), Region(2, window_bytes=1000)
    link = linked(east, west)
    for _ in range(3):
        east.write(20_000)
    link.pump()
    assert west.vector.get(1) == 3


def test_a_link_lost_between_parts_begins_again() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    east.write(20_000)
    for _ in range(2):
        link.say(0)
        link.hear(1)
    link.close()
    linked(east, west)
    assert west.vector.get(1) == 1


@pytest.mark.parametrize(
    ("index", "count", "what"),
    [(1, 3, "part 1 of 3 after 0 of 0"), (0, 0, "part 0 of 0 after 0 of 0"), (3, 3, "part 3 of 3 after 0 of 0")],
)
def test_a_part_out_of_order_closes_the_link(index: int, count: int, what: str) -> None:
    link = linked(Region(1), Region(2))
    session = link.sessions[1]
    session.receive(wire.Message(part=wire.Part(index=index, count=count, payload=b"x")), 0)
    link.pump()
    assert session.closed == f"region west (2) cannot read what region east (1) sent: {what}"


# Relay


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


def test_direct_slots_are_not_relayed() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north), linked(east, north)]
    pump_all(links)
    east.write()
    pump_all(links)
    assert north.vector.get(1) == west.vector.get(1) == 1
    assert batches_of(links[0], 0) == batches_of(links[2], 0) == [(1, 1)]
    assert batches_of(links[1], 0) == []


def test_what_a_peer_has_sent_is_not_sent_back() -> None:
    """Not even to one that has no origin yet, and so no progress to tell."""
    east, west, north, south = Region(1, born=False), Region(2), Region(3), Region(4)
    links = [linked(south, north), linked(north, east), linked(east, west)]
    south.write()
    pump_all(links)
    assert west.vector.get(4) == 1
    assert batches_of(links[2], 1) == []


def test_an_origin_without_owner_is_relayed() -> None:
    """An older incarnation of a linked region is nobody's own: whoever has it gives it."""
    east, west = Region(1), Region(2)
    old = Origin(2, 0, 7)
    west.origin = Origin(2, 1, 8)
    west.births = {old.slot: old, west.origin.slot: west.origin}
    east.births[old.slot] = old
    payload = encode_batch(Batch(old.slot, 1, 1, VersionVector(), [GroupDestroyed((0, b"k"), b"g")]), old.nonce)
    east.apply(old.slot, 1, payload)
    linked(east, west)
    assert west.vector.get(old.slot) == 1


def pump_all(links: list[Link]) -> None:
    for _ in range(4):
        for link in links:
            link.pump()


def test_a_slot_that_is_direct_no_more_is_relayed_from_the_vector_on() -> None:
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


def test_a_slot_that_becomes_direct_restarts_nothing() -> None:
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
    assert 3 not in east.births
    pump_all([second, first])
    assert east.births[3] == north.origin


def test_births_go_ahead_of_the_progress_of_whoever_knew_them() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    first = linked(east, west)
    first.pump()
    second = linked(west, north)
    second.pump()
    west.write()
    west.durable_vector = west.vector.copy()
    message = first.say(1)
    assert message is not None and [row.slot for row in message.met.origins] == [1, 2, 3]
    assert 2 in [row.slot for row in message.progress.rows]


def test_neighbours_are_passed_on() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    links = [linked(east, west), linked(west, north)]
    pump_all(links)
    north.founding.tell(3, [2])
    west.founding.tell(2, [1, 3])
    pump_all(links)
    assert east.founding.rows() == [(2, (1, 3)), (3, (2,))]
    east.founding = Founding()
    pump_all([linked(east, west)])
    assert east.founding.rows() == [(2, (1, 3)), (3, (2,))], "a new link begins anew"


def test_a_batch_of_a_slot_that_another_nonce_holds_closes_the_link() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    west.births[3] = Origin(3, 0, 6)
    east.births[3] = Origin(3, 0, 5)
    payload = encode_batch(Batch(3, 1, 1, VersionVector(), [GroupDestroyed((0, b"k"), b"g")]), 5)
    east.apply(3, 1, payload)
    link.pump()
    assert link.sessions[1].closed == "two nonces"
    assert west.accepted == []


# Progress


def test_durable_progress_goes_at_once_and_applied_progress_waits() -> None:
    east, west = Region(1), Region(2)
    west.durable_vector = VersionVector()
    link = linked(east, west)
    link.tick(10)
    east.write()
    link.say(0)
    link.hear(1)
    assert link.say(1) is None
    west.durable_vector = west.vector.copy()
    link.say(1)
    link.hear(0)
    assert east.progress.durable_of(2).as_dict() == {1: 1}
    assert east.progress.applied_of(2).as_dict() == {1: 1}


def test_applied_progress_goes_after_an_interval() -> None:
    east, west = Region(1), Region(2)
    west.durable_vector = VersionVector()
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
    west.durable_vector = VersionVector()
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
    assert link.sessions[0].closed == "nothing heard from the peer for 5000 ms"
    assert link.say(0) is None


def test_a_peer_that_never_greets_is_closed() -> None:
    session = Session(Region(1), 0)
    session.outgoing(BYTES_MAX, 0)
    session.tick(5_000)
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


def test_a_region_without_origin_asks_and_announces_its_birth() -> None:
    east, west = Region(1, born=False), Region(2)
    west.births[1] = Origin(1, 0, 5)
    link = linked(east, west)
    assert east.births[1] == Origin(1, 0, 5)
    assert link.sessions[1].peer_origin is None
    east.origin = Origin(1, 1, 6)
    east.births[257] = east.origin
    west.births_synced = False
    link.pump()
    assert west.births[257] == east.origin
    assert link.sessions[1].peer_origin == east.origin
    assert east.confirmed == []
    west.births_synced = True
    link.pump()
    assert east.confirmed == [(2, 257)]
    assert len(link.said(0, "birth")) == 1


def test_a_birth_in_hello_is_confirmed_too() -> None:
    east, west = Region(1), Region(2)
    linked(east, west)
    assert east.confirmed == [(2, 1)]
    assert west.confirmed == [(1, 2)]


def test_two_new_regions_meet() -> None:
    east, west = Region(1, born=False), Region(2, born=False)
    link = linked(east, west)
    east.origin = east.births[1] = Origin(1, 0, 5)
    west.origin = west.births[2] = Origin(2, 0, 6)
    link.pump()
    east.write()
    link.pump()
    assert east.confirmed == [(2, 1)]
    assert west.vector.get(1) == 1


@pytest.mark.parametrize(
    "origin", [wire.Origin(region=3), wire.Origin(region=0), wire.Origin(region=1, incarnation=256)]
)
def test_a_birth_of_another_region_is_refused(origin: wire.Origin) -> None:
    link = linked(Region(1, born=False), Region(2))
    link.sessions[1].receive(wire.Message(birth=wire.Birth(origin=origin)), 0)
    link.pump()
    assert link.sessions[1].closed is not None


# Refusals


def test_other_clusters_are_refused() -> None:
    assert refused(Region(1), Region(2, cluster="other")) == (
        "region east (1) is of cluster 'test', region west (2) of cluster 'other': give both the same --cluster, or"
        " take the one out of the other's peers"
    )


def test_other_id_modes_are_refused() -> None:
    assert refused(Region(1), Region(2, id_mode="liberal")) == (
        "region east (1) has ID mode strict, region west (2) has liberal: give every region of the cluster the same"
        " --id-mode"
    )


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("protocol_version", "region west (2) speaks protocol version 1, region east (1) version 9: run"),
        ("format_version", "region west (2) writes batches in format 1, region east (1) in format 9: run"),
        ("shard", "region west (2) serves shard 0, region east (1) shard 9: connect equal shards"),
    ],
)
def test_other_versions_and_shards_are_refused(field: str, what: str) -> None:
    link = Link(Region(1), Region(2))
    hello = link.sessions[0].outgoing(BYTES_MAX, 0)
    assert hello is not None
    setattr(hello.hello, field, 9)
    link.sessions[1].receive(hello, 0)
    answer = link.sessions[1].outgoing(BYTES_MAX, 0)
    assert answer is not None
    assert answer.refused.reason.startswith(what)
    assert link.sessions[1].closed == answer.refused.reason


def test_a_connection_to_itself_is_refused() -> None:
    east = Region(1)
    assert refused(east, east) == (
        "region east (1) met its own origin: take its own address out of its peers, or, if its data directory was"
        " copied, start the copy with an empty --data"
    )
    new = Region(1, born=False)
    assert refused(new, new) == ("region east (1) met its own name and number: take its own address out of its peers")


def test_one_region_number_twice_is_refused() -> None:
    other = Region(1, name="best")
    other.origin = other.births[1] = Origin(1, 0, 77)
    assert refused(Region(1), other) == (
        "two nodes claim region number 1, east and best: give one of them another --region"
    )
    assert refused(Region(1, born=False), other).startswith("two nodes claim region number 1")


def test_a_slot_that_another_nonce_holds_is_refused() -> None:
    east, west = Region(1), Region(2)
    east.births[3] = Origin(3, 0, 5)
    west.births[3] = Origin(3, 0, 6)
    assert refused(east, west) == (
        "slot 3 (region 3, incarnation 0) is one origin to region east (1) and another to region west (2): two data"
        " directories were used under one region number; start one of them with an empty --data and a --region of its"
        " own"
    )


def test_an_own_slot_that_another_nonce_holds_is_refused() -> None:
    east, west = Region(1), Region(2)
    west.births[1] = Origin(1, 0, 6)
    assert refused(east, west).startswith("slot 1 (region 1, incarnation 0) is one origin to")


def test_a_data_directory_that_went_back_in_time_is_refused() -> None:
    east, west = Region(1), Region(2)
    east.write()
    east.write()
    linked(east, west)
    back = Region(1)
    back.write()
    west.accepted = []
    assert refused(back, west) == (
        "region east (1) has incarnation 0 and effects up to 1 of it, but region west (2) holds its effects up to 2:"
        " that data directory is older than what was replicated from it; start it with the newer one, or with an empty"
        " --data"
    )


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


def test_an_incarnation_that_was_succeeded_is_refused() -> None:
    east, west = Region(1), Region(2)
    west.births[257] = Origin(1, 1, 6)
    assert "holds incarnation 1: that data directory is older" in refused(west, east)


def test_the_refused_side_says_who_refused() -> None:
    link = Link(Region(1), Region(2))
    link.say(1)
    link.sessions[1].receive(wire.Message(refused=wire.Refused(reason="because")), 0)
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


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (wire.Message(progress=wire.Progress()), "a message before its Hello"),
        (wire.Message(hello=wire.Hello()), "there is no region 0"),
        (wire.Message(hello=wire.Hello(region=1, origins=[wire.OriginRow(slot=70000)])), "there is no slot 70000"),
        (wire.Message(hello=wire.Hello(region=1, direct_slots=[256])), "there is no slot 256"),
        (
            wire.Message(hello=wire.Hello(region=1, origin=wire.Origin(region=3))),
            "region 1 greets with an origin of region 3",
        ),
    ],
)
def test_a_greeting_that_cannot_be_read_is_refused(message: wire.Message, what: str) -> None:
    session = Session(Region(2), 0)
    session.receive(message, 0)
    answer = session.outgoing(BYTES_MAX, 0)
    assert answer is not None
    assert answer.refused.reason.endswith(what)
    assert answer.refused.reason.startswith("region west (2) cannot read what a peer")


@pytest.mark.parametrize(
    "message",
    [
        wire.Message(hello=wire.Hello()),
        wire.Message(batches=wire.Batches(payloads=[b"nonsense"])),
        wire.Message(batches=wire.Batches(payloads=[b""])),
        wire.Message(links=wire.Links(direct_slots=[0])),
        wire.Message(progress=wire.Progress(rows=[wire.ProgressRow(slot=0)])),
        wire.Message(progress=wire.Progress(rows=[wire.ProgressRow(slot=3, durable=[wire.VectorRow(slot=1 << 20)])])),
    ],
)
def test_a_message_that_cannot_be_read_closes_the_link(message: wire.Message) -> None:
    link = linked(Region(1), Region(2))
    link.sessions[1].receive(message, 0)
    link.pump()
    assert str(link.sessions[1].closed).startswith("region west (2) cannot read what region east (1) sent: ")
    assert str(link.sessions[0].closed).startswith("the peer refused: region west (2) cannot read")


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


def test_an_audit_is_carried_once() -> None:
    east, west = Region(1), Region(2)
    link = linked(east, west)
    east.audits_due[2] = wire.Audit(scope=[b"keys"], labels=[b"a"], sums=[1 << 63], key="x")
    link.pump()
    [(region, name, heard)] = west.audits_heard
    assert (region, name, heard.sums[0], heard.key) == (1, "east", 1 << 63, "x")
    assert east.audits_heard == []
