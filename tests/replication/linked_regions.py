"""Regions that are nothing but a log, a vector and a naive inbox, joined by in-memory links."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

from crdtstream.core.effects import Batch, GroupDestroyed
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import (
    BATCH,
    JOINED,
    BatchHeader,
    decode_header,
    encode_batch,
    encode_joined,
)
from crdtstream.protocols.log_port import Damage
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.audit.audit import Audit
from crdtstream.replication.links.received import Heard
from crdtstream.replication.links.session import Session
from crdtstream.replication.links.view import View
from crdtstream.replication.log.history import History
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.transfer.fetching import Fetching
from crdtstream.replication.transfer.sending import Transfer
from crdtstream.replication.transfer.snapshot import Snapshot
from crdtstream.replication.values.states import OPEN
from crdtstream.settings.config import Config, Limits
from crdtstream.settings.live import Settings

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

    def bytes_from(self, position: int) -> int:
        return sum(len(payload) for at, _, payload in self.records if at >= position)

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


def holds(message: wire.Message, field: str) -> bool:
    return any(descriptor.name == field for descriptor, _ in message.ListFields())


class Region:
    """A log, a vector and what its sessions see: it applies what passes both gates, and is durable at once. Its
    origin's number is the region's, and 256 more for each count of the seed.
    """

    def __init__(self, number: int, seed: int = 0, **settings: Any) -> None:
        limits = {name: value for name, value in settings.items() if name in Limits.__dataclass_fields__}
        others = {name: value for name, value in settings.items() if name not in limits}
        config = Config(NAMES[number], number, "test", limits=dataclasses.replace(Limits(), **limits))
        self.config = dataclasses.replace(config, **others)
        replica = Replica(0)
        self.turn = Turn(replica, History())
        self.birth = Birth(self.config, replica)
        self.birth.start(seed, self.turn)
        self.vector = replica.applied.vector
        self.log = MemoryLog()
        self.history = History(self.log)
        self.fetching = Fetching([])
        self.view = View(
            Settings(self.config), replica, self.history, self.birth, self.fetching, Audit("", replica, [])
        )
        self.view.durable_vector = self.vector
        self.transfers = self.view.transfers
        self.progress = self.view.progress
        self.heard: list[Heard] = []
        self.waiting: list[tuple[BatchHeader, bytes]] = []
        self.links: dict[int, int] = {}
        self.refuses = ""
        self.serves_all = True
        self.served = 0
        self.snapshots = 0

    @property
    def accepted(self) -> list[tuple[int, int, int]]:
        return [(header.origin, header.first, header.last) for heard in self.heard for header, _ in heard.batches]

    @property
    def deferrals_heard(self) -> list[tuple[int, str]]:
        told = [heard.deferred for heard in self.heard if heard.deferred is not None]
        return [(deferred.other, deferred.told_by) for deferred in told]

    def look(self) -> View:
        self.view.served_position = self.log.last if self.serves_all else self.served
        self.view.direct = sorted(self.links)
        return self.view

    def perform(self, heard: Heard, session: Session, now_ms: int) -> None:
        if self.refuses and (heard.batches or heard.chunk is not None):
            session.refuse(self.refuses)
            return
        self.heard.append(heard)
        for row in heard.births:
            self.birth.receive(row.slot, row.count, self.turn)
        for origin, count, regions in heard.neighbours:
            self.birth.founding.record(origin, count, regions)
        self.waiting += heard.batches
        self.settle()
        for origin, durable, applied, life in heard.rows:
            self.progress.receive(origin, durable, applied)
            self.progress.record_life(origin, life, now_ms)
        if heard.chunk is not None:
            self.fetching.stage(session.handover.region, heard.chunk)
            whole = self.fetching.whole(heard.chunk.transfer)
            if whole is not None:
                self.join(whole.state.vector)
                session.handover.record_joined(whole.state.vector)
                self.fetching.end()

    def settle(self) -> None:
        moved = True
        while moved:
            moved = False
            for header, payload in list(self.waiting):
                known = self.vector.contains(header.origin, header.last)
                ready = header.first == self.vector.get(header.origin) + 1 and self.vector.descends(header.context)
                if known or ready:
                    self.waiting.remove((header, payload))
                if ready and not known:
                    self.apply(header.origin, header.last, payload)
                    moved = True

    def apply(self, origin: int, last: int, payload: bytes) -> None:
        self.vector.advance(origin, last)
        self.history.record(self.log.append(BATCH, payload), origin, last, self.vector)

    def join(self, vector: VersionVector) -> None:
        gap = VersionVector({origin: c for origin, c in vector.items() if not self.vector.contains(origin, c)})
        self.vector.merge(vector)
        self.history.record_gap(self.log.append(JOINED, encode_joined(1, gap)), gap, self.vector)
        self.settle()

    def begin_fetch(self, session: Session, now_ms: int) -> None:
        """Over the first link that wants it."""
        handover, view = session.handover, self.look()
        if session.is_open and handover.is_needed and self.fetching.link is None and handover.wants_fetch(view, now_ms):
            handover.begin_fetch(view)

    def capture_snapshots(self) -> None:
        for region in list(self.transfers.wanted):
            replica = Replica(0)
            replica.applied.vector = self.vector.copy()
            self.snapshots += 1
            self.transfers.begin(region, Transfer(self.snapshots, self.log.last, Snapshot(replica, [])))

    def write(self, size_bytes: int = 10) -> bytes:
        origin = self.birth.origin
        counter = self.vector.get(origin) + 1
        context = self.vector.copy()
        batch = Batch(origin, counter, counter, context, [GroupDestroyed((0, b"key"), b"g" * size_bytes)])
        payload = encode_batch(batch)
        self.apply(origin, counter, payload)
        return payload


class Link:
    """A stream between two regions that keeps order; messages travel as bytes."""

    def __init__(self, left: Region, right: Region, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.hosts = (left, right)
        self.sessions = (Session(left.view, now_ms, id(self)), Session(right.view, now_ms, id(self)))
        self.flights: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self.history: list[tuple[int, wire.Message]] = []
        self.bytes_max = BYTES_MAX

    def say(self, side: int) -> wire.Message | None:
        host, session = self.hosts[side], self.sessions[side]
        host.begin_fetch(session, self.now_ms)
        message = session.outgoing(host.look(), self.bytes_max, self.now_ms)
        session.check()
        if message is not None:
            self.history.append((side, message))
            self.flights[side].append(message.SerializeToString())
        return message

    def hear(self, side: int) -> None:
        """`side` takes the next message from the other one."""
        message = wire.Message.FromString(self.flights[1 - side].popleft())
        host, session = self.hosts[side], self.sessions[side]
        heard = session.receive(message, host.look(), self.now_ms)
        if heard is not None:
            host.perform(heard, session, self.now_ms)
        session.check()
        self.hosts[side].progress.recheck(self.hosts[side].vector)
        self._mark_links()

    def _mark_links(self) -> None:
        for host, other, session in zip(self.hosts, reversed(self.hosts), self.sessions, strict=True):
            if session.is_open:
                host.links[other.birth.origin] = 1

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
                host.capture_snapshots()
            if silent:
                return
        raise AssertionError("the sessions never fall silent")

    def tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for session in self.sessions:
            session.tick(now_ms, Limits().peer_timeout_ms)

    def close(self) -> None:
        for host, other in zip(self.hosts, reversed(self.hosts), strict=True):
            host.links.pop(other.birth.origin, None)

    def said(self, side: int, field: str) -> list[wire.Message]:
        return [message for speaker, message in self.history if speaker == side and holds(message, field)]


def linked(left: Region, right: Region) -> Link:
    link = Link(left, right)
    link.pump()
    assert [session.state for session in link.sessions] == [OPEN, OPEN], [s.closed for s in link.sessions]
    return link


def batches_of(link: Link, side: int) -> list[tuple[int, int]]:
    """(origin, last) of everything that a side sent, in order."""
    payloads = [payload for message in link.said(side, "batches") for payload in message.batches.payloads]
    return [(header.origin, header.last) for header in map(decode_header, payloads)]


def pump_all(links: list[Link]) -> None:
    for _ in range(4):
        for link in links:
            link.pump()
