"""The keys that the rows of commands declare, beside those that the commands touch: rights are checked by the rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtstream.commands.dispatch import find
from crdtstream.connections.command import READ, WRITE, Command
from crdtstream.connections.context import Context
from crdtstream.core.effects import Effect
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.streams.stream import Stream
from tests.commands.harness import Region, every_command

# Requests that do something, of each command that touches keys; `@` is a payload of DUMP, `t` does not exist.
REQUESTS = """
    CRDT.STREAM SHOW s | CRDT.STREAM SET s MAXLEN 5 | CRDT.STREAM GET s | CRDT.GROUP SHOW s g
    CRDT.GROUP SET s g ACKNOWLEDGE EXACT | CRDT.GROUP GET s g | CRDT.STREAM SET s ACKED
    CRDT.GROUP MOVE s g 1 | CRDT.GROUP RESET s g NEW | CRDT.ENTRIES s - + | XGROUP CREATE s h 0 CRDT ACKNOWLEDGE EXACT
    XADD s * f v | XADD t NOMKSTREAM * f v | XADD s MAXLEN 1 * f v | XADD s IDMP p a * f v | XDEL s 1-0
    XDELEX s DELREF IDS 1 1-0 | XACKDEL s g IDS 1 1-0 | XTRIM s MAXLEN 1 ACKED | XLEN s | XRANGE s - + | XREVRANGE s + -
    XREAD STREAMS s t 0 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP g c CLAIM 0 STREAMS s > | XACK s g 1-0
    XPENDING s g | XPENDING s g - + 9 | XCLAIM s g c 0 1-0 FORCE | XAUTOCLAIM s g c 0 0 | XNACK s g FAIL IDS 1 1-0
    XGROUP CREATE s h 0 | XGROUP SETID s g 0 | XGROUP DESTROY s g | XGROUP CREATECONSUMER s g d
    XGROUP DELCONSUMER s g c | XINFO STREAM s FULL | XINFO GROUPS s | XINFO CONSUMERS s g | XSETID s 9-0
    XCFGSET s IDMP-MAXSIZE 7 | XIDMPRECORD s p a 1-0 | DEL s t | UNLINK s t | EXISTS s t | TOUCH s t | TYPE s
    EXPIRE s 100 | PEXPIRE s 100000 | EXPIREAT s 4000000000 | PEXPIREAT s 4000000000000 | PERSIST s | TTL s | PTTL s
    EXPIRETIME s | PEXPIRETIME s | OBJECT ENCODING s | OBJECT FREQ s | OBJECT IDLETIME s | OBJECT REFCOUNT s
    MEMORY USAGE s | RENAME s t | RENAMENX s t | COPY s t | MOVE s 1 | DUMP s | RESTORE t 0 @ | WATCH s t
    CRDT.DIGEST s | CRDT.IMPORT s 9-0 f v | CRDT.CONFLICTS s
    CRDT.XREAD COUNT 3 STREAMS s t 0 0 | CRDT.REDRIVE s g | CRDT.GROUP SET s g DEADLETTER t MAXDELIVERIES 1
    XGROUP CREATE s h 0 CRDT DEADLETTER t
"""
# What is about no key in particular; it is answered without rights to any, as in Redis.
WHOLE = """
    CRDT.DIGEST | CRDT.REGIONS | CRDT.VECTOR | CRDT.MEMBERS | CRDT.HOMES | CRDT.TOKEN | DBSIZE | KEYS * | SCAN 0
    RANDOMKEY | FLUSHALL | FLUSHDB | SWAPDB 0 1 | INFO keyspace | MEMORY STATS
"""
# As in Redis, its keys are read, though what a group has delivered changes.
READS_A_GROUP = "XREADGROUP"
# Those that need another region, a disk or another process; keys of CRDT.AWAIT only say which shard is meant.
ELSEWHERE = {"crdt.await", "crdt.evict", "crdt.leave", "crdt.startover", "crdt.takeover", "crdt.backup"}


def lines(text: str) -> list[str]:
    return [line.strip() for row in text.strip().split("\n") for line in row.split("|")]


class Watched(dict[bytes, Stream]):
    """A database that notes which names are looked up."""

    def __init__(self, touched: set[bytes]) -> None:
        super().__init__()
        self.touched = touched

    def get(self, name: bytes, default: Stream | None = None) -> Stream | None:  # type: ignore[override]
        self.touched.add(name)
        return super().get(name, default)

    def __getitem__(self, name: bytes) -> Stream:
        self.touched.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, bytes)
        self.touched.add(name)
        return super().__contains__(name)


@pytest.fixture
def touched() -> set[bytes]:
    return set()


@pytest.fixture
def region(touched: set[bytes]) -> Iterator[Region]:
    made = Region()
    made.replica.keyspace.databases[:] = [Watched(touched) for _ in range(DATABASES)]
    for line in ("XADD s 1-0 f v", "XADD s 2-0 f v", "XGROUP CREATE s g 0", "XADD other 1-0 f v"):
        assert not (made.line(line) or b"-").startswith(b"-")
    made.line("XREADGROUP GROUP g c COUNT 1 STREAMS s >")
    made.end_turn()
    touched.clear()
    yield made
    made.check()


def words_of(region: Region, line: str) -> list[bytes]:
    payload = (region.line("DUMP s") or b"").partition(b"\r\n")[2][:-2]
    return [payload if word == "@" else word.encode() for word in line.split()]


def declared(argv: list[bytes]) -> dict[bytes, int]:
    """The keys of a request with what a user needs for each."""
    keys = find(argv).keys
    return {argv[at]: keys.need_at(index) for index, at in enumerate(keys.positions(argv))}


def changed(context: Context) -> set[bytes]:
    effects, facts = context.replica.opened()
    return {one.key[1] for one in effects if isinstance(one, Effect)} | {fact.key[1] for _, fact in facts}


@pytest.mark.interpreted  # Compiled code looks past a subclass of dict.
@pytest.mark.parametrize("line", lines(REQUESTS))
def test_a_command_touches_what_its_row_declares(region: Region, touched: set[bytes], line: str) -> None:
    words = words_of(region, line)
    touched.clear()
    region.run(*words)
    keys = declared(words)
    assert touched <= set(keys), line
    assert touched, f"{line} touches nothing"
    needed = READ if line.startswith(READS_A_GROUP) else WRITE
    assert changed(region.context) <= {key for key, need in keys.items() if need & needed}, line


@pytest.mark.parametrize("line", lines(WHOLE))
def test_what_is_about_all_keys_declares_none(region: Region, line: str) -> None:
    reply = region.line(line)
    assert not (reply or b"").startswith(b"-")
    assert declared(line.encode().split()) == {}


def test_every_row_with_keys_is_looked_at() -> None:
    said = {find(line.encode().split()).name for line in [*lines(REQUESTS), *lines(WHOLE)]}
    with_keys = {command.name for command in every_command() if command.keys.flags and command.function is not None}
    # Channels of a shard are declared like keys; a cluster does not exist.
    assert with_keys - said <= {"spublish", "ssubscribe", "sunsubscribe", "crdt.await"}
    own = {command.name for command in every_command() if command.name.startswith("crdt.")}
    own -= {command.name for command in every_command() if command.function is None or command.name.endswith("|help")}
    assert own <= said | ELSEWHERE


@pytest.mark.parametrize("command", [one for one in every_command() if one.keys.flags], ids=lambda one: one.name)
def test_rows_say_in_their_flags_what_they_do_to_keys(command: Command) -> None:
    """A row that changes keys is a write, one that only reads them is not: room, pauses and rights follow from that."""
    needs = [need for need in command.keys.needs if need >= 0]
    if any(need & WRITE for need in needs):
        assert command.writes and "write" in command.categories
    elif any(need & READ for need in needs) and command.name.upper() != READS_A_GROUP:
        assert "readonly" in command.flags and "read" in command.categories


def test_a_digest_is_refused_without_rights_to_the_key() -> None:
    region = Region()
    for line in ("XADD open:s 1-0 f v", "XADD s 1-0 f v", "ACL SETUSER u on nopass +@read ~open:*"):
        region.line(line)
    client = region.connect()
    region.line("AUTH u x", client)
    assert (region.line("CRDT.DIGEST open:s", client) or b"").startswith(b"$")
    assert region.line("CRDT.DIGEST s", client) == b"-NOPERM No permissions to access a key\r\n"
    assert (region.line("COMMAND GETKEYS CRDT.DIGEST s") or b"").endswith(b"$1\r\ns\r\n")
