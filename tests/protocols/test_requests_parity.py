"""The request parser beside a real redis-server: what both read from the same bytes is compared by Redis's own replies.

The raw bytes go to one connection. The requests that the parser read from them go to another, written the plain way;
that one's replies, then the parser's error, must be what the first connection answered.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crdtstream.processes.waiting import DEADLINE_S
from crdtstream.protocols import replies
from crdtstream.protocols.requests import ProtocolError, RequestParser
from tests.commands.harness import REDIS, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

AUTH = replies.bulk_array([b"AUTH", b"secret"])
ECHO_ALL = b'EVAL "return ARGV" 0 '


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("redis")
    with redis_server(directory, "--requirepass", "secret") as number:
        yield number


def converse(port: int, data: bytes) -> bytes:
    """All that Redis answers to `data` followed by the end of input.

    Redis reads 16 KiB at once; longer `data` must not go on after an error, or the connection is reset.
    """
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            answer += piece
    return answer


def assert_parity(port: int, data: bytes, authenticated: bool) -> None:
    parser = RequestParser(authenticated)
    prefix = AUTH if authenticated else b""
    failure = b""
    requests: list[list[bytes]] = []
    try:
        requests += parser.feed(data)
        while parser.paused:
            requests += parser.feed(b"")
    except ProtocolError as error:
        requests += error.requests
        failure = replies.error(error.text)
    plain = b"".join(map(replies.bulk_array, requests))
    assert converse(port, prefix + data) == converse(port, prefix + plain) + failure


PARTS = [b"$0\r\n", b"$3\r\n", b"$4\r\n", b"ECHO", b"abc", b"\r\n", b"\n", b"\r", b"\0", b" ", b'"', b"'"]
COUNTS = [b"*1\r\n", b"*2\r\n", b"*3\r\n", b"*0\r\n", b"*-1\r\n", b"*11\r\n", b"*01\r\n", b"*:\r\n"]
SIZES = [b"$-1\r\n", b"$16385\r\n", b"$ 1\r\n", b":1\r\n", b"$:\r\n0123456789\r\n", b"$<0\r\n"]
WHOLE = [b"*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n", b"ECHO abc\r\n", b"PING\n"]
PIECES = st.sampled_from(PARTS) | st.sampled_from(COUNTS) | st.sampled_from(SIZES) | st.sampled_from(WHOLE)
QUOTING = st.text(alphabet="ab01x\\\"' \t\v\f\r\x85\xff", max_size=24).map(lambda text: text.encode("latin-1"))
TOGETHER = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@TOGETHER
@given(data=st.lists(PIECES, max_size=12).map(b"".join), authenticated=st.booleans())
@example(data=b"*1\r\n\r\n", authenticated=True)
@example(data=b"*1\r\n\n\r\n", authenticated=True)
@example(data=b"*1\r\n\xff\r\n", authenticated=True)
@example(data=b"*1\rx$4\ryPINGzz*1\r\n$4\r\nPING\r\n", authenticated=True)
@example(data=b"PI\0NG\r\nPING\r\n", authenticated=True)
@example(data=b"*1\r\n$4\0\r\nPING\r\n", authenticated=True)
@example(data=b"*-9223372036854775808\r\nPING\r\n", authenticated=True)
@example(data=b"*9223372036854775808\r\nPING\r\n", authenticated=True)
@example(data=b"*-9223372036854775809\r\nPING\r\n", authenticated=True)
@example(data=b"*-0\r\nPING\r\n", authenticated=True)
@example(data=b"*1\r\n$536870913\r\n", authenticated=True)
@example(data=b"PING " + b"x" * 65531 + b"\n", authenticated=True)
@example(data=b"x" * 65536, authenticated=True)
@example(data=b"x" * 65537, authenticated=True)
@example(data=b"*" + b"1" * 65535, authenticated=True)
@example(data=b"*" + b"1" * 65536, authenticated=True)
@example(data=b"*1\r\n$" + b"1" * 65535, authenticated=True)
@example(data=b"*1\r\n$" + b"1" * 65536, authenticated=True)
@example(data=b"*11\r\n", authenticated=False)
@example(data=replies.bulk_array([b"ECHO"] + [b"x"] * 9), authenticated=False)
@example(data=b"*2\r\n$4\r\nECHO\r\n$16385\r\n", authenticated=False)
@example(data=replies.bulk_array([b"ECHO", bytes(16384)]), authenticated=False)
def test_the_same_bytes_mean_the_same(port: int, data: bytes, authenticated: bool) -> None:
    assert_parity(port, data, authenticated)


@TOGETHER
@given(line=QUOTING)
def test_quotes_mean_the_same(port: int, line: bytes) -> None:
    assert_parity(port, ECHO_ALL + line + b"\r\nPING\r\n", authenticated=True)


@settings(TOGETHER, max_examples=50)
@given(data=st.binary(max_size=100))
def test_garbage_is_refused_alike(port: int, data: bytes) -> None:
    assert_parity(port, data, authenticated=True)
