"""Commands about keys, on streams that exist, existed, or never did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols import replies
from tests.commands.harness import Region


@pytest.fixture
def region() -> Region:
    return Region()


def add(region: Region, *names: str) -> None:
    for name in names:
        region.run("XADD", name, "*", "f", "v")


def names_in(reply: bytes | None) -> list[bytes]:
    """The bulk strings of an array."""
    assert reply is not None and reply.startswith(b"*")
    return reply.split(b"\r\n")[2::2]


def test_delete_counts_what_existed(region: Region) -> None:
    add(region, "a", "b", "c")
    assert region.line("DEL a x a") == b":1\r\n"
    assert region.line("UNLINK b c") == b":2\r\n"
    assert region.line("DBSIZE") == b":0\r\n"


def test_delete_of_an_absent_key_is_no_effect(region: Region) -> None:
    region.line("DEL a")
    assert region.replica.applied.counter() == 0


def test_exists_counts_repeats(region: Region) -> None:
    add(region, "a", "b")
    assert region.line("EXISTS a a b x") == b":3\r\n"


def test_an_emptied_stream_still_exists(region: Region) -> None:
    add(region, "a")
    region.line("XTRIM a MAXLEN 0")
    assert region.line("EXISTS a") == b":1\r\n"
    assert region.line("TYPE a") == b"+stream\r\n"


def test_type(region: Region) -> None:
    add(region, "a")
    assert region.line("TYPE a") == b"+stream\r\n"
    region.line("DEL a")
    assert region.line("TYPE a") == b"+none\r\n"


def test_databases_are_apart(region: Region) -> None:
    add(region, "a")
    region.line("SELECT 5")
    assert region.line("EXISTS a") == b":0\r\n"
    add(region, "b", "c")
    assert region.line("DBSIZE") == b":2\r\n"
    assert region.line("FLUSHDB") == b"+OK\r\n"
    region.line("SELECT 0")
    assert region.line("DBSIZE") == b":1\r\n"


def test_flush_all_is_a_delete_of_each_key(region: Region) -> None:
    add(region, "a", "b")
    region.line("SELECT 15")
    add(region, "c")
    before = region.replica.applied.counter()
    assert region.line("FLUSHALL ASYNC") == b"+OK\r\n"
    assert region.replica.applied.counter() == before + 3
    region.line("FLUSHALL")
    assert region.replica.applied.counter() == before + 3
    assert region.line("DBSIZE") == b":0\r\n"
    region.check()


def test_flush_options(region: Region) -> None:
    for text in ("FLUSHALL SYNC", "FLUSHDB sync", "FLUSHDB ASYNC"):
        assert region.line(text) == b"+OK\r\n"
    for text in ("FLUSHALL now", "FLUSHDB SYNC ASYNC"):
        assert region.line(text) == b"-ERR syntax error\r\n"


def test_keys(region: Region) -> None:
    add(region, "one", "two", "three", "gone")
    region.line("DEL gone")
    assert sorted(names_in(region.line("KEYS *"))) == [b"one", b"three", b"two"]
    assert sorted(names_in(region.line("KEYS t*"))) == [b"three", b"two"]
    assert names_in(region.line("KEYS ?n[e-f]")) == [b"one"]
    assert region.line("KEYS x*") == b"*0\r\n"


def test_keys_with_any_bytes(region: Region) -> None:
    region.run("XADD", b"\xff\0 ", "*", "f", "v")
    assert region.run("KEYS", b"\xff*") == replies.bulk_array([b"\xff\0 "])


def scan_all(region: Region, *options: str | int) -> list[bytes]:
    found: list[bytes] = []
    cursor = b"0"
    while True:
        reply = region.run("SCAN", cursor, *options)
        assert reply is not None
        parts = reply.split(b"\r\n")
        cursor, found = parts[2], found + parts[5::2]
        if cursor == b"0":
            return found


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(1, 30))
def test_scan_gives_what_exists(added: set[int], deleted: set[int], count: int) -> None:
    region = Region()
    add(region, *[f"k{i}" for i in sorted(added)])
    for i in sorted(deleted):
        region.run("DEL", f"k{i}")
    assert sorted(scan_all(region, "COUNT", count)) == sorted(b"k%d" % i for i in added - deleted)


def test_scan_options(region: Region) -> None:
    add(region, *[f"k{i}" for i in range(30)])
    assert sorted(scan_all(region, "MATCH", "k1?", "COUNT", 7)) == sorted(b"k1%d" % i for i in range(10))
    assert len(scan_all(region, "TYPE", "STREAM")) == 30
    assert scan_all(region, "TYPE", "string") == []
    assert scan_all(region, "match", "*", "count", 1000) == scan_all(region)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SCAN x", b"-ERR invalid cursor\r\n"),
        ("SCAN 18446744073709551616", b"-ERR invalid cursor\r\n"),
        ("SCAN 0 COUNT 0", b"-ERR syntax error\r\n"),
        ("SCAN 0 COUNT x", b"-ERR value is not an integer or out of range\r\n"),
        ("SCAN 0 COUNT", b"-ERR syntax error\r\n"),
        ("SCAN 0 FOO x", b"-ERR syntax error\r\n"),
        ("SCAN 0 COUNT x MATCH", b"-ERR value is not an integer or out of range\r\n"),
    ],
)
def test_scan_errors(region: Region, text: str, error: bytes) -> None:
    assert region.line(text) == error


def test_scan_of_a_far_cursor_ends(region: Region) -> None:
    add(region, "a")
    assert region.line("SCAN 18446744073709551615") == b"*2\r\n$1\r\n0\r\n*0\r\n"


def test_touch_counts_as_exists_does(region: Region) -> None:
    add(region, "a", "b")
    assert region.line("TOUCH a a b x") == b":3\r\n"


def test_idle_time(region: Region) -> None:
    add(region, "a")
    region.replica.keyspace.now_ms += 5_999
    for text in ("EXISTS a", "TYPE a", "TTL a", "OBJECT ENCODING a"):
        region.line(text)
    assert region.line("OBJECT IDLETIME a") == b":5\r\n"
    for text in ("TOUCH a", "XLEN a", "XADD a * f v"):
        region.replica.keyspace.now_ms += 5_000
        region.line(text)
        assert region.line("OBJECT IDLETIME a") == b":0\r\n"


def test_random_key_of_nothing_and_of_one(region: Region) -> None:
    assert region.line("RANDOMKEY") == b"$-1\r\n"
    add(region, "a")
    assert region.line("RANDOMKEY") == b"$1\r\na\r\n"


def test_object_help(region: Region) -> None:
    """The last line is that of Redis 7.2; older ones wrote it otherwise."""
    reply = region.line("OBJECT HELP")
    assert reply is not None
    assert reply.startswith(b"*15\r\n+OBJECT <subcommand>")
    assert reply.endswith(b"+HELP\r\n+    Print this help.\r\n")
