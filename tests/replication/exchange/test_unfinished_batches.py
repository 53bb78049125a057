"""Unfinished batches of several links are bounded together, in a region that has real sessions."""

from __future__ import annotations

from crdtstream.core.effects import Batch, GroupDestroyed
from crdtstream.protocols.codec import encode_batch
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.parts import write_name
from crdtstream.replication.links.session import Session
from simulations.cluster import Cluster
from tests.replication.exchange.test_exchange import exchange_of, limited, said


def part_of(cluster: Cluster, last: int, size: int) -> wire.Part:
    """The first bytes of a batch that region 1 will make, but for the last byte."""
    vector = exchange_of(cluster, 1).view.replica.applied.vector
    origin = exchange_of(cluster, 1).view.replica.applied.origin
    payload = encode_batch(Batch(origin, last, last, vector.copy(), [GroupDestroyed((0, b"x" * size), b"g")]))
    return wire.Part(batch=write_name((origin, last, last, len(payload))), payload=payload[:-1])


def sessions(cluster: Cluster) -> tuple[Session, Session]:
    """Of region 2, with regions 1 and 3."""
    one, three = sorted(exchange_of(cluster, 2).sessions(), key=lambda session: session.peer_region)
    return one, three


def test_parts_that_arrive_are_bounded_over_all_links() -> None:
    cluster = limited(batch_bytes_max=1_000, message_bytes_max=600)
    other = wire.Message(part=part_of(cluster, 901, 600))
    cluster.node(2).receive(cluster.link(2, 3).number, other, cluster.now_ms)
    assert said(cluster, part=part_of(cluster, 901, 600)) == "", "one batch by two links takes its bytes once"
    for session in sessions(cluster):
        session.bounds.window_bytes = 99
    one, three = sessions(cluster)
    part = wire.Message(part=part_of(cluster, 902, 600))
    for _ in range(2):
        cluster.node(2).receive(cluster.link(2, 3).number, part, cluster.now_ms)
        assert three.is_open, "it may have brought so much before it had to wait"
    cluster.node(2).receive(cluster.link(2, 3).number, part, cluster.now_ms)
    assert three.reason == "incomplete batches exceed batch_bytes_max = 1000 bytes"
    assert one.is_open


def hear(cluster: Cluster, peer: int, part: wire.Part) -> int:
    """Let region 2 hear a part; return how many bytes count as consumed for it."""
    session = sessions(cluster)[peer == 3]
    before = session.intake.consumed_bytes
    cluster.node(2).receive(cluster.link(peer, 2).number, wire.Message(part=part), cluster.now_ms)
    cluster.check()
    assert session.is_open
    return session.intake.consumed_bytes - before


def test_of_links_that_bring_too_much_together_one_goes_on() -> None:
    cluster = limited(batch_bytes_max=1_000)
    one, three = sessions(cluster)
    part, other = part_of(cluster, 902, 600), part_of(cluster, 901, 600)
    size = len(part.payload)
    assert hear(cluster, 1, part) == hear(cluster, 3, other) == size, "then both are too much together"
    assert hear(cluster, 3, other) == 0, "its window closes, and its link stays"
    assert hear(cluster, 1, part) == size
    cluster.tick(0)
    assert hear(cluster, 3, other) == 0
    before = three.intake.consumed_bytes
    one.intake.drop_parts()
    cluster.tick(0)
    assert three.intake.consumed_bytes - before == 2 * size, "it goes on"


def test_while_memory_is_short_parts_stall_and_an_incomplete_batch_is_dropped_in_the_end() -> None:
    cluster = limited(parts_keep_ms=5_000)
    exchange, (one, _) = exchange_of(cluster, 2), sessions(cluster)
    part = part_of(cluster, 901, 600)
    assert hear(cluster, 1, part) == len(part.payload)
    for short, seconds in ((True, 4), (False, 2), (True, 4)):
        cluster.node(2).standing.memory_short = short
        for _ in range(seconds):
            cluster.tick(1_000)
            cluster.sync()
        assert hear(cluster, 1, part) == (0 if short else len(part.payload))
        assert exchange.view.assemblies.rows()
    for _ in range(3):
        cluster.tick(1_000)
        cluster.sync()
    assert not exchange.view.assemblies.rows() and not one.is_open
    assert one.reason == "there is no memory for a batch that arrives in parts"


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
