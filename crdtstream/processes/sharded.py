"""A region of several shards as processes: its supervisor, which is started and signalled, and what that runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import redis

from crdtstream.processes.clients import client_of
from crdtstream.processes.launching import LOCAL, Launching
from crdtstream.processes.ports import free_ports
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.server import DOWN, SERVES, STATE_S
from crdtstream.processes.waiting import DEADLINE_S, until


class ShardedRegion(RegionProcess):
    """A region whose ports are the first of as many as it has shards; `ask` asks shard 0."""

    def __init__(
        self, number: int, directory: Path, shards: int, name: str = "", launcher: Launching = LOCAL, port: int = 0
    ) -> None:
        super().__init__(
            number,
            directory,
            name,
            launcher,
            port=port or free_ports(shards),
            replication_port=free_ports(shards),
        )
        self.shards = shards

    def start(self, *peers: RegionProcess | str, **settings: object) -> None:
        super().start(*peers, **{"shards": self.shards, **settings})

    def state(self) -> str:
        """Return that of the first shard that does not serve."""
        self.check_alive()
        return next((state for state in map(self.state_of, range(self.shards)) if state != SERVES), SERVES)

    def state_of(self, shard: int) -> str:
        try:
            self.ask_shard(shard, "DBSIZE", timeout_s=STATE_S)
        except redis.BusyLoadingError as error:
            return str(error)
        except (redis.ConnectionError, redis.TimeoutError):
            return DOWN
        return SERVES

    def await_shard(self, shard: int) -> None:
        until(lambda: self.state_of(shard) == SERVES, lambda: f"shard {shard} of {self} serves{self.log_end()}")

    def ask_shard(self, shard: int, *argv: str | bytes | int, timeout_s: float = DEADLINE_S) -> Any:
        """Run one command on a connection to that shard."""
        with client_of(self.port + shard, timeout_s, self.launcher.inside) as client:
            return client.execute_command(*argv)

    def process_of(self, shard: int) -> int:
        """Return the process ID of a shard that serves."""
        lines = self.ask_shard(shard, "INFO", "server").decode().splitlines()
        return int(next(line for line in lines if line.startswith("process_id:")).partition(":")[2])

    def kill_shard(self, shard: int) -> None:
        """End the process of a shard at once; the supervisor starts another."""
        os.kill(self.process_of(shard), signal.SIGKILL)

    def digests(self) -> list[bytes]:
        return [bytes(self.ask_shard(shard, "CRDT.DIGEST")) for shard in range(self.shards)]
