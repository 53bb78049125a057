"""WAIT and WAITAOF."""

from __future__ import annotations

import pytest

from crdtstream.connections.context import CommandError
from crdtstream.core.values.causality import VersionVector
from crdtstream.settings.config import Limits
from tests.commands.harness import Region


@pytest.fixture
def region() -> Region:
    return Region()


def hold(region: Region, member: int, counter: int) -> None:
    """A member tells that it has this region's effects up to the counter on its disk."""
    region.progress.durable[member] = VersionVector({region.replica.applied.origin: counter})


def serve_waiting(region: Region) -> None:
    for waiter in region.context.parking.keyless():
        region.serve(waiter)


def test_wait_counts_other_regions_that_hold_the_writes(region: Region) -> None:
    region.line("XADD s * f v")
    for member, counter in ((1, 1), (2, 1), (3, 0), (4 + 256, 7)):
        hold(region, member, counter)
    assert region.line("WAIT 2 1000") == b":2\r\n"
    assert region.line("WAIT 0 1000") == b":2\r\n"


def test_wait_is_for_the_writes_of_the_caller(region: Region) -> None:
    region.line("XADD s * f v")
    hold(region, 2, 1)
    region.line("XADD s * f v", region.connect())
    assert region.line("WAIT 1 0") == b":1\r\n"


def test_wait_parks_until_enough_hold(region: Region) -> None:
    region.line("XADD s * f v")
    assert region.line("WAIT 2 0") is None
    assert region.client.parked
    hold(region, 2, 1)
    serve_waiting(region)
    assert region.late_replies(region.client) == []
    hold(region, 3, 1)
    serve_waiting(region)
    assert region.late_replies(region.client) == [b":2\r\n"]
    assert not region.client.parked
    region.check()


def test_wait_ends_at_its_timeout(region: Region) -> None:
    region.line("XADD s * f v")
    hold(region, 2, 1)
    assert region.line("WAIT 3 50") is None
    region.pass_time(49)
    assert region.client.parked
    region.pass_time(1)
    assert region.late_replies(region.client) == [b":1\r\n"]


def test_wait_with_timeout_0_waits_for_ever(region: Region) -> None:
    assert region.line("WAIT 1 0") is None
    region.pass_time(10**12)
    assert region.client.parked


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("WAIT x 0", b"-ERR value is not an integer or out of range\r\n"),
        ("WAIT 1 x", b"-ERR timeout is not an integer or out of range\r\n"),
        ("WAIT 1 -1", b"-ERR timeout is negative\r\n"),
    ],
)
def test_wait_errors(region: Region, text: str, error: bytes) -> None:
    assert region.line(text) == error


def test_blocked_clients_are_bounded() -> None:
    region = Region(limits=Limits(blocked_clients_max=1))
    assert region.line("WAIT 1 0") is None
    reply = region.line("WAIT 1 0", region.connect())
    assert reply == b"-ERR max number of blocked clients reached: 1\r\n"
    with pytest.raises(CommandError):
        region.context.park(region.context.parking.keyless()[0])


def test_wait_covers_an_acknowledgement_of_this_turn(region: Region) -> None:
    """XACK changes what is replicated only at the end of the turn, or before WAIT looks."""
    for text in ("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"):
        region.line(text)
    hold(region, 2, 2)
    assert region.line("WAIT 1 0") == b":1\r\n"
    region.line("XACK s g 1-1")
    assert region.line("WAIT 1 0") is None
    hold(region, 2, 3)
    serve_waiting(region)
    assert region.late_replies(region.client) == [b":1\r\n"]


def test_wait_does_not_wait_for_an_acknowledgement_that_added_nothing(region: Region) -> None:
    for text in ("XADD s 1-1 f v", "XADD s 2-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"):
        region.line(text)
    region.line("XACK s g 2-1")
    hold(region, 2, 3)
    assert region.line("WAIT 1 0") == b":1\r\n"


# On a connection that wrote nothing


def link(region: Region, origin: int, vector: dict[int, int]) -> None:
    """A linked region tells that it has this much on its disk."""
    if origin not in region.neighbours.origins:
        region.neighbours.origins.append(origin)
    region.progress.durable[origin] = VersionVector(vector)


def test_wait_of_a_reader_counts_linked_regions_that_hold_everything(region: Region) -> None:
    """A pooled client may wait on another connection than it wrote on."""
    region.line("XADD s * f v")
    reader = region.connect()
    assert region.line("WAIT 0 0", reader) == b":0\r\n"
    link(region, 2, {1: 1})
    hold(region, 3, 1)
    assert region.line("WAIT 0 0", reader) == b":1\r\n"
    region.line("XADD s * f v")
    assert region.line("WAIT 0 0", reader) == b":0\r\n"
    assert region.line("WAIT 0 0") == b":0\r\n"
    link(region, 2, {1: 2})
    assert region.line("WAIT 1 0", reader) == b":1\r\n"


def test_wait_of_a_reader_covers_what_other_regions_wrote(region: Region) -> None:
    region.replica.applied.vector.advance(3, 7)
    link(region, 2, {1: 9, 3: 6})
    assert region.line("WAIT 1 0") is None
    link(region, 2, {3: 7})
    serve_waiting(region)
    assert region.late_replies(region.client) == [b":1\r\n"]


def test_wait_of_a_reader_is_for_what_was_there_when_it_began(region: Region) -> None:
    region.line("XADD s * f v")
    reader = region.connect()
    assert region.line("WAIT 1 0", reader) is None
    region.line("XADD s * f v")
    link(region, 2, {1: 1})
    serve_waiting(region)
    assert region.late_replies(reader) == [b":1\r\n"]


def test_wait_of_a_reader_covers_an_acknowledgement_of_this_turn(region: Region) -> None:
    for text in ("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"):
        region.line(text)
    link(region, 2, {1: 2})
    reader = region.connect()
    assert region.line("WAIT 1 0", reader) == b":1\r\n"
    region.line("XACK s g 1-1")
    assert region.line("WAIT 1 0", reader) is None


def test_wait_of_a_reader_drops_a_region_whose_link_is_lost(region: Region) -> None:
    region.line("XADD s * f v")
    link(region, 2, {1: 1})
    region.neighbours.origins.clear()
    assert region.line("WAIT 0 0", region.connect()) == b":0\r\n"
    assert region.line("WAIT 1 0") == b":1\r\n", "what a writer was told stays true: it is on that disk"


def test_waitaof_of_a_reader_is_for_everything_that_is_here(region: Region) -> None:
    region.replica.applied.vector.advance(3, 7)
    link(region, 2, {3: 7})
    assert region.line("WAITAOF 1 1 0") is None
    region.neighbours.vector.advance(3, 7)
    serve_waiting(region)
    assert region.late_replies(region.client) == [b"*2\r\n:1\r\n:1\r\n"]


@pytest.mark.parametrize("text", ["SELECT 3", "RESET", "HELLO 3", "XREAD STREAMS s 0", "MULTI,DISCARD", "MULTI,EXEC"])
def test_what_a_connection_wrote_is_remembered(region: Region, text: str) -> None:
    region.line("XADD s * f v")
    hold(region, 2, 1)
    for part in text.split(","):
        region.line(part)
    assert region.line("WAIT 1 0") == b":1\r\n"


def test_wait_in_a_transaction_is_for_what_the_transaction_wrote(region: Region) -> None:
    region.line("XADD s * f v")
    hold(region, 2, 1)
    for text in ("MULTI", "WAIT 1 0", "XADD t 2-1 f v", "WAIT 1 0", "WAITAOF 0 1 0"):
        region.line(text)
    reply = region.line("EXEC")
    assert reply is not None and reply.startswith(b"*4\r\n:1\r\n") and reply.endswith(b":0\r\n*2\r\n:0\r\n:0\r\n")


def test_a_transaction_of_another_connection_is_no_write_of_this_one(region: Region) -> None:
    region.line("XADD s * f v")
    hold(region, 2, 1)
    other = region.connect()
    for text in ("MULTI", "XADD s * f v", "EXEC"):
        region.line(text, other)
    assert region.line("WAIT 1 0") == b":1\r\n"
    assert region.line("WAIT 0 0", other) == b":0\r\n"


def test_a_command_that_waited_before_it_wrote_counts_as_a_write(region: Region) -> None:
    for text in ("XGROUP CREATE s g $ MKSTREAM", "XADD t * f v"):
        region.line(text)
    link(region, 2, {1: 2})
    reader = region.connect()
    assert region.line("XREADGROUP GROUP g c BLOCK 0 NOACK STREAMS s >", reader) is None
    region.line("XADD s 1-1 f v")
    assert region.late_replies(reader)
    assert reader.written_counter > 0


# WAITAOF


def test_waitaof_counts_this_region_and_others(region: Region) -> None:
    region.line("XADD s * f v")
    assert region.line("WAITAOF 0 0 0") == b"*2\r\n:0\r\n:0\r\n"
    assert region.line("WAITAOF 1 1 0") is None
    hold(region, 2, 1)
    serve_waiting(region)
    assert region.late_replies(region.client) == []
    region.neighbours.vector.advance(1, 1)
    serve_waiting(region)
    assert region.late_replies(region.client) == [b"*2\r\n:1\r\n:1\r\n"]
    assert region.line("WAITAOF 1 1 0") == b"*2\r\n:1\r\n:1\r\n"
    assert region.line("WAITAOF 1 2 50") is None
    region.pass_time(50)
    assert region.late_replies(region.client) == [b"*2\r\n:1\r\n:1\r\n"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("WAITAOF x 0 0", b"-ERR value is not an integer or out of range\r\n"),
        ("WAITAOF 2 0 0", b"-ERR value is out of range, value must between 0 and 1\r\n"),
        ("WAITAOF 1 -1 0", b"-ERR value is out of range, must be positive\r\n"),
        ("WAITAOF 1 0 -1", b"-ERR timeout is negative\r\n"),
    ],
)
def test_waitaof_errors(region: Region, text: str, error: bytes) -> None:
    assert region.line(text) == error
