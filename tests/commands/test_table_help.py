"""HELP of every container beside a real redis-server of 8.2 or newer: the same text for what is here, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.harness import REDIS, Connection, Region, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

CONTAINERS = ["CLIENT", "COMMAND", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "MODULE"]
CONTAINERS += ["OBJECT", "PUBSUB", "SCRIPT", "SLOWLOG", "XGROUP", "XINFO"]
# What is not here: client-side caching, what carries functions over, Lua debugging, module configuration.
ABSENT = {
    "CLIENT": {"CACHING", "GETREDIR", "TRACKING", "TRACKINGINFO"},
    "FUNCTION": {"DUMP", "RESTORE"},
    "MODULE": {"LOADEX"},
    "SCRIPT": {"DEBUG"},
}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        if b"unknown command" in connection.line("XDELEX s IDS 1 1-1"):
            pytest.skip("this redis-server is older than 8.2")
        yield connection
        connection.close()


def explained(reply: bytes | None) -> dict[str, list[str]]:
    """The lines of each subcommand, in the order of the reply."""
    assert reply is not None
    found: dict[str, list[str]] = {}
    name = ""
    for line in reply.decode().split("\r\n+")[1:]:
        name = name if line.startswith(" ") else line.split(" ")[0]
        found.setdefault(name, []).append(line.removesuffix("\r\n"))
    return found


@pytest.mark.parametrize("name", CONTAINERS)
def test_help(redis: Connection, name: str) -> None:
    ours, theirs = explained(Region().line(f"{name} HELP")), explained(redis.line(f"{name} HELP"))
    gone = ABSENT.get(name, set())
    told = [one for one in theirs if one not in gone]
    assert list(ours) == told
    assert {one: ours[one] for one in told} == {one: theirs[one] for one in told}
    assert gone <= set(theirs)
