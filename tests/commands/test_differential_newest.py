"""Requests of all stream commands together beside a model of Redis 8.8, and beside a real server what that one has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.commands.differential import only_kept_by_redis
from tests.commands.drawn_requests import MANY, Request, common, newest, sent, with_ids
from tests.commands.harness import REDIS, Connection, Region, redis_server
from tests.commands.newest_oracle import Model
from tests.commands.portraits import ENTRY_ID, Part, parsed, portrait

START_MS = 10
LONG_MS = "99999999"
# A group begins before everything, one behind an entry.
BEGUN = [line.split() for line in ("XADD s 10-* f v", "XGROUP CREATE s g 0", "XGROUP CREATE s h $")]
LOOKS = [["XPENDING", "s", group, "-", "+", "99"] for group in "gh"]


def plain(part: Part) -> object:
    """The reply as the model gives it."""
    kind, value = part
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.decode() if kind in (b"-", b"+") and isinstance(value, bytes) else value


class Dialogue:
    """A region and the model."""

    def __init__(self) -> None:
        self.region, self.model = Region(), Model(START_MS)
        self.region.replica.keyspace.now_ms = START_MS
        self.added: list[str] = []
        self.said: list[str] = []
        for request in BEGUN:
            self.say(request)

    def say(self, words: Request) -> None:
        if words[0] == "WAIT":
            self.model.now_ms += int(words[1])
            self.region.replica.keyspace.now_ms = self.model.now_ms
            return
        words = with_ids(words, self.added)
        self.said.append(" ".join(sent(words)))
        ours = plain(parsed(self.region.run(*sent(words)) or b""))
        expected = self.model.run([word for word in words if word != MANY])
        assert ours == expected, (ours, expected, self.said)
        if words[0] == "XADD" and isinstance(ours, bytes):
            self.added.append(ours.decode())

    def look(self) -> None:
        """All that can be seen is alike, whatever was replied."""
        for words in [*LOOKS, ["XRANGE", "s", "-", "+"]]:
            ours = plain(parsed(self.region.run(*words) or b""))
            assert ours == self.model.run(words), (ours, self.model.run(words), self.said)
        ours = self.told()
        expected = self.model.counts()
        assert ours == expected, (ours, expected, self.said)

    def told(self) -> dict[bytes, object]:
        reply = plain(parsed(self.region.run("XINFO", "STREAM", "s", "FULL") or b""))
        assert isinstance(reply, list)
        told = dict(zip(reply[::2], reply[1::2], strict=True))
        found = {name: told[name] for name in self.model.counts() if name in told}
        assert isinstance(told[b"groups"], list)
        for row in told[b"groups"]:
            group = dict(zip(row[::2], row[1::2], strict=True))
            found[group[b"name"]] = [group[name] for name in (b"last-delivered-id", b"pel-count", b"nacked-count")]
        return found


IDLE = st.sampled_from(["0", "1", "5", LONG_MS])
NEW_IDS = st.sampled_from(["*", "*", "10-*", "12-*", "14-*"])
DRAWN = st.lists(st.one_of(*common(IDLE, NEW_IDS), *newest(IDLE)), max_size=40)
SLOW_CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


def converse(requests: list[Request]) -> None:
    dialogue = Dialogue()
    for at, words in enumerate(requests):
        dialogue.say(words)
        dialogue.look()
        if at % 7 == 6:
            dialogue.region.end_turn()
    dialogue.region.check()


def script(text: str) -> list[Request]:
    return [line.split() for line in text.strip().split(" | ")]


# The replies of 8.6.3 and 8.8 by which the model was corrected.
LASTID = "XDEL s @0 | XCLAIM s h c 0 ~ 1 1-1 LASTID 12-1 | XADD s 11-* f v | "
LASTID += "XREADGROUP GROUP h c COUNT 4 STREAMS s >"
KEPT = "XADD s 10-* f v | XREADGROUP GROUP g a COUNT 4 STREAMS s > | XDEL s @1 | "
KEPT += "XREADGROUP GROUP g b COUNT 4 CLAIM 0 STREAMS s > | XACKDEL s g IDS 1 @1"
ACKED = "XADD s 10-* f v | XADD s 10-* f v | XGROUP SETID s h $ | "
ACKED += "XREADGROUP GROUP g a COUNT 2 STREAMS s > | XACK s g @1 | XTRIM s MAXLEN 1 ACKED"


@settings(max_examples=250, deadline=None, suppress_health_check=SLOW_CHECKS)
@given(requests=DRAWN)
@example(requests=script(LASTID))
@example(requests=script(KEPT))
@example(requests=script(ACKED))
@example(requests=script("XIDMPRECORD s p 1 @0 | XIDMPRECORD s q 1 1-"))
def test_any_requests(requests: list[Request]) -> None:
    converse(requests)


@pytest.mark.slow
@settings(max_examples=4_000, deadline=None, suppress_health_check=SLOW_CHECKS)
@given(requests=DRAWN)
def test_many_requests(requests: list[Request]) -> None:
    converse(requests)


# Beside a real server


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    if REDIS is None:
        pytest.skip("redis-server is not installed")
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        if b"unknown command" in connection.line("XDELEX s IDS 1 1-1"):
            pytest.skip("this redis-server is older than 8.2")
        yield connection
        connection.close()


MS_IDS = st.sampled_from(["10-*", "10-*", "12-*", "14-*"])
DRAWN_OF_8_2 = st.lists(st.one_of(*common(st.sampled_from(["0", LONG_MS]), MS_IDS)), max_size=40)
WATCHED = [*LOOKS, ["XINFO", "GROUPS", "s"], ["XINFO", "STREAM", "s"], ["XRANGE", "s", "-", "+"]]
REMOVING = ("XDEL", "XDELEX", "XACKDEL", "XTRIM", "MAXLEN")


def is_excused(words: Request, before: list[Request]) -> bool:
    """A trim with DELREF drops references to what was removed before, too (commands/differences.py)."""
    trims = words[0] == "XTRIM" or "MAXLEN" in words
    return trims and "DELREF" in words and any(word in REMOVING for one in before for word in one)


def missing_at(region: Region, words: Request) -> list[bool]:
    """With ACKED, for each ID that is named, whether the stream lacks it."""
    if "ACKED" not in words or "IDS" not in words:
        return []
    return [region.run("XRANGE", "s", one, one) == b"*0\r\n" for one in words[words.index("IDS") + 2 :]]


def converse_beside(redis: Connection, requests: list[Request]) -> None:
    """The region beside the server, and the model beside both."""
    redis.line("FLUSHALL")
    region, added, said = Region(), list[str](), list[Request]()
    for words in [*BEGUN, *requests]:
        words = sent(with_ids(words, added))
        if is_excused(words, said):
            continue
        said.append(words)
        missing = missing_at(region, words)
        ours, theirs = parsed(region.run(*words) or b""), parsed(redis.run(*words))
        same = portrait(words, ours) == portrait(words, theirs) or only_kept_by_redis(ours, theirs, missing)
        assert same, (ours, theirs, [" ".join(one) for one in said])
        if words[0] == "XADD" and isinstance(theirs[1], bytes) and ENTRY_ID.fullmatch(theirs[1]):
            added.append(theirs[1].decode())
        if not same or (missing and ours != theirs):
            return
        for look in WATCHED:
            ours, theirs = parsed(region.run(*look) or b""), parsed(redis.run(*look))
            assert portrait(look, ours) == portrait(look, theirs), (ours, theirs, look, [" ".join(one) for one in said])
    region.check()


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW_CHECKS)
@given(requests=DRAWN_OF_8_2)
@example(requests=script(LASTID))
@example(requests=script(ACKED))
def test_any_requests_beside_a_server(redis: Connection, requests: list[Request]) -> None:
    converse_beside(redis, requests)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None, suppress_health_check=SLOW_CHECKS)
@given(requests=DRAWN_OF_8_2)
def test_many_requests_beside_a_server(redis: Connection, requests: list[Request]) -> None:
    converse_beside(redis, requests)
