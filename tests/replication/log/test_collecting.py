"""What a region forgot it forgets in a replay too: what the log is told, when, and what a start makes of it."""

from __future__ import annotations

import pytest

from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import codec
from crdtstream.region.node import Node
from crdtstream.replication.log.collecting import TELL_MS
from crdtstream.settings.config import Config
from crdtstream.storage.restore import open_storage
from simulations.cluster import SEGMENT_BYTES, Cluster
from simulations.machine import SALT, Machine
from tests.core.remaining import names_of

START_MS = 1_000


# A node that is replayed is listened to, by a method of its own.
pytestmark = pytest.mark.interpreted


@pytest.fixture
def region() -> Machine:
    config = Config(name="east", region=1, cluster="c", id_mode=STRICT, incarnation=0)
    return Machine(config, START_MS)


def run(region: Machine, text: str) -> None:
    region.execute(text.encode().split(), region.node.context.now_ms)


def pass_time(region: Machine, milliseconds: int = TELL_MS) -> None:
    region.sync()
    region.node.tick(region.node.context.now_ms + milliseconds)
    region.perform()


def come_and_go(region: Machine, first: int, count: int) -> None:
    for number in range(first, first + count):
        run(region, f"XADD key-{number} * f v")
        run(region, f"DEL key-{number}")


def replayed(region: Machine) -> tuple[Node, list[int], list[tuple[int, VersionVector]]]:
    """A node that has read the log and was not started: how many keys it knew after each record, and what it was told
    to forget by.
    """
    node = Node(region.config, START_MS)
    known: list[int] = []
    told: list[tuple[int, VersionVector]] = []
    original = node.recover

    def recover(position: int, kind: int, payload: bytes) -> None:
        if kind == codec.STABLE:
            told.append(codec.decode_stable(payload))
        original(position, kind, payload)
        known.append(len(names_of(node.replica.keyspace)))
        node.replica.check()

    node.recover = recover  # type: ignore[method-assign]
    open_storage(region.disk, node, salt=SALT, segment_bytes_max=SEGMENT_BYTES)
    return node, known, told


def test_a_replay_knows_no_more_keys_at_once_than_the_region_did(region: Machine) -> None:
    for batch in range(10):
        come_and_go(region, 20 * batch, 20)
        pass_time(region)
        assert not names_of(region.node.replica.keyspace)
    pass_time(region)
    node, known, told = replayed(region)
    assert max(known) <= 20
    assert not names_of(node.replica.keyspace) and not node.replica.keyspace.collection.waiting
    assert sum(looked for looked, _ in told) == 200


def test_the_log_is_told_once_a_second_at_most(region: Machine) -> None:
    for batch in range(20):
        come_and_go(region, 5 * batch, 5)
        pass_time(region, TELL_MS // 4)
    pass_time(region)
    _, _, told = replayed(region)
    assert 5 <= len(told) <= 7
    assert sum(looked for looked, _ in told) == 100


def test_what_is_not_forgotten_is_not_told(region: Machine) -> None:
    """The group's end is remembered until it is stable, which it is not yet: nothing was synced."""
    for text in ("XADD x 1-* f v", "XGROUP CREATE x g 0", "XGROUP DESTROY x g"):
        run(region, text)
    region.node.tick(START_MS + TELL_MS)
    region.perform()
    assert region.node.replica.keyspace.collection.waiting and replayed(region)[2] == []
    pass_time(region)
    assert not region.node.replica.keyspace.collection.waiting and len(replayed(region)[2]) == 1


def test_a_clock_that_is_set_back_delays_nothing(region: Machine) -> None:
    come_and_go(region, 0, 1)
    pass_time(region, 1_000_000)
    come_and_go(region, 1, 1)
    pass_time(region, -900_000)
    assert len(replayed(region)[2]) == 2


def test_a_disk_without_room_is_told_later(region: Machine) -> None:
    come_and_go(region, 0, 3)
    region.node.writable(False)
    pass_time(region)
    assert replayed(region)[2] == []
    region.node.writable(True)
    pass_time(region)
    assert [looked for looked, _ in replayed(region)[2]] == [3]


def test_a_replay_keeps_what_is_not_stable() -> None:
    """Region 2 has not got the second DEL, so a create that it makes meanwhile must still die by it."""
    cluster = Cluster(2, STRICT)
    cluster.link(1, 2)
    cluster.sync()
    for text in ("XADD a 1-* f v", "XADD b 1-* f v", "DEL a"):
        cluster.execute(1, text.encode().split())
    cluster.sync()
    for region in cluster.machines.values():
        region.sync()
    cluster.sync()
    cluster.cut(1, 2)
    cluster.execute(1, b"DEL b".split())
    one = cluster.machines[1]
    pass_time(one)
    assert names_of(one.node.replica.keyspace) == [b"b"]
    node, _, told = replayed(one)
    assert names_of(node.replica.keyspace) == [b"b"] and node.replica.keyspace.databases[0][b"b"].deleted
    assert len(told) == 1


def test_a_start_goes_on_from_there(region: Machine) -> None:
    come_and_go(region, 0, 10)
    pass_time(region)
    run(region, "XADD x * f v")
    come_and_go(region, 10, 10)
    region.start(region.node.context.now_ms)
    pass_time(region)
    pass_time(region)
    assert names_of(region.node.replica.keyspace) == [b"x"]
    assert names_of(replayed(region)[0].replica.keyspace) == [b"x"]
