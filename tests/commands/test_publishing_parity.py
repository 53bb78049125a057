"""Conversations over publish and subscribe, beside a real redis-server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands.conversations import in_redis, in_region
from tests.commands.harness import REDIS, Connection, redis_server, without_modules

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

SCRIPTS = {
    "channels": """
        1:SUBSCRIBE a b a
        2:PUBLISH a one
        2:PUBLISH c two
        1:UNSUBSCRIBE a c
        2:PUBLISH a three
        2:PUBLISH b four
        1:UNSUBSCRIBE
        1:UNSUBSCRIBE
        1:XLEN x y z
    """,
    "patterns": """
        1:PSUBSCRIBE n*
        1:SUBSCRIBE news
        2:PUBLISH news one
        2:PUBSUB NUMPAT
        1:PUNSUBSCRIBE
        1:PUNSUBSCRIBE
        2:PUBLISH news two
        2:PUBSUB NUMPAT
    """,
    "shards": """
        1:SSUBSCRIBE a b
        1:SUBSCRIBE a
        2:SPUBLISH a one
        2:PUBLISH a two
        2:PUBSUB SHARDCHANNELS b*
        2:PUBSUB SHARDNUMSUB a c
        1:SUNSUBSCRIBE a
        1:SUNSUBSCRIBE
        1:SUNSUBSCRIBE
        1:UNSUBSCRIBE
        1:PUBSUB SHARDCHANNELS
    """,
    "RESP3": """
        1:HELLO 3
        1:SUBSCRIBE a
        1:PSUBSCRIBE *
        1:SSUBSCRIBE s
        2:PUBLISH a one
        2:SPUBLISH s two
        1:ECHO three
        1:PING
        1:PING four
        1:PUBSUB NUMSUB a b
        1:UNSUBSCRIBE
        1:UNSUBSCRIBE
    """,
    "RESP2 is restricted": """
        1:SUBSCRIBE a
        1:XLEN x
        1:CLIENT ID
        1:FOO x
        1:PUBLISH a
        1:PUBLISH a b
        1:HELLO 3
        1:MULTI
        1:PING
        1:PING hello
        1:SSUBSCRIBE s
        1:UNSUBSCRIBE
        1:ECHO no
        1:SUNSUBSCRIBE
        1:ECHO yes
    """,
    "RESET": """
        1:HELLO 3
        1:SUBSCRIBE a
        1:PSUBSCRIBE b
        1:SSUBSCRIBE c
        1:RESET
        2:PUBLISH a one
        2:SPUBLISH c one
        2:PUBSUB CHANNELS
        1:ECHO two
    """,
    "errors": """
        1:SUBSCRIBE
        1:PUBLISH a
        1:SPUBLISH a
        1:PUBSUB
        1:PUBSUB FOO
        1:PUBSUB CHANNELS a b
        1:PUBSUB SHARDCHANNELS a b
        1:PUBSUB NUMPAT x
        1:PUBSUB NUMSUB
        1:PUBSUB HELP
    """,
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


def without_greeting(received: bytes) -> bytes:
    """HELLO tells versions, which differ."""
    return without_modules(received).partition(b"$7\r\nmodules\r\n*0\r\n")[2] or received


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_what_clients_receive(port: int, name: str) -> None:
    ours, theirs = in_region(SCRIPTS[name]), in_redis(port, SCRIPTS[name])
    assert {one: without_greeting(text) for one, text in ours.items()} == {
        one: without_greeting(text) for one, text in theirs.items()
    }


def test_confirmations_come_while_replies_are_off(port: int) -> None:
    connection = Connection(port)
    for text in ("CLIENT REPLY OFF", "SUBSCRIBE a"):
        connection.send(*text.split())
    confirmation = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
    assert connection.stream.read(len(confirmation)) == confirmation
    connection.close()
    script = "1:CLIENT REPLY OFF\n1:SUBSCRIBE a\n1:PING\n2:PUBLISH a x"
    assert in_region(script)["1"] == confirmation + b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"
