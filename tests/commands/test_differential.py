"""Random conversations beside a real redis-server of 8.2 or newer: differences only from the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.differential import converse
from tests.commands.harness import REDIS, Connection, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
COMMANDS = 400


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        connection = Connection(number)
        if b"unknown command" in connection.line("XDELEX s IDS 1 1-1"):
            pytest.skip("this redis-server is older than 8.2")
        connection.close()
        yield number


@pytest.mark.parametrize("seed", range(30))
def test_some_conversations(port: int, seed: int) -> None:
    converse(port, seed, COMMANDS)


@pytest.mark.slow
def test_two_hundred_thousand_commands(port: int) -> None:
    for seed in range(100, 100 + 200_000 // COMMANDS):
        converse(port, seed, COMMANDS)
