"""One region of the demo: its process, and a connection whose replies are those of scenario texts."""

from __future__ import annotations

import select
import shlex
import socket
from pathlib import Path

from crdtstream.processes.ports import HOST
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.waiting import ProcessError
from crdtstream.scenarios.reply import Value, next_reply

CLUSTER = "demo"
REGIONS = 3
REPLY_TIMEOUT_S = 20.0


class Region(RegionProcess):
    """A region; every peer is dialled through a relay, so its address is that of the relay."""

    def __init__(self, name: str, number: int, directory: Path, port: int = 0, bulk: bool = False) -> None:
        super().__init__(number, directory, name, port=port, bulk=bulk)
        self._connection: RegionConnection | None = None

    def begin(self, peers: list[str]) -> None:
        allowed = tuple(range(1, REGIONS + 1))
        self.start(*peers, cluster=CLUSTER, incarnation=0, allow_region=allowed)

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        super().disconnect()

    def run(self, *argv: str) -> Value:
        """Return a command's reply. An error reply is a value; a lost region raises ProcessError."""
        self.send(*argv)
        return self.await_reply(*argv)

    def send(self, *argv: str) -> None:
        """Send a command whose reply is taken later."""
        try:
            if self._connection is None:
                self._connection = RegionConnection(self.port)
            self._connection.send(*argv)
        except OSError as error:
            raise self._lost(argv, error) from error

    def await_reply(self, *argv: str) -> Value:
        """Wait for the reply to this command, which was sent before."""
        assert self._connection is not None, "nothing was sent"
        try:
            return self._connection.receive()
        except (EOFError, OSError) as error:
            raise self._lost(argv, error) from error

    def is_answered(self) -> bool:
        """Return whether the reply to what was sent is there."""
        return self._connection is not None and self._connection.is_readable()

    def _lost(self, argv: tuple[str, ...], error: Exception) -> ProcessError:
        self.check_alive()
        return ProcessError(f"{self} does not answer {shlex.join(argv)}: {error}{self.log_end()}")

    def own_counter(self) -> int:
        own = f"{self.number}."
        return sum(counter for origin, counter in self.vector().items() if origin.startswith(own))

    def text_digest(self) -> str:
        return str(self.run("CRDT.DIGEST"))


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
