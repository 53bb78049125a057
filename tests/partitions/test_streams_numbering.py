"""What a home numbers when Redis clients have written to its partitions, and when its clock or its epochs change."""

from __future__ import annotations

import pytest

from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import STRICT, EntryId
from crdtstream.partitions.calls import PutCall, PutReply, expect
from crdtstream.partitions.keys import partition_key
from crdtstream.partitions.renumbering import ALIVE_MS
from crdtstream.partitions.state import NUMBER_MAX, StreamState
from crdtstream.partitions.streams import UPKEEP_MS, UPKEEPS_AWAITED, PartitionedStreams
from crdtstream.partitions.values import UNWRITABLE, NewMessage, Refused, StreamSpec
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, Limits
from simulations.cluster import Cluster

RETENTION_MS = 1 << 40
KEY = partition_key("s", 0)


@pytest.fixture
def home() -> Cluster:
    """One region with a stream of one partition, in which it has numbered three messages."""
    cluster = Cluster(1, STRICT)
    streams(cluster).create(StreamSpec("s", 1, RETENTION_MS))
    put(cluster, b"a", b"b", b"c")
    return cluster


def streams(cluster: Cluster) -> PartitionedStreams:
    return cluster.node(1).partitions


def state(cluster: Cluster) -> StreamState:
    return streams(cluster).state("s")


def put(cluster: Cluster, *values: bytes) -> list[int]:
    number = streams(cluster).submit(PutCall("s", [NewMessage(0, None, value) for value in values]))
    cluster.turn(1)
    stamps = expect(dict(streams(cluster).drain_replies())[number], PutReply).stamps
    return [stamp.offset for stamp in stamps]


def held(cluster: Cluster) -> list[tuple[int, bytes]]:
    return [(one.offset, one.value) for one in streams(cluster).partition("s", 0).read(0, 100, 1 << 20)]


def add(cluster: Cluster, entry_id: EntryId, *fields: bytes) -> None:
    cluster.node(1).replica.add_entry(KEY, entry_id, list(fields))
    cluster.turn(1)


def upkeep(cluster: Cluster) -> None:
    for _ in range(UPKEEPS_AWAITED + 2):
        cluster.tick(UPKEEP_MS)


def test_a_message_of_a_redis_client_is_numbered_behind_the_others(home: Cluster) -> None:
    """What the home has numbered before stays where it was."""
    add(home, (1 << 40, 0), b"value", b"d")
    assert put(home, b"e") == [3]
    upkeep(home)
    assert held(home) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"e"), (4, b"d")]


@pytest.mark.parametrize("offset", [3, 70_000])
def test_an_id_of_a_redis_client_among_those_of_the_home(home: Cluster, offset: int) -> None:
    """As after a message of a Redis client, when the clock reaches the number of the epoch that followed it."""
    number = state(home).epochs.current()[0]
    add(home, (number, offset), b"value", b"d")
    add(home, (number, offset + 1), b"value", b"e")
    assert [offset for offset, _ in held(home)] == [0, 1, 2]
    assert put(home, b"f") == [3]
    upkeep(home)
    assert held(home)[3:] == [(3, b"f"), (4, b"d"), (5, b"e")]


def test_an_id_among_those_of_the_home_is_numbered_although_nobody_puts(home: Cluster) -> None:
    add(home, (state(home).epochs.current()[0], 9), b"value", b"d")
    upkeep(home)
    assert held(home)[3:] == [(3, b"d")]
    home.restart(1)
    add(home, (state(home).epochs.current()[0] + 1, 9), b"value", b"e")
    upkeep(home)
    assert held(home)[3:] == [(3, b"d"), (4, b"e")]


def test_entries_that_are_no_messages_hold_nothing_up(home: Cluster) -> None:
    for index in range(1_200):
        home.node(1).replica.add_entry(KEY, (1 << 40, index), [b"other", b"field"])
    add(home, (1 << 40, 5_000), b"value", b"d")
    upkeep(home)
    assert held(home)[-1] == (3, b"d")


def test_an_id_that_leaves_no_room_refuses_calls_and_ends_nothing(home: Cluster) -> None:
    add(home, (2**64 - 1, 5), b"value", b"d")
    upkeep(home)
    with pytest.raises(Refused) as caught:
        streams(home).submit(PutCall("s", [NewMessage(0, None, b"e")]))
    assert caught.value.code == UNWRITABLE and "restart this region" in caught.value.text
    home.restart(1)
    assert put(home, b"e") == [3]
    upkeep(home)
    assert held(home)[3:] == [(3, b"e"), (4, b"d")] and state(home).epochs.current()[0] < NUMBER_MAX


def test_another_epoch_makes_messages_stale_without_touching_them(home: Cluster) -> None:
    upkeep(home)
    here = state(home).epochs.current()
    state(home)._registers.write(b"epoch/2/2", b"[[%d,%d],[1]]" % here)
    home.turn(1)
    assert held(home) == [(0, b"a")]
    streams(home).take_over("s")
    upkeep(home)
    assert held(home) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_what_an_epoch_numbered_that_another_region_has_forgotten_is_numbered_again(home: Cluster) -> None:
    """That region raised an epoch too, while it knew nothing of these messages: to it the epoch was spent."""
    before = state(home).epochs.current()
    streams(home).take_over("s")
    upkeep(home)
    assert held(home) == [(0, b"a"), (1, b"b"), (2, b"c")]
    state(home)._registers.drop(b"epoch/%d/%d" % before)
    home.turn(1)
    assert held(home) == []
    upkeep(home)
    assert held(home) == [(3, b"a"), (4, b"b"), (5, b"c")]


def test_a_stream_that_may_still_arrive_is_not_unknown() -> None:
    """A region that waits for its state does not say that there is no such stream."""
    config = Config(name="region2", region=2, cluster="test", peers=("region1:1",), limits=Limits())
    node = Node(config, 1)
    node.context.standing.loading = "it has just started"
    with pytest.raises(Refused) as caught:
        node.partitions.home("s")
    assert caught.value.code == UNWRITABLE


def record_life(cluster: Cluster, origin: int, life: int) -> None:
    """As a peer relays it."""
    row = (origin, VersionVector(), VersionVector(), life)
    cluster.node(1).exchange.progress.merge_row(row, 100, cluster.now_ms)


def test_another_process_of_the_region_that_is_alive_numbers_itself(home: Cluster) -> None:
    """Both would find the same messages stale, and make stale what the other one has numbered, at every upkeep."""
    home.restart(1)
    before = state(home).epochs.current()
    add(home, (1 << 40, 0), b"value", b"d")
    for life in range(2 * UPKEEPS_AWAITED + 4):
        record_life(home, before[1], 1 + life)
        home.tick(UPKEEP_MS)
        assert state(home).epochs.current() == before
    home.now_ms += ALIVE_MS
    upkeep(home)
    assert state(home).epochs.current() > before and held(home)[3:] == [(3, b"d")]
