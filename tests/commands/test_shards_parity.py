"""CLUSTER and what else knows of shards, beside three real redis-servers in cluster mode.

What differs between any two servers is masked: ports of the bus, times, epochs, and the order of nodes, which is that
of a hash table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.commands.harness import REDIS, Connection, Region, redis_server
from tests.commands.portraits import Part, parsed
from tests.commands.redis_cluster import SHARDS, map_beside, redis_cluster, shard_region

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

EXACT = """
    CLUSTER KEYSLOT a{b}c; CLUSTER KEYSLOT; CLUSTER KEYSLOT a b; CLUSTER COUNTKEYSINSLOT 7629
    CLUSTER GETKEYSINSLOT 7629 0; CLUSTER GETKEYSINSLOT 7629 9; CLUSTER COUNTKEYSINSLOT x
    CLUSTER COUNTKEYSINSLOT 16384; CLUSTER COUNTKEYSINSLOT -1; CLUSTER GETKEYSINSLOT 1 -1; CLUSTER GETKEYSINSLOT 1 x
    CLUSTER GETKEYSINSLOT x 1; CLUSTER GETKEYSINSLOT 16384 1; CLUSTER REPLICAS x; CLUSTER SLAVES x
    CLUSTER COUNT-FAILURE-REPORTS x; CLUSTER REPLICAS; CLUSTER FOO; CLUSTER; CLUSTER SLOTS; CLUSTER MYID
    CLUSTER SLOTS x; CLUSTER MYID x; CLUSTER INFO x; READONLY; READWRITE; ASKING; READONLY x; SELECT 0; SELECT 1
    SELECT 16; SELECT -1; SELECT x; SWAPDB 0 1; SWAPDB a b; MOVE k 1; MOVE k x; MOVE k 0; MOVE {k}9 1
    COPY k {k}2 DB 1; COPY k {k}2 DB x; COPY k {k}2 DB 16; COPY k {k}2 DB 1 REPLACE; COPY k k DB 1; COPY k k DB 0
    COPY k k FOO; COPY k {k}2 DB 0; COPY k {k}2 DB -1; CONFIG GET cluster-enabled; CONFIG GET databases; MULTI
    SELECT 1; SELECT 0; EXEC; CONFIG SET cluster-enabled no; CLUSTER COUNTKEYSINSLOT 7629
"""


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as numbers:
        yield numbers


@pytest.fixture(params=[2, 3])
def beside(ports: list[int], request: pytest.FixtureRequest) -> Iterator[list[tuple[Connection, Region]]]:
    """A client at each server and at each shard; the one that has `k` holds two keys of its hash slot."""
    pairs = [(Connection(port), shard_region(map_beside(ports, own))) for own, port in enumerate(ports)]
    for connection, region in pairs:
        connection.line("FLUSHALL")
        for side in (connection, region):
            side.line(f"HELLO {request.param}")
            side.line("XADD k 1-1 f v")
    yield pairs
    for connection, _ in pairs:
        connection.close()


def test_replies(beside: list[tuple[Connection, Region]]) -> None:
    for line in filter(str.strip, EXACT.replace("\n", ";").split(";")):
        for connection, region in beside:
            assert region.line(line) == connection.line(line), line


def test_info_says_what_redis_says_and_more(beside: list[tuple[Connection, Region]]) -> None:
    for connection, region in beside:
        theirs = {line for line in connection.line("INFO cluster").splitlines() if line.startswith(b"cluster_")}
        assert theirs and theirs <= set((region.line("INFO cluster") or b"").splitlines())


def rows(text: bytes) -> set[bytes]:
    """The lines of CLUSTER NODES without the port of the bus, the times and the epoch."""
    body = text.partition(b"\r\n")[2].removeprefix(b"txt:").strip()
    lines = [re.sub(rb"@\d+", b"@", line).split(b" ") for line in body.split(b"\n")]
    return {b" ".join([*words[:4], *words[7:]]) for words in lines}


def test_nodes(beside: list[tuple[Connection, Region]]) -> None:
    for connection, region in beside:
        ours, theirs = region.line("CLUSTER NODES"), connection.line("CLUSTER NODES")
        assert ours is not None and ours[:1] == theirs[:1] and ours[-3:] == theirs[-3:]
        assert rows(ours) == rows(theirs) and len(rows(ours)) == SHARDS


def by_slots(reply: bytes | None) -> tuple[bytes, list[tuple[str, Part]]]:
    """CLUSTER SHARDS in the order of the hash slots, and how the outer array is made."""
    assert reply is not None
    kind, groups = parsed(reply)
    assert isinstance(groups, list)
    return kind, sorted([(str(group), group) for group in groups])


def test_shards(beside: list[tuple[Connection, Region]]) -> None:
    for connection, region in beside:
        ours, theirs = by_slots(region.line("CLUSTER SHARDS")), by_slots(connection.line("CLUSTER SHARDS"))
        assert ours == theirs and len(ours[1]) == SHARDS


def facts(text: bytes | None) -> dict[bytes, bytes]:
    assert text is not None
    lines = text.replace(b"txt:", b"").split(b"\r\n")[1:-2]
    found = dict([line.split(b":") for line in lines])
    return {name: value for name, value in found.items() if b"epoch" not in name and b"message" not in name}


def test_info(beside: list[tuple[Connection, Region]]) -> None:
    for connection, region in beside:
        ours = facts(region.line("CLUSTER INFO"))
        assert ours == facts(connection.line("CLUSTER INFO")) and ours[b"cluster_state"] == b"ok"


def test_the_mode_is_told(beside: list[tuple[Connection, Region]]) -> None:
    for side in beside[0]:
        hello, info = side.run("HELLO"), side.run("INFO", "server")
        assert hello is not None and b"$4\r\nmode\r\n$7\r\ncluster\r\n" in hello
        assert info is not None and b"\r\nredis_mode:cluster\r\n" in info


def test_nodes_of_the_map_have_no_replicas(beside: list[tuple[Connection, Region]]) -> None:
    for connection, region in beside:
        node_id = parsed(connection.line("CLUSTER MYID"))[1]
        assert isinstance(node_id, bytes)
        for name in ("REPLICAS", "SLAVES", "COUNT-FAILURE-REPORTS"):
            assert region.run("CLUSTER", name, node_id) == connection.run("CLUSTER", name, node_id)


def test_help_tells_what_is_not_refused(beside: list[tuple[Connection, Region]]) -> None:
    connection, region = beside[0]
    ours, theirs = parsed(region.line("CLUSTER HELP") or b"")[1], parsed(connection.line("CLUSTER HELP"))[1]
    assert isinstance(ours, list) and isinstance(theirs, list)
    assert [line for line in theirs if line in ours] == ours


def test_without_a_map_nothing_is_known_of_a_cluster(tmp_path_factory: pytest.TempPathFactory) -> None:
    with redis_server(tmp_path_factory.mktemp("alone")) as port:
        connection, region = Connection(port), Region()
        for line in ("CLUSTER HELP", "CLUSTER SLOTS", "CLUSTER MEET a 1", "ASKING", "CONFIG GET databases", "SELECT 1"):
            assert region.line(line) == connection.line(line)
        connection.close()
