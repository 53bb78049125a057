"""Checkers of regions that lack room, on their disk or in their memory."""

from __future__ import annotations

from crdtstream.core.effects import AddCounted, EntriesAdded
from crdtstream.core.values.causality import VersionVector
from crdtstream.replication.wire_pb2 import Message
from simulations.checking import Checker
from simulations.network import Connection, Network

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
