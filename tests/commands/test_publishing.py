"""Publish and subscribe: what a redis-server of another version does otherwise, and what no client sees."""

from __future__ import annotations

import pytest

from tests.commands.conversations import in_region
from tests.commands.harness import Region

SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"


@pytest.fixture
def region() -> Region:
    return Region()


def test_own_messages_come_after_the_reply() -> None:
    script = "1:HELLO 3\n1:SUBSCRIBE a\n1:PUBLISH a x\n1:MULTI\n1:PUBLISH a y\n1:EXEC"
    x, y = (b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n%b\r\n" % text for text in (b"x", b"y"))
    received = in_region(script)["1"]
    assert received.endswith(b":1\r\n" + x + b"+OK\r\n+QUEUED\r\n*1\r\n:1\r\n" + y)


def test_a_subscription_in_a_transaction(region: Region) -> None:
    for text in ("MULTI", "SUBSCRIBE a"):
        region.line(text)
    assert region.line("EXEC") == b"*1\r\n" + SUBSCRIBED


def test_names_are_bytes(region: Region) -> None:
    listener = region.connect()
    region.run("PSUBSCRIBE", b"\xff[a-c]", client=listener)
    assert region.run("PUBLISH", b"\xffb", b"\0\r\n") == b":1\r\n"
    assert region.messages(listener) == b"*4\r\n$8\r\npmessage\r\n$6\r\n\xff[a-c]\r\n$2\r\n\xffb\r\n$3\r\n\0\r\n\r\n"
    region.check()


def test_client_list_and_info(region: Region) -> None:
    listener = region.connect()
    for text in ("SUBSCRIBE a b", "PSUBSCRIBE p", "SSUBSCRIBE s"):
        region.line(text, client=listener)
    line = region.line("CLIENT LIST TYPE pubsub") or b""
    assert b" flags=P db=0 sub=2 psub=1 ssub=1 " in line and line.count(b"id=") == 1
    assert (region.line("CLIENT LIST TYPE normal") or b"").count(b"id=") == 1
    info = region.line("INFO") or b""
    for field in (b"pubsub_channels:2", b"pubsub_patterns:1", b"pubsubshard_channels:1", b"pubsub_clients:1"):
        assert field in info
    assert region.line("CLIENT KILL TYPE pubsub") == b":1\r\n"
    assert listener.dropped


def test_a_closing_client_gets_no_message(region: Region) -> None:
    listener = region.connect()
    region.line("SUBSCRIBE a", client=listener)
    region.line("QUIT", client=listener)
    assert region.line("PUBLISH a x") == b":1\r\n"
    assert region.messages(listener) == b""
