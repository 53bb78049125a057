"""What becomes of clients when users change."""

from __future__ import annotations

import pytest

from crdtstream.connections.access import replace_users
from crdtstream.connections.client import Client
from tests.commands.harness import Region


@pytest.fixture
def region() -> Region:
    region = Region()
    region.line("ACL SETUSER b on nopass +@all ~* &*")
    return region


def as_b(region: Region) -> Client:
    client = region.connect()
    assert region.line("AUTH b x", client=client) == b"+OK\r\n"
    return client


def test_who_may_do_everything_is_not_checked(region: Region) -> None:
    client = as_b(region)
    assert region.client.unrestricted and client.unrestricted
    region.line("ACL SETUSER b -flushall")
    assert not client.unrestricted and region.client.unrestricted
    region.line("ACL SETUSER b +@all")
    assert client.unrestricted
    region.line("RESET", client=client)
    assert client.user is region.context.users.default and client.unrestricted


def test_a_password_is_asked_of_who_has_given_none(region: Region) -> None:
    region.line("ACL SETUSER default >x")
    stranger = region.connect(authenticated=False)
    assert not stranger.unrestricted and region.client.unrestricted
    assert region.line("PING", client=stranger) == b"-NOAUTH Authentication required.\r\n"
    region.line("ACL SETUSER default nopass")
    assert stranger.unrestricted and region.line("PING", client=stranger) == b"+PONG\r\n"


def test_clients_of_a_removed_user_are_closed(region: Region) -> None:
    client, other = as_b(region), as_b(region)
    region.line("XREAD BLOCK 0 STREAMS s $", client=other)
    region.line("MONITOR", client=client)
    assert region.line("ACL DELUSER b", client=client) == b":1\r\n"
    assert (client.closing, client.dropped, other.dropped) == (True, False, True)
    assert not region.client.closing


def test_listeners_are_closed_once_they_may_not_listen(region: Region) -> None:
    clients = [as_b(region) for _ in range(4)]
    for client, line in zip(clients, ("SUBSCRIBE a1", "SUBSCRIBE a1 b", "PSUBSCRIBE a*", "PSUBSCRIBE a1"), strict=True):
        region.line(line, client=client)
    region.line("ACL SETUSER b resetchannels &a*")
    assert [client.dropped for client in clients] == [False, True, False, True]


def test_a_file_without_a_default_user_leaves_it_as_the_settings_say(region: Region) -> None:
    region.configure(requirepass="x")
    client = as_b(region)
    region.line("ACL SETUSER default off -@all")
    replace_users(region.context, region.client, {})
    assert client.dropped and region.context.users.names() == [b"default"]
    assert region.context.users.requires_login() and region.context.users.authenticate(b"default", b"x")


def test_refusals_are_counted(region: Region) -> None:
    region.configure(requirepass="")
    client = as_b(region)
    region.line("ACL SETUSER b -ping resetkeys resetchannels")
    for line in ("PING", "XLEN s", "PUBLISH a b"):
        assert (region.line(line, client=client) or b"").startswith(b"-NOPERM ")
    info = region.line("INFO stats") or b""
    for name in ("cmd", "key", "channel"):
        assert b"acl_access_denied_%b:1\r\n" % name.encode() in info
    assert (region.line("CLIENT LIST ID 2") or b"").count(b" cmd=publish user=b ") == 1


def test_clients_of_a_user_are_killed_by_its_name(region: Region) -> None:
    client = as_b(region)
    assert region.line("CLIENT KILL USER b") == b":1\r\n"
    assert client.dropped and not region.client.closing
