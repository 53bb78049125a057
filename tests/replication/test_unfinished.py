"""Unfinished batches of several links are bounded together, in a region that has real sessions."""

from __future__ import annotations

from crdtstream.core.effects import Batch, GroupDestroyed
from crdtstream.protocols.codec import encode_batch
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.parts import write_name
from simulations.cluster import Cluster
from tests.replication.test_exchange import exchange_of, limited, said


def part_of(cluster: Cluster, last: int, size: int) -> wire.Part:
    """The first bytes of a batch that region 1 will make, but for the last byte."""
    vector = exchange_of(cluster, 1).view.replica.applied.vector
    slot = exchange_of(cluster, 1).view.replica.applied.slot
    payload = encode_batch(Batch(slot, last, last, vector.copy(), [GroupDestroyed((0, b"x" * size), b"g")]))
    return wire.Part(batch=write_name((slot, last, last, len(payload))), payload=payload[:-1])


def test_parts_that_arrive_are_bounded_over_all_links() -> None:
    cluster = limited(batch_bytes_max=1_000)
    other = wire.Message(part=part_of(cluster, 901, 600))
    cluster.node(2).receive(cluster.link(2, 3).number, other, cluster.now_ms)
    assert said(cluster, part=part_of(cluster, 901, 600)) == "", "one batch by two links takes its bytes once"
    assert said(cluster, part=part_of(cluster, 902, 600)) == "incomplete batches exceed batch_bytes_max = 1000 bytes"
    assert exchange_of(cluster, 2).greeted() == [3]


def test_parts_that_are_kept_are_bounded_and_count_with_what_waits() -> None:
    cluster = limited(inbox_bytes_max=2_000)
    assemblies = exchange_of(cluster, 2).view.assemblies
    for last in range(901, 905):
        assert said(cluster, part=part_of(cluster, last, 600)) == ""
    assert [row.batch.first for row in assemblies.rows()] == [901, 902, 903, 904]
    assert said(cluster, part=part_of(cluster, 905, 600)) == ""
    assert [row.batch.first for row in assemblies.rows()] == [902, 903, 904, 905]


def test_parts_are_kept_for_a_while_when_their_link_is_lost() -> None:
    cluster = limited(parts_keep_ms=5_000)
    assemblies = exchange_of(cluster, 2).view.assemblies
    assert said(cluster, part=part_of(cluster, 901, 600)) == ""
    cluster.live(20_000)
    assert assemblies.rows(), "its link is open"
    cluster.cut(1, 2)
    cluster.live(4_000)
    assert assemblies.rows()
    cluster.live(2_000)
    assert not assemblies.rows()
