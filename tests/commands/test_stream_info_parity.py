"""XINFO GROUPS beside a real redis-server: entries-read and lag while groups of one origin are made and read.

The steps leave out what releases of Redis answer differently: a trim past a group, and an XDEL above its position.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.core.lag import entries_read_after
from crdtstream.core.local_facts import ConsumerCreated
from tests.commands.harness import REDIS, Connection, redis_server
from tests.commands.stream_region import Region

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

GROUPS = (b"g", b"h")
STEPS = st.lists(
    st.one_of(
        st.just(("add", b"", 0)),
        st.just(("add", b"", 0)),
        st.tuples(st.just("create"), st.sampled_from(GROUPS), st.integers(0, 8)),
        st.tuples(st.just("read"), st.sampled_from(GROUPS), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.just(b""), st.integers(1, 8)),
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        yield connection
        connection.close()


def read(region: Region, name: bytes, count: int) -> None:
    stream, group = region.stream(), region.group(name)
    region.read_group(entries_read_after(stream, group, group.next_entries(stream.chains, count)), count, name)


def step_both(redis: Connection, region: Region, step: str, name: bytes, number: int) -> None:
    groups = region.stream().groups
    if step == "add":
        ms = region.stream().top[0] + 1
        assert region.call("XADD", "s", ms, "f", "v") == redis.run("XADD", "s", ms, "f", "v")
    elif step == "create" and name not in groups:
        region.create_group((number, 0), name)
        region.replica.record(ConsumerCreated((0, b"s"), name, b"c", region.context.now_ms))
        assert redis.run("XGROUP", "CREATE", "s", name, number) == b"+OK\r\n"
        # Before 7.2 a read that finds nothing makes no consumer.
        assert redis.run("XGROUP", "CREATECONSUMER", "s", name, "c") == b":1\r\n"
    elif step == "read" and name in groups:
        read(region, name, number)
        redis.run("XREADGROUP", "GROUP", name, "c", "COUNT", number, "STREAMS", "s", ">")
    elif step == "delete" and region.say("XLEN s") == b":1\r\n":
        # 7.0 gives the groups of an empty stream no lag; later versions, and ours, say 0.
        return
    elif step == "delete" and all(group.last_delivered() > (number, 0) for group in groups.values()):
        assert region.call("XDEL", "s", number) == redis.run("XDEL", "s", number)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=STEPS)
def test_entries_read_and_lag(redis: Connection, steps: list[tuple[str, bytes, int]]) -> None:
    region = Region()
    redis.line("FLUSHALL")
    for line in ("XADD s 1 f v", "XADD s 2 f v"):
        assert region.say(line) == redis.line(line)
    for step, name, number in steps:
        step_both(redis, region, step, name, number)
        assert region.say("XINFO GROUPS s") == redis.line("XINFO GROUPS s")
        assert region.say("XINFO STREAM s") == redis.line("XINFO STREAM s")
