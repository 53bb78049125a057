"""Properties of groups in clusters: what a SET changes in all regions, and which regions it waits for."""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.protocols.codec import FORMAT_VERSION
from crdtstream.replication.links.greeting import Versions
from simulations.cluster import Cluster
from tests.group_delivery import assert_refused, say
from tests.state_transfers import LIMITS, assert_equal, cut_log, settle

OLD = FORMAT_VERSION - 1


def formed(regions: int = 2) -> Cluster:
    """Entries 1-1 to 6-1 in every region, and an exact group."""
    cluster = Cluster(regions, LIBERAL, limits=LIMITS)
    settle(cluster)
    for number in range(1, 7):
        say(cluster, 1, f"XADD s {number}-1 f v")
    assert say(cluster, 1, "XGROUP CREATE s g 0 CRDT ACKNOWLEDGE EXACT") == b"+OK\r\n"
    cluster.sync()
    return cluster


def read(cluster: Cluster, number: int, count: int = 100) -> list[str]:
    """The IDs that a consumer gets, in that region."""
    reply = say(cluster, number, f"XREADGROUP GROUP g c COUNT {count} STREAMS s >")
    return [word.decode() for word in reply.split(b"\r\n") if word.endswith(b"-1") and word[:1].isdigit()]


def test_each_acknowledgement_is_told_at_once() -> None:
    cluster = formed()
    assert len(read(cluster, 1)) == 6
    assert say(cluster, 1, "XACK s g 2-1 4-1 6-1") == b":3\r\n"
    cluster.sync()
    assert read(cluster, 2) == ["1-1", "3-1", "5-1"]
    assert_equal(cluster)


def test_a_consumer_acknowledges_where_it_moved_to() -> None:
    cluster = formed()
    assert len(read(cluster, 1)) == 6
    assert say(cluster, 2, "XACK s g 3-1 5-1 9-9") == b":2\r\n"
    assert say(cluster, 2, "XACK s g 3-1") == b":0\r\n", "once"
    assert say(cluster, 2, "XACKDEL s g IDS 2 1-1 9-9") == b"*2\r\n:1\r\n:-1\r\n"
    cluster.sync()
    assert b"3-1" not in say(cluster, 1, "XPENDING s g - + 10")
    assert read(cluster, 2) == ["2-1", "4-1", "6-1"]
    assert_equal(cluster)


def test_contiguous_groups_go_on_as_before() -> None:
    cluster = formed()
    assert say(cluster, 2, "CRDT.GROUP SET s g ACKNOWLEDGE contiguous") == b"+OK\r\n"
    cluster.sync()
    read(cluster, 1)
    assert say(cluster, 1, "XACK s g 2-1") == b":1\r\n"
    assert say(cluster, 2, "XACK s g 3-1") == b":0\r\n"
    cluster.sync()
    assert len(read(cluster, 2)) == 6


def mode(cluster: Cluster, number: int, key: str = "s") -> bytes:
    return say(cluster, number, f"CRDT.GROUP GET {key} g").split(b"\r\n")[4]


def test_concurrent_sets_choose_one_value_and_later_ones_replace_it() -> None:
    cluster = formed()
    cluster.cut(1, 2)
    say(cluster, 1, "CRDT.GROUP SET s g ACKNOWLEDGE CONTIGUOUS")
    say(cluster, 2, "CRDT.GROUP SET s g ACKNOWLEDGE EXACT")
    cluster.heal(1, 2)
    cluster.sync()
    assert mode(cluster, 1) == mode(cluster, 2) == b"exact"
    say(cluster, 1, "CRDT.GROUP SET s g ACKNOWLEDGE CONTIGUOUS")
    cluster.sync()
    assert mode(cluster, 1) == mode(cluster, 2) == b"contiguous"
    assert_equal(cluster)


def test_properties_end_with_the_group() -> None:
    cluster = formed()
    say(cluster, 1, "XGROUP DESTROY s g")
    say(cluster, 1, "XGROUP CREATE s g 0")
    cluster.sync()
    assert mode(cluster, 1) == mode(cluster, 2) == b"contiguous"


def test_copies_keep_properties() -> None:
    cluster = formed()
    say(cluster, 2, "COPY s t")
    cluster.sync()
    assert mode(cluster, 1, "t") == mode(cluster, 2, "t") == b"exact"
    assert_equal(cluster)


def test_properties_survive_restarts_and_state_transfers() -> None:
    cluster = formed()
    cluster.restart(2)
    assert mode(cluster, 2) == b"exact"
    cluster.cut(1, 2)
    say(cluster, 1, "CRDT.GROUP SET s g ACKNOWLEDGE CONTIGUOUS")
    cut_log(cluster, 1)
    settle(cluster)
    assert mode(cluster, 2) == b"contiguous"
    assert cluster.node(2).replica.applied.format_version == FORMAT_VERSION
    assert_equal(cluster)
    cluster.restart(1)
    assert cluster.node(1).replica.applied.format_version == FORMAT_VERSION, "a checkpoint says it"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("CRDT.GROUP SET s g COLOUR RED", "ERR unknown property 'COLOUR' of a group: use ACKNOWLEDGE"),
        ("CRDT.GROUP SET s g ACKNOWLEDGE", "ERR wrong number of arguments"),
        ("CRDT.GROUP SET s g ACKNOWLEDGE maybe", "ERR property ACKNOWLEDGE takes CONTIGUOUS or EXACT"),
        ("CRDT.GROUP SET s g ACKNOWLEDGE EXACT ACKNOWLEDGE EXACT", "ERR ACKNOWLEDGE is given twice"),
        ("CRDT.GROUP SET s none ACKNOWLEDGE EXACT", "NOGROUP"),
        ("CRDT.GROUP GET none g", "ERR The XGROUP subcommand requires the key to exist"),
        ("XGROUP CREATE s h 0 CRDT", "ERR name at least one property: ACKNOWLEDGE"),
        ("XGROUP CREATE s h 0 CRDT ACKNOWLEDGE", "ERR property ACKNOWLEDGE takes CONTIGUOUS or EXACT"),
    ],
)
def test_bad_input_changes_nothing(line: str, text: str) -> None:
    assert_refused(formed(), line, text)


# Formats


def older(cluster: Cluster, number: int) -> None:
    """Make a region one of the release before."""
    node = cluster.node(number)
    node.birth.reads_format = OLD
    node.exchange.view.versions = Versions(format=(OLD, OLD))


def away(cluster: Cluster, number: int) -> None:
    for other in {1, 2, 3} - {number}:
        cluster.cut(other, number)


def back_older(cluster: Cluster, number: int) -> None:
    """The region returns with the release before."""
    cluster.restart(number)
    older(cluster, number)
    for other in {1, 2, 3} - {number}:
        cluster.heal(other, number)


def with_an_old_region() -> Cluster:
    cluster = Cluster(3, LIBERAL, limits=LIMITS)
    settle(cluster)
    away(cluster, 3)
    back_older(cluster, 3)
    settle(cluster)
    say(cluster, 1, "XGROUP CREATE s g 0 MKSTREAM")
    cluster.sync()
    return cluster


@pytest.mark.parametrize("line", ["CRDT.GROUP SET s g ACKNOWLEDGE EXACT", "XGROUP CREATE s h 0 CRDT ACKNOWLEDGE EXACT"])
@pytest.mark.parametrize("is_cut", [False, True], ids=["linked", "cut"])
def test_a_region_of_the_release_before_is_named_and_nothing_is_lost(line: str, is_cut: bool) -> None:
    cluster = with_an_old_region()
    if is_cut:
        away(cluster, 3)
    refusal = b"-ERR region region3 (3) cannot read properties of groups, because its release is older"
    assert say(cluster, 1, line).startswith(refusal)
    say(cluster, 2, "XADD s 1-1 f v")
    settle(cluster)
    assert_equal(cluster)


def test_a_region_that_comes_back_older_is_refused() -> None:
    cluster = Cluster(3, LIBERAL, limits=LIMITS)
    say(cluster, 1, "XGROUP CREATE s g 0 MKSTREAM")
    settle(cluster)
    away(cluster, 3)
    assert say(cluster, 1, "CRDT.GROUP SET s g ACKNOWLEDGE EXACT") == b"+OK\r\n"
    cluster.sync()
    back_older(cluster, 3)
    cluster.sync()
    assert cluster.node(1).exchange.greeted() == [2]
    assert cluster.node(2).exchange.greeted() == [1]
    say(cluster, 1, "XADD s 7-1 f v")
    cluster.sync(1, 2)
    assert say(cluster, 2, "XLEN s") == b":1\r\n"


def test_a_region_that_does_not_count_is_refused_once_the_cluster_needs_more() -> None:
    """It was evicted, and is linked all the same."""
    cluster = with_an_old_region()
    say(cluster, 1, "CRDT.EVICT region3 FORCE")
    cluster.sync(1, 2)
    away(cluster, 3)
    assert say(cluster, 2, "CRDT.GROUP SET s g ACKNOWLEDGE EXACT") == b"+OK\r\n"
    cluster.heal(1, 3)
    cluster.sync()
    assert cluster.node(1).exchange.greeted() == [2]
