"""What commands take: a stopwatch that a test turns, INFO's times, and the slow log of those that wait."""

from __future__ import annotations

import pytest

from crdtstream.commands import table
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.connections.statistics import Stopwatch
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import replies
from simulations.cluster import CLIENT, Cluster
from tests.commands.harness import Region
from tests.commands.test_info import fields_of

US = 1_000
MS = 1_000 * US


class Clock:
    def __init__(self) -> None:
        self.now_ns = 5 * MS

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def region(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Region:
    """TAKE microseconds [FAIL] is a command that lets time pass."""

    def take(_context: Context, _client: Client, argv: list[bytes]) -> Reply:
        clock.now_ns += int(argv[1]) * US
        if len(argv) > 2:
            raise CommandError("ERR as asked")
        return replies.OK

    monkeypatch.setitem(table.TABLE, b"TAKE", Command("take", take, arity=-2))
    region = Region()
    region.context.stopwatch = Stopwatch(clock)
    region.context.stopwatch.read()
    return region


def slow(region: Region) -> list[tuple[list[bytes], int]]:
    return [(entry.arguments, entry.took_us) for entry in region.context.slow_log.newest(-1)]


def test_no_time_passes_without_a_stopwatch() -> None:
    region = Region()
    region.line("PING")
    assert fields_of(region, "commandstats")["cmdstat_ping"] == (
        "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0"
    )


def test_times_add_up(region: Region) -> None:
    for text in ("TAKE 7", "TAKE 8 FAIL", "TAKE", "PING"):
        region.line(text)
    fields = fields_of(region, "commandstats")
    assert fields["cmdstat_take"] == "calls=2,usec=15,usec_per_call=7.50,rejected_calls=1,failed_calls=1"
    assert fields["cmdstat_ping"].startswith("calls=1,usec=0,")


def test_what_exec_takes(region: Region) -> None:
    region.line("CONFIG SET slowlog-log-slower-than 10")
    for text in ("MULTI", "TAKE 20", "TAKE 9", "EXEC"):
        region.line(text)
    fields = fields_of(region, "commandstats")
    assert fields["cmdstat_take"].startswith("calls=2,usec=29,")
    assert fields["cmdstat_exec"].startswith("calls=1,usec=29,")
    assert slow(region) == [([b"TAKE", b"20"], 20)]


def test_slow_from_the_limit_on(region: Region) -> None:
    for text in ("TAKE 9999", "TAKE 10000", "TAKE 10001 FAIL"):
        region.line(text)
    assert slow(region) == [([b"TAKE", b"10001", b"FAIL"], 10_001), ([b"TAKE", b"10000"], 10_000)]
    entry = region.context.slow_log.newest(1)[0]
    assert (entry.number, entry.time_s) == (1, region.context.now_ms // 1000)
    assert entry.address == region.client.address


def test_time_that_a_client_waits_is_not_its_commands(region: Region, clock: Clock) -> None:
    region.line("CONFIG SET slowlog-log-slower-than 0")
    reader = region.connect()
    assert region.line("XREAD BLOCK 0 STREAMS s $", reader) is None
    clock.now_ns += 60 * MS
    region.context.stopwatch.read()
    region.line("XADD s 1-1 f v")
    assert len(region.late_replies(reader)) == 1
    assert [arguments[0] for arguments, _ in slow(region)] == [b"XREAD", b"XADD", b"CONFIG"]
    assert fields_of(region, "commandstats")["cmdstat_xread"].startswith("calls=1,usec=0,")


@pytest.mark.parametrize("ended_by", ["time", "CLIENT UNBLOCK"])
def test_a_wait_that_ends_without_an_answer_is_logged(region: Region, ended_by: str) -> None:
    region.line("CONFIG SET slowlog-log-slower-than 0")
    reader = region.connect()
    region.line("XREAD BLOCK 5 STREAMS s $", reader)
    assert not [arguments for arguments, _ in slow(region) if arguments[0] == b"XREAD"]
    if ended_by == "time":
        region.pass_time(5)
    else:
        region.run("CLIENT", "UNBLOCK", reader.id)
    assert [arguments for arguments, _ in slow(region) if arguments[0] == b"XREAD"]


def test_a_client_that_left_is_not_logged() -> None:
    cluster = Cluster(1, STRICT)
    node = cluster.node(1)
    node.execute(CLIENT, b"CONFIG SET slowlog-log-slower-than 0".split(), 0)
    node.execute(CLIENT, b"XREAD BLOCK 0 STREAMS s $".split(), 0)
    node.disconnect(CLIENT)
    assert [entry.arguments[0] for entry in node.context.slow_log.entries] == [b"CONFIG"]


def test_the_node_times_what_came_at_once_from_its_arrival() -> None:
    clock = Clock()
    cluster = Cluster(1, STRICT)
    node = cluster.node(1)
    node.context.stopwatch = Stopwatch(clock)
    clock.now_ns += 60 * MS
    node.execute_all(CLIENT, [[b"PING"], [b"PING"]], node.context.now_ms)
    tally = node.context.statistics.tally("ping")
    assert (tally.calls, tally.took_ns) == (2, 0)


def test_calls_are_counted_by_how_long_they_took(region: Region) -> None:
    for took_us in (0, 1, 1, 1_000):
        region.line(f"TAKE {took_us}")
    buckets = region.context.statistics.tally("take").buckets
    assert {at: count for at, count in enumerate(buckets) if count} == {0: 1, 10: 2, 20: 1}
    assert [2 ** (at - 1) <= took_ns < 2**at for at, took_ns in ((10, 1_000), (20, 1_000_000))] == [True, True]
