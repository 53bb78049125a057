"""Connection-level commands."""

from __future__ import annotations

import pytest

from crdtstream.settings.config import Limits
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


def test_role(region: Region) -> None:
    assert region.line("ROLE") == b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
