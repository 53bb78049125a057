"""A region of several shards as processes: its supervisor, which is started and signalled, and what that runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import redis

from crdtstream.processes.clients import client_of, pairs
from crdtstream.processes.launching import LOCAL, Launching
from crdtstream.processes.ports import HOST, free_ports
from crdtstream.processes.region import RegionProcess, linked
from crdtstream.processes.server import DOWN, SERVES, STATE_S
from crdtstream.processes.waiting import DEADLINE_S, until


class ShardedRegion(RegionProcess):
    """A region whose ports are the first of as many as it has shards; `ask` asks shard 0."""

    def __init__(
        self,
        number: int,
        directory: Path,
        shards: int,
        name: str = "",
        launcher: Launching = LOCAL,
        port: int = 0,
        bulk: bool = False,
        host: str = HOST,
        replication_port: int = 0,
    ) -> None:
        super().__init__(
            number,
            directory,
            name,
            launcher,
            host,
            port=port or free_ports(shards),
            replication_port=replication_port or free_ports(shards),
        )
        self.shards = shards
        self.bulk_port = free_ports(shards) if bulk else 0

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
        with client_of(self.port + shard, timeout_s, self.launcher.inside, host=self.host) as client:
            return client.execute_command(*argv)

    def cluster_client(self, timeout_s: float = DEADLINE_S) -> Any:
        """Return a client that finds the shard of each key, with replies as text; the caller closes it."""
        if self.shards == 1:
            return self.client(timeout_s, decode=True)
        return redis.RedisCluster(
            host=self.host, port=self.port, socket_timeout=timeout_s, protocol=2, decode_responses=True
        )

    def ask_shards(self, *argv: str | bytes | int) -> list[Any]:
        """Run one command in each shard."""
        return [self.ask_shard(shard, *argv) for shard in range(self.shards)]

    def shard_of(self, *argv: str) -> int | None:
        """Return the shard that has the first key of a command; None if it has none."""
        if self.shards == 1:
            return 0
        try:
            key = self.ask("COMMAND", "GETKEYS", *argv)[0]
        except redis.ResponseError:
            return None
        hash_slot = self.ask("CLUSTER", "KEYSLOT", key)
        return next(int(row[2][1]) - self.port for row in self.ask("CLUSTER", "SLOTS") if hash_slot <= row[1])

    def process_of(self, shard: int) -> int:
        """Return the process ID of a shard that serves."""
        lines = self.ask_shard(shard, "INFO", "server").decode().splitlines()
        return int(next(line for line in lines if line.startswith("process_id:")).partition(":")[2])

    def kill_shard(self, shard: int) -> None:
        """End the process of a shard at once; the supervisor starts another."""
        os.kill(self.process_of(shard), signal.SIGKILL)

    def stop_shard(self, shard: int) -> None:
        """End the process of a shard cleanly; it stays down until the supervisor gets SIGHUP."""
        process = self.process_of(shard)
        os.kill(process, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{process}").exists(), lambda: f"shard {shard} of {self} stops{self.log_end()}")

    # What all of its shards tell

    def digests(self) -> list[bytes]:
        return [bytes(digest) for digest in self.ask_shards("CRDT.DIGEST")]

    def vectors(self) -> list[dict[str, int]]:
        """What each shard has applied: origin -> counter."""
        replies = [pairs(pairs(reply)[b"applied"]) for reply in self.ask_shards("CRDT.VECTOR")]
        return [{origin.decode(): int(counter) for origin, counter in reply.items()} for reply in replies]

    def is_admitted(self) -> bool:
        return all(b"admitted:1" in reply.splitlines() for reply in self.ask_shards("INFO", "replication"))

    def open_links(self) -> set[str]:
        """Return the names of the peers that all shards are linked with; none while one does not answer."""
        try:
            return set.intersection(*[linked(reply) for reply in self.ask_shards("CRDT.REGIONS")])
        except redis.RedisError:
            return set()
