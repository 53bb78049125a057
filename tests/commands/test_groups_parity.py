"""Commands about groups and pending entries beside a real redis-server: the same requests must give the same replies.

One region in liberal mode, whose clock stands still, against Redis 7.0; idle times are masked. What 7.2 changed is kept
out: consumers are made before they claim or read (7.2 makes them even if they get nothing), `inactive` is not compared,
nor is the lag once entries were removed, which later releases corrected. A key that had nothing but a group is kept out
too: it goes with its last group.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.commands.harness import DEADLINE_S, REDIS, Connection, Region, read_reply, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

PENDING_IDLE = re.compile(rb"(\*4\r\n\$\d+\r\n[^\r]*\r\n\$\d+\r\n[^\r]*\r\n):\d+\r\n")
CONSUMER_IDLE = re.compile(rb"\*[68]\r\n(\$4\r\nname.*?):\d+\r\n(?:\$8\r\ninactive\r\n:-?\d+\r\n)?(?=\*|$)", re.DOTALL)
POSITION_COUNTS = re.compile(rb"(entries-read|lag)\r\n(?::-?\d+|\$-1)\r\n")
LONG_MS = 1_000_000


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


@pytest.fixture(scope="module")
def redis(port: int) -> Iterator[Connection]:
    connection = Connection(port)
    yield connection
    connection.close()


def masked(request: str, reply: bytes, removed: bool) -> bytes:
    """The reply without idle times, and without counts that releases see differently after a removal."""
    if request.startswith("XPENDING"):
        return PENDING_IDLE.sub(rb"\1:idle\r\n", reply)
    if request.startswith("XINFO CONSUMERS"):
        return CONSUMER_IDLE.sub(rb"\1", reply)
    if request.startswith("XINFO GROUPS") and removed:
        return POSITION_COUNTS.sub(rb"\1", reply)
    return reply


def assert_parity(redis: Connection, requests: list[str], observers: tuple[str, ...] = ()) -> None:
    region = Region()
    redis.line("FLUSHALL")
    removed = False
    for at, request in enumerate(requests):
        removed = removed or request.startswith(("XDEL", "XTRIM"))
        for asked in (request, *observers):
            ours, theirs = region.line(asked), redis.line(asked)
            assert ours is not None
            assert masked(asked, ours, removed) == masked(asked, theirs, removed), [*requests[: at + 1], asked]
        region.end_turn()
        region.check()


FILLED = ("XADD s 1-0 f v", "XADD s 2-0 f v", "XADD s 3-0 f v")
GROUPED = (*FILLED, "XGROUP CREATE s g 0", "XGROUP CREATECONSUMER s g c", "XGROUP CREATECONSUMER s g d")

SCRIPTS = {
    "groups": """
        XGROUP | XGROUP FOO s | XGROUP CREATE | XGROUP CREATE s | XGROUP CREATE s g | XGROUP CREATE nokey g 0
        XGROUP CREATE s h $ | XGROUP CREATE s h $ | XGROUP CREATE s i x | XGROUP CREATE s i - | XGROUP CREATE s i +
        XGROUP CREATE s i 0 FOO | XGROUP CREATE s i 0 ENTRIESREAD | XGROUP CREATE s i 0 ENTRIESREAD x
        XGROUP CREATE s i 0 ENTRIESREAD -2 | XGROUP CREATE s i 0 ENTRIESREAD -1 MKSTREAM | XGROUP CREATE s g 0 FOO
        XGROUP CREATE nokey g x MKSTREAM | EXISTS nokey | XGROUP CREATE nokey g $ mkstream | EXISTS nokey
        XGROUP CREATE s j 0 MKSTREAM MKSTREAM ENTRIESREAD 1 | XGROUP CREATE s j 0 MKSTREAM MKSTREAM MKSTREAM
        XGROUP CREATE nokey2 j 0 MKSTREAM MKSTREAM MKSTREAM MKSTREAM | XGROUP CREATE nokey2 j x FOO
        XGROUP SETID s g 2 | XGROUP SETID s g - | XGROUP SETID s g + | XGROUP SETID s g x | XGROUP SETID s g $
        XGROUP SETID s g 0 MKSTREAM | XGROUP SETID s g 0 ENTRIESREAD 3 | XGROUP SETID s nog 0 | XGROUP SETID nokey3 g 0
        XGROUP SETID s g 0 ENTRIESREAD 1 ENTRIESREAD 2 | XGROUP SETID s nog x | XGROUP SETID s nog 0 FOO
        XGROUP CREATECONSUMER s g c | XGROUP CREATECONSUMER s g e | XGROUP CREATECONSUMER s nog c
        XGROUP CREATECONSUMER nokey3 g c | XGROUP CREATECONSUMER s g | XGROUP CREATECONSUMER s g c c
        XGROUP DELCONSUMER s g e | XGROUP DELCONSUMER s g e | XGROUP DELCONSUMER s nog c | XGROUP DELCONSUMER nokey3 g c
        XGROUP DESTROY s g | XGROUP DESTROY s g | XGROUP DESTROY nokey3 g | XGROUP DESTROY s
        XGROUP HELP x | XGROUP CREATE s g 18446744073709551615-18446744073709551615
        XREADGROUP GROUP g c STREAMS s > | XSETID s 9-0 | XGROUP CREATE s k $ | XGROUP SETID s h 0 | XGROUP SETID s h $
    """,
    "reads": """
        XREADGROUP GROUP g c COUNT 1 STREAMS s > | XREADGROUP GROUP g c STREAMS s 0 | XREADGROUP GROUP g d STREAMS s 0
        XREADGROUP GROUP g d COUNT 0 NOACK STREAMS s > | XREADGROUP GROUP g c STREAMS s >
        XREADGROUP GROUP g c BLOCK 1 STREAMS s 0 | XREADGROUP GROUP nog c STREAMS s > | XREADGROUP GROUP g c STREAMS t >
        XREADGROUP GROUP g c STREAMS s $ | XREADGROUP GROUP g c STREAMS s x | XREADGROUP GROUP g c STREAMS s
        XREADGROUP GROUP g c COUNT 1 s > | XREADGROUP FOO g c STREAMS s > | XREADGROUP COUNT 1 STREAMS s s > >
        XREADGROUP GROUP g c STREAMS s t > x | XREADGROUP GROUP g c STREAMS s t x > | XREADGROUP GROUP g c STREAMS s - |
        XREADGROUP GROUP g c BLOCK -1 STREAMS s > | XREADGROUP GROUP g c BLOCK x STREAMS s > | XREADGROUP GROUP g
        XREADGROUP GROUP g c COUNT x STREAMS s > | XREADGROUP group g c count -5 streams s 0
        XREADGROUP GROUP g c GROUP g d STREAMS s 0 | XREADGROUP GROUP g c NOACK NOACK STREAMS s >
        XREADGROUP GROUP g c STREAMS s 18446744073709551615-18446744073709551615
        XREADGROUP GROUP g c STREAMS s 18446744073709551615-18446744073709551614
        XADD s 4-0 f v | XREADGROUP GROUP g c STREAMS s s > > | XREADGROUP GROUP g c STREAMS s s > 0 | XDEL s 4-0
        XREADGROUP GROUP g c STREAMS s 0 | XADD s 5-0 f v | XREADGROUP GROUP g c STREAMS s s 0 >
        XADD s 6-0 f v | XREADGROUP GROUP g c STREAMS s s > 5-0
    """,
    "acknowledgements": """
        XREADGROUP GROUP g c STREAMS s > | XACK s g 1-0 1-0 9-0 | XACK s g 1-0 | XACK s g 2-0 x | XACK s nog x
        XACK t g x | XACK s g | XACK s g 2 3 | XACK s g -
    """,
    "pending entries": """
        XPENDING s g | XPENDING s g - + 9 | XREADGROUP GROUP g c COUNT 2 STREAMS s > | XREADGROUP GROUP g d STREAMS s >
        XPENDING s g | XPENDING s g - + 9 | XPENDING s g - + 2 | XPENDING s g - + 9 c | XPENDING s g IDLE 0 - + 9
        XPENDING s g IDLE 0 - + 9 d | XPENDING s g IDLE 1000000 - + 9 | XPENDING s g IDLE x - + 9 | XPENDING s g IDLE 0
        XPENDING s g IDLE 0 - | XPENDING s g IDLE x - | XPENDING s g IDLE 0 - + | XPENDING s g - + 0
        XPENDING s g - + -1 | XPENDING s g - + x | XPENDING s g - + | XPENDING s g - | XPENDING s g x + 9
        XPENDING s g - x 9 | XPENDING s g (1-0 (3-0 9 | XPENDING s g (1 3 9 | XPENDING s g - (0-0 9
        XPENDING s g (18446744073709551615-18446744073709551615 + 9 | XPENDING s g - + 9 nobody | XPENDING s nog
        XPENDING t g | XPENDING t g x + 9 | XPENDING s g - + 9 c extra | XPENDING s g - + 9 c d e f | XPENDING s
        XPENDING s g IDLE 0 - + 9 d e | XPENDING s g + - 9 | XDEL s 1-0 | XPENDING s g - + 9 | XPENDING s g
    """,
    "claims": """
        XREADGROUP GROUP g c STREAMS s > | XCLAIM s g d 0 1-0 | XCLAIM s g d 0 1-0 2-0 JUSTID | XCLAIM s g d 1000000 1-0
        XCLAIM s g c 0 1-0 IDLE 5000000 | XCLAIM s g d 1000000 1-0 1-0 2-0 | XCLAIM s g d 0 9-0 FORCE
        XPENDING s g - + 9
        XCLAIM s g d 0 x | XCLAIM s g d x 1-0 | XCLAIM s g d -1 1-0 | XCLAIM s g d 0 1-0 FOO | XCLAIM s g d 0 1-0 IDLE x
        XCLAIM s g d 0 1-0 IDLE | XCLAIM s g d 0 1-0 TIME x | XCLAIM s g d 0 1-0 TIME 1 | XCLAIM s g c 1000000 1-0
        XCLAIM s g d 0 1-0 RETRYCOUNT x | XCLAIM s g d 0 1-0 RETRYCOUNT -1 | XCLAIM s g d 0 1-0 RETRYCOUNT 7 JUSTID
        XCLAIM s g d 0 1-0 LASTID x | XCLAIM s g d 0 1-0 LASTID - | XCLAIM s g d 0 1-0 LASTID 2-0 | XCLAIM s nog d 0 1-0
        XCLAIM t g d 0 1-0 | XCLAIM t g d x 1-0 | XCLAIM s g d 0 | XCLAIM s g d 0 1-0 FORCE 2-0 | XPENDING s g - + 9
        XACK s g 2-0 | XCLAIM s g d 0 2-0 | XCLAIM s g d 0 2-0 FORCE | XPENDING s g - + 9 | XACK s g 2-0
        XCLAIM s g d 0 2-0 FORCE JUSTID | XPENDING s g - + 9 | XDEL s 1-0 | XCLAIM s g d 0 1-0 3-0 | XPENDING s g - + 9
        XCLAIM s g c 0 3-0 3-0 | XPENDING s g - + 9 | XCLAIM s g c 0 FORCE | XCLAIM s g c 0 3-0 IDLE -5
        XCLAIM s g c 0 3
        XCLAIM s g c 0 3-0 TIME 9999999999999 IDLE 4000000 | XCLAIM s g d 1000000 3-0 | XADD s 5-0 f v | XADD s 6-0 f v
        XCLAIM s g d 0 9-0 LASTID 5-0 | XREADGROUP GROUP g c STREAMS s >
    """,
    "automatic claims": """
        XREADGROUP GROUP g c STREAMS s > | XAUTOCLAIM s g d 0 0 | XAUTOCLAIM s g d 0 0 COUNT 1
        XAUTOCLAIM s g d 0 - JUSTID
        XAUTOCLAIM s g d 0 2-0 COUNT 1 | XAUTOCLAIM s g d 1000000 0 | XAUTOCLAIM s g d 0 0 COUNT 0
        XAUTOCLAIM s g d 0 0 COUNT x | XAUTOCLAIM s g d 0 0 COUNT 9223372036854775807 | XAUTOCLAIM s g d 0 0 COUNT
        XAUTOCLAIM s g d 0 0 FOO | XAUTOCLAIM s g d x 0 | XAUTOCLAIM s g d -1 0 | XAUTOCLAIM s g d 0 x
        XAUTOCLAIM s g d 0 (0 | XAUTOCLAIM s g d 0 (1-0 | XAUTOCLAIM s g d 0 + | XAUTOCLAIM s nog d 0 0
        XAUTOCLAIM s g d 0 (18446744073709551615-18446744073709551615 | XAUTOCLAIM t g d 0 0 | XAUTOCLAIM t g d 0 x
        XAUTOCLAIM s g | XPENDING s g - + 9 | XDEL s 1-0 3-0 | XAUTOCLAIM s g d 1000000 0 COUNT 1 | XPENDING s g - + 9
        XAUTOCLAIM s g c 0 0 JUSTID COUNT 5 | XPENDING s g - + 9
    """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(redis: Connection, name: str) -> None:
    lines = [line.strip() for text in SCRIPTS[name].strip().split("\n") for line in text.split("|")]
    assert_parity(redis, [*GROUPED, *filter(None, lines)])


STREAMS = st.sampled_from(["s", "s", "s", "t"])
GROUPS = st.sampled_from(["g", "g", "g", "h"])
CONSUMERS = st.sampled_from(["c", "d"])
IDS = st.builds("{}-{}".format, st.integers(0, 5), st.integers(0, 2))
SEVERAL = st.lists(IDS, min_size=1, max_size=4).map(" ".join)
COUNT = st.sampled_from(["", "", " COUNT 1", " COUNT 2"])
IDLE = st.sampled_from(["0", "0", str(LONG_MS)])
ANY_ORDER = st.permutations(["FORCE", "JUSTID", "RETRYCOUNT 3", f"IDLE {2 * LONG_MS}", "TIME 5"])
CLAIM_OPTIONS = st.builds(lambda words, count: " ".join(words[:count]), ANY_ORDER, st.integers(0, 2))


def creates(stream: str, group: str, start: str) -> list[str]:
    return [f"XADD {stream} 5-* f v", f"XGROUP CREATE {stream} {group} {start} MKSTREAM"]


def reads(stream: str, group: str, consumer: str, count: str, noack: str, after: str) -> list[str]:
    make = f"XGROUP CREATECONSUMER {stream} {group} {consumer}"
    return [make, f"XREADGROUP GROUP {group} {consumer}{count}{noack} STREAMS {stream} {after}"]


def claims(stream: str, group: str, consumer: str, idle: str, ids: str, options: str) -> list[str]:
    make = f"XGROUP CREATECONSUMER {stream} {group} {consumer}"
    return [make, f"XCLAIM {stream} {group} {consumer} {idle} {ids} {options}".strip()]


def autoclaims(stream: str, group: str, consumer: str, idle: str, start: str, count: str, just_id: str) -> list[str]:
    make = f"XGROUP CREATECONSUMER {stream} {group} {consumer}"
    return [make, f"XAUTOCLAIM {stream} {group} {consumer} {idle} {start}{count}{just_id}"]


def one(template: str, *strategies: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return st.tuples(*strategies).map(lambda words: [template.format(*words).strip()])


NEW_OR_HISTORY = st.sampled_from([">", ">", ">", "0", "1-1", "2-0"])
STARTS = st.sampled_from(["0", "$", "2", "3-1"])
STEPS = st.one_of(
    one("XADD {} {}-* f v", STREAMS, st.sampled_from("12345")),
    one("XADD {} {}-* f v", STREAMS, st.sampled_from("345")),
    one("XDEL {} {}", STREAMS, SEVERAL),
    one("XTRIM {} MAXLEN {}", STREAMS, st.sampled_from("0123")),
    one("DEL {}", STREAMS),
    one("XGROUP CREATE {} {} {}", STREAMS, GROUPS, STARTS),
    st.builds(creates, STREAMS, GROUPS, STARTS),
    one("XGROUP SETID {} {} {}", STREAMS, GROUPS, STARTS),
    one("XGROUP SETID {} {} {}", STREAMS, GROUPS, STARTS),
    one("XGROUP DESTROY {} {}", STREAMS, GROUPS),
    one("XGROUP DELCONSUMER {} {} {}", STREAMS, GROUPS, CONSUMERS),
    one("XACK {} {} {}", STREAMS, GROUPS, SEVERAL),
    one("XACK {} {} {}", STREAMS, GROUPS, SEVERAL),
    one("XPENDING {} {} IDLE {} - + 2", STREAMS, GROUPS, IDLE),
    st.builds(reads, STREAMS, GROUPS, CONSUMERS, COUNT, st.sampled_from(["", "", " NOACK"]), NEW_OR_HISTORY),
    st.builds(reads, STREAMS, GROUPS, CONSUMERS, COUNT, st.sampled_from(["", "", " NOACK"]), NEW_OR_HISTORY),
    st.builds(claims, STREAMS, GROUPS, CONSUMERS, IDLE, SEVERAL, CLAIM_OPTIONS),
    st.builds(autoclaims, STREAMS, GROUPS, CONSUMERS, IDLE, IDS, COUNT, st.sampled_from(["", " JUSTID"])),
)
OBSERVERS = ("XPENDING s g - + 99", "XPENDING s g", "XINFO GROUPS s", "XINFO CONSUMERS s g")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=st.lists(STEPS, max_size=25))
@example(steps=[["XGROUP SETID s g 0"]])
def test_sequences(redis: Connection, steps: list[list[str]]) -> None:
    requests = [request for step in steps for request in step]
    assert_parity(redis, [*GROUPED, *requests], OBSERVERS)


# Waiting


READERS = (("c", "s >"), ("d", "s >"), ("e", "s t > >"))


def wait_until_blocked(redis: Connection, count: int) -> None:
    end = time.monotonic() + DEADLINE_S
    while b"blocked_clients:%d\r\n" % count not in redis.line("INFO clients"):
        assert time.monotonic() < end, "no reader is blocked"


@pytest.mark.parametrize(
    "lines",
    [
        ("XADD s 4-0 f v", "XADD s 5-0 f v", "XADD s 6-0 f v"),
        ("XADD s 4-0 f v", "XDEL s 4-0", "XADD s 5-0 f v", "XADD s 6-0 f v"),
        ("XADD t 1-0 f v", "XADD s 4-0 f v", "XADD t 2-0 f v", "XADD s 5-0 f v"),
        ("XGROUP SETID s g 1-0", "XADD s 5-0 f v", "XADD t 5-0 f v", "XADD s 6-0 f v"),
    ],
)
def test_blocked_readers_are_served_in_the_same_order(port: int, redis: Connection, lines: tuple[str, ...]) -> None:
    """Three readers, the last of two streams, and what the waits of all end with."""
    setup = (*GROUPED, "XGROUP CREATE t g $ MKSTREAM", "XREADGROUP GROUP g c STREAMS s >")
    readers = [f"XREADGROUP GROUP g {name} COUNT 1 BLOCK 0 STREAMS {keys}" for name, keys in READERS]
    region = Region()
    redis.line("FLUSHALL")
    for line in setup:
        assert region.line(line) == redis.line(line)
    ours, theirs = [region.connect() for _ in readers], [Connection(port) for _ in readers]
    for at, reader in enumerate(readers):
        assert region.line(reader, ours[at]) is None
        theirs[at].send(*reader.split())
        wait_until_blocked(redis, at + 1)
    for line in lines:
        assert region.line(line) == redis.line(line)
        region.end_turn()
    for at, client in enumerate(ours):
        assert region.late_replies(client) == [read_reply(theirs[at].stream)]
    for connection in theirs:
        connection.close()
