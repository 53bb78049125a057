"""DUMP and RESTORE between a region and a real redis-server, in both directions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.harness import REDIS, Connection, Region, redis_server
from tests.commands.portraits import Part, parsed, without_own_fields
from tests.protocols.old_payloads import by_6_2

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

NUMBERS = (0, 127, 128, -1, 4095, -4096, 2**15, 2**23, -(2**31), 2**62)
SCRIPTS = {
    "one entry": ["XADD s 1-1 f v"],
    "empty": ["XADD s 5-5 f v", "XDEL s 5-5"],
    "no entry ever": ["XGROUP CREATE s g 0 MKSTREAM"],
    "other fields": ["XADD s 1-1 a 1 b 2", "XADD s 1-2 a 3 b 4", "XADD s 2-0 c 5", "XADD s 9-9 a 1 b -70000"],
    "removed": [*[f"XADD s {n}-1 f {n * 1000}" for n in range(1, 300)], "XDEL s 5-1 7-1 299-1", "XTRIM s MAXLEN 250"],
    "long values": [f"XADD s {n}-{n} {'f' * n} {'v' * n * 37}" for n in range(1, 150)],
    "numbers": [f"XADD s {at + 1}-1 f {number}" for at, number in enumerate(NUMBERS)],
    "large IDs": ["XADD s 1-18446744073709551615 f v", "XADD s 18446744073709551615-1 f v"],
    "groups": [
        *[f"XADD s {n}-1 f v" for n in range(1, 20)],
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s 12345 5-1 ENTRIESREAD 3",
        "XGROUP CREATECONSUMER s g idle",
        "XREADGROUP GROUP g c COUNT 5 STREAMS s >",
        "XREADGROUP GROUP g d COUNT 3 STREAMS s >",
        "XACK s g 2-1",
        "XCLAIM s g d 0 3-1 RETRYCOUNT 7",
        "XDEL s 4-1",
    ],
}
QUESTIONS = (
    "TYPE s",
    "XLEN s",
    "XRANGE s - +",
    "XINFO GROUPS s",
    "XPENDING s g",
    "XPENDING s 12345",
    "XREADGROUP GROUP g c STREAMS s 0",
    "XREADGROUP GROUP g d STREAMS s 0",
    "XREADGROUP GROUP g d STREAMS s >",
    "XACK s g 1-1 3-1 4-1",
    "XPENDING s g",
)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


@pytest.fixture
def redis(port: int) -> Iterator[Connection]:
    connection = Connection(port)
    connection.line("FLUSHALL")
    yield connection
    connection.close()


def value_of(reply: bytes | None) -> bytes:
    assert reply is not None and reply.startswith(b"$")
    return reply.partition(b"\r\n")[2][:-2]


def heads(reply: bytes | None) -> bytes | None:
    """XINFO STREAM without the shape of the radix tree, and without its first and last entries."""
    head, _, tail = (reply or b"").partition(b"$15\r\nradix-tree-keys")
    return head + tail.partition(b"$17\r\nlast-generated")[2]


def whole(server: Connection | Region) -> list[Part]:
    """All that XINFO tells, times included."""
    items = parsed(server.line("XINFO STREAM s FULL COUNT 0") or b"")[1]
    assert isinstance(items, list)
    return without_own_fields(items)


def answers(server: Connection | Region) -> list[bytes | None]:
    return [heads(server.line("XINFO STREAM s")), *[server.line(text) for text in QUESTIONS]]


@pytest.mark.parametrize("mode", ["liberal", "strict"])
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_from_redis(redis: Connection, name: str, mode: str) -> None:
    for text in SCRIPTS[name]:
        redis.line(text)
    region = Region(id_mode=mode)
    assert region.run("RESTORE", "s", 0, value_of(redis.line("DUMP s"))) == b"+OK\r\n"
    region.check()
    assert whole(region) == whole(redis)
    assert answers(region) == answers(redis)
    region.check()


@pytest.mark.parametrize("group_ms", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("count", [0, 3])
def test_from_releases_up_to_6_2(redis: Connection, count: int, group_ms: int) -> None:
    """Payloads of type 15, with the numbers that the server derives from them."""
    payload = by_6_2(count, (group_ms, 1))
    region = Region()
    for server in (redis, region):
        assert server.run("RESTORE", "s", 0, payload) == b"+OK\r\n"
    assert region.line("XINFO GROUPS s") == redis.line("XINFO GROUPS s")
    # Of an emptied stream, this server shows the highest ID there is as that of the first entry.
    assert whole(region) == whole(redis) or not count


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_to_redis(redis: Connection, name: str) -> None:
    region = Region()
    for text in SCRIPTS[name]:
        region.line(text)
    redis.line("CONFIG SET sanitize-dump-payload yes")
    assert redis.run("RESTORE", "s", 0, value_of(region.line("DUMP s"))) == b"+OK\r\n"
    assert whole(redis) == whole(region)
    assert answers(redis) == answers(region)


ERRORS = (
    "RESTORE a -1 x",
    "RESTORE a x x",
    "RESTORE a 0 x",
    "RESTORE a 0 x FOO",
    "RESTORE a 0 x IDLETIME",
    "RESTORE a 0 x IDLETIME x",
    "RESTORE a 0 x IDLETIME -1",
    "RESTORE a 0 x FREQ 256",
    "RESTORE a 0 x IDLETIME 1 FREQ 1",
    "RESTORE s -1 x",
    "RESTORE s x x REPLACE",
    "DUMP none",
)


def test_errors_and_options(redis: Connection) -> None:
    region = Region()
    for server in (redis, region):
        server.line("XADD s 1-1 f v")
    assert [region.line(text) for text in ERRORS] == [redis.line(text) for text in ERRORS]
    payload = value_of(redis.line("DUMP s"))
    requests: list[tuple[bytes | str | int, ...]] = [
        ("RESTORE", "s", 0, payload),
        ("RESTORE", "s", 0, payload, "REPLACE", "ABSTTL", "IDLETIME", 100),
        ("TTL", "s"),
        ("RESTORE", "s", 5000, payload, "REPLACE"),
        ("TTL", "s"),
        ("RESTORE", "s", 1, payload, "REPLACE", "ABSTTL"),
        ("EXISTS", "s"),
        ("RESTORE", "s", 0, payload[:-1] + b"x"),
    ]
    assert [region.run(*request) for request in requests] == [redis.run(*request) for request in requests]
