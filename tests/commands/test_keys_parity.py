"""Commands about keys beside a real redis-server: the same requests, the same bytes.

KEYS and SCAN come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.harness import REDIS, Connection, Region, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

VERBS = ("DEL", "UNLINK", "EXISTS", "TOUCH", "TYPE")
NAMES = ["a", "b", "ab", "abc", "b[1]", "x-y", ""]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        link = Connection(port)
        yield link
        link.close()


def sorted_reply(argv: list[str], reply: bytes | None) -> object:
    if reply is not None and argv[0].upper() in ("KEYS", "SCAN"):
        return sorted(reply.split(b"\r\n"))
    return reply


def compare(connection: Connection, script: list[list[str]]) -> None:
    region = Region()
    for argv in [["SELECT", "0"], ["FLUSHALL"], *script]:
        assert sorted_reply(argv, region.run(*argv)) == sorted_reply(argv, connection.run(*argv)), argv
        region.check()


name_lists = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
patterns = st.one_of(
    st.sampled_from(["*", "a*", "?", "[ab]", "[^a]*", "*b*", "b\\[1\\]", "[a-c]b", "**", "a**c", "[", "\\"]),
    st.text("ab*?[]^-\\", max_size=5),
)
numbers = st.sampled_from(["0", "1", "2", "15", "16", "-1", "x", "", "1000"])
options = st.lists(st.sampled_from(["COUNT", "MATCH", "TYPE", "1000", "a*", "stream", "string", "x", "0"]), max_size=4)


def single(name: str, argument: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return argument.map(lambda text: [name, text])


requests = st.one_of(
    st.sampled_from(NAMES).map(lambda name: ["XADD", name, "1-*", "f", "v"]),
    st.sampled_from(NAMES).map(lambda name: ["XTRIM", name, "MAXLEN", "0"]),
    st.sampled_from(NAMES).map(lambda name: ["XSETID", name, "5-5"]),
    st.sampled_from(NAMES).map(lambda name: ["XGROUP", "CREATE", name, "g", "0", "MKSTREAM"]),
    st.builds(lambda verb, names: [verb, *names], st.sampled_from(VERBS), name_lists),
    st.sampled_from(NAMES).map(lambda name: ["OBJECT", "ENCODING", name]),
    single("KEYS", patterns),
    single("SELECT", numbers),
    patterns.map(lambda pattern: ["SCAN", "0", "COUNT", "1000", "MATCH", pattern]),
    options.map(lambda words: ["SCAN", "0", "COUNT", "1000", *words]).filter(lambda argv: "0" in argv[1:2]),
    st.sampled_from(["FLUSHDB", "FLUSHALL", "FLUSHDB ASYNC", "FLUSHALL sync", "FLUSHALL x", "DBSIZE", "DBSIZE x"]).map(
        str.split
    ),
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(requests, max_size=20))
def test_any_requests(connection: Connection, script: list[list[str]]) -> None:
    compare(connection, script)


@pytest.mark.parametrize(
    "line",
    [
        *[
            "DEL",
            "UNLINK",
            "EXISTS",
            "TYPE",
            "TYPE a b",
            "KEYS",
            "KEYS a b",
            "SCAN",
            "DBSIZE a",
            "FLUSHDB a b",
            "FLUSHALL ASYNC b",
        ],
        *[
            "SCAN x",
            "SCAN 0 COUNT 0",
            "SCAN 0 COUNT -1",
            "SCAN 0 COUNT x",
            "SCAN 0 COUNT",
            "SCAN 0 FOO",
            "SCAN 0 FOO x",
        ],
        *[
            "TOUCH",
            "RANDOMKEY",
            "RANDOMKEY a",
            "OBJECT",
            "OBJECT HELP a",
            "OBJECT FOO a",
            "OBJECT ENCODING",
            "OBJECT ENCODING a b",
            "OBJECT ENCODING a",
            "OBJECT REFCOUNT a",
            "OBJECT FREQ a",
        ],
        *["SCAN 0 MATCH", "SCAN 0 COUNT x MATCH", "SCAN 18446744073709551616", "SCAN 1x", "SCAN 0 TYPE nosuch"],
    ],
)
def test_errors(connection: Connection, line: str) -> None:
    compare(connection, [line.split(), ["XADD", "a", "1-1", "f", "v"], line.split()])


def test_a_whole_scan(connection: Connection) -> None:
    """Page by page, both give every key once."""
    compare(connection, [["XADD", f"key:{i}", "1-1", "f", "v"] for i in range(100)])
    region = Region()
    for i in range(100):
        region.run("XADD", f"key:{i}", "1-1", "f", "v")
    assert scanned(region) == scanned(connection) == sorted(b"key:%d" % i for i in range(100))


def scanned(target: Region | Connection) -> list[bytes]:
    cursor, found = b"0", set[bytes]()
    while True:
        reply = target.run("SCAN", cursor, "COUNT", "7")
        assert reply is not None
        parts = reply.split(b"\r\n")
        cursor = parts[2]
        found.update(parts[5::2])
        if cursor == b"0":
            return sorted(found)
