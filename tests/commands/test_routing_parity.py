"""Redirections beside three real redis-servers in cluster mode, byte for byte: at each of them, and at the shard of the
same number.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.protocols.hash_slots import hash_slot_of
from tests.commands.harness import REDIS, Connection
from tests.commands.redis_cluster import SHARDS, map_beside, redis_cluster, shard_region

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as numbers:
        yield numbers


class Beside:
    """One client at each server and at each shard."""

    def __init__(self, ports: list[int]) -> None:
        self.connections = [Connection(port) for port in ports]
        self.regions = [shard_region(map_beside(ports, own)) for own in range(SHARDS)]
        for connection in self.connections:
            connection.line("FLUSHALL")

    def say(self, *request: str) -> set[bytes]:
        """The replies, which are those of the real servers."""
        replies = set()
        for connection, region in zip(self.connections, self.regions, strict=True):
            theirs, ours = connection.run(*request), region.run(*request)
            assert ours == theirs, request
            replies.add(theirs)
        return replies

    def close(self) -> None:
        for connection in self.connections:
            connection.close()


@pytest.fixture
def beside(ports: list[int]) -> Iterator[Beside]:
    found = Beside(ports)
    yield found
    found.close()


# `k`, `a` and `b` are in three different shards; `k` and `{k}2` have one hash slot, `k` and `c` one shard.
SCRIPTS = [
    "XADD k 1-1 f v; XADD a 1-1 f v; XADD b 1-1 f v; XLEN k; XLEN a; XLEN b; DEL k a; DEL k {k}2; DEL a b k",
    "EXISTS k; EXISTS k {k}2; EXISTS k a; TOUCH a; UNLINK b {b}2; TYPE k; TYPE a; RENAME k a; RENAME k {k}2; TTL b",
    "XREAD STREAMS a b 0 0; XREAD STREAMS a b 0; XREAD STREAMS k {k}2 0 0; XREAD COUNT 1 STREAMS a 0; XREAD STREAMS",
    "XREAD COUNT x STREAMS a 0; XREAD FOO a STREAMS b 0; XREAD COUNT STREAMS STREAMS a 0; xread streams k a b 0 0 0",
    "XREADGROUP GROUP g c STREAMS a b > >; XREADGROUP GROUP g c STREAMS k >; XREADGROUP GROUP g c BLOCK 1 STREAMS b >",
    "XREADGROUP GROUP g c STREAMS a b >; XREADGROUP FOO g c STREAMS k >; XREADGROUP GROUP g c COUNT 1 STREAMS k a > >",
    "XGROUP CREATE a g 0 MKSTREAM; XGROUP CREATE k g 0; XGROUP SETID b g 0; XGROUP FOO a; XGROUP; XINFO STREAM a",
    "XACK a g 1-1; XCLAIM b g c 0 1-1; XAUTOCLAIM k g c 0 0; XPENDING a g; XINFO GROUPS b; XINFO HELP x; XDEL a 1-1",
    "WATCH k a; WATCH a; WATCH k {k}2; UNWATCH; MULTI; XADD k 1-1 f v; EXEC; MULTI; WATCH k a; WATCH b; EXEC; DISCARD",
    "MULTI; EXEC; EXEC; MULTI; XADD k 2-1 f v; XADD a 2-1 f v; XADD b 2-1 f v; EXEC; EXISTS k; EXISTS a; EXISTS b",
    "MULTI; XLEN k; XLEN {k}2; PING; EXEC; MULTI; XLEN k; XLEN c; EXEC; EXEC; MULTI; XLEN c; XLEN k; XLEN a; EXEC",
    "MULTI; DEL k a; EXEC; MULTI; DEL k; DEL k x y; EXEC; MULTI; XADD k; XLEN a; EXEC; MULTI; FOO; XLEN k; DISCARD",
    "MULTI; SPUBLISH k hi; SPUBLISH {k}2 hi; EXEC; MULTI; SPUBLISH k hi; XLEN c; EXEC; PUBLISH a hi; SPUBLISH a hi",
    "SPUBLISH k hi; SPUBLISH b hi; SUNSUBSCRIBE a; SUNSUBSCRIBE k a; PUBSUB SHARDCHANNELS; PUBSUB SHARDNUMSUB a k",
    "XLEN; XLEN a b; XADD a; FOO a b; OBJECT ENCODING a; OBJECT FREQ; OBJECT HELP; MEMORY USAGE a; MEMORY USAGE {k}9",
    "SELECT 0; PING; ECHO a; DBSIZE; RANDOMKEY; COMMAND GETKEYS XLEN a; COMMAND GETKEYS XREAD STREAMS a b 0",
    "EXPIRE a 1; PERSIST b; EXPIRE k 1; DUMP a; DUMP {k}9; COPY a b; COPY k {k}2; COPY k {k}2 REPLACE x",
    "XADD {}k 1-1 f v; XADD {}a 1-1 f v; XADD a{k} 1-1 f v; XADD a{{k}} 1-1 f v; XADD }{k} 1-1 f v; XADD {k 1-1 f v",
    "WAIT 0 0; KEYS *; SCAN 0 COUNT 1000; FLUSHALL; FLUSHDB; CLIENT GETNAME; RESET",
]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("protocol", ["2", "3"])
def test_scripts(beside: Beside, script: str, protocol: str) -> None:
    for connection, region in zip(beside.connections, beside.regions, strict=True):
        connection.run("HELLO", protocol)
        region.run("HELLO", protocol)
    for line in script.split("; "):
        beside.say(*line.split(" "))


def test_the_scripts_are_about_three_shards(ports: list[int]) -> None:
    keys = [b"k", b"{k}2", b"c", b"a", b"b"]
    shards = map_beside(ports, 0)
    hash_slots = [hash_slot_of(key) for key in keys]
    assert hash_slots[0] == hash_slots[1] != hash_slots[2]
    assert len({shards.shard_of(one).number for one in hash_slots[2:]}) == SHARDS
    assert shards.shard_of(hash_slots[0]) == shards.shard_of(hash_slots[2])


TAGS = st.sampled_from(["{", "}", "{}", "a", "b", "k", "{k}", "{a}", "é"])
KEYS = st.lists(TAGS, min_size=1, max_size=4).map("".join)
REQUESTS = st.one_of(
    st.tuples(st.sampled_from(["XLEN", "TYPE", "TTL"]), KEYS).map(list),
    st.tuples(st.sampled_from(["EXISTS", "DEL", "TOUCH", "UNLINK"]), st.lists(KEYS, min_size=1, max_size=3)).map(
        lambda drawn: [drawn[0], *drawn[1]]
    ),
    st.lists(KEYS, max_size=3).map(lambda keys: ["XREAD", "COUNT", "1", "STREAMS", *keys, *["0"] * len(keys)]),
    st.tuples(KEYS, KEYS).map(lambda keys: ["RENAMENX", *keys]),
    KEYS.map(lambda key: ["XADD", key, "NOMKSTREAM", "1-1", "f", "v"]),
    st.just(["PING"]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(REQUESTS, min_size=1, max_size=4), st.booleans())
def test_any_requests(beside: Beside, requests: list[list[str]], queued: bool) -> None:
    for request in [["MULTI"], *requests, ["EXEC"]] if queued else requests:
        beside.say(*request)
