"""HTTP on the Redis port, and passwords that are wrong."""

from __future__ import annotations

import pytest

from crdtstream.settings.config import Limits
from tests.commands.harness import Region, guarded_region, require_password

WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"


@pytest.fixture
def guarded() -> Region:
    return guarded_region(auth_failure_delay_ms=1_000)


@pytest.mark.parametrize("argv", [("POST", "/", "HTTP/1.1"), ("post",), ("Host:", "127.0.0.1:6379"), ("HOST:",)])
@pytest.mark.parametrize("authenticated", [True, False])
def test_http_is_closed_at_once_without_an_answer(argv: tuple[str, ...], authenticated: bool) -> None:
    region = Region()
    region.client.authenticated = authenticated
    assert region.run(*argv) == b""
    assert (region.client.closing, region.client.dropped) == (True, True)
    notice = region.context.notices[0]
    assert (notice.event, notice.error) == ("http-client", None)
    assert "HTTP" in notice.text and region.client.address in notice.text
    assert region.context.statistics.http_clients == 1


def test_http_inside_of_a_transaction_is_closed_too() -> None:
    region = Region()
    region.line("MULTI")
    assert region.line("POST / HTTP/1.1") == b""
    assert region.client.dropped


def test_http_is_told_of_once_and_counted_each_time() -> None:
    region = Region()
    for _ in range(5):
        region.run("POST", "/", client=region.connect())
    assert len(region.context.notices) == 1
    assert region.context.statistics.http_clients == 5


def test_other_unknown_commands_are_answered() -> None:
    region = Region()
    reply = region.line("POSTS x")
    assert reply is not None and reply.startswith(b"-ERR unknown command 'POSTS'")
    assert not region.client.closing


@pytest.mark.parametrize(
    "text", ["AUTH wrong", "AUTH default wrong", "AUTH nobody secret", "HELLO 3 AUTH default wrong"]
)
def test_a_wrong_password_is_answered_after_the_delay(guarded: Region, text: str) -> None:
    assert guarded.line(text) is None
    guarded.pass_time(999)
    assert guarded.late_replies(guarded.client) == []
    guarded.pass_time(1)
    assert guarded.late_replies(guarded.client) == [WRONGPASS]
    assert (guarded.client.authenticated, guarded.client.protocol, guarded.client.parked) == (False, 2, False)


def test_a_wrong_password_is_counted_and_told_without_it(guarded: Region) -> None:
    guarded.line("AUTH hunter2")
    assert guarded.context.statistics.denied_passwords == 1
    assert [notice.text for notice in guarded.context.notices] == [
        f"client 1 ({guarded.client.address}) sent a wrong user or password"
    ]
    guarded.pass_time(1_000)
    assert guarded.context.statistics.tallies["auth"].failed == 1
    assert guarded.context.statistics.errors["WRONGPASS"] == 1


def test_a_wrong_password_takes_no_place_of_those_that_may_wait() -> None:
    region = Region(limits=Limits(auth_failure_delay_ms=1_000, blocked_clients_max=0))
    require_password(region, "secret")
    assert region.line("AUTH wrong") is None


def test_the_right_password_is_answered_at_once(guarded: Region) -> None:
    assert guarded.line("AUTH secret") == b"+OK\r\n"
    assert guarded.context.statistics.denied_passwords == 0


def test_inside_of_a_transaction_nothing_waits(guarded: Region) -> None:
    guarded.client.authenticated = True
    guarded.line("MULTI")
    guarded.line("AUTH wrong")
    assert guarded.line("EXEC") == b"*1\r\n" + WRONGPASS
