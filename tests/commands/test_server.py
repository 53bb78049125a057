"""Connection-level commands, and WAIT."""

from __future__ import annotations

import pytest

from crdtstream.clients.context import CommandError
from crdtstream.config import Limits
from crdtstream.core.causality import VersionVector
from tests.commands.harness import Region, guarded_region

WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
HELLO_2 = (
    b"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n8.10.0\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n"
    b"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
)


@pytest.fixture
def region() -> Region:
    return Region(limits=Limits(auth_failure_delay_ms=0))


@pytest.fixture
def guarded() -> Region:
    return guarded_region(auth_failure_delay_ms=0)


def test_ping_and_echo(region: Region) -> None:
    assert region.line("PING") == b"+PONG\r\n"
    assert region.line("PING hi") == b"$2\r\nhi\r\n"
    assert region.line("PING a b") == b"-ERR wrong number of arguments for 'ping' command\r\n"
    assert region.line("ECHO hi") == b"$2\r\nhi\r\n"


def test_select(region: Region) -> None:
    assert region.line("SELECT 15") == b"+OK\r\n"
    assert region.client.database == 15
    for text in ("SELECT 16", "SELECT -1"):
        assert region.line(text) == b"-ERR DB index is out of range\r\n"
    assert region.line("SELECT x") == b"-ERR value is not an integer or out of range\r\n"
    assert region.client.database == 15


def test_time(region: Region) -> None:
    region.replica.keyspace.now_ms = 1234567
    assert region.line("TIME") == b"*2\r\n$4\r\n1234\r\n$6\r\n567000\r\n"


def test_quit_answers_and_closes(region: Region) -> None:
    assert region.line("QUIT") == b"+OK\r\n"
    assert region.client.closing


def test_reset(guarded: Region) -> None:
    for text in ("HELLO 3 AUTH default secret SETNAME me", "SELECT 3", "CLIENT NO-EVICT ON"):
        guarded.line(text)
    assert guarded.line("RESET") == b"+RESET\r\n"
    client = guarded.client
    assert (client.database, client.protocol, client.name, client.no_evict) == (0, 2, b"", False)
    assert guarded.line("PING") == b"-NOAUTH Authentication required.\r\n"


# Authentication


def test_hello_tells_and_switches(region: Region) -> None:
    assert region.line("HELLO") == HELLO_2
    reply = region.line("HELLO 3")
    assert reply == HELLO_2.replace(b"*14", b"%7").replace(b"proto\r\n:2", b"proto\r\n:3")
    assert region.client.protocol == 3
    assert region.line("HELLO") == reply
    assert region.line("HELLO 2") == HELLO_2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("HELLO 1", b"-NOPROTO unsupported protocol version\r\n"),
        ("HELLO 4", b"-NOPROTO unsupported protocol version\r\n"),
        ("HELLO x", b"-ERR Protocol version is not an integer or out of range\r\n"),
        ("HELLO 3 FOO", b"-ERR Syntax error in HELLO option 'FOO'\r\n"),
        ("HELLO 3 AUTH default", b"-ERR Syntax error in HELLO option 'AUTH'\r\n"),
        ("HELLO 3 SETNAME", b"-ERR Syntax error in HELLO option 'SETNAME'\r\n"),
        ("HELLO 3 AUTH nobody x", WRONGPASS),
    ],
)
def test_refused_hello_changes_nothing(region: Region, text: str, error: bytes) -> None:
    assert region.line(text) == error
    assert (region.client.protocol, region.client.name) == (2, b"")


def test_hello_with_a_bad_name(region: Region) -> None:
    error = b"-ERR Client names cannot contain spaces, newlines or special characters.\r\n"
    assert region.run("HELLO", 3, "SETNAME", "a b") == error
    assert region.client.protocol == 2


def test_hello_authenticates_and_names(guarded: Region) -> None:
    reply = guarded.line("HELLO 3")
    assert reply is not None and reply.startswith(b"-NOAUTH HELLO must be called with the client already authenticated")
    assert guarded.line("HELLO 3 AUTH default wrong SETNAME me") == WRONGPASS
    assert (guarded.client.protocol, guarded.client.name, guarded.client.authenticated) == (2, b"", False)
    reply = guarded.line("HELLO 3 auth default secret setname me")
    assert reply is not None and reply.startswith(b"%7")
    assert (guarded.client.protocol, guarded.client.name, guarded.client.authenticated) == (3, b"me", True)


def test_auth(guarded: Region) -> None:
    assert guarded.line("AUTH wrong") == WRONGPASS
    assert guarded.line("AUTH nobody secret") == WRONGPASS
    assert guarded.line("AUTH a b c") == b"-ERR syntax error\r\n"
    assert guarded.line("PING") == b"-NOAUTH Authentication required.\r\n"
    assert guarded.line("AUTH secret") == b"+OK\r\n"
    assert guarded.line("PING") == b"+PONG\r\n"
    assert guarded.line("AUTH default secret") == b"+OK\r\n"


def test_auth_without_a_password_set(region: Region) -> None:
    reply = region.line("AUTH x")
    assert reply is not None and reply.startswith(b"-ERR AUTH <password> called without any password configured")
    assert region.line("AUTH default x") == b"+OK\r\n"


# WAIT


def hold(region: Region, member: int, counter: int) -> None:
    """A member tells that it has this region's effects up to the counter on its disk."""
    region.progress.durable[member] = VersionVector({region.replica.applied.slot: counter})


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


def test_role(region: Region) -> None:
    assert region.line("ROLE") == b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
