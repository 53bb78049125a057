"""MONITOR: what is shown, beside a real redis-server, and to which clients."""

from __future__ import annotations

import re

import pytest

from crdtstream.connections.monitors import line_of
from tests.commands.conversations import in_redis, in_region
from tests.commands.harness import REDIS, START_MS, Connection, Region, redis_server

SCRIPT = """
    1:MONITOR
    2:XADD s 1-1 f v
    2:SELECT 3
    2:MULTI
    2:XLEN s
    2:EXEC
    2:XLEN
    2:FOO
    2:CONFIG GET port
    2:AUTH secret
    2:HELLO 2 AUTH default secret
    2:SUBSCRIBE a
    3:XLEN s
"""


def without_names(received: bytes) -> bytes:
    lines = [line for line in received.splitlines() if b"end-of-the" not in line]
    return b"\n".join([re.sub(rb"^\+[0-9.]+ (\[\d+) [^\]]*", rb"+\1", line) for line in lines])


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
def test_what_is_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        assert without_names(in_region(SCRIPT)["1"]) == without_names(in_redis(port, SCRIPT)["1"])
        texts = [b'q"\\\n\r\t\a\b\x01\xff\x7f ~', b""]
        monitor, other = Connection(port), Connection(port)
        monitor.line("MONITOR")
        other.run("EXISTS", *texts)
        shown = monitor.stream.readline()
        client = Region().client
        assert line_of(START_MS, client, [b"EXISTS", *texts]).partition(b"] ")[2] == shown.partition(b"] ")[2]
        for connection in (monitor, other):
            connection.close()


def test_a_monitor_ends() -> None:
    region = Region()
    monitor = region.connect()
    assert region.line("MONITOR", client=monitor) == b"+OK\r\n"
    assert b" flags=O " in (region.line("CLIENT LIST ID 2") or b"")
    region.line("PING")
    assert region.messages(monitor) == b'+1700000000.000000 [0 127.0.0.1:50001] "PING"\r\n'
    region.line("RESET", client=monitor)
    region.line("PING")
    assert region.messages(monitor) == b"" and not region.context.monitors
