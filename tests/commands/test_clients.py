"""CLIENT: names, lists, and what one client does to another."""

from __future__ import annotations

import re

import pytest

from tests.commands.harness import Region

FIELDS = re.findall(
    r"[a-z-]+",
    "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp obl"
    " oll omem tot-mem events cmd user redir resp lib-name lib-ver io-thread"
    " tot-net-in tot-net-out tot-cmds",
)


@pytest.fixture
def region() -> Region:
    return Region()


def lines_of(reply: bytes | None) -> list[dict[str, str]]:
    assert reply is not None
    text = reply.split(b"\r\n", 1)[1].decode()
    return [dict(part.split("=", 1) for part in line.split(" ")) for line in text.strip().split("\n")]


def test_name(region: Region) -> None:
    assert region.line("CLIENT GETNAME") == b"$-1\r\n"
    assert region.line("CLIENT SETNAME me") == b"+OK\r\n"
    assert region.line("CLIENT GETNAME") == b"$2\r\nme\r\n"
    error = b"-ERR Client names cannot contain spaces, newlines or special characters.\r\n"
    for name in (b"a b", b"a\n", b"\xff", b"\x7f"):
        assert region.run("CLIENT", "SETNAME", name) == error
    assert region.run("CLIENT", "SETNAME", "") == b"+OK\r\n"
    region.line("HELLO 3")
    assert region.line("CLIENT GETNAME") == b"_\r\n"


def test_library(region: Region) -> None:
    assert region.line("CLIENT SETINFO LIB-NAME redis-py") == b"+OK\r\n"
    assert region.line("CLIENT SETINFO lib-ver 6.0") == b"+OK\r\n"
    assert region.line("CLIENT SETINFO foo 6.0") == b"-ERR Unrecognized option 'foo'\r\n"
    error = b"-ERR lib-ver cannot contain spaces, newlines or special characters.\r\n"
    assert region.run("CLIENT", "SETINFO", "lib-ver", "a b") == error
    (line,) = lines_of(region.line("CLIENT INFO"))
    assert (line["lib-name"], line["lib-ver"]) == ("redis-py", "6.0")


def test_list_line(region: Region) -> None:
    region.client.local_address = "127.0.0.1:6379"
    region.replica.keyspace.now_ms += 2500
    region.line("SELECT 3")
    region.replica.keyspace.now_ms += 1500
    (line,) = lines_of(region.line("CLIENT LIST"))
    assert list(line) == FIELDS
    shown = {name: line[name] for name in ("id", "addr", "laddr", "age", "idle", "flags", "db", "cmd", "user", "resp")}
    assert shown == {
        "id": "1",
        "addr": "127.0.0.1:50001",
        "laddr": "127.0.0.1:6379",
        "age": "4",
        "idle": "0",
        "flags": "N",
        "db": "3",
        "cmd": "client|list",
        "user": "default",
        "resp": "2",
    }


def test_list_is_one_line_for_each_and_verbatim_in_resp3(region: Region) -> None:
    region.connect()
    region.line("HELLO 3")
    reply = region.line("CLIENT LIST")
    assert reply is not None and re.match(rb"=\d+\r\ntxt:id=1 ", reply)
    assert reply.count(b"\n") == 4


def test_flags(region: Region) -> None:
    other = region.connect()
    region.line("WAIT 1 0", other)
    other.closing = True
    region.line("CLIENT NO-EVICT ON")
    region.line("CLIENT NO-TOUCH ON")
    assert [line["flags"] for line in lines_of(region.line("CLIENT LIST"))] == ["eT", "bc"]
    region.line("CLIENT NO-EVICT OFF")
    assert lines_of(region.line("CLIENT INFO"))[0]["flags"] == "T"
    assert region.line("CLIENT NO-TOUCH x") == b"-ERR syntax error\r\n"


def test_list_of_some(region: Region) -> None:
    region.connect()
    region.connect()
    assert [line["id"] for line in lines_of(region.line("CLIENT LIST ID 3 1 9"))] == ["3", "1"]
    assert len(lines_of(region.line("CLIENT LIST TYPE normal"))) == 3
    assert region.line("CLIENT LIST TYPE pubsub") == b"$0\r\n\r\n"
    assert region.line("CLIENT LIST TYPE x") == b"-ERR Unknown client type 'x'\r\n"
    assert region.line("CLIENT LIST ID x") == b"-ERR Invalid client ID\r\n"
    for text in ("CLIENT LIST ID", "CLIENT LIST TYPE", "CLIENT LIST foo"):
        assert region.line(text) == b"-ERR syntax error\r\n"


def test_kill_by_address(region: Region) -> None:
    other = region.connect()
    assert region.line(f"CLIENT KILL {other.address}") == b"+OK\r\n"
    assert other.closing and not region.client.closing
    assert region.line("CLIENT KILL 1.2.3.4:5") == b"-ERR No such client\r\n"
    assert region.line(f"CLIENT KILL {region.client.address}") == b"+OK\r\n"
    assert region.client.closing


def test_kill_by_filters(region: Region) -> None:
    first, second = region.connect(), region.connect()
    assert region.line(f"CLIENT KILL ID {first.id}") == b":1\r\n"
    assert (first.closing, second.closing) == (True, False)
    assert region.line(f"CLIENT KILL ID {first.id} ADDR {second.address}") == b":0\r\n"
    assert region.line("CLIENT KILL TYPE replica") == b":0\r\n"
    assert region.line("CLIENT KILL TYPE normal") == b":1\r\n"
    assert (second.closing, region.client.closing) == (True, False)
    assert region.line("CLIENT KILL USER default SKIPME no") == b":1\r\n"
    assert region.client.closing


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CLIENT KILL ID x", b"-ERR client-id should be greater than 0\r\n"),
        ("CLIENT KILL ID 0", b"-ERR client-id should be greater than 0\r\n"),
        ("CLIENT KILL TYPE x", b"-ERR Unknown client type 'x'\r\n"),
        ("CLIENT KILL USER x", b"-ERR No such user 'x'\r\n"),
        ("CLIENT KILL SKIPME x", b"-ERR syntax error\r\n"),
        ("CLIENT KILL FOO x", b"-ERR syntax error\r\n"),
        ("CLIENT KILL ID 5 SKIPME", b"-ERR syntax error\r\n"),
        ("CLIENT UNBLOCK x", b"-ERR value is not an integer or out of range\r\n"),
        ("CLIENT UNBLOCK 2 foo", b"-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n"),
    ],
)
def test_errors_end_nobody(region: Region, text: str, error: bytes) -> None:
    other = region.connect()
    assert region.line(text) == error
    assert not other.closing and not region.client.closing


def test_unblock(region: Region) -> None:
    other = region.connect()
    assert region.line(f"CLIENT UNBLOCK {other.id}") == b":0\r\n"
    for how, reply in (
        ("", b":0\r\n"),
        (" TIMEOUT", b":0\r\n"),
        (" error", b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
    ):
        region.line("WAIT 1 0", other)
        assert region.line(f"CLIENT UNBLOCK {other.id}{how}") == b":1\r\n"
        assert region.context.outbox.pop() == (other, reply)
        assert not other.parked
    region.check()


def test_help(region: Region) -> None:
    reply = region.line("CLIENT HELP")
    assert reply is not None and reply.split(b"\r\n")[1].startswith(b"+CLIENT <subcommand>")
