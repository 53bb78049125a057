"""Settings of Redis without effect here, beside a real redis-server: they take and refuse what it does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtstream.commands.settings import ALIASES, HARMLESS, SETTINGS
from tests.commands.harness import REDIS, Connection, Region, redis_server

VALUES = {
    "flag": ["yes", "no", "YES", "maybe", "1"],
    "integer": ["7", "0", "-1", "x", "99999999999", "-3", "64", "11"],
    "size": ["7", "0", "-1", "x", "99999999999"],
    "memory": ["5000000", "3mb", "1gb", "0", "-1", "x"],
}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    if REDIS is None:
        pytest.skip("redis-server is not installed")
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        yield connection
        connection.close()


@pytest.mark.parametrize("name", sorted([row[0] for row in HARMLESS] + list(ALIASES)))
def test_values(redis: Connection, name: str) -> None:
    region = Region()
    for value in VALUES[SETTINGS[name].kind]:
        ours, theirs = region.run("CONFIG", "SET", name, value), redis.run("CONFIG", "SET", name, value)
        assert ours == theirs, (name, value)
        assert region.run("CONFIG", "GET", name) == redis.run("CONFIG", "GET", name), (name, value)


def test_an_alias_shows_the_same_value() -> None:
    region = Region()
    assert region.line("CONFIG SET lua-time-limit 77") == b"+OK\r\n"
    assert region.line("CONFIG GET busy-reply-threshold") == b"*2\r\n$20\r\nbusy-reply-threshold\r\n$2\r\n77\r\n"


def test_what_promises_something_accepts_only_what_it_is() -> None:
    region = Region()
    for name, value in (("min-replicas-to-write", "1"), ("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")):
        reply = region.run("CONFIG", "SET", name, value)
        assert reply is not None and reply.startswith(b"-ERR CONFIG SET failed"), name


def test_nothing_is_kept_where_one_of_several_is_refused() -> None:
    region = Region()
    reply = region.line("CONFIG SET repl-timeout 5 tcp-keepalive x")
    assert reply is not None and reply.startswith(b"-ERR CONFIG SET failed")
    assert region.line("CONFIG GET repl-timeout") == b"*2\r\n$12\r\nrepl-timeout\r\n$2\r\n60\r\n"
