"""Whatever a region accepts, every member can apply: random commands, and bounds that differ by region."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from crdtstream.core.digest import digest_replica
from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from tests.effort import examples
from tests.test_bounds import KIB, WIDE, Closed, batch_sizes, settle
from tests.test_bounds_transactions import expanding

REGIONS = 3
LINE = [(1, 2), (2, 3)]
KEYS = st.sampled_from([b"x", b"y", b"z", b"n" * 3_000, b"n" * 9_000, b"n" * 40_000])
GROUPS = st.sampled_from([b"g", b"h", b"n" * 5_000, b"n" * 40_000])
# What two sizes of batches lie between.
SIZES = st.sampled_from([1, 100, 2_000, 20_000, 50_000, 70_000, 200_000])
IDS = st.lists(st.integers(1, 3_000), min_size=1, max_size=1_500)

REFERENCES = st.sampled_from([b"KEEPREF", b"DELREF", b"ACKED"])
# Payloads that expand to so many times the name of their fields.
EXPANDED = st.sampled_from([1, 20, 60, 185, 400])

Argv = list[bytes]


def added(key: bytes, size: int) -> Argv:
    return [b"XADD", key, b"*", b"f", b"v" * size]


def scattered(key: bytes, count: int) -> list[Argv]:
    return [[b"XADD", key, b"%d-1" % (1_000_000 + at), b"f", b"v"] for at in range(count)]


def removed(key: bytes, numbers: list[int], strategy: bytes) -> Argv:
    ids = [b"%d-1" % (1_000_000 + number) for number in dict.fromkeys(numbers)]
    return [b"XDELEX", key, strategy, b"IDS", b"%d" % len(ids), *ids]


def trimmed(command: bytes, key: bytes, keep: int, references: bytes) -> Argv:
    trim = [b"MAXLEN", b"=", b"%d" % keep, references]
    return [command, key, *trim, *([b"*", b"f", b"v"] if command == b"XADD" else [])]


ONE = st.one_of(
    st.builds(added, KEYS, SIZES),
    st.builds(removed, KEYS, IDS, REFERENCES),
    st.builds(lambda a, b, word: [word, a, b], KEYS, KEYS, st.sampled_from([b"RENAME", b"RENAMENX", b"COPY"])),
    st.builds(lambda key, to: [b"MOVE", key, to], KEYS, st.sampled_from([b"1", b"2"])),
    st.just([b"SWAPDB", b"0", b"1"]),
    st.just([b"FLUSHALL"]),
    st.builds(lambda keys: [b"DEL", *keys], st.lists(KEYS, min_size=1, max_size=6)),
    st.builds(trimmed, st.sampled_from([b"XADD", b"XTRIM"]), KEYS, st.integers(0, 500), REFERENCES),
    st.builds(lambda key, count: [b"RESTORE", key, b"0", expanding(count), b"REPLACE"], KEYS, EXPANDED),
    st.builds(lambda key, group: [b"XGROUP", b"CREATE", key, group, b"0", b"MKSTREAM"], KEYS, GROUPS),
    st.builds(lambda key, group: [b"XREADGROUP", b"GROUP", group, b"c", b"NOACK", b"STREAMS", key, b">"], KEYS, GROUPS),
    st.builds(lambda key, ms: [b"PEXPIRE", key, ms], KEYS, st.sampled_from([b"1", b"500", b"100000"])),
)
TURNS = st.one_of(
    st.lists(ONE, min_size=1, max_size=4),
    # A pipeline, scattered entries, a transaction.
    st.builds(lambda argv, count: [argv] * count, st.builds(added, KEYS, SIZES), st.integers(2, 12)),
    st.builds(scattered, KEYS, st.integers(100, 3_000)),
    st.builds(lambda queued: [[b"MULTI"], *queued, [b"EXEC"]], st.lists(ONE, min_size=1, max_size=8)),
)
STEPS = st.one_of(
    st.tuples(st.integers(1, REGIONS), TURNS),
    st.tuples(st.just(0), st.sampled_from(["sync", "tick", "cut", "heal", "restart"])),
)


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    return replace(
        WIDE,
        batch_bytes_max=draw(st.sampled_from([64 * KIB, 80 * KIB, 192 * KIB, 2 << 30])),
        message_bytes=draw(st.sampled_from([2 * KIB, 16 * KIB])),
        message_bytes_max=64 * KIB,
        window_bytes=draw(st.sampled_from([4 * KIB, 1 << 20])),
    )


def fault(cluster: Cluster, what: str, other: Limits) -> None:
    if what == "sync":
        cluster.sync()
    elif what == "tick":
        cluster.tick(700)
    elif what == "cut":
        cluster.cut(2, 3)
    elif what == "heal":
        cluster.heal(2, 3)
    else:
        cluster.machines[3].config = replace(cluster.machines[3].config, limits=other)
        cluster.restart(3)


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(limits(), min_size=REGIONS + 1, max_size=REGIONS + 1), st.lists(STEPS, min_size=1, max_size=12))
def test_whatever_a_region_accepts_every_member_can_apply(
    bounds: list[Limits], steps: list[tuple[int, object]]
) -> None:
    cluster = Cluster(REGIONS, LIBERAL, pairs=LINE, limits=dict(enumerate(bounds)))
    settle(cluster)
    closed = Closed()
    cluster.watch(closed)
    for number, step in steps:
        if isinstance(step, str):
            fault(cluster, step, bounds[0])
        else:
            assert isinstance(step, list)
            before = len(batch_sizes(cluster, number))
            reply = cluster.execute_turn(number, step) or b""
            budget = cluster.node(number).replica.budget
            sizes = batch_sizes(cluster, number)[before:]
            assert all(size <= budget.limit for size in sizes), "more than its own bound"
            event("refused" if b"batch_bytes_max" in reply else "accepted")
    cluster.heal(2, 3)
    settle(cluster)
    assert [reason for reason in closed.reasons if reason not in ("cut", "the peer restarted")] == []
    assert len({digest_replica(cluster.node(number).replica) for number in cluster.machines}) == 1
