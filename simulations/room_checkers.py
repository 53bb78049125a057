"""Checkers of regions that lack room, on their disk or in their memory."""

from __future__ import annotations

from crdtstream.core.effects import AddCounted, EntriesAdded
from crdtstream.core.values.causality import VersionVector
from crdtstream.replication.wire_pb2 import Message
from simulations.checking import Checker
from simulations.network import Connection, Network

# A region whose disk is full looks at each tick whether a checkpoint is due, and tries one again after SHORT_MS.
OWED_MS = 1_000
# A process that stood still for longer was suspended.
STILL_MS = 200

# A region may refuse a peer for this whatever room it has: two processes run as one origin.
OWN = "own origin"


class WaitsForRoom(Checker):
    """A region that lacks room applies nothing of its peers that brings data, and refuses none of them for that."""

    name = "room"

    def turned(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        lacking = machine.node.exchange.arrivals.holding.lacking
        if not lacking:
            return
        own = machine.node.replica.applied.origin
        for batch in machine.logged:
            if isinstance(batch, VersionVector):
                self.fail(f"region {number} lacks {lacking} and joins a state")
            elif batch.origin != own and any(isinstance(each, EntriesAdded | AddCounted) for each in batch.effects):
                self.fail(f"region {number} lacks {lacking} and applies {batch.origin}:{batch.first}")

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        lacking = world.machines[sender].node.exchange.arrivals.holding.lacking
        if lacking and message.HasField("refused") and OWN not in message.refused.reason:
            self.fail(
                f"region {sender} lacks {lacking} and refuses {connection.other(sender)}: {message.refused.reason}"
            )


class FreesFullDisk(Checker):
    """A region whose disk is full tries a checkpoint within a second, if one would free some of it."""

    name = "full disk"

    def __init__(self) -> None:
        self._owed_ms: dict[int, int] = {}
        self._looked_ms: dict[int, int] = {}

    def turned(self, world: Network, number: int) -> None:
        machine, now_ms = world.machines[number], world.now_ms
        suspended = now_ms - self._looked_ms.get(number, 0) > STILL_MS
        self._looked_ms[number] = now_ms
        if suspended or not (machine.room.full and machine.checkpointer.is_owed() and machine.node.can_describe()):
            self._owed_ms.pop(number, None)
        elif now_ms - self._owed_ms.setdefault(number, now_ms) > OWED_MS:
            self.fail(f"region {number} has a full disk since {self._owed_ms[number]} ms, and takes no checkpoint")

    def saving(self, world: Network, number: int) -> None:
        self._owed_ms.pop(number, None)

    def stopped(self, world: Network, number: int, fault: str) -> None:
        self._owed_ms.pop(number, None)
