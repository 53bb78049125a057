"""The checker of what a client reads by cursor: what it passes, and what it names."""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster
from simulations.cursor_checkers import READ_EVERY, ReadsEachOnce
from simulations.history import Violation
from simulations.workload import KEYS

KEY = KEYS[0]


@pytest.fixture
def checker() -> ReadsEachOnce:
    return ReadsEachOnce()


@pytest.fixture
def cluster(checker: ReadsEachOnce) -> Cluster:
    """Two regions, in which a reader moves, that have some entries."""
    made = Cluster(2, STRICT, checked=("cursor reads",))
    made.watch(checker)
    for number in [1, 2] * READ_EVERY:
        made.execute(number, [b"XADD", KEY, b"*", b"f", b"v"])
        made.sync()
    return made


def test_a_reader_that_gets_each_entry_once(checker: ReadsEachOnce, cluster: Cluster) -> None:
    checker.read(cluster, 1, KEY, b"3")
    cluster.execute(1, [b"XTRIM", KEY, b"MAXLEN", b"2"])
    checker.read(cluster, 2, KEY, b"0")
    checker.at_end(cluster)


def test_an_entry_that_comes_again(checker: ReadsEachOnce, cluster: Cluster) -> None:
    checker.read(cluster, 1, KEY, b"0")
    checker.go_on(KEY, b"0")
    with pytest.raises(Violation, match=r"cursor reads: region 2, b'x': \[.*\] again"):
        checker.read(cluster, 2, KEY, b"0")


def test_an_entry_that_was_left_out(checker: ReadsEachOnce, cluster: Cluster) -> None:
    reply = cluster.ask(1, b"CRDT.XREAD", b"STREAMS", KEY, b"+")
    checker.go_on(KEY, reply.split(b"\r\n")[-2])
    with pytest.raises(Violation, match=r"cursor reads: b'x': \[.*\] were never read"):
        checker.at_end(cluster)


def test_a_cursor_that_passes_more_than_the_reply_has(checker: ReadsEachOnce, cluster: Cluster) -> None:
    with pytest.raises(Violation, match="cursor reads: region 1, b'x': 1 entries, and the cursor passes 2"):
        checker.record(cluster, 1, KEY, {(1, 1), (1, 2)}, 1)
