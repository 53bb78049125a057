"""Processes that serve the hash slots together: the shards of a region, or redis-servers that are a cluster.

Both have the same ranges, so a stream lies in the process of the same number on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice

from benchmarks.servers import EVERYSEC, START_S, Redis, cpu_s_of
from crdtstream.processes.ports import HOST
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import until
from crdtstream.protocols.hash_slots import hash_slot_of, slot_ranges

CLUSTER_MODE: dict[str, object] = {"cluster_enabled": "yes", "cluster_config_file": "nodes.conf"}


@dataclass(frozen=True, slots=True)
class SlotServers:
    """The port of each, in the order of their hash slots, and all processes that take part."""

    ports: tuple[int, ...]
    processes: tuple[int, ...]

    def cpu_s(self) -> float:
        return sum(map(cpu_s_of, self.processes))


def slot_servers_of(region: ShardedRegion) -> SlotServers:
    """Start the region, which may be one of one shard; its supervisor takes part."""
    region.start(incarnation=0, fsync=EVERYSEC)
    region.await_serving(START_S)
    ports = tuple(region.port + shard for shard in range(region.shards))
    processes = {region.pid, *map(region.process_of, range(region.shards))}
    return SlotServers(ports, tuple(sorted(processes)))


def founded(servers: Sequence[Redis]) -> SlotServers:
    """Make these redis-servers, which run in cluster mode, one cluster."""
    for number, (server, (low, high)) in enumerate(zip(servers, slot_ranges(len(servers)), strict=True)):
        server.ask("CLUSTER", "ADDSLOTSRANGE", low, high)
        server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for server in servers[1:]:
        servers[0].ask("CLUSTER", "MEET", HOST, server.port, bus_port_of(server))
    until(lambda: all(serves(server, len(servers)) for server in servers), "the redis-servers are a cluster", START_S)
    return SlotServers(tuple(server.port for server in servers), tuple(server.pid for server in servers))


def bus_port_of(server: Redis) -> int:
    own = next(line for line in server.ask("CLUSTER", "NODES").splitlines() if b"myself" in line)
    return int(own.split()[1].partition(b"@")[2].partition(b",")[0])


def serves(server: Redis, nodes: int) -> bool:
    lines = server.ask("CLUSTER", "INFO").splitlines()
    return b"cluster_state:ok" in lines and b"cluster_known_nodes:%d" % nodes in lines


def keys_in(number: int, servers: int, wanted: int, prefix: str) -> list[str]:
    """Names of streams that lie in the process of this number."""
    low, high = slot_ranges(servers)[number]
    names = (f"{prefix}:{each}" for each in count())
    return list(islice((name for name in names if low <= hash_slot_of(name.encode()) <= high), wanted))
