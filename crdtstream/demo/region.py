"""One region of the demo: its process, and a connection whose replies are text, as redis-cli shows them."""

from __future__ import annotations

import shlex
from functools import cached_property
from pathlib import Path
from typing import Any

import redis

from crdtstream.processes.region import RegionProcess
from crdtstream.processes.waiting import ProcessError

CLUSTER = "demo"
REGIONS = 3
REPLY_TIMEOUT_S = 20.0


class Region(RegionProcess):
    """A region; every peer is dialled through a relay, so its address is that of the relay."""

    def __init__(self, name: str, number: int, directory: Path, port: int = 0, bulk: bool = False) -> None:
        super().__init__(number, directory, name, port=port, bulk=bulk)

    def begin(self, peers: list[str]) -> None:
        allowed = tuple(range(1, REGIONS + 1))
        self.start(*peers, cluster=CLUSTER, incarnation=0, allow_region=allowed)

    @cached_property
    def _client(self) -> Any:
        return self.connect(REPLY_TIMEOUT_S, decode=True)

    def disconnect(self) -> None:
        self.__dict__.pop("_client", None)
        super().disconnect()

    def run(self, *argv: str) -> Any:
        """Return a command's reply. An error reply is returned as a value; a lost region raises ProcessError."""
        try:
            return self._client.execute_command(*argv)
        except redis.ResponseError as error:
            return error
        except redis.RedisError as error:
            self.check_alive()
            raise ProcessError(f"{self} does not answer {shlex.join(argv)}: {error}{self.log_end()}") from error

    def own_counter(self) -> int:
        own = f"{self.number}."
        return sum(counter for origin, counter in self.vector().items() if origin.startswith(own))

    def text_digest(self) -> str:
        return str(self.run("CRDT.DIGEST"))
