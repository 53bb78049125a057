"""Replies about connections beside those of a real redis-server, byte for byte, in both protocols.

The server at hand is a 7.0, so what came with 7.2 (SETINFO, NO-TOUCH) is tested elsewhere. Version and connection ID
are masked, and a word that 7.2 put into one error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.core.keyspace import DATABASES
from crdtstream.settings.config import Limits
from tests.commands.harness import REDIS, Connection, Region, redis_server, require_password, without_modules

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

VERSION = re.compile(rb"\$\d+\r\n\d+\.\d+\.\d+\r\n")
CONNECTION_ID = re.compile(rb"(\$2\r\nid\r\n):\d+")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


@pytest.fixture(scope="module")
def guarded_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("guarded"), "--requirepass", "secret") as number:
        yield number


def masked(reply: bytes | None) -> bytes | None:
    if reply is None:
        return None
    reply = reply.replace(b"HELLO <proto> AUTH", b"HELLO AUTH")
    reply = without_modules(reply)
    return CONNECTION_ID.sub(rb"\1:0", VERSION.sub(b"$5\r\nx.x.x\r\n", reply))


def compare(port: int, lines: list[str], password: str = "") -> None:
    region = Region(limits=Limits(auth_failure_delay_ms=0))
    require_password(region, password)
    connection = Connection(port)
    try:
        for line in lines:
            words = [word.replace("_", " ") for word in line.split(" ")]
            assert masked(region.run(*words)) == masked(connection.run(*words)), line
    finally:
        connection.close()


# One request after the other; `_` stands for a space inside an argument.
SCRIPTS = [
    "PING; PING hi; ping a b; ECHO hi; ECHO; ECHO a b; Echo a_b",
    "FOO; foo a b c; foo a_b; SELECT 1; SELECT 16; SELECT -1; SELECT x; SELECT; SELECT 01; SELECT 0",
    "HELLO; HELLO 2; HELLO 3; HELLO; PING; HELLO 4; HELLO 1; HELLO x; HELLO 2",
    "HELLO 3 FOO; HELLO 3 AUTH default; HELLO 3 AUTH nobody x; HELLO 3 SETNAME; HELLO 3 SETNAME a_b; HELLO",
    "HELLO 3 SETNAME me AUTH default x; CLIENT GETNAME; HELLO 2 SETNAME you; CLIENT GETNAME; RESET; HELLO",
    "AUTH x; AUTH default x; AUTH nobody x; AUTH a b c; AUTH",
    "CLIENT; CLIENT foo; CLIENT FOO bar; CLIENT ID x; CLIENT GETNAME x; CLIENT SETNAME; CLIENT KILL",
    "CLIENT GETNAME; CLIENT SETNAME me; CLIENT GETNAME; CLIENT SETNAME a_b; CLIENT SETNAME ; CLIENT GETNAME",
    "CLIENT KILL foo bar; CLIENT KILL 1.2.3.4:5; CLIENT KILL ID x; CLIENT KILL ID 0; CLIENT KILL ID 999999",
    "CLIENT KILL ID 999999 TYPE x; CLIENT KILL TYPE x; CLIENT KILL TYPE pubsub; CLIENT KILL SKIPME x",
    "CLIENT KILL ID 5 SKIPME; CLIENT KILL USER nobody; CLIENT KILL ADDR 1.1.1.1:1; CLIENT KILL LADDR 1.1.1.1:1",
    "CLIENT KILL MAXAGE 0; CLIENT KILL MAXAGE x; CLIENT KILL MAXAGE 100; CLIENT KILL MAXAGE 100 ID 99999 TYPE normal",
    "CLUSTER HELP; CLUSTER INFO; CLUSTER FOO; CLUSTER MYSHARDID; CLUSTER MEET a; CLUSTER MEET 127.0.0.1 1",
    "CLIENT UNBLOCK x; CLIENT UNBLOCK 999999; CLIENT UNBLOCK 999999 x; CLIENT UNBLOCK 999999 ERROR a",
    "CLIENT LIST foo; CLIENT LIST TYPE; CLIENT LIST TYPE x; CLIENT LIST TYPE pubsub; CLIENT LIST ID; CLIENT LIST ID x",
    "CLIENT NO-EVICT x; CLIENT NO-EVICT on; CLIENT NO-EVICT; CLIENT REPLY x; CLIENT REPLY on; PING",
    "WAIT; WAIT x 0; WAIT 1 x; WAIT 1 -1; WAIT 0 0; WAIT -1 0; TIME x; RESET x; RESET; QUIT",
    "COMMAND COUNT x; COMMAND FOO; COMMAND INFO foo; COMMAND DOCS foo; COMMAND LIST x; COMMAND LIST FILTERBY foo x",
    "COMMAND GETKEYS foo a; COMMAND GETKEYS ping a; COMMAND GETKEYS del a b; COMMAND GETKEYS xadd s; COMMAND GETKEYS",
    "COMMAND GETKEYS 0; COMMAND GETKEYSANDFLAGS 0",
    "COMMAND GETKEYS xread count 1 streams a b 0 0; COMMAND GETKEYS xinfo stream s; COMMAND GETKEYS xread a b c",
    "COMMAND LIST FILTERBY MODULE x; COMMAND LIST FILTERBY PATTERN xlen; INFO foo; INFO cluster",
]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts(port: int, script: str, protocol: int) -> None:
    compare(port, [f"HELLO {protocol}", *script.split("; ")])


GUARDED = [
    "PING; FOO; ECHO; GETX a; DEL a; CLIENT ID; CLIENT FOO; INFO; AUTH wrong; PING; AUTH secret; PING",
    "HELLO; HELLO 3; HELLO 3 SETNAME me; HELLO 9; HELLO 3 AUTH default wrong; HELLO 3 AUTH default secret; PING",
    "AUTH nobody secret; AUTH default secret; AUTH wrong; PING; RESET; PING",
    "HELLO 3 AUTH default secret SETNAME me; CLIENT GETNAME; RESET; CLIENT GETNAME; AUTH secret; CLIENT GETNAME",
    "RESET; QUIT",
]


@pytest.mark.parametrize("script", GUARDED)
def test_scripts_with_a_password(guarded_port: int, script: str) -> None:
    compare(guarded_port, script.split("; "), "secret")


def test_client_line_has_redis_fields(port: int) -> None:
    connection, region = Connection(port), Region()
    real = connection.run("CLIENT", "INFO")
    ours = region.run("CLIENT", "INFO")
    connection.close()
    assert ours is not None
    fields = [re.findall(rb"([a-z-]+)=", line) for line in (real, ours)]
    assert fields[1] == fields[0]


names = st.sampled_from(["PING", "ECHO", "SELECT", "HELLO", "AUTH", "CLIENT", "WAIT", "COMMAND", "XYZ"])
words = st.sampled_from(
    re.findall(
        r"\S+",
        "0 1 2 3 -1 x AUTH default SETNAME GETNAME KILL ID TYPE normal SKIPME no LIST UNBLOCK ERROR GETKEYS xlen xadd"
        " INFOX NO-EVICT on off",
    )
)


def harmless(line: list[str]) -> bool:
    """Nothing that kills a client, waits, or tells what differs between servers."""
    if line[0] == "WAIT":
        return line[1:2] != ["1"] and line[1:2] != ["2"] and line[1:2] != ["3"]
    if line[0] == "CLIENT":
        return line[1:2] not in (["ID"], ["LIST"]) and ("KILL" not in line or "LIST" in line)
    return line[:2] != ["COMMAND", "LIST"] and line != ["COMMAND"]


lines = st.tuples(names, st.lists(words, max_size=4)).map(lambda pair: [pair[0], *pair[1]]).filter(harmless)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(lines, max_size=8))
def test_any_words(port: int, script: list[list[str]]) -> None:
    compare(port, [" ".join(line) for line in script])


def test_number_of_databases(port: int) -> None:
    compare(port, [f"SELECT {number}" for number in range(DATABASES + 2)])
