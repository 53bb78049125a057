"""Three real redis-servers in cluster mode, and three regions' shards with the same hash slots and addresses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from crdtstream.connections.shards import Shard, ShardAddress, ShardMap
from crdtstream.processes.ports import free_port
from crdtstream.protocols.hash_slots import slot_ranges
from tests.commands.harness import DEADLINE_S, Connection, Region, redis_server

SHARDS = 3
HOST = "127.0.0.1"


@contextmanager
def redis_cluster(directory: Path) -> Iterator[list[int]]:
    """The ports of three servers that serve all hash slots together."""
    with ExitStack() as stack:
        ports = []
        for number in range(SHARDS):
            own = directory / str(number)
            own.mkdir()
            bus = ["--cluster-port", str(free_port()), "--cluster-config-file", str(own / "nodes.conf")]
            ports.append(stack.enter_context(redis_server(own, "--cluster-enabled", "yes", *bus)))
        found_cluster(ports)
        yield ports


def found_cluster(ports: list[int]) -> None:
    connections = [Connection(port) for port in ports]
    for number, (connection, (low, high)) in enumerate(zip(connections, slot_ranges(SHARDS), strict=True)):
        assert connection.line(f"CLUSTER ADDSLOTSRANGE {low} {high}") == b"+OK\r\n"
        assert connection.line(f"CLUSTER SET-CONFIG-EPOCH {number + 1}") == b"+OK\r\n"
    buses = [bus_of(connection) for connection in connections]
    for port, bus in zip(ports[1:], buses[1:], strict=True):
        assert connections[0].line(f"CLUSTER MEET {HOST} {port} {bus}") == b"+OK\r\n"
    end = time.monotonic() + DEADLINE_S
    while not all(is_whole(connection) for connection in connections):
        assert time.monotonic() < end, "the redis-servers do not become a cluster"
        time.sleep(0.02)
    for connection in connections:
        connection.close()


def bus_of(connection: Connection) -> int:
    line = next(line for line in connection.line("CLUSTER NODES").split(b"\n") if b"myself" in line)
    return int(line.split()[1].partition(b"@")[2].partition(b",")[0])


def is_whole(connection: Connection) -> bool:
    whole = b"cluster_state:ok" in connection.line("CLUSTER INFO")
    known = [line for line in connection.line("CLUSTER NODES").split(b"\n") if b" connected" in line]
    return whole and len(known) == SHARDS and b"handshake" not in b"".join(known)


def map_beside(ports: list[int], own: int, epoch: int = SHARDS) -> ShardMap:
    """The map that these servers have, with their node IDs."""
    shards = []
    for number, (port, (low, high)) in enumerate(zip(ports, slot_ranges(SHARDS), strict=True)):
        connection = Connection(port)
        node_id = connection.line("CLUSTER MYID").split(b"\r\n")[1].decode()
        connection.close()
        shards.append(Shard(number, node_id, low, high, ShardAddress(HOST, port, 0)))
    found = ShardMap(epoch, own, tuple(shards))
    found.check()
    return found


def shard_region(shard_map: ShardMap) -> Region:
    region = Region()
    region.context.shards = shard_map
    return region
