"""Commands about expiry, and what every other command sees of a key that is hidden."""

from __future__ import annotations

import pytest

from tests.commands.harness import START_MS, Region


@pytest.fixture
def region() -> Region:
    region = Region()
    region.line("XADD a 5-1 f v")
    return region


def hide(region: Region) -> None:
    """`a` expires; its deletion is still to come."""
    region.line("PEXPIRE a 100")
    region.replica.keyspace.now_ms += 101


def test_times(region: Region) -> None:
    assert region.line("TTL a") == region.line("PEXPIRETIME a") == b":-1\r\n"
    assert region.line("EXPIRE a 100") == b":1\r\n"
    region.replica.keyspace.now_ms += 499
    assert region.line("TTL a") == b":100\r\n"
    region.replica.keyspace.now_ms += 2
    assert region.line("TTL a") == b":99\r\n"
    assert region.line("PTTL a") == b":99499\r\n"
    assert region.line("PEXPIRETIME a") == b":%d\r\n" % (START_MS + 100_000)
    assert region.line("EXPIRETIME a") == b":%d\r\n" % (START_MS // 1000 + 100)
    assert region.line("PERSIST a") == b":1\r\n"
    assert region.line("PERSIST a") == b":0\r\n"
    assert region.line("PTTL a") == b":-1\r\n"
    assert region.line("TTL nosuch") == region.line("PEXPIRETIME nosuch") == b":-2\r\n"


def test_a_key_is_there_up_to_its_time(region: Region) -> None:
    region.line("PEXPIRE a 100")
    region.replica.keyspace.now_ms += 100
    assert region.line("EXISTS a") == b":1\r\n"
    assert region.line("PTTL a") == b":0\r\n"
    region.replica.keyspace.now_ms += 1
    assert region.line("EXISTS a") == b":0\r\n"


@pytest.mark.parametrize("text", ["EXPIRE a 0", "EXPIRE a -5", "PEXPIREAT a 1", "EXPIREAT a -9", "PEXPIRE a 0"])
def test_an_expiry_in_the_past_deletes(region: Region, text: str) -> None:
    before = region.replica.applied.counter()
    assert region.line(text) == b":1\r\n"
    assert region.replica.keyspace.known((0, b"a")) is None
    assert region.replica.applied.counter() == before + 1


@pytest.mark.parametrize(
    ("current", "condition", "reply"),
    [
        (None, "NX", 1),
        (None, "XX", 0),
        (None, "GT", 0),
        (None, "LT", 1),
        (1000, "NX", 0),
        (1000, "XX", 1),
        (1000, "GT", 0),
        (1000, "LT", 0),
        (999, "GT", 1),
        (999, "LT", 0),
        (1001, "LT", 1),
        (1001, "XX GT", 0),
        (1001, "XX LT", 1),
    ],
)
def test_conditions(region: Region, current: int | None, condition: str, reply: int) -> None:
    if current is not None:
        region.line(f"PEXPIRE a {current}")
    before = region.replica.applied.counter()
    assert region.line(f"PEXPIRE a 1000 {condition}") == b":%d\r\n" % reply
    assert region.replica.applied.counter() == before + reply


def test_no_effect_for_a_key_that_is_absent(region: Region) -> None:
    before = region.replica.applied.counter()
    for text in ("EXPIRE x 10", "PEXPIREAT x 1", "PERSIST x"):
        assert region.line(text) == b":0\r\n"
    assert region.replica.applied.counter() == before


# Hidden keys


def test_readers_find_nothing(region: Region) -> None:
    region.line("XGROUP CREATE a g 0")
    hide(region)
    before = region.replica.applied.counter()
    for text, reply in {
        "EXISTS a": b":0\r\n",
        "TOUCH a": b":0\r\n",
        "TYPE a": b"+none\r\n",
        "KEYS *": b"*0\r\n",
        "SCAN 0": b"*2\r\n$1\r\n0\r\n*0\r\n",
        "DBSIZE": b":0\r\n",
        "RANDOMKEY": b"$-1\r\n",
        "OBJECT ENCODING a": b"$-1\r\n",
        "XLEN a": b":0\r\n",
        "XRANGE a - +": b"*0\r\n",
        "XREAD STREAMS a 0": b"*-1\r\n",
        "XINFO STREAM a": b"-ERR no such key\r\n",
        "XPENDING a g": b"-NOGROUP No such key 'a' or consumer group 'g'\r\n",
        "XACK a g 5-1": b":0\r\n",
        "XDEL a 5-1": b":0\r\n",
        "XTRIM a MAXLEN 0": b":0\r\n",
        "TTL a": b":-2\r\n",
        "PERSIST a": b":0\r\n",
        "EXPIRE a 9": b":0\r\n",
        "RENAME a b": b"-ERR no such key\r\n",
        "COPY a b": b":0\r\n",
    }.items():
        assert region.line(text) == reply, text
    assert region.replica.applied.counter() == before
    assert b"db0" not in (region.line("INFO keyspace") or b"")


def test_a_digest_does_not_know_the_clock(region: Region) -> None:
    region.line("PEXPIRE a 100")
    before = region.line("CRDT.DIGEST"), region.line("CRDT.DIGEST a")
    region.replica.keyspace.now_ms += 101
    assert (region.line("CRDT.DIGEST"), region.line("CRDT.DIGEST a")) == before


@pytest.mark.parametrize(
    "text", ["XADD a 1-1 f v", "XGROUP CREATE a g 0 MKSTREAM", "RENAME b a", "RENAMENX b a", "COPY b a"]
)
def test_writers_start_over(region: Region, text: str) -> None:
    region.line("XADD b 1-1 f v")
    hide(region)
    reply = region.line(text)
    assert reply is not None
    assert reply[:1] != b"-"
    assert region.line("TTL a") == b":-1\r\n"
    assert b"5-1" not in (region.line("XRANGE a - +") or b"")
    assert region.replica.expired_keys == 1
    region.check()


def test_an_id_below_the_hidden_top_is_minted(region: Region) -> None:
    hide(region)
    assert region.line("XADD a 4-* f v") == b"$3\r\n4-0\r\n"


@pytest.mark.parametrize("text", ["DEL a", "UNLINK a", "FLUSHDB", "FLUSHALL"])
def test_removers_remove_it(region: Region, text: str) -> None:
    hide(region)
    region.line(text)
    assert region.replica.keyspace.known((0, b"a")) is None


def test_info_counts_keys_that_will_expire(region: Region) -> None:
    region.line("XADD b 1-1 f v")
    region.line("XADD c 1-1 f v")
    region.line("PEXPIRE a 1000")
    region.line("PEXPIRE b 3000")
    assert b"db0:keys=3,expires=2,avg_ttl=2000\r\n" in (region.line("INFO keyspace") or b"")


def test_a_group_reader_learns_that_its_key_went(region: Region) -> None:
    region.line("XGROUP CREATE a g $")
    waiting = region.connect()
    assert region.line("XREADGROUP GROUP g c BLOCK 0 STREAMS a >", client=waiting) is None
    assert region.line("EXPIRE a 0") == b":1\r\n"
    text = b"-NOGROUP No such key 'a' or consumer group 'g' in XREADGROUP with GROUP option\r\n"
    assert region.late_replies(waiting) == [text]
