"""COMMAND: what it tells about the table."""

from __future__ import annotations

import pytest

from crdtstream.commands.table import COMMANDS
from crdtstream.scenarios.reply import read_reply
from tests.commands.harness import Region


@pytest.fixture
def region() -> Region:
    return Region()


def test_count_and_whole(region: Region) -> None:
    assert region.line("COMMAND COUNT") == b":%d\r\n" % len(COMMANDS)
    reply = region.line("COMMAND")
    assert reply is not None and reply.startswith(b"*%d\r\n*10\r\n" % len(COMMANDS))
    assert reply == region.line("COMMAND INFO")


def test_info(region: Region) -> None:
    row = (
        b"*10\r\n$4\r\nxlen\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"
        b"*3\r\n+@read\r\n+@stream\r\n+@fast\r\n"
        b"*0\r\n*1\r\n*6\r\n$5\r\nflags\r\n*1\r\n+RO\r\n"
    )
    reply = region.line("COMMAND INFO XLEN nothing") or b""
    assert reply.startswith(b"*2\r\n" + row) and reply.endswith(b"$-1\r\n")
    region.line("HELLO 3")
    in_resp3 = b"*10" + row[3:].replace(b"*", b"~").replace(b"~6", b"%3")
    reply = region.line("COMMAND INFO xlen nothing") or b""
    assert reply.startswith(b"*2\r\n" + in_resp3) and reply.endswith(b"_\r\n")


def test_info_of_a_subcommand(region: Region) -> None:
    reply = region.line("COMMAND INFO xinfo|stream")
    assert reply is not None and reply.startswith(b"*1\r\n*10\r\n$12\r\nxinfo|stream\r\n:-3\r\n")
    assert region.line("COMMAND INFO xlen|stream xinfo|foo") == b"*2\r\n$-1\r\n$-1\r\n"


def test_list(region: Region) -> None:
    reply = region.line("COMMAND LIST")
    assert reply is not None and b"\r\nxadd\r\n" in reply and b"\r\ncrdt.digest\r\n" in reply
    assert region.line("COMMAND LIST FILTERBY PATTERN XRANG*") == b"*1\r\n$6\r\nxrange\r\n"
    assert region.line("COMMAND LIST FILTERBY MODULE x") == b"*0\r\n"
    reply = region.line("COMMAND LIST filterby aclcat STREAM")
    assert reply is not None and b"xadd" in reply and b"ping" not in reply
    for text in ("COMMAND LIST x", "COMMAND LIST FILTERBY foo x"):
        assert region.line(text) == b"-ERR syntax error\r\n"


def test_documents(region: Region) -> None:
    everything = read_reply(region.line("COMMAND DOCS") or b"")
    assert isinstance(everything, list) and len(everything) == 2 * len(COMMANDS)
    assert region.line("COMMAND DOCS nothing xlen|x") == b"*0\r\n"
    region.line("HELLO 3")
    assert region.line("COMMAND DOCS XLEN nothing") == (
        b"%1\r\n$4\r\nxlen\r\n%4\r\n$7\r\nsummary\r\n$43\r\nReturns the number of messages in a stream.\r\n"
        b"$5\r\nsince\r\n$5\r\n5.0.0\r\n$5\r\ngroup\r\n$6\r\nstream\r\n"
        b"$9\r\narguments\r\n*1\r\n%4\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n"
        b"$12\r\ndisplay_text\r\n$3\r\nkey\r\n$14\r\nkey_spec_index\r\n:0\r\n"
    )
    reply = region.line("COMMAND DOCS xgroup")
    assert reply is not None and b"$11\r\nsubcommands\r\n%6\r\n$13\r\nxgroup|create\r\n" in reply


def test_help(region: Region) -> None:
    for name in [command.name for command in COMMANDS if b"HELP" in (command.subcommands or {})]:
        reply = region.line(f"{name} HELP")
        if name == "cluster":
            assert reply == b"-ERR This instance has cluster support disabled\r\n"
            continue
        assert reply is not None and reply.split(b"\r\n")[1].startswith(b"+%b <subcommand>" % name.upper().encode())


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("XADD s * f v", b"*1\r\n$1\r\ns\r\n"),
        ("DEL a b", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("XINFO STREAM s", b"*1\r\n$1\r\ns\r\n"),
        ("XREAD COUNT 1 STREAMS a b 0 0", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("XREAD a b c", b"-ERR Invalid arguments specified for command\r\n"),
        ("PING a", b"-ERR The command has no key arguments\r\n"),
        ("FOO a", b"-ERR Invalid command specified\r\n"),
        ("XADD a", b"-ERR Invalid number of arguments specified for command\r\n"),
    ],
)
def test_keys_of_a_request(region: Region, text: str, reply: bytes) -> None:
    assert region.line(f"COMMAND GETKEYS {text}") == reply
