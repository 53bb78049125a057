"""Keys of requests and their flags, byte for byte as a real redis-server tells them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.harness import REDIS, Connection, Region, every_command, redis_server

beside_redis = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


REQUESTS = [
    "copy a b DB 1",
    "rename a b",
    "RenameNX a b",
    "del a b c",
    "exists a",
    "xadd s * f v",
    "xgroup create s g 0",
    "xread count 1 streams a b 0 0",
    "xreadgroup group g c streams a b > >",
    "xread a b c",
    "memory usage a",
    "ping a",
    "foo a b",
    "xadd s",
    "object help",
]


@beside_redis
@pytest.mark.parametrize("protocol", [2, 3])
def test_of_requests(port: int, protocol: int) -> None:
    connection, region = Connection(port), Region()
    for line in (f"HELLO {protocol}", *(f"COMMAND GETKEYSANDFLAGS {request}" for request in REQUESTS)):
        ours, theirs = region.line(line), connection.line(line)
        assert ours == theirs or line.startswith("HELLO"), line
    connection.close()


def specifications_of(reply: bytes) -> bytes:
    """Of COMMAND INFO: what stands behind the tips, which are none here; no commands with keys have subcommands."""
    return reply[min(at for at in (reply.find(b"flags\r\n"), len(reply)) if at >= 0) :]


@beside_redis
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize(
    "name",
    sorted(
        one.name for one in every_command() if one.keys.flags and not one.since.startswith("8.") and "." not in one.name
    ),
)
def test_of_commands(port: int, name: str, protocol: int) -> None:
    connection, region = Connection(port), Region()
    for line in (f"HELLO {protocol}", f"COMMAND INFO {name}"):
        ours, theirs = region.line(line) or b"", connection.line(line)
    connection.close()
    assert specifications_of(ours) == specifications_of(theirs) != b""
