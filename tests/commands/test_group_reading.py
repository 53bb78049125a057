"""XREADGROUP with CLAIM, MAXCOUNT and MAXSIZE; the rest is in test_groups.py."""

from __future__ import annotations

from tests.commands.group_region import (
    EMPTY,
    NILA,
    ONE,
    array,
    bulk,
    bulks,
    entries,
    entry,
    grouped,
    integer,
    read,
    row,
)
from tests.commands.harness import Region


def told(entry_id: str, idle_ms: int, deliveries: int) -> bytes:
    """An entry as CLAIM tells it."""
    return array(bulk(entry_id), bulks("f", "v"), integer(idle_ms), integer(deliveries))


def of(*rows: bytes, name: str = "s") -> bytes:
    return array(array(bulk(name), array(*rows)))


def later(region: Region, ms: int) -> None:
    region.replica.keyspace.now_ms += ms


# CLAIM


def test_what_is_idle_comes_first_then_what_is_new() -> None:
    region = grouped("1-0", "2-0", "3-0", "4-0")
    region.line("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    later(region, 5)
    region.line("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    region.line("XCLAIM s g a 0 1-0 IDLE 1")
    later(region, 20)
    assert region.line("XREADGROUP GROUP g b COUNT 3 CLAIM 20 STREAMS s >") == of(
        told("1-0", 21, 2), told("2-0", 20, 1), told("3-0", 0, 0)
    )
    rows = row("1-0", "b", 0, 3), row("2-0", "b", 0, 2), row("3-0", "b", 0, 1)
    assert region.line("XPENDING s g - + 10") == array(*rows)
    assert region.line("XREADGROUP GROUP g b CLAIM 1 STREAMS s >") == of(told("4-0", 0, 0))


def test_the_longest_idle_come_first() -> None:
    region = grouped("1-0", "2-0", "3-0")
    later(region, 100)
    region.line("XREADGROUP GROUP g a STREAMS s >")
    region.line("XCLAIM s g a 0 3-0 IDLE 50 JUSTID")
    region.line("XCLAIM s g a 0 2-0 IDLE 10 JUSTID")
    assert region.line("XREADGROUP GROUP g b COUNT 2 CLAIM 10 STREAMS s >") == of(
        told("3-0", 50, 1), told("2-0", 10, 1)
    )
    assert region.line("XREADGROUP GROUP g b CLAIM 10 STREAMS s >") == NILA


def test_claim_means_nothing_for_history() -> None:
    region = grouped("1-0")
    region.line("XREADGROUP GROUP g a STREAMS s >")
    assert region.line("XREADGROUP GROUP g b CLAIM 0 STREAMS s 0") == array(array(bulk("s"), EMPTY))
    assert region.line("XREADGROUP GROUP g a CLAIM 0 STREAMS s 0") == read("s", "1-0")


def test_what_is_gone_is_not_claimed() -> None:
    region = grouped("1-0", "2-0", "3-0")
    region.line("XREADGROUP GROUP g a STREAMS s >")
    region.line("XDEL s 1-0")
    assert region.line("XREADGROUP GROUP g b COUNT 1 CLAIM 0 STREAMS s >") == of(told("2-0", 0, 1))
    rows = array(row("1-0", "a", 0, 1), row("2-0", "b", 0, 2), row("3-0", "a", 0, 1))
    assert region.line("XPENDING s g - + 10") == rows
    assert region.line("XACKDEL s g IDS 1 1-0") == array(ONE)


def test_a_waiting_reader_does_not_wait_for_deleted_entries() -> None:
    """What was deleted stays pending, so it must not be what the reader looks at again and again."""
    region = grouped("1-0", "2-0")
    region.line("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    region.pass_time(20)
    region.line("XREADGROUP GROUP g a STREAMS s >")
    region.line("XDEL s 1-0")
    region.line("XNACK s g FAIL IDS 1 1-0")
    assert region.line("XREADGROUP GROUP g b CLAIM 50 BLOCK 0 STREAMS s >") is None
    (waiter,) = region.context.parking.all()
    assert waiter.deadline_ms == region.context.now_ms + 50
    region.pass_time(50)
    assert region.late_replies(region.client) == [of(told("2-0", 50, 1))]


def test_noack_is_for_what_is_new() -> None:
    region = grouped("1-0", "2-0")
    region.line("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    assert region.line("XREADGROUP GROUP g b CLAIM 0 NOACK STREAMS s >") == of(told("1-0", 0, 1), told("2-0", 0, 0))
    assert region.line("XPENDING s g - + 10") == array(row("1-0", "b", 0, 2))


def test_a_waiting_reader_claims_what_becomes_idle() -> None:
    region = grouped("1-0")
    region.line("XREADGROUP GROUP g a STREAMS s >")
    assert region.line("XREADGROUP GROUP g b CLAIM 50 BLOCK 1000 STREAMS s >") is None
    region.pass_time(49)
    assert not region.late_replies(region.client)
    region.pass_time(1)
    assert region.late_replies(region.client) == [of(told("1-0", 50, 1))]


def test_a_waiting_reader_claims_what_is_delivered_meanwhile() -> None:
    region = grouped("1-0")
    region.line("XREADGROUP GROUP g a STREAMS s >")
    region.line("XACK s g 1-0")
    assert region.line("XREADGROUP GROUP g b CLAIM 50 BLOCK 0 STREAMS s >") is None
    other = region.connect()
    for _ in range(3):
        region.pass_time(50)
        region.context.parking.check()
    region.run("XADD", "s", "2-0", "f", "v", client=other)
    region.wake()
    assert region.late_replies(region.client) == [of(told("2-0", 0, 0))]


def test_the_wait_ends_in_time() -> None:
    region = grouped("1-0")
    region.line("XREADGROUP GROUP g a STREAMS s >")
    assert region.line("XREADGROUP GROUP g b CLAIM 50 BLOCK 30 STREAMS s >") is None
    region.pass_time(30)
    assert region.late_replies(region.client) == [NILA]


# MAXCOUNT and MAXSIZE


def test_maxcount_over_streams_and_claims() -> None:
    region = grouped("1-0", "2-0")
    region.line("XADD t 1-0 f v")
    region.line("XGROUP CREATE t g 0")
    region.line("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    assert region.line("XREADGROUP GROUP g b MAXCOUNT 2 CLAIM 0 STREAMS s t > >") == of(
        told("1-0", 0, 1), told("2-0", 0, 0)
    )
    assert region.line("XREADGROUP GROUP g b MAXCOUNT 5 STREAMS s t > >") == read("t", "1-0")
    history = region.line("XREADGROUP GROUP g b MAXCOUNT 1 STREAMS s t 0 0")
    assert history == read("s", "1-0")


def test_maxsize_leaves_the_rest_wanted() -> None:
    region = grouped("1-0", "2-0", "3-0")
    header, size = len(array(bulk("s"), b"*1\r\n")), len(entry("1-0"))
    assert region.line("XREADGROUP GROUP g a MAXSIZE 1 STREAMS s >") == read("s", "1-0")
    assert region.line(f"XREADGROUP GROUP g a MAXSIZE {header + 2 * size - 1} STREAMS s >") == read("s", "2-0")
    assert region.line(f"XREADGROUP GROUP g a MAXSIZE {header + 2 * size} STREAMS s 0") == array(
        array(bulk("s"), entries("1-0", "2-0"))
    )
    assert region.line("XPENDING s g - + 10") == array(row("1-0", "a", 0, 2), row("2-0", "a", 0, 2))
    assert region.line("XREADGROUP GROUP g a MAXSIZE 10000 STREAMS s >") == read("s", "3-0")


def test_a_reader_that_waits_does_not_bring_its_deleted_consumer_back() -> None:
    """Only what is delivered does: a change of the stream that brings nothing is no request of the consumer."""
    region = Region()
    for text in ("XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE t g $ MKSTREAM"):
        region.line(text)
    reader = region.connect()
    assert region.line("XREADGROUP GROUP g c BLOCK 0 STREAMS s t > >", client=reader) is None
    assert region.line("XGROUP DELCONSUMER s g c") == b":0\r\n"
    region.line("PEXPIREAT t 4000000000000")
    assert region.line("XINFO CONSUMERS s g") == b"*0\r\n"
    region.line("XADD t 1-1 f v")
    assert len(region.late_replies(reader)) == 1
    assert (region.line("XINFO CONSUMERS s g") or b"").startswith(b"*1")
