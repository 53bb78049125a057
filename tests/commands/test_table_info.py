"""COMMAND INFO of every command beside a real redis-server of 8.2 or newer: arity, flags, keys, categories, tips."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.harness import REDIS, Connection, Region, every_command, redis_server
from tests.commands.portraits import Part, parsed

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

SUBCOMMANDS = 9
# Flags that are there or missing on purpose (commands/differences.py).
NOT_IN_MULTI = {"acl|load", "acl|save", "config|rewrite"}
DENY_OOM = {"move", "swapdb"}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        if b"unknown command" in connection.line("XDELEX s IDS 1 1-1"):
            pytest.skip("this redis-server is older than 8.2")
        yield connection
        connection.close()


def rows_of(reply: bytes | None) -> dict[object, list[Part]]:
    """The row of each command and subcommand, without those of its subcommands."""
    found: dict[object, list[Part]] = {}
    left = [parsed(reply or b"")]
    while left:
        for _, row in items_of(left.pop()):
            if isinstance(row, list):
                found[row[0][1]] = row[:SUBCOMMANDS]
                left.append(row[SUBCOMMANDS])
    return found


def items_of(part: Part) -> list[Part]:
    assert isinstance(part[1], list)
    return part[1]


def own_flags(name: str) -> set[bytes]:
    return {b"no_multi"} if name in NOT_IN_MULTI else {b"denyoom"} if name in DENY_OOM else set()


@pytest.mark.parametrize("protocol", [2, 3])
def test_info(redis: Connection, protocol: int) -> None:
    region = Region()
    for side in (redis, region):
        side.line(f"HELLO {protocol}")
    names = [one.name for one in every_command() if not one.name.startswith("crdt.")]
    ours, theirs = [rows_of(side.run("COMMAND", "INFO", *names)) for side in (region, redis)]
    for name in theirs:
        assert isinstance(name, bytes)
        if name not in ours:
            continue
        own = ours[name]
        kept = [flag for flag in items_of(own[2]) if flag[1] not in own_flags(name.decode())]
        own[2] = (own[2][0], kept)
        assert own == theirs[name], name
    assert len(ours.keys() & theirs.keys()) > 150
