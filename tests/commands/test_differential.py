"""Random stream commands beside a real redis-server of 8.2 or newer: differences only from the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.differential import Requests, alike, named_ids
from tests.commands.harness import REDIS, Connection, redis_server
from tests.commands.stream_region import Region

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
COMMANDS = 400


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        if b"unknown command" in connection.line("XDELEX s IDS 1 1-1"):
            pytest.skip("this redis-server is older than 8.2")
        yield connection
        connection.close()


def compare(redis: Connection, seed: int) -> None:
    """One conversation, from an empty keyspace on."""
    region, requests = Region(), Requests(seed)
    redis.line("FLUSHALL")
    said: list[str] = []
    for _ in range(COMMANDS):
        request = requests.draw()
        said.append(" ".join(request))
        missing = missing_at(redis, request) if "ACKED" in request else []
        ours, theirs = region.call(*request) or b"", redis.run(*request)
        assert alike(request, ours, theirs, missing), (seed, ours, theirs, said[-25:])
    for stream in region.replica.keyspace.databases[0].values():
        stream.check()


def missing_at(redis: Connection, request: list[str]) -> list[bool]:
    return [redis.run("XRANGE", request[1], one, one) == b"*0\r\n" for one in named_ids(request)]


@pytest.mark.parametrize("seed", range(10))
def test_some_conversations(redis: Connection, seed: int) -> None:
    compare(redis, seed)


@pytest.mark.slow
def test_two_hundred_thousand_commands(redis: Connection) -> None:
    for seed in range(10, 10 + 200_000 // COMMANDS):
        compare(redis, seed)
