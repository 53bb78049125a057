"""ACL beside a real redis-server: the replies of both, byte for byte, in both protocols.

Each script runs on a server without users and on a new region. `_` stands for a space inside an
argument, and '' for an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.connections.access import log_out
from crdtstream.connections.client import Client
from crdtstream.runtime.acl_file import perform
from crdtstream.settings.config import Limits
from tests.commands.harness import REDIS, Connection, Region, read_reply, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

HASH = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
# What depends on time, and on a C server.
MASKED = [
    (re.compile(rb"age-seconds\r\n(?:,[\d.e-]+|\$\d+\r\n[\d.e-]+)\r\n"), b"age\r\n"),
    (re.compile(rb"client-info\r\n\$\d+\r\n[^\r]*cmd=([^ ]*) user=([^ ]*)[^\r]*\r\n"), rb"client \1 \2\r\n"),
    (re.compile(rb"(timestamp-[a-z-]+\r\n):\d+"), rb"\1:0"),
    (re.compile(rb"(entry-id\r\n):\d+"), rb"\1:0"),
]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


def masked(reply: bytes | None) -> bytes | None:
    for pattern, text in MASKED if reply is not None else []:
        reply = pattern.sub(text, reply or b"")
    return reply


class Pair:
    """A region and a real server without users, and named connections to both."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.region = Region(limits=Limits(auth_failure_delay_ms=0))
        self.clients: dict[str, tuple[Client, Connection]] = {}
        self.admin = self.region.client, Connection(port)
        self.clean()

    def clean(self) -> None:
        connection = self.admin[1]
        users = [name for name in re.findall(rb"\r\nuser ([^ ]*) ", connection.line("ACL LIST")) if name != b"default"]
        if users:
            connection.run("ACL", "DELUSER", *users)
        for line in (
            "ACL SETUSER default reset on nopass ~* &* +@all",
            "ACL LOG RESET",
            "FLUSHALL",
            "CONFIG RESETSTAT",
        ):
            connection.line(line)

    def run(self, line: str) -> None:
        """`name: request`, of a connection of that name, or a request of the first one."""
        name, colon, request = line.partition(": ")
        client, connection = self._of(name) if colon else self.admin
        words = ["" if word == "''" else word.replace("_", " ") for word in (request if colon else line).split(" ")]
        assert masked(self.region.run(*words, client=client)) == masked(connection.run(*words)), line

    def run_words(self, words: list[str]) -> None:
        client, connection = self.admin
        assert self.region.run(*words, client=client) == connection.run(*words), words

    def _of(self, name: str) -> tuple[Client, Connection]:
        if name not in self.clients:
            self.clients[name] = self.region.connect(), Connection(self.port)
            log_out(self.region.context, self.clients[name][0])
        return self.clients[name]

    def close(self) -> None:
        self.clean()
        for _, connection in [self.admin, *self.clients.values()]:
            connection.close()


SCRIPTS = [
    "ACL LIST; ACL USERS; ACL WHOAMI; ACL GETUSER default; ACL GETUSER nobody; ACL CAT; ACL CAT foo; ACL; ACL FOO",
    "ACL SETUSER b on >x ~a* %R~b* +@read -xadd +xgroup|create (+xlen ~z &c); ACL LIST; ACL GETUSER b; ACL USERS",
    "ACL SETUSER b allcommands -config|get -@dangerous +flushall; ACL GETUSER b; ACL DRYRUN b config set a b;"
    " ACL DRYRUN b config get a; ACL DRYRUN b flushall; ACL DRYRUN b config help",
    "ACL SETUSER b +Select|Ab +SELECT +config|get +ConfiG|SET -config +@rEad; ACL GETUSER b",
    "ACL SETUSER b +select|0 +select|1; ACL DRYRUN b select 0; ACL DRYRUN b select 2; ACL DRYRUN b select 1;"
    " ACL SETUSER b -@connection; ACL DRYRUN b select 0; ACL LIST",
    "ACL SETUSER b -@slow; ACL DRYRUN b config get x; ACL SETUSER b +@all -@slow +config|get;"
    " ACL DRYRUN b config get x;"
    " ACL DRYRUN b config set x y; ACL LIST",
    "ACL SETUSER b ~ %R~x %w~x %RW~y; ACL GETUSER b; ACL SETUSER b resetkeys %R; ACL LIST; ACL SETUSER b ALLKEYS;"
    " ACL LIST",
    "ACL SETUSER b &a &a &b ALLCHANNELS; ACL LIST; ACL SETUSER b resetchannels; ACL LIST",
    "ACL SETUSER b ON NOPASS SKIP-SANITIZE-PAYLOAD; ACL LIST; ACL SETUSER b >x; ACL LIST;"
    " ACL SETUSER b RESETPASS off;"
    " ACL LIST; ACL SETUSER b reset; ACL LIST",
    f"ACL SETUSER b #{HASH} >x <x; ACL LIST; ACL SETUSER b !{HASH}; ACL LIST; ACL SETUSER b <x",
    "ACL SETUSER b (~a) (+@read ; ACL SETUSER b (~a_+xadd) (~b +xlen ); ACL LIST; ACL SETUSER b (+foo); ACL LIST;"
    " ACL SETUSER b (on); ACL SETUSER b () clearselectors; ACL LIST; ACL GETUSER b",
    "ACL SETUSER b +select|; ACL SETUSER b +@foo; ACL SETUSER b +select|0|1; ACL SETUSER b -select|0;"
    " ACL SETUSER b +config|foo; ACL SETUSER b +config|get|x; ACL SETUSER b %X~a; ACL SETUSER b %~a;"
    " ACL SETUSER b <foo;"
    " ACL SETUSER b #foo; ACL SETUSER b allkeys ~a; ACL SETUSER b allchannels &a; ACL SETUSER b foo; ACL SETUSER b +;"
    " ACL SETUSER b +foo; ACL SETUSER b -; ACL SETUSER b @read; ACL SETUSER b !x; ACL SETUSER b ~a_b;"
    " ACL SETUSER b &_;"
    " ACL SETUSER a_b on; ACL SETUSER b ); ACL SETUSER b +@; ACL SETUSER b +config|; ACL SETUSER b >; ACL LIST",
    "ACL DELUSER default; ACL DELUSER x y; ACL SETUSER x; ACL DELUSER x y; ACL USERS; ACL DELUSER",
    "ACL DRYRUN nobody ping; ACL DRYRUN default foo; ACL DRYRUN default xadd; ACL DRYRUN default xgroup foo;"
    " ACL DRYRUN default xadd k * a b; ACL DRYRUN default ping; ACL DRYRUN default",
    "ACL SETUSER b +@all ~a %R~r %W~w &c; ACL DRYRUN b xadd r * a b; ACL DRYRUN b xrange w - +;"
    " ACL DRYRUN b xrange r - +;"
    " ACL DRYRUN b xadd w * a b; ACL DRYRUN b xlen w; ACL DRYRUN b xlen x; ACL DRYRUN b copy r w;"
    " ACL DRYRUN b copy w r;"
    " ACL DRYRUN b rename a w; ACL DRYRUN b rename w a; ACL DRYRUN b publish c x; ACL DRYRUN b publish d x;"
    " ACL DRYRUN b psubscribe c; ACL DRYRUN b psubscribe c*; ACL DRYRUN b subscribe c d; ACL DRYRUN b unsubscribe d;"
    " ACL DRYRUN b xread streams r a 0 0; ACL DRYRUN b xread streams r w 0 0; ACL DRYRUN b spublish d x;"
    " ACL DRYRUN b xreadgroup group streams c streams a >; ACL DRYRUN b xreadgroup group g c streams w >;"
    " ACL DRYRUN b xack r g 1; ACL DRYRUN b del w; ACL DRYRUN b del r; ACL DRYRUN b exists w r; ACL DRYRUN b touch x;"
    " ACL DRYRUN b xinfo stream w; ACL DRYRUN b xgroup create w g 0; ACL DRYRUN b xgroup create a g 0;"
    " ACL DRYRUN b keys *",
    "ACL SETUSER b +xadd ~a (+xlen ~b) (+xadd ~c); ACL DRYRUN b xadd b * f v; ACL DRYRUN b xlen b;"
    " ACL DRYRUN b xlen a;"
    " ACL DRYRUN b xadd c * f v; ACL DRYRUN b xdel a 1",
    "ACL SETUSER b on >x +@all ~*; c: AUTH b y; c: AUTH b x; c: ACL WHOAMI; c: XADD s 1-1 a b; c: PUBLISH ch x;"
    " ACL SETUSER b -xadd; c: XADD s 2-1 a b; ACL SETUSER b +xadd resetkeys ~t; c: XADD s 2-1 a b; c: XADD t 1-1 a b;"
    " c: CLIENT KILL USER nobody; ACL LOG; ACL LOG 1; ACL LOG 0; ACL LOG RESET; ACL LOG; ACL LOG x",
    "ACL SETUSER b on nopass +@all ~*; c: AUTH b any; c: MULTI; c: XADD s 1-1 a b; c: PING; ACL SETUSER b -xadd;"
    " c: EXEC; c: MULTI; c: XADD s 1-1 a b; c: EXEC; ACL SETUSER b +xadd; c: MULTI; c: XADD s 1-1 a b;"
    " c: PUBLISH a b;"
    " ACL SETUSER b resetkeys; c: EXEC; ACL SETUSER b allkeys allchannels; c: MULTI; c: PUBLISH a b;"
    " ACL SETUSER b resetchannels; c: EXEC; c: MULTI; ACL SETUSER b -exec; c: EXEC; ACL LOG",
    "c: AUTH x; c: AUTH a b c; c: AUTH default x; c: AUTH nobody x; ACL SETUSER default >pw; d: PING; d: AUTH pw;"
    " c: PING",
    "ACL SETUSER b on >x; c: AUTH b x; c: PING; c: AUTH b x; c: ACL WHOAMI; c: RESET; c: PING",
    "ACL SETUSER b on >x +@all; ACL SETUSER default off; c: PING; c: AUTH b x; c: PING; d: PING; c: HELLO 3 AUTH b y;"
    " ACL SETUSER default on",
    "CONFIG SET requirepass pw; ACL GETUSER default; ACL SETUSER default >other; CONFIG SET requirepass pw; ACL LIST;"
    " CONFIG SET requirepass ''; ACL LIST",
    "ACL SETUSER b on nopass +@all ~* &a; c: AUTH b x; c: SUBSCRIBE a b; c: PSUBSCRIBE a; c: PSUBSCRIBE a*;"
    " c: SSUBSCRIBE b",
    "ACL HELP; ACL GENPASS 0; ACL GENPASS 4097; ACL GENPASS x; ACL GENPASS 1 2; ACL LOG 1 2; ACL CAT a b; ACL LOG -1",
]


@pytest.mark.parametrize("protocol", ["2", "3"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts(port: int, script: str, protocol: str) -> None:
    pair = Pair(port)
    try:
        pair.admin[0].protocol = int(protocol)
        pair.admin[1].run("HELLO", protocol)
        for line in script.split("; "):
            pair.run(line.strip())
    finally:
        pair.close()


# Random rules


NAMES = st.sampled_from(
    ["xadd", "XLEN", "config", "config|get", "config|set", "select", "xgroup|create", "acl", "ping"]
)
CATEGORIES = st.sampled_from(
    ["read", "write", "Slow", "fast", "admin", "dangerous", "stream", "connection", "hash", "all"]
)
PATTERNS = st.sampled_from(["a*", "b", "*", "[ab]", "a?", ""])
SIGNS = st.sampled_from("+-")
WORDS = [
    "on",
    "off",
    "nopass",
    "resetpass",
    ">x",
    ">y",
    "<x",
    "reset",
    "clearselectors",
    "skip-sanitize-payload",
    "sanitize-payload",
]
PLAIN = st.one_of(
    st.builds(str.__add__, SIGNS, NAMES),
    st.builds("{}@{}".format, SIGNS, CATEGORIES),
    st.builds("+select|{}".format, st.integers(0, 3)),
    st.builds("{}{}".format, st.sampled_from(["~", "%R~", "%W~", "%RW~", "&"]), PATTERNS),
    st.sampled_from(["allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands", "nocommands"]),
)
RULES = st.one_of(
    PLAIN,
    st.lists(PLAIN, max_size=4).map(lambda words: f"({' '.join(words)})"),
    st.sampled_from(WORDS),
)
REQUESTS = [
    "xadd a * f v",
    "xlen ab",
    "xrange b - +",
    "del a b",
    "copy a b",
    "config get x",
    "config set x y",
    "config help",
    "select 1",
    "select 7",
    "ping",
    "publish a x",
    "psubscribe a*",
    "acl whoami",
    "xgroup create b g 0",
    "xread streams a b 0 0",
    "flushall",
    "auth x",
]


@given(rules=st.lists(st.lists(RULES, max_size=6), min_size=1, max_size=3))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_rules(port: int, rules: list[list[str]]) -> None:
    pair = Pair(port)
    try:
        for some in rules:
            pair.run_words(["ACL", "SETUSER", "b", *some])
            pair.run("ACL LIST")
        pair.run("ACL GETUSER b")
        if pair.region.context.users.get(b"b") is not None:
            for request in REQUESTS:
                pair.run(f"ACL DRYRUN b {request}")
    finally:
        pair.close()


# Files


FILES = [
    "user default on nopass ~* &* +@all\nuser b on >x ~a +@read (~b +xlen) \n\n",
    "",
    "foo bar\nuser default on",
    "user\n  user b on +foo +bar -@x ~* ~a &* &b\r\nuser b off\n",
    "user b (+xadd ~a\nuser c (+foo) (on) >x #a\n",
    "user b on +xadd  ~a   +@all\t\nuser c\n",
]


@pytest.mark.parametrize("text", FILES)
def test_files_are_read_as_by_redis(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.acl"
    path.write_text("")
    region = Region()
    region.configure(aclfile=str(path))
    with redis_server(tmp_path, "--aclfile", str(path)) as number:
        connection = Connection(number)
        path.write_text(text)
        region.line("ACL LOAD")
        perform(region.context.requests.acl.pop(), str(path))
        for waiter in region.context.parking.keyless():
            region.serve(waiter)
        assert region.late_replies(region.client) == [connection.line("ACL LOAD")]
        assert region.line("ACL LIST") == connection.line("ACL LIST")
        connection.line("ACL SAVE")
        saved = path.read_text()
        connection.close()
    path.unlink()
    region.line("ACL SAVE")
    perform(region.context.requests.acl.pop(), str(path))
    assert path.read_text() == saved
    assert path.stat().st_mode & 0o777 == 0o600


def test_who_waits_is_refused_once_its_user_may_not_read_any_more(port: int) -> None:
    pair = Pair(port)
    try:
        for line in ("ACL SETUSER b on nopass ~* +@all", "XGROUP CREATE s g $ MKSTREAM", "c: AUTH b x", "d: AUTH b x"):
            pair.run(line)
        for name, line in (("c", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"), ("d", "XREAD BLOCK 0 STREAMS s $")):
            client, connection = pair.clients[name]
            assert pair.region.line(line, client=client) is None
            connection.send(*line.split())
        pair.run("CLIENT UNBLOCK 0")
        for line in ("ACL SETUSER b -xreadgroup resetkeys ~t", "XADD s 1-1 a b"):
            pair.run(line)
        for client, connection in pair.clients.values():
            assert pair.region.late_replies(client) == [read_reply(connection.stream)]
    finally:
        pair.close()
