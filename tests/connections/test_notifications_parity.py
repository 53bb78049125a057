"""Keyspace notifications of commands, beside a real redis-server: every event, in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.conversations import in_redis, in_region
from tests.commands.harness import REDIS, Connection, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

HEAD = "1:PSUBSCRIBE __key*\n2:SELECT 3\n"
SCRIPTS = {
    "streams": """
        2:XADD s 1-1 f v
        2:XADD s 2-1 f v
        2:XADD s 1-1 f v
        2:XADD s MAXLEN 1 3-1 f v
        2:XADD s NOMKSTREAM MAXLEN 9 4-1 f v
        2:XADD none NOMKSTREAM * f v
        2:XDEL s 4-1 9-9
        2:XADD s 5-1 f v
        2:XADD s 6-1 f v
        2:XGROUP CREATE s g 0
        2:XREADGROUP GROUP g c STREAMS s >
        2:XACK s g 6-1
        2:XTRIM s MAXLEN 1 ACKED
        2:XGROUP DESTROY s g
        2:XDEL s 4-1
        2:XTRIM s MAXLEN 0
        2:XTRIM s MAXLEN 0
        2:XSETID s 10-1
        2:XLEN s
    """,
    "groups": """
        2:XGROUP CREATE s g 0 MKSTREAM
        2:XGROUP CREATE s g 0
        2:XGROUP CREATECONSUMER s g c
        2:XGROUP CREATECONSUMER s g c
        2:XADD s 1-1 f v
        2:XREADGROUP GROUP g d STREAMS s >
        2:XREADGROUP GROUP g d STREAMS s >
        2:XCLAIM s g e 0 1-1
        2:XAUTOCLAIM s g f 0 0
        2:XACK s g 1-1
        2:XGROUP SETID s g $
        2:XGROUP DELCONSUMER s g c
        2:XGROUP DELCONSUMER s g c
        2:XGROUP DESTROY s g
        2:XGROUP DESTROY s g
    """,
    "keys": """
        2:XADD a 1-1 f v
        2:XADD b 1-1 f v
        2:EXPIRE a 100
        2:EXPIRE a 200 LT
        2:PEXPIREAT a 99999999999999
        2:PERSIST a
        2:PERSIST a
        2:RENAME a b
        2:RENAMENX b c
        2:RENAMENX c c
        2:COPY c d
        2:COPY c d
        2:COPY c d REPLACE
        2:EXPIRE d -1
        2:UNLINK c none
        2:DEL c
        2:XADD e 1-1 f v
        2:FLUSHALL
    """,
    "transactions": """
        2:MULTI
        2:XADD s 1-1 f v
        2:XADD s 2-1 f v
        2:DEL s
        2:XADD s 1-1 f v
        2:EXEC
    """,
    "misses": """
        2:XLEN none
        2:XRANGE none - +
        2:TTL none
        2:XADD s 1-1 f v
        2:XLEN s
        2:EXISTS none s other
        2:TOUCH other none
        2:XREAD STREAMS none s other 0 0 $
        2:XINFO STREAM none
        2:XINFO STREAM s
        2:XPENDING none g
        2:XGROUP CREATE s g 0
        2:XREADGROUP GROUP g c STREAMS none >
        2:XREADGROUP GROUP g c STREAMS s >
        2:XACK none g 1-1
        2:XCLAIM none g c 0 1-1
        2:XAUTOCLAIM none g c 0 0
        2:COPY none other
        2:OBJECT ENCODING none
        2:MEMORY USAGE none
        2:XDEL none 1-1
    """,
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


@pytest.mark.parametrize("letters", ["AKE", "AKEnm", "Kt", "Egn", "A", "KEm"])
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_events(port: int, name: str, letters: str) -> None:
    script = f"1:FLUSHALL\n1:CONFIG SET notify-keyspace-events {letters}\n{HEAD}{SCRIPTS[name]}"
    assert in_region(script)["1"] == in_redis(port, script)["1"]


def test_letters(port: int) -> None:
    texts = ["", "KEA", "KEAn", "g$lshzxetd", "mnK", "tE", "q"]
    script = "\n".join(f"1:CONFIG SET notify-keyspace-events {text}\n1:CONFIG GET notify*" for text in texts if text)
    assert in_region(script) == in_redis(port, script)
    connection = Connection(port)
    assert connection.run("CONFIG", "SET", "notify-keyspace-events", "") == b"+OK\r\n"
    connection.close()
