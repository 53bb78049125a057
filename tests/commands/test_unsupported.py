"""CLUSTER, MODULE, SCRIPT and FUNCTION, beside a real redis-server that has nothing of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.harness import REDIS, Connection, Region, redis_server, without_modules

TEXTS = (
    "CLUSTER INFO",
    "CLUSTER NODES",
    "CLUSTER SLOTS",
    "CLUSTER SHARDS",
    "CLUSTER MYID",
    "CLUSTER KEYSLOT a",
    "CLUSTER KEYSLOT",
    "CLUSTER FOO",
    "READONLY",
    "READWRITE",
    "ASKING",
    "MODULE LIST",
    "MODULE LOAD x",
    "MODULE UNLOAD x",
    "MODULE FOO",
    "SCRIPT FLUSH",
    "SCRIPT FLUSH sync",
    "SCRIPT FLUSH x",
    "SCRIPT FLUSH SYNC x",
    "SCRIPT EXISTS",
    "SCRIPT EXISTS a b",
    "SCRIPT KILL",
    "FUNCTION FLUSH",
    "FUNCTION FLUSH ASYNC",
    "FUNCTION FLUSH x",
    "FUNCTION LIST",
    "FUNCTION LIST WITHCODE LIBRARYNAME x",
    "FUNCTION LIST LIBRARYNAME",
    "FUNCTION LIST x",
    "FUNCTION DELETE x",
    "FUNCTION KILL",
    "DEBUG JMAP",
    "ROLE",
    "MOVE a x",
    "MOVE a 99",
    "MOVE a 0",
    "MOVE a 1",
    "SWAPDB a 1",
    "SWAPDB 1 b",
    "SWAPDB 1 99",
    "SWAPDB 1 1",
)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
@pytest.mark.parametrize("protocol", [2, 3])
def test_answers(port: int, protocol: int) -> None:
    connection, region = Connection(port), Region()
    for server in (connection, region):
        server.line(f"HELLO {protocol}")
    assert {text: region.line(text) for text in TEXTS} == {
        text: without_modules(connection.line(text)) for text in TEXTS
    }
    connection.close()


def test_scripts_and_functions_are_refused() -> None:
    region = Region()
    for text in ("SCRIPT LOAD x", "FUNCTION LOAD x"):
        assert region.line(text) == b"-ERR this server stores streams only, it has no scripts\r\n"
    assert region.line("FUNCTION STATS") == b"*4\r\n$14\r\nrunning_script\r\n$-1\r\n$7\r\nengines\r\n*0\r\n"
