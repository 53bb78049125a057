"""Expiry beside a real redis-server: the same requests, the same bytes.

Our clock stands still while Redis's goes on, for as long as a busy machine lets the test wait. So times that are told
are absolute, a TTL counts as equal within a minute, nothing passes away on the way, and times from now are not compared
with each other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.harness import REDIS, Connection, Region, redis_server
from tests.effort import examples

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

FAR_S = 4_000_000_000
MS = 1000
MINUTE_S = 60
TOLD = [
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "TTL",
    "PTTL",
    "EXPIRETIME",
    "PEXPIRETIME",
    "PERSIST",
    "TOUCH",
    "RANDOMKEY",
]
AFTERWARDS = [
    "EXISTS a",
    "TTL a",
    "PTTL a",
    "EXPIRETIME a",
    "TYPE a",
    "TOUCH a",
    "OBJECT ENCODING a",
    "KEYS *",
    "DBSIZE",
    "RANDOMKEY",
    "XLEN a",
    "XRANGE a - +",
    "XINFO STREAM a",
    "XDEL a 5-1",
    "XTRIM a MAXLEN 0",
    "XSETID a 9-9",
    "XREAD STREAMS a 0",
    "XADD a NOMKSTREAM * f v",
    "PERSIST a",
    "EXPIRE a 100",
    "RENAME a b",
    "RENAMENX a b",
    "COPY a b",
    "DEL a",
    "XGROUP CREATE a g 0",
    "XADD a 1-1 f v",
    "TTL a",
    "XRANGE a - +",
    "XLEN a",
]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        link = Connection(port)
        yield link
        link.close()


def compare(connection: Connection, script: list[list[str]]) -> None:
    region = Region()
    region.replica.keyspace.now_ms = int(time.time() * MS)
    for argv in [["SELECT", "0"], ["FLUSHALL"], *script]:
        ours, theirs = region.run(*argv), connection.run(*argv)
        assert ours == theirs or (argv[0] == "TTL" and is_near(ours, theirs)), (argv, script)
        region.check()


def is_near(ours: bytes | None, theirs: bytes) -> bool:
    """Both are times, not the -1 or -2 of a key without one."""
    return ours is not None and 0 <= int(theirs[1:]) <= int(ours[1:]) < int(theirs[1:]) + MINUTE_S


names = st.sampled_from(["a", "b"])
unordered = st.lists(st.sampled_from(["NX", "XX", "nx", "FOO"]), max_size=2)
conditions = st.lists(st.sampled_from(["NX", "XX", "GT", "lt", "nx", "FOO"]), max_size=2)
absolute_s = st.sampled_from([0, 1, -1, 1000, FAR_S - 1, FAR_S, FAR_S + 1, 2**63 // 1000, -(2**63) // 1000, 2**63])
relative_s = st.sampled_from([0, -1, 100, 1000, 5_000_000_000, 2**63 // 1000, 2**63 // 1000 - 1, -(2**63), 2**63])
relative_ms = st.sampled_from([0, -1, 100_000, 5_000_000_000, 2**63 // 1000, 2**63 - 1, -(2**63), 2**63])


def as_text(parts: tuple[object, ...]) -> list[str]:
    words: list[str] = []
    for part in parts:
        words += [str(word) for word in part] if isinstance(part, list) else [str(part)]
    return words


requests = st.one_of(
    st.tuples(st.just("XADD"), names, st.just("*"), st.just("f"), st.just("v")).map(lambda r: [*r[:2], "1-*", *r[3:]]),
    st.tuples(st.just("DEL"), names).map(as_text),
    st.tuples(st.just("EXPIREAT"), names, absolute_s, conditions).map(as_text),
    st.tuples(st.just("PEXPIREAT"), names, absolute_s.map(lambda s: s * MS), conditions).map(as_text),
    st.tuples(st.just("EXPIRE"), names, relative_s, unordered).map(as_text),
    st.tuples(st.just("PEXPIRE"), names, relative_ms, unordered).map(as_text),
    st.tuples(st.just("PERSIST"), names).map(as_text),
)
checks = ["EXISTS a b", "TYPE a"]


@settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(requests, max_size=15))
def test_any_requests(connection: Connection, script: list[list[str]]) -> None:
    told: list[list[str]] = []
    for request in script:
        told.append(request)
        if request[0] == "EXPIRE":
            told.append(["TTL", request[1]])
        elif request[0].endswith("EXPIREAT"):
            told += [["EXISTS", request[1]]]
    compare(connection, [*told, *[check.split() for check in checks]])


@pytest.mark.parametrize("verb", ["EXPIRETIME", "PEXPIRETIME", "TTL", "PTTL"])
def test_times_are_told(connection: Connection, verb: str) -> None:
    known = [["XADD", "a", "1-1", "f", "v"], ["XADD", "b", "1-1", "f", "v"], ["PEXPIREAT", "a", f"{FAR_S}499"]]
    after = [["PEXPIREAT", "a", f"{FAR_S}500"]]
    told = [[verb, "a"]] if "TIME" in verb else []
    compare(connection, [*known, *told, [verb, "b"], [verb, "x"], *after, *told, ["PERSIST", "a"], [verb, "a"]])


@pytest.mark.parametrize(
    "line",
    [
        "EXPIRE a",
        "EXPIRE a x",
        "EXPIRE a 1 FOO",
        "EXPIRE a x FOO",
        "EXPIRE a 1 NX XX",
        "EXPIRE a 1 NX GT",
        "EXPIRE a 1 GT LT",
        "EXPIRE a 1 XX GT",
        "EXPIRE a 9223372036854775807",
        "PEXPIRE a 9223372036854775807",
        "EXPIREAT a 9223372036854775807",
        "EXPIREAT a -9223372036854775807",
        "PEXPIREAT a 9223372036854775808",
        "pexpireat a 9223372036854775807 xx lt",
        "PEXPIREAT nosuch 1 GT LT NX",
        "PERSIST",
        "PERSIST a b",
        "TTL",
        "TTL a b",
        "PTTL",
        "EXPIRETIME",
        "PEXPIRETIME a b",
    ],
)
def test_errors(connection: Connection, line: str) -> None:
    compare(connection, [line.split(), ["XADD", "a", "1-1", "f", "v"], line.split(), ["EXISTS", "a"]])


def test_what_is_told_of_commands(connection: Connection) -> None:
    """Arity and key positions."""
    region = Region()
    for name in TOLD:
        ours, theirs = region.run("COMMAND", "INFO", name), connection.run("COMMAND", "INFO", name)
        assert ours is not None
        assert ours.split(b"\r\n")[:5] == [b"*1", b"*10", *theirs.split(b"\r\n")[2:5]], name


def test_a_key_that_passes_away(connection: Connection) -> None:
    """A key that Redis has expired, and one that is hidden here."""
    region = Region()
    region.run("XADD", "a", "5-1", "f", "v")
    region.run("PEXPIRE", "a", "1")
    region.replica.keyspace.now_ms += 2
    connection.run("FLUSHALL")
    connection.run("XADD", "a", "5-1", "f", "v")
    connection.run("PEXPIRE", "a", "1")
    while connection.run("EXISTS", "a") == b":1\r\n":
        pass
    for line in AFTERWARDS:
        assert region.line(line) == connection.line(line), line
        region.check()
