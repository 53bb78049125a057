"""When a home may number stale messages again, and how many in one turn."""

from __future__ import annotations

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.partitions.epochs import NO_EPOCH, EpochRow, Epochs
from crdtstream.partitions.partition import Partition
from crdtstream.partitions.renumbering import ALIVE_MS, BYTES_MAX, MESSAGES_MAX, Agreement, Share
from crdtstream.partitions.values import Ahead, NewMessage
from crdtstream.replication.values.progress import ProgressTable

DOT = (1, 9)
# The origins of regions 1 (this one), 2 and 3: the lowest byte is the region.
OWN, TWO, THREE, OWN_AGAIN, TWO_AGAIN = 1, 2, 3, 0x101, 0x102
LONG_AGO = -2 * ALIVE_MS


class Table:
    """What region 1 has heard, at `now_ms`."""

    def __init__(self, now_ms: int = 10 * ALIVE_MS) -> None:
        self.replica = Replica(OWN)
        self.replica.keyspace.now_ms = now_ms
        self.replica.applied.vector.advance(*DOT)
        self.progress = ProgressTable()
        self.progress.listen(now_ms, 0)
        self.agreement = Agreement()
        self.lives = 0
        self.founders: list[int] = []

    def hear(self, origin: int, since_ms: int = 0, **applied: int) -> None:
        """A sign of life of this origin so long ago, and what it has applied of each region's first origin."""
        self.lives += 1
        vector = VersionVector({int(name[1:]): counter for name, counter in applied.items()})
        now_ms = self.replica.keyspace.now_ms - since_ms
        assert self.progress.merge_row((origin, VersionVector(), vector, self.lives), 100, now_ms)

    def counted(self) -> list[int]:
        return self.replica.applied.members.counted(OWN, self.founders)

    def reached(self, began_ms: int = 1) -> bool:
        return self.agreement.reached(DOT, began_ms, self.replica, self)


def test_every_region_that_lives_has_to_know_the_epoch() -> None:
    table = Table()
    table.hear(TWO, r1=9)
    table.hear(THREE, r1=8)
    assert not table.reached()
    table.hear(THREE, r1=9)
    assert table.reached()


def test_what_it_had_done_before_has_to_be_here() -> None:
    """It may have raised a higher epoch."""
    table = Table()
    table.hear(TWO, r1=9, r2=5)
    assert not table.reached()
    table.hear(TWO, r1=9, r2=50)
    table.replica.applied.vector.advance(TWO, 5)
    assert table.reached(), "what it did afterwards is not waited for"


def test_a_silent_region_is_not_waited_for() -> None:
    table = Table()
    table.hear(TWO, since_ms=ALIVE_MS, r1=1)
    assert table.reached()
    table.hear(TWO, since_ms=ALIVE_MS - 1, r1=1)
    assert not table.reached()


def test_where_a_clock_is_set_forward_nobody_was_silent() -> None:
    """The region looks at the time before it listens: in the same turn it may be asked to number something."""
    table = Table()
    table.hear(TWO, since_ms=ALIVE_MS // 2, r1=1)
    table.replica.keyspace.now_ms += 10 * ALIVE_MS
    assert not table.reached(table.replica.keyspace.now_ms - ALIVE_MS)
    table.progress.listen(table.replica.keyspace.now_ms, 100)
    assert not table.reached()


def test_every_process_of_a_region_is_asked_until_it_is_replaced() -> None:
    """Two processes run with one number, and either of them may have become the home."""
    for other in (TWO_AGAIN, OWN_AGAIN):
        table = Table()
        table.hear(other, r1=8)
        table.hear(TWO, r1=9)
        assert not table.reached()
        table.progress.end(other)
        assert table.reached()


def test_a_process_that_has_just_begun_waits_for_the_regions_that_it_knows() -> None:
    table = Table()
    table.replica.applied.members.apply_joined((TWO, 1), TWO)
    table.replica.applied.members.apply_joined((TWO, 2), OWN)
    began_ms = table.replica.keyspace.now_ms - 1
    assert not table.reached(began_ms) and not table.reached(0), "nor before the first tick"
    table.hear(TWO, r1=9)
    assert table.reached(began_ms)
    alone = Table()
    alone.replica.applied.members.apply_joined((TWO, 1), TWO)
    assert alone.reached(alone.replica.keyspace.now_ms - ALIVE_MS)
    alone.progress.stalled_ms = 1
    assert not alone.reached(alone.replica.keyspace.now_ms - ALIVE_MS), "it did not listen for so long"


def test_a_process_that_has_just_begun_waits_for_regions_whose_joins_are_not_here() -> None:
    founder, writer = Table(), Table()
    founder.founders = [OWN, TWO]
    writer.replica.applied.vector.advance(TWO, 3)
    for table in (founder, writer):
        began_ms = table.replica.keyspace.now_ms - 1
        assert not table.reached(began_ms)
        table.hear(TWO, r1=9)
        assert table.reached(began_ms)


def test_nobody_waits_for_a_region_that_was_evicted() -> None:
    table = Table()
    table.replica.applied.vector.advance(TWO, 3)
    table.replica.applied.members.apply_evicted((OWN, 1), TWO, 3, 0, VersionVector())
    assert table.reached(table.replica.keyspace.now_ms - 1)


def test_another_epoch_is_agreed_on_anew() -> None:
    table = Table()
    table.hear(TWO, r1=9)
    assert table.reached()
    assert not table.agreement.reached((1, 10), 1, table.replica, table)


def test_a_turn_takes_its_share() -> None:
    replica = Replica(OWN)
    replica.keyspace.now_ms = 1_000
    key = (0, b"p")
    first = EpochRow((1, OWN), [0], NO_EPOCH)
    value = b"x" * (BYTES_MAX // 4)
    old = Partition(replica, key, 0, Epochs([first]), Ahead())
    old.append([NewMessage(0, None, value) for _ in range(5)])
    replica.drain()
    replica.become(TWO, TWO)
    home = Partition(replica, key, 0, Epochs([first, EpochRow((2, TWO), [0], (1, OWN))]), Ahead())
    share = Share()
    assert not share.renumber(home)
    assert share.messages_left > MESSAGES_MAX - 5 and home.has_unplaced()
    assert Share().renumber(home)
    assert not home.has_unplaced() and home.next_offset() == 5
