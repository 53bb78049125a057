"""RENAME, RENAMENX and COPY beside a real redis-server: the same requests, the same bytes; groups apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.harness import REDIS, Connection, Region, redis_server
from tests.effort import examples

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

NAMES = ["a", "b", "c"]
LOOKS = ("XRANGE {} - +", "EXISTS {}", "PEXPIRETIME {}", "XINFO STREAM {}")
# Node counts of Redis's own tree.
HIDDEN = (b"radix-tree-keys", b"radix-tree-nodes")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        link = Connection(port)
        yield link
        link.close()


def plain(reply: bytes | None) -> list[bytes]:
    lines = (reply or b"").split(b"\r\n")
    return [line for i, line in enumerate(lines) if i == 0 or lines[i - 1] not in HIDDEN]


def compare(connection: Connection, script: list[list[str]]) -> None:
    region = Region()
    looks = [look.format(name).split() for name in NAMES for look in LOOKS]
    script = [["SELECT", "0"], ["FLUSHALL"], *script, *looks, ["SELECT", "1"], *looks]
    for argv in script:
        assert plain(region.run(*argv)) == plain(connection.run(*argv)), (argv, script)
        region.check()


names = st.sampled_from(NAMES)
options = st.sampled_from(
    ["", "REPLACE", "DB 1", "DB 0 REPLACE", "replace db 1", "DB 16", "DB", "DB x", "FOO", "DB -1"]
)


def line(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[list[str]]:
    drawn = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*drawn).map(lambda words: " ".join(words).split())


requests = st.one_of(
    line("XADD", names, "5-* f v"),
    line("XADD", names, st.sampled_from(["1-1", "5-5", "7-*"]), "g w"),
    line("XDEL", names, st.sampled_from(["1-1", "5-0", "5-1", "5-5"])),
    line("XTRIM", names, "MAXLEN 1"),
    line("XSETID", names, st.sampled_from(["9-9", "9-9 ENTRIESADDED 20 MAXDELETEDID 3-3"])),
    line("DEL", names),
    line("PEXPIREAT", names, st.sampled_from(["4000000000001", "5000000000002"])),
    line("RENAME", names, names),
    line("RENAME", names, names),
    line("RENAMENX", names, names),
    line("COPY", names, names, options),
    line("COPY", names, names, options),
)


@settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(requests, max_size=15))
def test_any_requests(connection: Connection, script: list[list[str]]) -> None:
    compare(connection, script)


@pytest.mark.parametrize(
    "text",
    [
        "RENAME a",
        "RENAME a b c",
        "RENAME a a",
        "RENAMENX a a",
        "RENAMENX a",
        "COPY a",
        "COPY a a",
        "COPY a a DB 0",
        "COPY a a DB 1",
        "COPY a b REPLACE FOO",
        "COPY a b DB 1 DB 2 REPLACE",
        "COPY a b DB",
        "COPY a b DB x",
        "COPY a b DB 16",
        "COPY a b DB -1",
        "COPY a b DB 2147483648",
        "COPY a b DB 9223372036854775808",
        "COPY nosuch b DB 16",
        "COPY nosuch nosuch",
    ],
)
def test_errors(connection: Connection, text: str) -> None:
    compare(connection, [text.split(), ["XADD", "a", "1-1", "f", "v"], text.split()])


def test_what_is_told_of_commands(connection: Connection) -> None:
    region = Region()
    for name in ["RENAME", "RENAMENX", "COPY"]:
        ours, theirs = region.run("COMMAND", "INFO", name), connection.run("COMMAND", "INFO", name)
        assert ours is not None
        assert ours.split(b"\r\n")[:5] == [b"*1", b"*10", *theirs.split(b"\r\n")[2:5]], name
