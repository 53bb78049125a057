"""Which commands change something since the last save, beside a real redis-server: `rdb_changes_since_last_save`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.commands.harness import REDIS, Connection, Region, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
CHANGES = re.compile(rb"rdb_changes_since_last_save:(\d+)")
SCRIPT = """
    XADD s 1-0 f v | XADD s 2-0 f v | XADD s 3-0 f v | XGROUP CREATE s g 0 | XREADGROUP GROUP g c COUNT 2 STREAMS s >
    XREADGROUP GROUP g c STREAMS s 0 | XREADGROUP GROUP g c STREAMS s 1-0 | XREADGROUP GROUP g d STREAMS s 0
    XREADGROUP GROUP g d STREAMS s 0 | XPENDING s g | XPENDING s g - + 9 | XCLAIM s g d 0 1-0 | XCLAIM s g d 99999 1-0
    XCLAIM s g d 0 9-0 | XAUTOCLAIM s g c 99999 0 | XAUTOCLAIM s g c 0 0 | XACK s g 9-0 | XACK s g 1-0
    XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP g c STREAMS s > | XDEL s 9-0 | XTRIM s MAXLEN 9 | XLEN s
    XGROUP CREATECONSUMER s g e | XGROUP CREATECONSUMER s g e | XGROUP DELCONSUMER s g e | XGROUP DELCONSUMER s g e
    XADD s 4-0 f v | XADD s 5-0 f v | XREADGROUP GROUP g c COUNT 1 STREAMS s > | XDEL s 4-0
    XREADGROUP GROUP g c STREAMS s 0 | XACKDEL s g IDS 1 9-0 | XCLAIM s g c 0 9-0 LASTID 1-0
    XCLAIM s g c 0 9-0 LASTID 5-0 | XCLAIM s g c 99999 4-0 | XCLAIM s g c 0 5-0 FORCE | XDEL s 5-0
    XAUTOCLAIM s g c 99999 0 | XRANGE s - + | XREAD STREAMS s 0 | XINFO STREAM s
    XGROUP SETID s g 0 | XGROUP DESTROY s g | XGROUP DESTROY s g
    EXISTS s | TYPE s | TOUCH s | PERSIST s | EXPIRE s 100 | PERSIST s | EXPIRE nokey 100 | DEL nokey | RENAMENX s s
    XDELEX s IDS 1 9-0 | XDELEX s IDS 1 1-0 | XADD nokey NOMKSTREAM * f v | COPY s nokey2 | COPY s nokey2 | DEL nokey2
    XSETID s 9-0 | DUMP s | RESTORE s 0 x | OBJECT ENCODING s | SELECT 0 | PUBLISH a b | CONFIG SET maxclients 1000
    XTRIM s MAXLEN 0 | DEL s | FLUSHALL | FLUSHALL
"""


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        yield connection
        connection.close()


def changes_in(reply: bytes | None) -> int:
    found = CHANGES.search(reply or b"")
    assert found is not None
    return int(found[1])


def test_what_counts_as_a_change(redis: Connection) -> None:
    region = Region()
    redis.line("SAVE")
    for line in [line.strip() for text in SCRIPT.strip().split("\n") for line in text.split("|")]:
        counts = [changes_in(side("INFO persistence")) for side in (region.line, redis.line)]
        region.line(line)
        redis.line(line)
        after = [changes_in(side("INFO persistence")) for side in (region.line, redis.line)]
        ours, theirs = [later > before for later, before in zip(after, counts, strict=True)]
        assert ours == theirs, line
