"""What is refused, in which words and which order, and what is counted."""

from __future__ import annotations

import pytest

from crdtstream.commands.catalogue import CATALOGUE
from crdtstream.commands.dispatch import find
from crdtstream.commands.foreign import foreign_kind
from crdtstream.commands.table import COMMANDS, TABLE
from crdtstream.connections.command import Command
from crdtstream.status.availability import DISK_FULL
from tests.commands.harness import Region, require_password


@pytest.fixture
def region() -> Region:
    return Region()


def test_unknown_command(region: Region) -> None:
    assert region.run("FOO", "bar", "baz") == (
        b"-ERR unknown command 'FOO', with args beginning with: 'bar' 'baz' \r\n"
    )
    assert region.run("foo") == b"-ERR unknown command 'foo'\r\n"


def test_unknown_command_shows_the_beginning_of_its_arguments(region: Region) -> None:
    reply = region.run("x" * 200, "a" * 100, "b" * 100, "c")
    assert reply == (
        b"-ERR unknown command '%b', with args beginning with: '%b' '%b' \r\n" % (b"x" * 128, b"a" * 100, b"b" * 25)
    )


def test_unknown_command_may_be_any_bytes(region: Region) -> None:
    assert region.run(b"\xff\r\n", b"a\0b") == b"-ERR unknown command '\xff  ', with args beginning with: 'a' \r\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SET a b", "strings"),
        ("get a", "strings"),
        ("HSET a", "hashes"),
        ("LPUSH a b", "lists"),
        ("EVAL x 0", "scripts"),
    ],
)
def test_other_data_types_are_not_here(region: Region, text: str, kind: str) -> None:
    error = f"-ERR unknown command '{text.split()[0]}': this server stores streams only, it has no {kind}\r\n"
    assert region.line(text) == error.encode()


def test_no_command_is_refused_as_one_of_another_data_type() -> None:
    assert not [name for name in TABLE if foreign_kind(name)]


def test_names_in_any_case(region: Region) -> None:
    for name in ("ping", "PING", "pInG"):
        assert region.run(name) == b"+PONG\r\n"


def test_subcommands(region: Region) -> None:
    assert region.line("client iD") == b":1\r\n"
    assert region.line("client Foo") == b"-ERR unknown subcommand 'Foo'. Try CLIENT HELP.\r\n"
    assert region.line("CLIENT") == b"-ERR wrong number of arguments for 'client' command\r\n"
    assert region.line("CLIENT ID x") == b"-ERR wrong number of arguments for 'client|id' command\r\n"


@pytest.mark.parametrize("text", ["ECHO", "ECHO a b", "DEL", "WAIT 1", "TYPE", "XADD s *"])
def test_number_of_arguments(region: Region, text: str) -> None:
    name = text.split()[0].lower().encode()
    assert region.line(text) == b"-ERR wrong number of arguments for '%b' command\r\n" % name


def everything_that_runs() -> list[Command]:
    """Commands and subcommands with a function."""
    children = [child for command in COMMANDS for child in (command.subcommands or {}).values()]
    return [command for command in [*COMMANDS, *children] if command.function is not None]


def test_before_auth_only_four_commands_run(region: Region) -> None:
    require_password(region, "secret")
    allowed = set()
    for command in everything_that_runs():
        words = command.name.split("|")
        words += ["x"] * (abs(command.arity) - len(words))
        stranger = region.connect(authenticated=False)
        reply = region.run(*words, client=stranger)
        if reply is None or not reply.endswith(b"NOAUTH Authentication required.\r\n"):
            allowed.add(command.name)
    assert allowed == {"auth", "hello", "quit", "reset"}


def test_number_of_arguments_is_checked_before_authentication(region: Region) -> None:
    stranger = region.connect(authenticated=False)
    assert region.line("ECHO", stranger) == b"-ERR wrong number of arguments for 'echo' command\r\n"
    assert region.line("FOO", stranger) == b"-ERR unknown command 'FOO'\r\n"


def test_full_disk_refuses_writes_only(region: Region) -> None:
    region.line("XADD s 1-1 f v")
    region.context.standing.writable = False
    for text in ("XADD s 2-1 f v", "DEL s", "FLUSHALL", "XTRIM s MAXLEN 0"):
        assert region.line(text) == b"-%b\r\n" % DISK_FULL.encode()
    assert region.line("XLEN s") == b":1\r\n"
    assert region.line("EXISTS s") == b":1\r\n"
    region.context.standing.writable = True
    assert region.line("DEL s") == b":1\r\n"


FREEING = (
    "CRDT.EVICT 9",
    "DEL s",
    "EXPIRE s 100",
    "EXPIREAT s 9999999999",
    "FLUSHALL",
    "FLUSHDB",
    "PEXPIRE s 100000",
    "PEXPIREAT s 9999999999999",
    "UNLINK s",
    "XACKDEL s g IDS 1 1-1",
    "XDEL s 1-1",
    "XDELEX s IDS 1 1-1",
    "XGROUP DELCONSUMER s g c",
    "XGROUP DESTROY s g",
    "XTRIM s MAXLEN 0",
)


def told(region: Region, text: str) -> bytes:
    reply = region.line(text)
    assert reply is not None
    return reply


def full(region: Region, removal_bytes: int, member_bytes: int) -> None:
    standing = region.context.standing
    standing.writable, standing.removal_bytes, standing.member_bytes = False, removal_bytes, member_bytes


@pytest.mark.parametrize("text", FREEING)
def test_what_frees_room_works_on_a_full_disk_and_at_the_memory_limit(region: Region, text: str) -> None:
    for line in ("XADD s 1-1 f v", "XGROUP CREATE s g 0"):
        assert not told(region, line).startswith(b"-")
    full(region, 1 << 13, 1 << 13)
    region.context.standing.memory_short = True
    assert told(region, "XADD s 2-1 f v").startswith(b"-OOM")
    assert not told(region, text).startswith((b"-MISCONF", b"-OOM"))
    full(region, 0, 0)
    assert told(region, text).startswith(b"-MISCONF")


def test_every_command_that_frees_room_is_tried_above() -> None:
    tried = {find(text.encode().split()).name for text in FREEING}
    assert tried == {command.name for command in CATALOGUE if command.frees}


def test_evictions_have_a_part_of_the_reserve_of_their_own(region: Region) -> None:
    full(region, 0, 1 << 13)
    assert told(region, "DEL s").startswith(b"-MISCONF")
    assert not told(region, "CRDT.EVICT 9").startswith(b"-MISCONF")


def test_a_flush_takes_room_for_all_names(region: Region) -> None:
    for number in range(100):
        told(region, f"XADD {number:0100} 1-1 f v")
    full(region, 1 << 13, 1 << 13)
    reply = told(region, "FLUSHALL")
    assert reply.startswith(b"-MISCONF") and reply.endswith(b": use DEL first\r\n")
    assert told(region, "DBSIZE") == b":100\r\n"
    full(region, 1 << 20, 1 << 20)
    assert told(region, "FLUSHALL") == b"+OK\r\n"


def test_loading_refuses_data_but_not_operators(region: Region) -> None:
    region.context.standing.loading = "waiting for west"
    for text in ("XADD s 1-1 f v", "EXISTS s", "DBSIZE", "CRDT.DIGEST", "WAIT 0 0", "PING"):
        assert region.line(text) == b"-LOADING waiting for west\r\n"
    for text in ("ECHO x", "INFO", "CLIENT ID", "HELLO", "CRDT.REGIONS", "CRDT.VECTOR", "COMMAND COUNT", "SELECT 1"):
        reply = region.line(text)
        assert reply is not None and not reply.startswith(b"-")


def test_refusals_change_nothing(region: Region) -> None:
    region.context.standing.loading = "so"
    region.line("XADD s 1-1 f v")
    assert region.replica.applied.counter() == 0


def test_counts(region: Region) -> None:
    for text in ("PING", "PING", "PING a b", "SELECT 99", "FOO", "ECHO", "CLIENT ID"):
        region.line(text)
    statistics = region.context.statistics
    assert statistics.commands() == 5
    counted = {name: (tally.calls, tally.failed, tally.rejected) for name, tally in statistics.tallies.items()}
    assert counted == {"ping": (3, 1, 0), "select": (1, 1, 0), "client|id": (1, 0, 0), "echo": (0, 0, 1)}
    assert statistics.errors == {"ERR": 4}


def test_writes_move_the_counter_that_wait_waits_for(region: Region) -> None:
    other = region.connect()
    region.line("XADD s 1-1 f v")
    assert (region.client.written_counter, other.written_counter) == (1, 0)
    region.line("XADD s 2-1 f v", other)
    region.line("XLEN s")
    assert (region.client.written_counter, other.written_counter) == (1, 2)


def test_reply_modes(region: Region) -> None:
    assert region.line("CLIENT REPLY OFF") == b""
    assert region.line("PING") == b""
    assert region.line("FOO") == b""
    assert region.line("CLIENT REPLY ON") == b"+OK\r\n"
    assert region.line("CLIENT REPLY SKIP") == b""
    assert region.line("PING") == b""
    assert region.line("PING") == b"+PONG\r\n"
    assert region.line("CLIENT REPLY x") == b"-ERR syntax error\r\n"


def test_reset_shows_replies_again(region: Region) -> None:
    region.line("CLIENT REPLY OFF")
    assert region.line("RESET") == b"+RESET\r\n"
    assert region.line("PING") == b"+PONG\r\n"


def test_last_command_and_time_are_kept(region: Region) -> None:
    region.replica.keyspace.now_ms += 5
    region.line("CLIENT GETNAME")
    assert (region.client.last_command, region.client.last_ms) == ("client|getname", region.context.now_ms)


def test_table_is_sound() -> None:
    for command in COMMANDS:
        command.check()
        assert TABLE[command.name.encode()] is TABLE[command.name.upper().encode()] is command
