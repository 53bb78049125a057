"""What a message means for the region, beyond its link."""

from __future__ import annotations

from crdtstream.protocols.codec import BatchHeader
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.values.progress import GrownRow
from crdtstream.replication.values.wire_values import check_birth, to_origin, to_regions


class Heard:
    """The content of one message. `own_counter`: the highest counter of this region's origin that the peer reports for
    anybody. `batches` carry their header, so that it is decoded once. `neighbours`: an origin, its birth count, and the
    regions that it has met (founding.py). `chunk`: of the state that is fetched over this link. `leaving`: the counter
    that this region must hold of the peer's origin before it ends its membership, None if the peer stays.
    """

    __slots__ = (
        "answers",
        "audit",
        "batches",
        "births",
        "calls",
        "chunk",
        "deferred",
        "has_part",
        "leaving",
        "neighbours",
        "own_counter",
        "rows",
    )

    def __init__(self) -> None:
        self.own_counter = 0
        self.leaving: int | None = None
        self.births: list[wire.BirthRow] = []
        self.neighbours: list[tuple[int, int, list[int]]] = []
        self.batches: list[tuple[BatchHeader, bytes]] = []
        # A part of a batch that is larger than a message; the complete batch is in `batches`.
        self.has_part = False
        self.rows: list[GrownRow] = []
        self.audit: wire.Audit | None = None
        self.deferred: wire.Deferred | None = None
        self.chunk: wire.Chunk | None = None
        self.calls: list[wire.Call] = []
        self.answers: list[wire.Call] = []

    def receive_met(self, met: wire.Met) -> None:
        for birth in met.births:
            to_origin(birth.slot)
            check_birth(birth)
            self.births.append(birth)
        for row in met.neighbours:
            self.neighbours.append((to_origin(row.slot), row.count, to_regions(row.regions)))
