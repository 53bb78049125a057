"""Transactions beside those of a real redis-server: two connections, the same requests, the same replies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.harness import REDIS, Connection, Region, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


def compare(port: int, requests: list[str]) -> None:
    """Requests that begin with `@` are the second connection's."""
    region = Region()
    ours = [region.client, region.connect()]
    theirs = [Connection(port), Connection(port)]
    theirs[0].line("FLUSHALL")
    try:
        for at, request in enumerate(requests):
            who = int(request.startswith("@"))
            text = request.removeprefix("@")
            replies = (region.line(text, ours[who]), theirs[who].line(text))
            assert replies[0] == replies[1] or text.startswith("HELLO"), requests[: at + 1]
            region.check()
    finally:
        for connection in theirs:
            connection.close()


SCRIPTS = [
    "MULTI; PING; XADD s 1-1 f v; XLEN s; @XLEN s; EXEC; XLEN s; EXEC; DISCARD",
    "MULTI; EXEC; MULTI; DISCARD; DISCARD; EXEC; MULTI; XADD s 1-1 f v; DISCARD; XLEN s",
    "MULTI; MULTI; PING; EXEC; PING; MULTI; WATCH s; PING; EXEC",
    "MULTI; XADD s 1-1 f v; FOO; EXEC; XLEN s; MULTI; XADD s; PING; EXEC; MULTI; CLIENT FOO; EXEC; MULTI; CLIENT; EXEC",
    "MULTI; XADD s 0-0 f v; XADD s 1-1 f v; XADD s 1-1 f v; XGROUP CREATE t g 0; EXEC; XRANGE s - +",
    "EXEC x; MULTI; EXEC x; EXEC; MULTI; DISCARD x; EXEC; MULTI; UNWATCH x; EXEC; WATCH; UNWATCH; MULTI x",
    "MULTI; UNWATCH; SELECT 3; XADD s 1-1 f v; SELECT 0; EXEC; XLEN s; SELECT 3; XLEN s; DEL s; SELECT 0",
    "MULTI; RESET; EXEC; PING; WATCH s; RESET; @XADD s 1-1 f v; MULTI; PING; EXEC",
    "MULTI; XREAD BLOCK 0 STREAMS s $; WAIT 1 0; WAIT 1 5; XREAD BLOCK 5 STREAMS s 0; XADD s 1-1 f v; EXEC",
    "XGROUP CREATE s g 0 MKSTREAM; MULTI; XREADGROUP GROUP g c BLOCK 0 STREAMS s >; XADD s 1-1 f v;"
    " XREADGROUP GROUP g c BLOCK 0 STREAMS s >; XACK s g 1-1; XREADGROUP GROUP g c STREAMS s 0; EXEC; XPENDING s g",
    "HELLO 3; MULTI; XREAD BLOCK 0 STREAMS s $; EXEC; WATCH s; @XADD s 1-1 f v; MULTI; EXEC",
    "WATCH s; MULTI; PING; EXEC; WATCH s; @XADD s 1-1 f v; MULTI; PING; EXEC; MULTI; PING; EXEC",
    "WATCH s; XADD s 1-1 f v; MULTI; PING; EXEC; WATCH s; @XADD t 1-1 f v; MULTI; PING; EXEC",
    "WATCH s; @XADD s 1-1 f v; @DEL s; MULTI; PING; EXEC; WATCH s; @DEL s; MULTI; PING; EXEC",
    "XADD s 1-1 f v; WATCH s; @DEL s; MULTI; PING; EXEC; XADD s 1-1 f v; WATCH s; @DEL s; @XADD s 1-1 f v; MULTI; EXEC",
    "WATCH s; @XADD s 1-1 f v; UNWATCH; MULTI; PING; EXEC; WATCH s; @XADD s 1-2 f v; MULTI; DISCARD; MULTI; PING; EXEC",
    "WATCH s t s; @XADD t 1-1 f v; WATCH u; MULTI; EXEC; WATCH s; @XADD s 1-1 f v; WATCH s; MULTI; EXEC",
    "@XADD s 1-1 f v; WATCH s; MULTI; PING; EXEC; WATCH s; @XADD s 1-1 f v; MULTI; PING; EXEC",
    "WATCH s; MULTI; @XADD s 1-1 f v; PING; EXEC; WATCH s; MULTI; FOO; @XADD s 1-2 f v; EXEC; MULTI; PING; EXEC",
    "WATCH s; @SELECT 1; @XADD s 1-1 f v; MULTI; PING; EXEC; @DEL s; @SELECT 0",
    "XADD s 1-1 f v; WATCH s t; @FLUSHALL; MULTI; PING; EXEC; WATCH s t; @FLUSHALL; MULTI; PING; EXEC",
    "WATCH s; MULTI; XADD s 1-1 f v; EXEC; MULTI; PING; EXEC",
    "MULTI; MONITOR; SSUBSCRIBE a; PING; EXEC; PING; XLEN s",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts(port: int, script: str) -> None:
    compare(port, script.split("; "))


PREPARED = (
    "XADD s 1-1 f v; XADD s 2-1 f v; XADD s 3-1 f v; XGROUP CREATE s g 0; XGROUP CREATECONSUMER s g c;"
    " XGROUP CREATECONSUMER s g d; XREADGROUP GROUP g c COUNT 2 STREAMS s >"
)
CHANGES = [
    "XADD s 4-1 f v",
    "XADD s 1-1 f v",
    "XADD s NOMKSTREAM 4-1 f v",
    "XADD t NOMKSTREAM 4-1 f v",
    "XDEL s 1-1",
    "XDEL s 9-9",
    "XTRIM s MAXLEN 1",
    "XTRIM s MAXLEN 3",
    "XSETID s 9-9",
    "XGROUP CREATE s h 0",
    "XGROUP CREATE s g 0",
    "XGROUP SETID s g 0",
    "XGROUP CREATECONSUMER s g e",
    "XGROUP CREATECONSUMER s g c",
    "XGROUP DELCONSUMER s g c",
    "XGROUP DELCONSUMER s g nobody",
    "XGROUP DESTROY s g",
    "XGROUP DESTROY s h",
    "XREADGROUP GROUP g c STREAMS s >",
    "XREADGROUP GROUP g c STREAMS s 0",
    "XREADGROUP GROUP g new NOACK STREAMS s >",
    "XACK s g 1-1",
    "XACK s g 1-1 2-1",
    "XCLAIM s g d 0 1-1 JUSTID",
    "XCLAIM s g d 0 1-1 JUSTID LASTID 9-9",
    "XAUTOCLAIM s g d 0 0 JUSTID",
    "XLEN s",
    "XRANGE s - +",
    "XINFO STREAM s",
    "DEL s",
    "DEL t",
    "FLUSHDB",
]


# What these change is replicated, so here it counts; Redis takes no notice.
STRICTER = {"XSETID s 9-9", "XGROUP CREATE s h 0", "XGROUP DESTROY s g"}


@pytest.mark.parametrize("change", CHANGES)
def test_what_counts_as_a_change(port: int, change: str) -> None:
    region = Region()
    watcher, writer = Connection(port), Connection(port)
    watcher.line("FLUSHALL")
    other = region.connect()
    for request in PREPARED.split("; "):
        region.line(request)
        watcher.line(request)
    region.end_turn()
    replies: list[list[bytes | None]] = [[], []]
    for request in ("WATCH s", f"@{change}", "MULTI", "PING", "EXEC"):
        if request.startswith("@"):
            region.line(change, other)
            writer.line(change)
            region.end_turn()
        else:
            replies[0].append(region.line(request))
            replies[1].append(watcher.line(request))
    watcher.close()
    writer.close()
    if change in STRICTER:
        assert (replies[0][-1], replies[1][-1]) == (b"*-1\r\n", b"*1\r\n+PONG\r\n")
    else:
        assert replies[0] == replies[1]


WORDS = (
    "MULTI|EXEC|EXEC|DISCARD|WATCH s|WATCH t s|UNWATCH|XADD s 1-* f v|XADD t 1-* f v|XLEN s|XDEL s 1-0|DEL s|DEL t"
    "|PING|FOO|XADD s|SELECT 1|SELECT 0|FLUSHALL|XREAD STREAMS s 0|XREAD BLOCK 1 STREAMS u $|RESET"
)
requests = st.sampled_from(WORDS.split("|"))
who = st.sampled_from(["", "", "@"])


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.tuples(who, requests), max_size=25))
def test_any_sequence(port: int, script: list[tuple[str, str]]) -> None:
    """A wait outside a transaction is left out: its reply comes later."""
    opened = [False, False]
    lines: list[str] = []
    for sign, request in script:
        at = int(sign == "@")
        if request.startswith("XREAD BLOCK") and not opened[at]:
            continue
        opened[at] = request == "MULTI" or (opened[at] and request not in ("EXEC", "DISCARD", "RESET"))
        lines.append(sign + request)
    compare(port, lines)
