"""One region of the demo: its process, and a connection to each shard, whose replies are those of scenario texts."""

from __future__ import annotations

import select
import shlex
import socket
from pathlib import Path

from crdtstream.processes.ports import HOST
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import ProcessError
from crdtstream.scenarios.reply import Value, next_reply

CLUSTER = "demo"
REGIONS = 3
REPLY_TIMEOUT_S = 20.0


class Region(ShardedRegion):
    """A region; every peer is dialled through a relay, so its address is that of the relay.

    One command at a time goes to the shard of its key; one without a key follows the last one, as WAIT must.
    """

    def __init__(
        self, name: str, number: int, directory: Path, port: int = 0, bulk: bool = False, shards: int = 1
    ) -> None:
        super().__init__(number, directory, shards, name, port=port, bulk=bulk)
        self._connections: dict[int, RegionConnection] = {}
        # The shard that the last command was sent to.
        self._asked = 0

    def begin(self, peers: list[str]) -> None:
        allowed = tuple(range(1, REGIONS + 1))
        self.start(*peers, cluster=CLUSTER, incarnation=0, allow_region=allowed)

    def disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        super().disconnect()

    def run(self, *argv: str) -> Value:
        """Return a command's reply. An error reply is a value; a lost region raises ProcessError."""
        self.send(*argv)
        return self.await_reply(*argv)

    def run_in(self, shard: int, *argv: str) -> Value:
        """The same, in this shard."""
        self._send(shard, argv)
        return self.await_reply(*argv)

    def send(self, *argv: str) -> None:
        """Send a command whose reply is taken later."""
        shard = self.shard_of(*argv)
        self._send(self._asked if shard is None else shard, argv)

    def _send(self, shard: int, argv: tuple[str, ...]) -> None:
        self._asked = shard
        try:
            if shard not in self._connections:
                self._connections[shard] = RegionConnection(self.port + shard)
            self._connections[shard].send(*argv)
        except OSError as error:
            raise self._lost(argv, error) from error

    def await_reply(self, *argv: str) -> Value:
        """Wait for the reply to this command, which was sent before."""
        try:
            return self._connections[self._asked].receive()
        except (EOFError, OSError) as error:
            raise self._lost(argv, error) from error

    def is_answered(self) -> bool:
        """Return whether the reply to what was sent is there."""
        connection = self._connections.get(self._asked)
        return connection is not None and connection.is_readable()

    def _lost(self, argv: tuple[str, ...], error: Exception) -> ProcessError:
        self.check_alive()
        return ProcessError(f"{self} does not answer {shlex.join(argv)}: {error}{self.log_end()}")

    def own_counter(self) -> int:
        """The number of effects that it has made, in all shards."""
        own = f"{self.number}."
        return sum(counter for vector in self.vectors() for origin, counter in vector.items() if origin.startswith(own))

    def text_digests(self) -> list[str]:
        """The digest of each shard."""
        return [str(self.run_in(shard, "CRDT.DIGEST")) for shard in range(self.shards)]


class RegionConnection:
    """A connection to a Redis port: requests as arrays of words, replies as they come."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), REPLY_TIMEOUT_S)
        self._received = self._socket.makefile("rb")

    def send(self, *argv: str) -> None:
        words = [word.encode() for word in argv]
        parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        self._socket.sendall(b"*%d\r\n" % len(words) + b"".join(parts))

    def receive(self) -> Value:
        return next_reply(self._received)

    def is_readable(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._received.close()
        self._socket.close()
