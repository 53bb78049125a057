"""KEEPREF, DELREF and ACKED beside a real redis-server of 8.2 or newer: the same requests must give the same bytes.

Different on purpose: with ACKED, an ID that the stream does not have is told as such (-1). Redis tells 2 while some
group has not read so far, although there is nothing that it could keep.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.harness import REDIS, Connection, redis_server
from tests.commands.stream_region import Region
from tests.effort import examples

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

IDS = st.sampled_from(["1-1", "2-1", "3-1", "4-1", "5-1", "9-9"])
WAYS = st.sampled_from([[], ["KEEPREF"], ["DELREF"], ["ACKED"]])
GROUPS = st.sampled_from(["g", "h"])


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        if b"unknown command" in connection.line("XDELEX s IDS 1 1-1"):
            pytest.skip("this redis-server is older than 8.2")
        yield connection
        connection.close()


def listed(ids: list[str]) -> list[str]:
    return ["IDS", str(len(ids)), *ids]


def requests() -> st.SearchStrategy[list[str]]:
    ids = st.lists(IDS, min_size=1, max_size=3)
    limits = st.sampled_from([["MAXLEN", "2"], ["MAXLEN", "=", "0"], ["MINID", "3"], ["MINID", "=", "9"]])
    return st.one_of(
        st.builds(
            lambda group, n: ["XREADGROUP", "GROUP", group, "c", "COUNT", n, "STREAMS", "s", ">"], GROUPS, counts
        ),
        st.builds(lambda group, some: ["XACK", "s", group, *some], GROUPS, ids),
        st.builds(lambda way, some: ["XDELEX", "s", *way, *listed(some)], WAYS, ids),
        st.builds(lambda group, way, some: ["XACKDEL", "s", group, *way, *listed(some)], GROUPS, WAYS, ids),
        st.builds(lambda limit, way: ["XTRIM", "s", *limit, *way], limits, WAYS),
        st.builds(lambda group: ["XPENDING", "s", group], GROUPS),
        st.builds(lambda group: ["XGROUP", "DESTROY", "s", group], GROUPS),
        st.sampled_from([["XRANGE", "s", "-", "+"], ["XGROUP", "CREATE", "s", "h", "0"], ["XDEL", "s", "2-1"]]),
    )


def alike(ours: bytes, theirs: bytes, missing: list[bool]) -> bool:
    """With ACKED nothing is kept of an ID that the stream lacks, of which Redis may say that it is needed."""
    own, other = ours.split(), theirs.split()
    if len(own) != len(missing) + 1:
        return ours == theirs
    rows = zip(own[1:], other[1:], missing, strict=True)
    return all(one == two or (gone and one != b":2" and two == b":2") for one, two, gone in rows)


def missing_at(region: Region, request: list[str]) -> list[bool]:
    """With ACKED, for each ID that is named, whether the stream lacks it."""
    if "IDS" not in request or "ACKED" not in request:
        return []
    return [region.call("XRANGE", "s", one, one) == b"*0\r\n" for one in request[request.index("IDS") + 2 :]]


def differs(request: list[str], before: list[list[str]]) -> bool:
    """Whether the table of differences allows for another reply: DELREF over what was removed before, and ACKED after a
    group was destroyed.
    """
    said = {(one[0], "DESTROY" in one) for one in before}
    removed = any(name in ("XDEL", "XDELEX", "XTRIM", "XACKDEL") for name, _ in said)
    return (request[0] == "XTRIM" and "DELREF" in request and removed) or (
        "ACKED" in request and ("XGROUP", True) in said
    )


counts = st.sampled_from(["1", "2", "5"])
BEGUN = [["XADD", "s", f"{number}-1", "f", "v"] for number in range(1, 6)]
CREATED = [["XGROUP", "CREATE", "s", "g", "0"], ["XGROUP", "CREATE", "s", "h", "0"]]


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(requests(), max_size=14))
def test_any_requests(redis: Connection, script: list[list[str]]) -> None:
    region = Region()
    redis.line("FLUSHALL")
    for at, request in enumerate([*BEGUN, *CREATED, *script]):
        if differs(request, script[: max(at - 7, 0)]):
            continue
        missing = missing_at(region, request)
        ours, theirs = region.call(*request), redis.run(*request)
        assert alike(ours or b"", theirs, missing), (ours, theirs, script[: at - 6])
    for stream in region.replica.keyspace.databases[0].values():
        stream.check()


ERRORS = """
    XDELEX | XDELEX s | XDELEX s IDS | XDELEX s IDS 1 | XDELEX s IDS 2 1-1 | XDELEX s IDS 0 1-1 | XDELEX s IDS x 1-1
    XDELEX s IDS 1 1-1 2-1 | XDELEX s KEEPREF DELREF IDS 1 1-1 | XDELEX s FOO IDS 1 1-1 | XDELEX s IDS 1 x
    XDELEX none IDS 1 x | XDELEX none IDS 1 x FOO | XDELEX none IDS 2 x | XACKDEL none g IDS 1 x
    XACKDEL s none IDS 1 x | XACKDEL s g IDS 1 x | XDELEX s IDS 1 x IDS 1 9-9 | XDELEX s IDS 1 x FOO
    XACKDEL s g IDS 2 8-8 9-9 IDS 1 9-9
    XDELEX none IDS 2 1-1 2-2 | XDELEX s KEEPREF | XDELEX s IDS -1 1-1 | XACKDEL | XACKDEL s g | XACKDEL s g IDS 1
    XACKDEL s g IDS 1 1-1 | XACKDEL none g IDS 1 1-1 | XACKDEL s none IDS 1 1-1 | XACKDEL s g FOO IDS 1 1-1
    XTRIM s MAXLEN 3 KEEPREF DELREF | XTRIM s MAXLEN 3 FOO | XTRIM s KEEPREF MAXLEN 3 | XTRIM s ACKED
    XADD s KEEPREF 9-1 f v | XADD s ACKED MAXLEN 2 10-1 f v | XADD s DELREF KEEPREF MAXLEN 2 11-1 f v | XRANGE s - +
"""


def test_errors(redis: Connection) -> None:
    region = Region()
    redis.line("FLUSHALL")
    script = [part.split() for line in ERRORS.strip().splitlines() for part in line.split(" | ")]
    for request in [*BEGUN, *CREATED, *script]:
        assert region.call(*request) == redis.run(*request), request
