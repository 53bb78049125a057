"""Regions that agree report nothing; of those that do not, both name the stream, the origin and the entry."""

from __future__ import annotations

import dataclasses

import pytest

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.audit.audit import Audit
from crdtstream.replication.values.remedy import REMEDY
from crdtstream.replication.values.wire_values import vector_rows
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster

LIMITS = Limits(segment_bytes_max=1 << 18, peer_timeout_ms=1 << 40, audit_interval_ms=1_000, audit_entries_max=50)
TICK_MS = 100


def cluster_of(regions: int = 2, **limits: int) -> Cluster:
    return Cluster(regions, STRICT, limits=dataclasses.replace(LIMITS, **limits))


def run(cluster: Cluster, number: int, text: str) -> object:
    return read_reply(cluster.execute(number, text.encode().split()) or b"")


def audit_of(cluster: Cluster, number: int) -> Audit:
    return cluster.node(number).exchange.audit


def notices(cluster: Cluster, number: int) -> list[str]:
    return [notice.text for notice in cluster.node(number).notices]


def stream_of(cluster: Cluster, number: int, name: bytes = b"x") -> Stream:
    return cluster.node(number).replica.keyspace.databases[0][name]


def pass_time(cluster: Cluster, ticks: int = 60) -> None:
    """Ticks, and all that is said between them."""
    for _ in range(ticks):
        cluster.tick(TICK_MS)
        cluster.sync()
    cluster.check()


def filled(regions: int = 2, **limits: int) -> Cluster:
    """Entries of two origins in several streams, a group with runs."""
    cluster = cluster_of(regions, **limits)
    for number in (1, 2):
        for index in range(40):
            cluster.now_ms += 1
            run(cluster, number, f"XADD x * f {index}")
            run(cluster, number, f"XADD y{index} * f {index}")
    cluster.sync()
    run(cluster, 1, "XGROUP CREATE x jobs 0")
    run(cluster, 1, "XREADGROUP GROUP jobs a COUNT 10 NOACK STREAMS x >")
    cluster.sync()
    return cluster


def test_regions_that_agree_report_nothing() -> None:
    cluster = filled(3)
    pass_time(cluster)
    for number in (1, 2, 3):
        audit = audit_of(cluster, number)
        assert (audit.rounds, audit.comparisons, audit.differences) == (1, 2, 0)
        assert audit.last_ms > 0
        assert notices(cluster, number) == []


def change_value(stream: Stream) -> None:
    """The seventh entry of region 1 has another value."""
    tree = stream.trees[1]
    changed = EntryTree()
    blocks, head, _ = tree.blocks()
    position = 0
    for block in blocks:
        for index in range(head, block.count):
            position += 1
            entry = block.entry(index)
            if position == 7:
                entry = encode_entry(block.id_at(index), [b"f", b"other"])
            changed.append(block.id_at(index), block.counter_at(index), entry)
        head = 0
    stream.trees[1] = changed
    stream.derive()


def seventh(cluster: Cluster) -> tuple[int, str]:
    block, *_ = stream_of(cluster, 1).trees[1].blocks()[0]
    assert isinstance(block, Block)
    ms, seq = block.id_at(6)
    return block.counter_at(6), f"{ms}-{seq}"


def test_a_value_that_differs_is_named() -> None:
    cluster = filled()
    change_value(stream_of(cluster, 2))
    counter, entry_id = seventh(cluster)
    pass_time(cluster)
    for number, other in ((1, 2), (2, 1)):
        assert audit_of(cluster, number).differences == 1
        assert notices(cluster, number) == [
            f"region region{number} and region region{other} hold different state at the same vector: key 'x', entries"
            f" of origin 1.0: {counter} {entry_id} differs; these are different effects under one dot, 1.0:{counter}:"
            f" two processes continued as that origin, because the memory of one was cloned. {REMEDY}"
        ]
        assert audit_of(cluster, number).shared_origins() == [1]


def test_an_entry_that_one_lacks_is_named() -> None:
    cluster = filled()
    counter, entry_id = seventh(cluster)
    stream = stream_of(cluster, 2)
    stream.trees[1].remove_counters(counter, counter)
    stream.derive()
    pass_time(cluster)
    for number in (1, 2):
        assert [text.partition("vector: ")[2] for text in notices(cluster, number)] == [
            f"key 'x', entries of origin 1.0: {counter} {entry_id} is in region region1 only. {REMEDY}"
        ]
        assert audit_of(cluster, number).shared_origins() == []


def drop_key(cluster: Cluster) -> None:
    del cluster.node(2).replica.keyspace.databases[0][b"y3"]
    cluster.node(2).replica.keyspace.orders[0].remove(b"y3")


def drop_group(cluster: Cluster) -> None:
    del stream_of(cluster, 2).groups[b"jobs"]


def add_runs(cluster: Cluster) -> None:
    group = stream_of(cluster, 2).groups[b"jobs"]
    [create] = group.creates.values()
    create.runs[1].add((1 << 40, 0), (1 << 40, 5))
    group.derive()


def raise_register(cluster: Cluster) -> None:
    stream = stream_of(cluster, 2)
    stream.metas[1].removed_counter, stream.metas[1].removed_id = 1, (1, 1)
    stream.derive()


def add_member(cluster: Cluster) -> None:
    cluster.node(2).replica.applied.members.apply_joined((1, 1), 3)


@pytest.mark.parametrize(
    ("break_it", "found"),
    [
        (drop_key, "key 'y3': all of it is in region region1 only"),
        (drop_group, "key 'x', group jobs: runs of origin 1.0"),
        (add_runs, "key 'x', group jobs: runs of origin 1.0 under its create"),
        (raise_register, "key 'x': max-deleted-entry-id differs"),
        (add_member, "table of members: 1 of origin 3, 1:1 is in region region2 only"),
    ],
    ids=["a key", "a group", "runs", "a register", "a member"],
)
def test_whatever_differs_is_named_by_both(break_it: object, found: str) -> None:
    cluster = filled()
    assert callable(break_it)
    break_it(cluster)
    pass_time(cluster)
    for number in (1, 2):
        assert audit_of(cluster, number).differences == 1
        assert any(found in text for text in notices(cluster, number)), notices(cluster, number)


def test_nothing_is_looked_at_while_the_vector_moves() -> None:
    cluster = filled()
    for _ in range(30):
        run(cluster, 1, "XADD x * f v")
        cluster.tick(TICK_MS)
        cluster.sync()
    assert [audit_of(cluster, number).rounds for number in (1, 2)] == [0, 0]
    pass_time(cluster)
    assert [audit_of(cluster, number).comparisons for number in (1, 2)] == [1, 1]


def test_a_vector_that_moves_ends_a_round_and_the_next_one_waits() -> None:
    cluster = filled(audit_entries_max=1)
    pass_time(cluster, 3)
    assert audit_of(cluster, 1).tree is not None
    run(cluster, 1, "XADD x * f v")
    pass_time(cluster, 10)
    assert audit_of(cluster, 1).tree is None
    pass_time(cluster, 5)
    assert audit_of(cluster, 1).tree is not None
    pass_time(cluster, 300)
    assert [audit_of(cluster, number).comparisons for number in (1, 2)] == [1, 1]


def test_one_vector_is_looked_at_once() -> None:
    cluster = filled()
    pass_time(cluster, 200)
    assert audit_of(cluster, 1).rounds == 1
    run(cluster, 1, "XADD x * f v")
    pass_time(cluster, 200)
    assert audit_of(cluster, 1).rounds == 2
    assert audit_of(cluster, 2).comparisons == 2


def test_a_region_that_links_later_is_told() -> None:
    cluster = filled(3)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    pass_time(cluster)
    assert audit_of(cluster, 3).rounds == 0
    cluster.heal(1, 3)
    cluster.heal(2, 3)
    pass_time(cluster)
    assert [audit_of(cluster, number).comparisons for number in (1, 2, 3)] == [2, 2, 2]


def test_over_a_new_link_all_is_told_again() -> None:
    """What the old one carried may be lost, also where it was closed and opened between two ticks."""
    cluster = filled()
    while audit_of(cluster, 2)._comparisons == {}:
        cluster.tick(TICK_MS)
        for sender, receiver in ((1, 2), (2, 1)):
            cluster.send(sender, receiver)
    cluster.cut(1, 2)
    cluster.heal(1, 2)
    pass_time(cluster)
    assert [audit_of(cluster, number).comparisons for number in (1, 2)] == [1, 1]


def test_zero_means_no_audit() -> None:
    cluster = filled(audit_interval_ms=0)
    pass_time(cluster)
    assert [audit_of(cluster, number).rounds for number in (1, 2)] == [0, 0]


def until_it_differs(cluster: Cluster) -> None:
    for _ in range(100):
        cluster.tick(TICK_MS)
        for sender, receiver in ((1, 2), (2, 1)):
            cluster.carry_one(sender, receiver)
            if audit_of(cluster, 1).differences:
                return
    raise AssertionError("no difference was seen")


@pytest.mark.parametrize("ending", ["link", "vector"])
def test_what_ends_before_it_is_found_is_told_too(ending: str) -> None:
    cluster = filled()
    change_value(stream_of(cluster, 2))
    until_it_differs(cluster)
    if ending == "link":
        cluster.cut(1, 2)
    else:
        run(cluster, 1, "XADD y0 * f v")
    cluster.tick(TICK_MS)
    assert len(notices(cluster, 1)) == 1
    assert "before the difference was located" in notices(cluster, 1)[0]
    cluster.heal(1, 2)
    run(cluster, 1, "XADD y0 * f v")
    pass_time(cluster)
    assert "entries of origin 1.0" in notices(cluster, 1)[-1]


def heard(cluster: Cluster, audit: wire.Audit) -> str | None:
    """What becomes of the link when region 2 says that."""
    link = cluster.link(1, 2)
    audit.vector.extend(vector_rows(cluster.node(1).replica.applied.vector))
    cluster.node(1).receive(link.number, wire.Message(audit=audit), cluster.now_ms)
    cluster.node(1).outgoing(link.number, 1 << 20, cluster.now_ms)
    return cluster.node(1).link_verdict(link.number)


@pytest.mark.parametrize(
    "scope",
    [
        [b"strange"],
        [b"keys", b""],
        [b"keys", b"\xff"],
        [b"keys", b"\0", b"\0", b"\0", b"short"],
        [b"keys", b"\0", b"\0", b"\0", bytes(8), b"entries of origin 9.9"],
        [b"members", b"more"],
    ],
)
def test_scopes_that_there_cannot_be_are_passed_by(scope: list[bytes]) -> None:
    cluster = filled()
    pass_time(cluster)
    assert heard(cluster, wire.Audit(scope=scope, labels=[], sums=[])) is None
    pass_time(cluster, 3)


@pytest.mark.parametrize("interval", [b"", b"9..1", b"1..99999999999999999999999", b"x..y", b"1..18446744073709551615"])
def test_intervals_that_there_cannot_be_are_passed_by(interval: bytes) -> None:
    cluster = filled()
    pass_time(cluster)
    tree = audit_of(cluster, 1).tree
    assert tree is not None
    scope = tree.scope_of((0, b"x"))
    assert heard(cluster, wire.Audit(scope=[*scope, b"entries of origin 1.0", interval], labels=[], sums=[])) is None


def test_labels_without_sums_end_the_link() -> None:
    cluster = filled()
    pass_time(cluster)
    assert "cannot read" in str(heard(cluster, wire.Audit(scope=[], labels=[b"keys"], sums=[])))


def test_a_large_stream_is_looked_at_in_slices() -> None:
    cluster = cluster_of(audit_entries_max=300)
    for _ in range(100):
        cluster.execute_turn(1, [b"XADD x * f v".split()] * 50)
    cluster.sync()
    pass_time(cluster, 10)
    assert audit_of(cluster, 1).rounds == 0
    pass_time(cluster, 30)
    assert audit_of(cluster, 1).comparisons == 1
