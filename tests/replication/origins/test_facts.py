"""What regions say of themselves: which fact stays, and who knows those that it never met."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.protocols import codec
from crdtstream.replication.origins.facts import RegionFacts, address_at
from simulations.cluster import Cluster

HEARD = st.tuples(st.integers(2, 3), st.integers(0, 2), st.sampled_from(["", "a", "b"]))


@given(st.lists(HEARD, max_size=6).flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))))
def test_regions_agree_whatever_the_order(
    orders: tuple[list[tuple[int, int, str]], list[tuple[int, int, str]]],
) -> None:
    one, other = RegionFacts(""), RegionFacts("")
    for names, rows in zip((one, other), orders, strict=True):
        for row in rows:
            names.record(*row)
            names.record(*row)
    assert one.rows() == other.rows()


def test_the_newest_name_stays_and_only_another_one_is_news() -> None:
    names = RegionFacts("")
    assert names.of(2) == "" and not names.record(2, 5, "")
    assert names.record(2, 1, "west") and not names.record(2, 1, "west")
    assert not names.record(2, 2, "west"), "the same name, of the next origin"
    assert not names.record(2, 1, "zenith"), "told late"
    assert names.record(2, 3, "far west") and names.of(2) == "far west"
    assert names.rows() == [(2, 3, "far west")]


def test_the_record_of_a_name() -> None:
    assert codec.decode_named(codec.encode_named(7, 2, "wést")) == (7, 2, "wést")


def test_the_record_of_addresses() -> None:
    addresses = (("http", "wést.example:8080"), ("redis", "[::1]:6379"))
    assert codec.decode_announced(codec.encode_announced(7, 2, addresses)) == (7, 2, addresses)
    assert codec.decode_announced(codec.encode_announced(7, 2, ())) == (7, 2, ())
    assert address_at(addresses, "redis") == "[::1]:6379" and address_at(addresses, "bulk") == ""


@pytest.mark.parametrize("row", [(7, 2, [b"redis"]), (7, 2, b"redis"), (7, 2, [1, 2]), (7, -1, [])])
def test_addresses_that_are_no_pairs_are_refused(row: object) -> None:
    with pytest.raises(codec.CodecError):
        codec.decode_announced(msgpack.packb(row))


def ask(cluster: Cluster, number: int, line: str) -> bytes:
    reply = cluster.execute(number, line.encode().split())
    assert reply is not None
    return reply


def formed(regions: int) -> Cluster:
    cluster = Cluster(regions, LIBERAL)
    for number in range(1, regions + 1):
        ask(cluster, number, "XADD s * f v")
    for _ in range(3):
        cluster.tick(1000)
        cluster.sync()
    return cluster


def restarted(cluster: Cluster) -> None:
    cluster.restart(1)


def restarted_behind_a_checkpoint(cluster: Cluster) -> None:
    cluster.machines[1].checkpoint()
    cluster.restart(1)
    cluster.machines[1].checkpoint()
    cluster.restart(1)


@pytest.mark.parametrize("start", [restarted, restarted_behind_a_checkpoint])
def test_a_region_that_starts_while_the_other_is_gone_knows_its_name(start: Callable[[Cluster], None]) -> None:
    cluster = formed(2)
    cluster.stop(2)
    start(cluster)
    for _ in range(3):
        cluster.tick(1000)
    assert b"$4\r\nname\r\n$7\r\nregion2\r\n" in ask(cluster, 1, "CRDT.MEMBERS")
    assert b"name:region2," in ask(cluster, 1, "INFO replication").replace(b"=", b":")
    assert ask(cluster, 1, "CRDT.EVICT region2").startswith(b"*")
    assert ask(cluster, 1, "CRDT.EVICT region2") == b"-ERR region2 is already evicted\r\n"


@pytest.mark.parametrize("start", [restarted, restarted_behind_a_checkpoint])
def test_addresses_are_known_through_others_and_after_a_start(start: Callable[[Cluster], None]) -> None:
    cluster = Cluster(3, LIBERAL)
    cluster.cut(1, 3)
    cluster.machines[3].node.birth.announce((("redis", "far.example:6379"),))
    for number in (1, 2, 3):
        ask(cluster, number, "XADD s * f v")
    for _ in range(4):
        cluster.tick(1000)
        cluster.sync()
    told = b"$13\r\nredis-address\r\n$16\r\nfar.example:6379\r\n"
    assert ask(cluster, 1, "CRDT.REGIONS").count(told) == 1
    assert ask(cluster, 3, "CRDT.REGIONS").count(told) == 1, "its own row has it too"
    cluster.stop(2)
    cluster.stop(3)
    start(cluster)
    assert ask(cluster, 1, "CRDT.REGIONS").count(told) == 1


@pytest.mark.parametrize("start", [restarted, restarted_behind_a_checkpoint])
def test_what_a_member_reads_is_known_through_others_and_after_a_start(start: Callable[[Cluster], None]) -> None:
    cluster = Cluster(3, LIBERAL)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    cluster.machines[3].node.birth.reads_format = codec.FORMAT_VERSION + 1
    cluster.heal(2, 3)
    for _ in range(4):
        cluster.tick(1000)
        cluster.sync()
    birth = cluster.machines[1].node.birth
    known = {1: codec.FORMAT_VERSION, 2: codec.FORMAT_VERSION, 3: codec.FORMAT_VERSION + 1, 4: codec.OLDEST_SENT}
    assert {region: birth.format_of(region) for region in known} == known
    assert f"reads-format\r\n:{codec.FORMAT_VERSION + 1}\r\n".encode() in ask(cluster, 1, "CRDT.MEMBERS")
    cluster.stop(2)
    cluster.stop(3)
    start(cluster)
    birth = cluster.machines[1].node.birth
    assert {region: birth.format_of(region) for region in known} == known


def test_a_region_that_returns_with_the_release_before_reads_less_again() -> None:
    cluster = formed(2)
    for reads in (codec.FORMAT_VERSION + 1, codec.FORMAT_VERSION - 1):
        cluster.cut(1, 2)
        cluster.restart(2)
        cluster.machines[2].node.birth.reads_format = reads
        cluster.heal(1, 2)
        for _ in range(3):
            cluster.tick(1000)
            cluster.sync()
        assert cluster.machines[1].node.birth.format_of(2) == reads


@pytest.mark.parametrize("row", [(7, 2), (7, -1, 3), (7, 2, b"3")])
def test_formats_that_are_no_numbers_are_refused(row: object) -> None:
    assert codec.decode_readable(codec.encode_readable(7, 2, 3)) == (7, 2, 3)
    with pytest.raises(codec.CodecError):
        codec.decode_readable(msgpack.packb(row))


def test_a_region_knows_the_name_of_one_that_it_never_met() -> None:
    cluster = Cluster(3, LIBERAL)
    cluster.cut(1, 3)
    for number in (1, 2, 3):
        ask(cluster, number, "XADD s * f v")
    for _ in range(4):
        cluster.tick(1000)
        cluster.sync()
    assert b"$4\r\nname\r\n$7\r\nregion3\r\n" in ask(cluster, 1, "CRDT.MEMBERS")
    cluster.stop(3)
    assert ask(cluster, 1, "CRDT.EVICT region3").startswith(b"*")
