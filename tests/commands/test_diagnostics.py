"""SLOWLOG, LATENCY and MEMORY: empty where nothing is measured, errors and shapes as Redis has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from tests.commands.harness import REDIS, Connection, Region, redis_server


@pytest.fixture
def region() -> Region:
    return Region(limits=Limits(auth_failure_delay_ms=0))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis"), "--slowlog-log-slower-than", "-1") as number:
        yield number


SAME = [
    "SLOWLOG; SLOWLOG FOO; SLOWLOG GET x; SLOWLOG GET -2; SLOWLOG GET -1; SLOWLOG GET; SLOWLOG GET 1 2; SLOWLOG LEN",
    "SLOWLOG RESET; SLOWLOG LEN x; LATENCY; LATENCY FOO; LATENCY LATEST; LATENCY HISTORY x; LATENCY RESET",
    "LATENCY RESET x y; LATENCY GRAPH x; LATENCY HISTORY; LATENCY LATEST x; LATENCY HISTOGRAM nothing",
    "MEMORY; MEMORY FOO; MEMORY USAGE; MEMORY USAGE nokey; MEMORY USAGE nokey SAMPLES; MEMORY USAGE nokey x 1",
    "MEMORY USAGE nokey SAMPLES 0; MEMORY USAGE nokey SAMPLES x; MEMORY USAGE nokey SAMPLES -1; MEMORY PURGE",
    "HELLO 3; MEMORY USAGE nokey; LATENCY HISTOGRAM nothing; LATENCY LATEST",
]
TIMES = re.compile(rb"(\*6\r\n:\d+\r\n):\d+\r\n:\d+\r\n")
ADDRESS = re.compile(rb"\$\d+\r\n127\.0\.0\.1:\d+\r\n")
# With every command logged; the log of the real server begins with the one that switched it on.
SLOW = [
    "PING; CLIENT SETNAME me; SLOWLOG GET; SLOWLOG GET 2; SLOWLOG GET 0; SLOWLOG GET -1; SLOWLOG LEN",
    "FOO; ECHO; SELECT 99; SLOWLOG GET",
    "AUTH x; AUTH default x; HELLO 2 AUTH default x; HELLO 2 AUTH nobody x; SLOWLOG GET -1",
    "CONFIG SET requirepass x maxclients 1000; CONFIG SET maxclients 1000 requirepass x; CONFIG SET requirepass_; "
    "SLOWLOG GET -1",
    "MULTI; PING; SELECT 99; EXEC; MULTI; DISCARD; SLOWLOG GET",
    f"DEL {'k ' * 30}k; DEL {'k ' * 31}k; SLOWLOG GET; ECHO {'x' * 128}; ECHO {'x' * 129}; SLOWLOG GET 2",
    "PING; PING; PING; CONFIG SET slowlog-max-len 2; SLOWLOG LEN; SLOWLOG GET",
    "PING; SLOWLOG RESET; SLOWLOG GET; PING; SLOWLOG GET",
    "CONFIG SET slowlog-log-slower-than -1; PING; SLOWLOG GET; CONFIG SET slowlog-log-slower-than 3600000000; "
    "SLOWLOG GET; CONFIG SET slowlog-log-slower-than -2; CONFIG GET slowlog-log-*",
    "XADD s 1-1 f v; XREAD BLOCK 1000 STREAMS s 0; MULTI; XREAD BLOCK 1000 STREAMS s 5-5; EXEC; SLOWLOG GET",
]


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
@pytest.mark.parametrize("script", SAME)
def test_as_redis(port: int, region: Region, script: str) -> None:
    connection = Connection(port)
    for line in script.split("; "):
        ours, theirs = region.line(line), connection.line(line)
        assert ours == theirs or line.startswith("HELLO"), line
    connection.close()


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
@pytest.mark.parametrize("script", SLOW)
def test_slow_commands_as_redis(tmp_path: Path, region: Region, script: str) -> None:
    begin = "CONFIG SET slowlog-max-len 128 slowlog-log-slower-than 0"
    with redis_server(tmp_path) as number:
        connection = Connection(number)
        connection.line(begin)
        region.line(begin)
        for line in script.split("; "):
            ours, theirs = (masked(reply or b"") for reply in (region.line(line), connection.line(line)))
            assert ours == theirs or line.startswith("HELLO"), line
        connection.close()


def masked(reply: bytes) -> bytes:
    return ADDRESS.sub(b"$0\r\n\r\n", TIMES.sub(rb"\1:0\r\n:0\r\n", reply))


def number_of(reply: bytes | None) -> int:
    assert reply is not None and reply.startswith(b":")
    return int(reply[1:])


def test_usage_grows_with_what_a_key_holds(region: Region) -> None:
    region.line("XADD s 1-1 f v")
    sizes = [number_of(region.line("MEMORY USAGE s"))]
    region.run("XADD", "s", "1-2", "f", "x" * 10_000)
    sizes.append(number_of(region.line("MEMORY USAGE s SAMPLES 0")))
    assert sizes[1] - sizes[0] > 10_000
    for line in ("XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"):
        region.line(line)
        sizes.append(number_of(region.line("MEMORY USAGE s")))
    assert sizes == sorted(set(sizes))
    idle_ms = read_reply(region.line("OBJECT IDLETIME s") or b"")
    region.replica.keyspace.now_ms += 5_000
    region.line("MEMORY USAGE s")
    assert read_reply(region.line("OBJECT IDLETIME s") or b"") == 5 != idle_ms, "MEMORY USAGE is no use of the key"


def test_memory_doctor(region: Region) -> None:
    region.context.about.memory_bytes = 200
    assert b"no limit" in (region.line("MEMORY DOCTOR") or b"")
    region.line("CONFIG SET maxmemory 100")
    reply = region.line("MEMORY DOCTOR") or b""
    assert b"200% of maxmemory" in reply and b"are rejected" in reply


def test_memory_statistics(region: Region) -> None:
    region.line("XADD s 1-1 f v")
    reply = read_reply(region.line("MEMORY STATS") or b"")
    assert isinstance(reply, list)
    values = dict(zip(reply[::2], reply[1::2], strict=True))
    assert values["keys.count"] == 1 and int(str(values["dataset.bytes"])) > 1000


def test_latency_doctor(region: Region) -> None:
    assert b"there are no samples" in (region.line("LATENCY DOCTOR") or b"")
