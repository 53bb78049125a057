"""Documents: by kind and name, the last writer wins; a region without room still takes changes of known ones."""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.partitions.documents import Documents
from crdtstream.partitions.refusing import FULL_DISK
from crdtstream.partitions.values import Refused
from simulations.cluster import Cluster

KIND = "stream-pools"


def cluster_of(regions: int = 1) -> Cluster:
    cluster = Cluster(regions, STRICT)
    cluster.live(2_000)
    return cluster


def documents(cluster: Cluster, number: int = 1) -> Documents:
    """The documents of that region, at its present time."""
    node = cluster.node(number)
    node.begin_slice(cluster.clock_ms(number))
    return node.partitions.documents


def test_what_is_written_is_found_by_kind_and_name() -> None:
    written = documents(cluster_of())
    assert written.by_name(KIND) == {}
    written.write(KIND, "a", b"1")
    written.write(KIND, "ä", b"2")
    written.write("connect-harnesses", "a", b"3")
    assert written.by_name(KIND) == {"a": b"1", "ä": b"2"}
    assert written.by_name("connect-harnesses") == {"a": b"3"}


def test_a_document_is_replaced_and_deleted() -> None:
    written = documents(cluster_of())
    written.write(KIND, "a", b"1")
    written.write(KIND, "a", b"2")
    written.write(KIND, "b", b"3")
    assert written.by_name(KIND) == {"a": b"2", "b": b"3"}
    written.write(KIND, "a", None)
    written.write(KIND, "never written", None)
    assert written.by_name(KIND) == {"b": b"3"}
    written.write(KIND, "a", b"4")
    assert written.by_name(KIND) == {"a": b"4", "b": b"3"}


def test_a_document_is_read_in_another_region_and_after_a_restart() -> None:
    cluster = cluster_of(2)
    documents(cluster).write(KIND, "a", b"1")
    documents(cluster).write(KIND, "b", b"2")
    cluster.turn(1)
    cluster.sync()
    assert documents(cluster, 2).by_name(KIND) == {"a": b"1", "b": b"2"}
    documents(cluster, 2).write(KIND, "b", None)
    cluster.turn(2)
    cluster.sync()
    assert documents(cluster, 1).by_name(KIND) == {"a": b"1"}, "what was read before is read again"
    cluster.restart(1)
    cluster.live(2_000)
    assert documents(cluster, 1).by_name(KIND) == {"a": b"1"}


def test_of_two_regions_that_write_at_once_the_later_one_wins() -> None:
    cluster = cluster_of(2)
    documents(cluster, 1).write(KIND, "a", b"early")
    cluster.turn(1)
    cluster.now_ms += 10
    documents(cluster, 2).write(KIND, "a", b"late")
    cluster.turn(2)
    cluster.sync()
    assert [documents(cluster, number).by_name(KIND) for number in (1, 2)] == [{"a": b"late"}] * 2


def test_a_write_that_has_not_seen_a_delete_survives_it() -> None:
    cluster = cluster_of(2)
    documents(cluster, 1).write(KIND, "a", b"1")
    cluster.turn(1)
    cluster.sync()
    documents(cluster, 1).write(KIND, "a", None)
    cluster.turn(1)
    documents(cluster, 2).write(KIND, "a", b"2")
    cluster.turn(2)
    cluster.sync()
    assert [documents(cluster, number).by_name(KIND) for number in (1, 2)] == [{"a": b"2"}] * 2


# Without room, and before the region serves


def test_a_region_short_of_memory_changes_and_deletes_what_is_known() -> None:
    cluster = cluster_of()
    written = documents(cluster)
    written.write(KIND, "a", b"1")
    cluster.node(1).standing.memory_short = True
    with pytest.raises(Refused, match="more memory than memory_bytes_max"):
        written.write(KIND, "new", b"2")
    written.write(KIND, "a", b"3")
    assert written.by_name(KIND) == {"a": b"3"}
    written.write(KIND, "a", None)
    assert written.by_name(KIND) == {}
    with pytest.raises(Refused, match="more memory than memory_bytes_max"):
        written.write(KIND, "a", b"4")


def test_a_full_disk_takes_changes_of_known_documents_out_of_its_reserve() -> None:
    cluster = cluster_of()
    written = documents(cluster)
    written.write(KIND, "a", b"1")
    cluster.node(1).writable(False)
    for value in (b"2", None):
        with pytest.raises(Refused, match=FULL_DISK):
            written.write(KIND, "a", value)
    assert written.by_name(KIND) == {"a": b"1"}, "without a reserve"
    cluster.node(1).writable(False, 1 << 20, 1 << 20)
    with pytest.raises(Refused, match=FULL_DISK):
        written.write(KIND, "new", b"2")
    written.write(KIND, "a", b"3")
    assert written.by_name(KIND) == {"a": b"3"}


@pytest.mark.parametrize(("loading", "paused", "text"), [("it waits", False, "it waits"), ("", True, "CLIENT PAUSE")])
def test_a_region_that_does_not_serve_takes_nothing(loading: str, paused: bool, text: str) -> None:
    cluster = cluster_of()
    written = documents(cluster)
    written.write(KIND, "a", b"1")
    cluster.node(1).standing.loading = loading
    cluster.node(1).standing.paused = paused
    for name, value in (("a", b"2"), ("a", None), ("new", b"3")):
        with pytest.raises(Refused, match=text):
            written.write(KIND, name, value)
    assert written.by_name(KIND) == {"a": b"1"}
