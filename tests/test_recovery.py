"""What a region still knows after its process or its machine died, on the simulated disk.

Under `always`, everything that was answered survives a power loss; the last test removes the sync and shows that the
first would notice. A killed process loses nothing that it appended, local state included, under every policy.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import Value, read_reply
from simulations.cluster import Cluster
from simulations.disk import SimulatedDisk
from tests.effort import examples
from tests.test_convergence import LIMITS, act, assert_agreement, settle, steps

LOCAL_VIEWS = (
    b"XINFO STREAM x FULL COUNT 0",
    b"XINFO GROUPS x",
    b"XPENDING x g",
    b"XPENDING x g - + 100",
    b"XPENDING x h - + 100",
    b"XINFO STREAM y FULL COUNT 0",
    b"PEXPIRETIME x",
    b"PEXPIRETIME y",
    b"KEYS *",
    b"CRDT.DIGEST",
)


VIEWER = 99


def view(cluster: Cluster, number: int) -> list[Value]:
    """By a client of its own: the other one may wait until the region is admitted."""
    cluster.machines[number].connect(VIEWER, cluster.now_ms)
    seen = [read_reply(cluster.execute(number, command.split(), VIEWER) or b"") for command in LOCAL_VIEWS]
    cluster.node(number).disconnect(VIEWER)
    return seen


def without_times(value: Value) -> Value:
    """Seen times are kept in memory only."""
    if not isinstance(value, list):
        return value
    plain: list[Value] = []
    for index, item in enumerate(value):
        after_name = index and value[index - 1] in ("seen-time", "active-time", "seen", "idle", "inactive")
        plain.append(0 if after_name else without_times(item))
    return plain


@settings(max_examples=examples(100), deadline=None)
@given(history=st.lists(steps, max_size=40), fsync=st.sampled_from(["always", "everysec", "no"]))
def test_a_killed_process_comes_back_as_it_was(history: list[tuple[str, int, object]], fsync: str) -> None:
    cluster = Cluster(3, STRICT, fsync, limits=LIMITS)
    for step in history:
        act(cluster, step)
    for number in cluster.machines:
        for a, b in cluster.pairs:
            cluster.cut(a, b)
        before = view(cluster, number)
        cluster.restart(number)
        after = view(cluster, number)
        cluster.check()
        assert without_times(after) == without_times(before)
    settle(cluster)
    assert_agreement(cluster)


def answered_entries(cluster: Cluster, adds: int, rng: Random) -> tuple[list[str], list[str]]:
    """Add entries under `always`, lose power: the IDs that were answered, and those that are there afterwards."""
    answered: list[str] = []
    for _ in range(adds):
        cluster.now_ms += rng.randrange(3)
        reply = cluster.execute(1, b"XADD x * f v".split())
        if reply is not None:
            answered.append(str(read_reply(reply)))
    cluster.lose_power(1, rng)
    entries = read_reply(cluster.execute(1, b"XRANGE x - +".split()) or b"")
    assert isinstance(entries, list)
    return answered, [str(entry[0]) for entry in entries if isinstance(entry, list)]


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), adds=st.integers(0, 30))
def test_always_keeps_what_was_answered(seed: int, adds: int) -> None:
    answered, kept = answered_entries(Cluster(1, STRICT, "always"), adds, Random(seed))
    assert kept[: len(answered)] == answered


def test_without_the_sync_answers_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that the test above can fail."""
    cluster = Cluster(1, STRICT, "always")
    monkeypatch.setattr(SimulatedDisk, "sync", lambda _self, _name: None)
    monkeypatch.setattr(SimulatedDisk, "sync_directory", lambda _self: None)
    answered = [cluster.execute(1, b"XADD x * f v".split()) for _ in range(20)]
    cluster.machines[1].disk.crash(Random(1), odds=0.0)  # whatever is drawn, nothing unsynced survives
    monkeypatch.undo()
    cluster.restart(1)
    kept = read_reply(cluster.execute(1, b"XRANGE x - +".split()) or b"")
    assert kept == [], "entries survived although nothing was synced"
    assert None not in answered


@settings(max_examples=examples(100), deadline=None)
@given(
    history=st.lists(steps, max_size=30),
    crashes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2**32)), min_size=1, max_size=4),
    fsync=st.sampled_from(["always", "everysec"]),
)
def test_power_losses_never_divide_the_regions(
    history: list[tuple[str, int, object]], crashes: list[tuple[int, int]], fsync: str
) -> None:
    """Whatever is lost, the regions agree afterwards, and nothing that a peer held is gone."""
    cluster = Cluster(3, STRICT, fsync, limits=LIMITS)
    size = max(1, len(history) // len(crashes))
    for index, (number, seed) in enumerate(crashes):
        for step in history[index * size : (index + 1) * size]:
            act(cluster, step)
        cluster.lose_power(number, Random(seed))
        cluster.check()
    settle(cluster)
    assert_agreement(cluster)
