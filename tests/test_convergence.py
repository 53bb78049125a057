"""Random commands in random regions, over links that are cut and healed: afterwards all regions agree.

Hypothesis draws the history. Whatever it is, once everything has moved, every region has the same digest, the same
entries and the same groups, and every structure passes its own check after each step.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.core.digest import digest_replica
from crdtstream.core.values.entry_id import LIBERAL, SEMI_STRICT, STRICT
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from tests.effort import examples

REGIONS = 3
WAIT_MS = 12
LIMITS = Limits(expiry_takeover_ms=15, heartbeat_ms=10, peer_timeout_ms=1_000)
ROUNDS = 20
KEYS = ("x", "y")
LOCAL_FIELDS = ("radix-tree-", "pids-", "iids-")
GROUPS = ("g", "h")

keys = st.sampled_from(KEYS)
consumers = st.sampled_from(["a", "b"])
groups = st.sampled_from(GROUPS)
times = st.sampled_from(["8", "15", "30", "60", "1000"])
ids = st.sampled_from(["100", "101", "100-1", "100-2", "100-3", "101-1", "101-2", "100-65537"])


def line(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[list[bytes]]:
    drawn = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*drawn).map(lambda words: " ".join(words).encode().split())


commands = st.one_of(
    line("XADD", keys, st.sampled_from(["*", "100", "101", "102", "5"]), "f v"),
    line("XADD", keys, "MAXLEN", st.sampled_from(["1", "2"]), "* f w"),
    line("XADD", keys, "* f v"),
    line("XADD", keys, "IDMP p", st.sampled_from(["1", "2"]), "* f v"),
    line("XADD", keys, "IDMP p", st.sampled_from(["1", "2"]), "* f v"),
    line("XDEL", keys, ids, ids),
    line("XTRIM", keys, "MAXLEN", st.sampled_from(["0", "1", "2"])),
    line("XTRIM", keys, "MINID", ids),
    line("DEL", keys),
    line("FLUSHALL"),
    line("PEXPIREAT", keys, times, st.sampled_from(["", "", "NX", "GT", "LT"])),
    line("EXPIREAT", keys, "1"),
    line("PERSIST", keys),
    line("RENAME", keys, keys),
    line("COPY", keys, keys, st.sampled_from(["", "REPLACE"])),
    line("XSETID", keys, st.sampled_from(["200-1", "300-5 ENTRIESADDED 7 MAXDELETEDID 2-1", "400-1 ENTRIESADDED 50"])),
    line("XGROUP CREATE", keys, groups, st.sampled_from(["0", "$", "100-1"]), "MKSTREAM"),
    line("XGROUP DESTROY", keys, groups),
    line("XGROUP SETID", keys, groups, st.sampled_from(["0", "$", "100-1"])),
    line("XGROUP DELCONSUMER", keys, groups, consumers),
    line("XREADGROUP GROUP", groups, consumers, st.sampled_from(["", "COUNT 1"]), "STREAMS", keys, ">"),
    line("XREADGROUP GROUP", groups, "a NOACK COUNT 1 STREAMS", keys, ">"),
    line("XACK", keys, groups, ids, ids),
    line("XCLAIM", keys, groups, "b 0", ids, st.sampled_from(["", "FORCE", "LASTID 101-1"])),
    line("XAUTOCLAIM", keys, groups, "b 0 0"),
)

regions = st.integers(1, REGIONS)
steps = st.one_of(
    st.tuples(st.just("run"), regions, commands),
    st.tuples(st.just("run"), regions, commands),
    st.tuples(st.just("run"), regions, commands),
    st.tuples(st.just("wait"), regions, regions),
    st.tuples(st.just("carry"), regions, regions),
    st.tuples(st.just("cut"), regions, regions),
    st.tuples(st.just("heal"), regions, regions),
    st.tuples(st.just("restart"), regions, regions),
    st.tuples(st.just("sync"), regions, regions),
)


def act(cluster: Cluster, step: tuple[str, int, object]) -> None:
    kind, region, rest = step
    cluster.now_ms += 1
    if kind == "run":
        assert isinstance(rest, list)
        cluster.execute(region, rest)
    elif kind == "wait":
        cluster.tick(WAIT_MS)
    elif kind == "sync":
        cluster.sync()
    elif kind == "restart":
        cluster.restart(region)
    else:
        assert isinstance(rest, int)
        if region != rest and (min(region, rest), max(region, rest)) in cluster.links:
            getattr(cluster, kind)(region, rest)


def settle(cluster: Cluster) -> None:
    for a, b in cluster.pairs:
        cluster.heal(a, b)
    admit_all(cluster)
    cluster.sync()
    cluster.check()
    assert len({digest_replica(cluster.node(number).replica) for number in cluster.machines}) == 1
    # Owners delete what has expired, so that no command has to while regions are compared.
    cluster.tick(0)
    cluster.sync()
    cluster.check()
    for region in cluster.machines.values():
        region.pop_reply()


def admit_all(cluster: Cluster) -> None:
    """Commands that wait for that are answered, and those behind them."""
    for _ in range(ROUNDS):
        cluster.sync()
        if all(region.node.membership.admitted for region in cluster.machines.values()):
            return
        for region in cluster.machines.values():
            region.sync()
        cluster.sync()
        cluster.tick(WAIT_MS)
    raise AssertionError("a region is never admitted")


def views(cluster: Cluster, command: list[bytes]) -> list[object]:
    return [read_reply(cluster.execute(number, command) or b"") for number in cluster.machines]


def assert_agreement(cluster: Cluster) -> None:
    for command in ([b"CRDT.DIGEST"], *([b"XRANGE", key.encode(), b"-", b"+"] for key in KEYS)):
        first, *others = views(cluster, command)
        for other in others:
            assert other == first, command
    for key in KEYS:
        expiries = views(cluster, [b"PEXPIRETIME", key.encode()])
        assert all(expiry == expiries[0] for expiry in expiries), expiries
        infos = [without_layout(info) for info in views(cluster, [b"XINFO", b"STREAM", key.encode()])]
        assert all(info == infos[0] for info in infos), infos


def without_layout(info: object) -> object:
    """XINFO STREAM but for how entries lie in blocks, since after a start a block is never the one that is written to,
    and for the records of producers that each region counts for itself.
    """
    if not isinstance(info, list):
        return info
    fields = dict(zip(info[::2], map(str, info[1::2]), strict=True))
    return {name: value for name, value in fields.items() if not str(name).startswith(LOCAL_FIELDS)}


@settings(max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    history=st.lists(steps, max_size=40),
    mode=st.sampled_from([STRICT, SEMI_STRICT, LIBERAL]),
    topology=st.sampled_from([None, [(1, 2), (2, 3)]]),
)
def test_all_regions_agree(
    history: list[tuple[str, int, object]], mode: str, topology: list[tuple[int, int]] | None
) -> None:
    cluster = Cluster(REGIONS, mode, pairs=topology, limits=LIMITS)
    for step in history:
        act(cluster, step)
        cluster.check()
    settle(cluster)
    assert_agreement(cluster)


def test_the_test_sees_a_difference() -> None:
    """A region whose stream lost an entry behind everyone's back does not agree."""
    cluster = Cluster(2, STRICT)
    cluster.execute(1, b"XADD x * f v".split())
    settle(cluster)
    assert_agreement(cluster)
    stream = cluster.node(2).replica.keyspace.find((0, b"x"))
    assert stream is not None
    stream.trees[1].remove_through(1 << 60)
    stream.derive()
    try:
        assert_agreement(cluster)
    except AssertionError:
        return
    raise AssertionError("two different regions agreed")
