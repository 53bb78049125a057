"""Links that flap: while faults come, each connection of such a world is lost after a few messages with batches, and
clients add entries of many messages, which arrive although no link lives long enough for them.
"""

from __future__ import annotations

from random import Random

from crdtstream.replication.wire_pb2 import Message
from simulations.network import Connection, Network, Watcher
from simulations.world import World

FLAP = "flap"
MESSAGES_MAX = 6


class Flapping(Watcher):
    """Loses the connections of one world, as long as its adversary does not heal."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._left: dict[int, int] = {}
        world.workload.large = rng

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        carries = message.HasField("part") or message.HasField("batches")
        if not carries or self._world.adversary.healing:
            return
        left = self._left.get(connection.number) or self._rng.randrange(1, MESSAGES_MAX)
        self._left[connection.number] = left - 1
        if left == 1:
            self._world.injected[FLAP] += 1
            self._world.plan(0, self._world.lose_connections, connection.ends)
