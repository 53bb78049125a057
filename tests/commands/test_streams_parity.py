"""Stream commands beside a real redis-server: the same requests in the same order must give the same bytes.

Where the two differ on purpose the requests stay away from it: `+` in XREAD and the newer wording for an odd list of
streams, XSETID below the top (and which of its errors comes first), and `~` on nodes that an exact trim or an XDEL has
thinned out. In such a wide comparison every key is deleted first, so that examples do not see each other's streams.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.harness import REDIS, Connection, read_reply, redis_server
from tests.commands.stream_region import Region
from tests.effort import examples

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        yield connection
        connection.close()


def assert_parity(redis: Connection, requests: list[list[str]]) -> None:
    region = Region()
    redis.line("FLUSHALL")
    for at, request in enumerate(requests):
        assert region.call(*request) == redis.run(*request), requests[: at + 1]
    for stream in region.replica.keyspace.databases[0].values():
        stream.check()


SCRIPTS = {
    "adds": """
        XADD s 1-1 f v | XADD s 1-1 f v | XADD s 0-0 f v | XADD s 0 f v | XADD s 1-* f v | XADD s 0-* f v
        XADD s abc f v | XADD s 1-2-3 f v | XADD s 5 a 1 b 2 | XADD s 18446744073709551616 f v | XADD s -1 f v
        XADD s - f v | XADD s + f v | XADD s 1-18446744073709551616 f v | XADD s 007-01 f v | XADD s $ f v
        XADD s 8 f | XADD s x f | XADD s 0-0 f | XADD s 8 f v w | XADD | XADD s | XADD s 8 | XADD t 0-* f v
        XADD t NOMKSTREAM 0-0 f v | XADD u NOMKSTREAM 1-* f v | XADD u NOMKSTREAM NOMKSTREAM NOMKSTREAM
        XADD s NOMKSTREAM nomkstream 9-* f v | XADD s FOO 10 f v | EXISTS u | XLEN s | XLEN u | XLEN s s
        XRANGE s - +
    """,
    "last IDs": """
        XADD m 18446744073709551615-18446744073709551614 f v | XADD m 18446744073709551615-* f v | XADD m * f v
        XADD m 18446744073709551615-* f v | XADD m 1-1 f v | XREVRANGE m + - COUNT 1
        XREAD STREAMS m 18446744073709551615-18446744073709551615
        XRANGE m (18446744073709551615-18446744073709551614 + | XADD n 5-18446744073709551615 f v
        XADD n 5 f v | XLEN n
    """,
    "options of XADD": """
        XADD s MAXLEN 3 1 f v | XADD s MAXLEN = 1 2 f v | XADD s maxlen ~ 3 3 f v | XADD s MAXLEN ~ 3 LIMIT 0 4 f v
        XADD s MAXLEN 3 LIMIT 10 10 f v | XADD s MAXLEN -1 10 f v | XADD s MAXLEN x 10 f v
        XADD s MAXLEN ~ 3 LIMIT -1 9 f v | XADD s MAXLEN 3 MINID 3 10 f v | XADD s MINID = 4 10 f v
        XADD s MINID x 11 f v | XADD s LIMIT 1 11 f v | XADD s LIMIT 0 11 f v | XADD s LIMIT 1 x f v | XADD s MAXLEN
        XADD s MAXLEN ~ 5 LIMIT 1 | XADD s MAXLEN ~ 5 LIMIT | XADD s MAXLEN 10 ~ f v
        XADD s MINID ~ 10 LIMIT 5 MAXLEN 10 0-0 f v | XADD s MAXLEN 0 12 f v | XADD s 12 f v | XADD s MINID 99 13 f v
        XLEN s | EXISTS s | XRANGE s - + | XADD s NOMKSTREAM MAXLEN 1 14 f v | XRANGE s - +
    """,
    "ranges": """
        XADD s 1-1 a 1 | XADD s 1-2 b 2 | XADD s 2-0 c 3 d 4 | XADD s 3-0 e 5 | XRANGE s - + | XRANGE s 1 1
        XRANGE s (1-1 + | XRANGE s - (3-0 | XRANGE s (1 (2 | XRANGE s (0-0 (3 | XRANGE s - + COUNT 2
        XRANGE s - + COUNT 0 | XRANGE s - + COUNT -1 | XRANGE s - + COUNT x | XRANGE s - + COUNT | XRANGE s - + FOO 1
        XRANGE s + - | XRANGE s 5 + | XRANGE nokey - + | XRANGE nokey - + COUNT 0 | XRANGE s x + | XRANGE s - x
        XRANGE s (- + | XRANGE s - (+ | XRANGE s ( + | XRANGE s (18446744073709551615-18446744073709551615 +
        XRANGE s - (0-0 | XRANGE s 0 | XRANGE s - + COUNT 1 COUNT 3 | XRANGE s - + COUNT 9223372036854775808
        XRANGE s - + COUNT 1 COUNT | XREVRANGE s + - | XREVRANGE s + - COUNT 1 | XREVRANGE s (3-0 -
        XREVRANGE s (2 (1-1 | XREVRANGE s - + | XREVRANGE s x y | XREVRANGE s + x | XREVRANGE s 1 1
        XREVRANGE nokey + - | XREVRANGE s + - COUNT 0 | XRANGE s 2-0 2-0 | XREVRANGE s 1-2 1-2
    """,
    "reads": """
        XADD s 1-1 a 1 | XADD s 1-2 b 2 | XADD s 3-0 e 5 | XADD t 7 x y | XREAD COUNT 2 STREAMS s 0
        XREAD STREAMS s 3-0 | XREAD STREAMS s $ | XREAD STREAMS nokey 0 | XREAD STREAMS s nokey t 0 0 0
        XREAD STREAMS s s 0 1-1 | XREAD STREAMS s 1 | XREAD COUNT 0 STREAMS s 0 | XREAD COUNT -5 STREAMS s 1-1
        XREAD COUNT x STREAMS s 0 | XREAD BLOCK -1 STREAMS s $ | XREAD BLOCK x STREAMS s $
        XREAD BLOCK 10 STREAMS s 0 | XREAD STREAMS s | XREAD STREAMS | XREAD | XREAD COUNT 1 s 0
        XREAD FOO 1 STREAMS s 0 | XREAD STREAMS s > | XREAD STREAMS s x | XREAD STREAMS s - | XREAD NOACK STREAMS s 0
        XREAD GROUP g c STREAMS s 0 | XREAD GROUP g | XREAD COUNT 1 STREAMS | XREAD BLOCK STREAMS s 0 | XREAD COUNT
        XDEL s 3-0 | XREAD STREAMS s 1-2 | XREAD STREAMS s 3-0 | XREAD STREAMS s 9-9
        XREAD BLOCK 99999999999999999999 STREAMS s 0
    """,
    "removals": """
        XADD s 1-1 a 1 | XADD s 1-2 b 2 | XADD s 2 c 3 | XADD s 3 d 4 | XADD s 4 e 5 | XDEL s 1-2 | XDEL s 1-2 9-9
        XDEL nokey 1 | XDEL s x | XDEL s 3 x | XDEL nokey x | XDEL s | XDEL s 2 2 2 | XTRIM s MAXLEN 2
        XTRIM s MAXLEN = 2 | XTRIM s MAXLEN ~ 1 | XTRIM s MAXLEN ~ 1 LIMIT 1 | XTRIM s MINID 4 | XTRIM nokey MAXLEN 1
        XTRIM nokey MAXLEN x | XTRIM s | XTRIM s FOO 1 | XTRIM s MAXLEN | XTRIM s LIMIT 1 | XTRIM s LIMIT 0
        XTRIM s MAXLEN 5 LIMIT 1 | XTRIM s MAXLEN ~ | XTRIM s MAXLEN 1 LIMIT | XTRIM s MAXLEN 1 MAXLEN 1
        XTRIM s MINID - | XTRIM s MAXLEN ~ 1 FOO | XTRIM s MAXLEN -1 | XTRIM s MAXLEN 01 | XTRIM s MAXLEN -0
        XTRIM s MAXLEN +1 | XTRIM s MINID = 5 | XTRIM s MAXLEN 0 | XLEN s | EXISTS s | XADD s 4 f v | XINFO STREAM s
    """,
    "IDs": """
        XADD s 1-1 f v | XADD s 3 f v | XDEL s 1-1 | XSETID s 10 | XINFO STREAM s | XSETID s 10 ENTRIESADDED 100
        XSETID s 10-0 ENTRIESADDED 100 MAXDELETEDID 9 | XSETID s 10 ENTRIESADDED 0 MAXDELETEDID 9
        XSETID s 10 ENTRIESADDED -1 | XSETID s 10 ENTRIESADDED 9 MAXDELETEDID 11 | XSETID s 10 ENTRIESADDED
        XSETID s 10 FOO 1 | XSETID nokey 1 | XSETID nokey x | XSETID s x | XSETID s | XSETID nokey 1-1 FOO
        XSETID s 10 MAXDELETEDID 0-0 | XINFO STREAM s | XADD s 10 f v | XADD s 11 f v | XINFO STREAM s
        XSETID s 11 ENTRIESADDED x | XSETID s 11 MAXDELETEDID - | DEL s | XADD s 1-1 f v | XINFO STREAM s
    """,
    "information": """
        XINFO | XINFO FOO s | XINFO STREAM nokey | XINFO STREAM nokey FOO | XADD s 1-1 f v | XINFO STREAM s
        XINFO STREAM s FOO | XINFO STREAM s FULL | XINFO STREAM s FULL FOO | XINFO STREAM s FULL COUNT
        XINFO STREAM s FULL COUNT x | XADD s 2 f v | XINFO STREAM s FULL FOO 1 | XINFO STREAM s FULL COUNT 1
        XINFO STREAM s full count -1 | XINFO STREAM | XINFO GROUPS s | XINFO GROUPS nokey | XINFO GROUPS
        XINFO CONSUMERS s g | XINFO CONSUMERS nokey g | XINFO CONSUMERS s | XINFO HELP x | XDEL s 1-1 2
        XINFO STREAM s | XINFO STREAM s FULL
    """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(redis: Connection, name: str) -> None:
    lines = [line for text in SCRIPTS[name].strip().split("\n") for line in text.split("|")]
    assert_parity(redis, [line.split() for line in lines])


def test_approximate_trims_drop_whole_nodes(redis: Connection) -> None:
    requests = [["XADD", "s", f"{ms}", "f", "v"] for ms in range(1, 1051)]
    trims = (
        "MAXLEN ~ 1000",
        "MAXLEN ~ 951",
        "MAXLEN ~ 950",
        "MAXLEN ~ 0 LIMIT 250",
        "MAXLEN ~ 0 LIMIT 99",
        "MINID ~ 450",
        "MINID ~ 601 LIMIT 100",
        "MAXLEN ~ 200 LIMIT 0",
        "MINID ~ 1050 LIMIT 0",
        "MAXLEN ~ 0 LIMIT 49",
        "MAXLEN ~ 0 LIMIT 50",
    )
    for trim in trims:
        requests += [["XTRIM", "s", *trim.split()], ["XLEN", "s"], ["XRANGE", "s", "-", "+", "COUNT", "1"]]
    assert_parity(redis, requests)


def test_protocol_3(redis: Connection) -> None:
    region = Region()
    third = region.new_client(3)
    redis.line("FLUSHALL")
    redis.line("HELLO 3")
    lines = """
        XADD s 1-1 f v | XADD t NOMKSTREAM * f v | XADD s 2-0 f v | XRANGE s - + | XRANGE s - + COUNT 0
        XREAD STREAMS s t 0 0 | XREAD STREAMS s s 0 1 | XREAD STREAMS s 2 | XREVRANGE s + - | XINFO STREAM s
        XINFO STREAM s FULL | XDEL s 1-1 2-0 | XINFO STREAM s | XINFO STREAM s FULL | XINFO GROUPS s
        XREAD STREAMS s 0
    """
    try:
        for line in lines.replace("\n", "|").split("|"):
            if line.strip():
                assert region.call(*line.split(), client=third) == redis.line(line), line
    finally:
        redis.line("HELLO 2")


@pytest.mark.parametrize(
    "wait",
    ["XREAD BLOCK 0 STREAMS s $", "XREAD BLOCK 0 STREAMS t s 9 3", "XREAD COUNT 1 BLOCK 0 STREAMS t s $ $"],
)
def test_blocked_readers(redis: Connection, wait: str) -> None:
    region = Region()
    redis.line("FLUSHALL")
    reader, other = region.new_client(), Connection(redis.socket.getpeername()[1])
    other.send(*wait.split())
    while b" flags=b " not in redis.line("CLIENT LIST"):
        pass
    assert region.call(*wait.split(), client=reader) is None
    for line in ("XADD u 1-1 f v", "XADD s 1-1 f v", "XADD s 4-* f v", "XADD t 8-* f v"):
        assert region.say(line) == redis.line(line)
        woken = region.close_turn()
        if woken:
            assert woken == {reader.id: read_reply(other.stream)}
    other.close()
    assert not reader.parked


# Whole sequences

IDS = st.builds(lambda ms, seq: f"{ms}-{seq}", st.integers(0, 4), st.integers(0, 1)) | st.integers(0, 4).map(str)
NEW_IDS = IDS | st.integers(0, 5).map(lambda ms: f"{ms}-*")
ENDS = IDS | IDS.map(lambda entry_id: "(" + entry_id) | st.sampled_from("-+")
KEYS = st.sampled_from("st")
SMALL = st.integers(-1, 5).map(str)
COUNTS = st.just(()) | SMALL.map(lambda count: ("COUNT", count))
TRIMS = st.tuples(st.just("MAXLEN"), SMALL) | st.tuples(st.just("MINID"), st.just("="), IDS)


def requests_of(*parts: st.SearchStrategy[object] | str) -> st.SearchStrategy[list[str]]:
    strategies = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*strategies).map(flat)


def flat(parts: tuple[object, ...]) -> list[str]:
    words: list[str] = []
    for part in parts:
        words += part if isinstance(part, (tuple, list)) else [str(part)]
    return words


REQUESTS = st.one_of(
    requests_of("XADD", KEYS, NEW_IDS, "f", "v"),
    requests_of("XADD", KEYS, NEW_IDS, "f", "v"),
    requests_of("XADD", KEYS, TRIMS, NEW_IDS, "f", "v", "g", ""),
    requests_of("XADD", KEYS, "NOMKSTREAM", NEW_IDS, "f", "v"),
    requests_of("XDEL", KEYS, st.lists(IDS, min_size=1, max_size=3)),
    requests_of("XTRIM", KEYS, TRIMS),
    requests_of("XRANGE", KEYS, ENDS, ENDS, COUNTS),
    requests_of("XREVRANGE", KEYS, ENDS, ENDS, COUNTS),
    requests_of("XREAD", COUNTS, "STREAMS", KEYS, KEYS, IDS, IDS),
    requests_of("XLEN", KEYS),
    requests_of("XINFO", "STREAM", KEYS),
    requests_of("XINFO", "STREAM", KEYS, "FULL", COUNTS),
    requests_of("DEL", KEYS),
    requests_of("EXISTS", KEYS),
)


FIRST = [["XADD", "s", entry_id, "f", "v"] for entry_id in ("0-1", "1-0", "1-1", "2-0", "2-1", "3-0")]


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(requests=st.lists(REQUESTS, max_size=40))
def test_sequences(redis: Connection, requests: list[list[str]]) -> None:
    assert_parity(redis, FIRST + requests)
