"""History: reading begins at or before the first batch that a peer lacks, and not much before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.effects import Batch
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BATCH, START, encode_batch
from crdtstream.protocols.log_port import Damage, LogRecord
from crdtstream.replication.log.history import HEADS_KEPT, MILESTONE_RECORDS, READS_KEPT, History

RECORDS_MAX = 100


class FakeLog:
    """Batches of one effect, or records with their position as payload; may be cut at its beginning."""

    def __init__(self, count: int, dots: list[tuple[int, int]] | None = None) -> None:
        self.first_position = 1
        self.last_position = count
        self.damages: list[Damage] = []
        self.dots = [] if dots is None else dots

    def read(self, position: int, bytes_max: int) -> list[LogRecord]:
        assert position >= self.first_position
        count = min(bytes_max, RECORDS_MAX)
        return [self.record(p) for p in range(position, min(position + count, self.last_position + 1))]

    def bytes_from(self, position: int) -> int:
        return self.last_position + 1 - position

    def record(self, position: int) -> LogRecord:
        if not self.dots:
            return (position, BATCH, b"%d" % position)
        origin, counter = self.dots[position - 1]
        if not origin:
            return (position, START, b"")
        context = VersionVector({origin: counter - 1})
        return (position, BATCH, encode_batch(Batch(origin, counter, counter, context, [])))


def history_of(origins: list[int]) -> tuple[History, FakeLog, list[tuple[int, int]]]:
    """A log in which position p is the next batch of origins[p - 1]; 0 stands for a record that is no batch."""
    dots: list[tuple[int, int]] = []
    log = FakeLog(len(origins), dots)
    history, vector = History(log), VersionVector()
    for position, origin in enumerate(origins, 1):
        counter = vector.get(origin) + 1
        dots.append((origin, counter))
        if origin:
            vector.advance(origin, counter)
            history.record(position, origin, counter, vector)
    history.check()
    return history, log, dots


def first_lacking(dots: list[tuple[int, int]], vector: VersionVector) -> int:
    """The first position that holds what the vector lacks; one after the last when it lacks nothing."""
    for position, (origin, counter) in enumerate(dots, 1):
        if origin and not vector.contains(origin, counter):
            return position
    return len(dots) + 1


@st.composite
def interleavings(draw: st.DrawFn) -> list[int]:
    runs = st.tuples(st.sampled_from([0, 1, 2, 259]), st.integers(1, MILESTONE_RECORDS))
    return [origin for origin, count in draw(st.lists(runs, max_size=12)) for _ in range(count)]


@given(interleavings(), st.dictionaries(st.sampled_from([1, 2, 259]), st.integers(0, 1500)))
def test_reading_begins_at_or_before_what_is_lacking(origins: list[int], counters: dict[int, int]) -> None:
    history, _, dots = history_of(origins)
    position = history.position_for(VersionVector(counters))
    assert position is not None
    assert 1 <= position <= first_lacking(dots, VersionVector(counters))


def test_reading_begins_close() -> None:
    history, _, _ = history_of([1] * 1000)
    for have in range(1001):
        position = history.position_for(VersionVector({1: have}))
        assert position is not None
        assert 0 <= have + 1 - position < MILESTONE_RECORDS


@given(interleavings(), st.integers(1, 1500), st.dictionaries(st.sampled_from([1, 2, 259]), st.integers(0, 1500)))
def test_a_cut_log_serves_only_whom_it_covers(origins: list[int], first: int, counters: dict[int, int]) -> None:
    history, log, dots = history_of(origins)
    log.first_position = min(first, len(origins) + 1)
    last_milestone = history._milestones[-1][0]
    vector = VersionVector(counters)
    position = history.position_for(vector)
    history.check()
    if first_lacking(dots, vector) < log.first_position:
        assert position is None, "the peer would miss what was cut off"
    elif log.first_position <= last_milestone:
        assert position is not None, "the log has all that the peer lacks"
    if position is not None:
        assert log.first_position <= position <= first_lacking(dots, vector)


def test_a_cut_log_still_serves_who_is_close() -> None:
    history, log, _ = history_of([1] * 10 * MILESTONE_RECORDS)
    log.first_position = 5 * MILESTONE_RECORDS
    assert history.position_for(VersionVector()) is None
    assert history.position_for(VersionVector({1: 5 * MILESTONE_RECORDS - 2})) is None
    assert history.position_for(VersionVector({1: 5 * MILESTONE_RECORDS - 1})) == 5 * MILESTONE_RECORDS
    assert history.position_for(VersionVector({1: 9 * MILESTONE_RECORDS})) == 9 * MILESTONE_RECORDS + 1


def test_the_vector_noted_may_go_on_growing() -> None:
    history, vector = History(FakeLog(1000)), VersionVector()
    for position in range(1, 1001):
        vector.advance(1, position)
        history.record(position, 1, position, vector)
    vector.advance(1, 10**6)
    history.check()
    assert history.position_for(VersionVector({1: 600})) == 2 * MILESTONE_RECORDS + 1


def test_an_empty_log_begins_at_one() -> None:
    assert History(FakeLog(0)).position_for(VersionVector({1: 5})) == 1


def test_reading() -> None:
    assert History(FakeLog(3)).read(2, 1) == [(2, BATCH, b"2")]
    assert History().read(1, 100) == []


def test_links_that_ask_for_the_same_share_a_read() -> None:
    log = FakeLog(3)
    history = History(log)
    first = history.read(2, 10)
    assert history.read(2, 10) is first
    assert history.read(2, 1) == [(2, BATCH, b"2")], "another size is another question"
    log.last_position = 4
    assert history.read(2, 10) == [*first, (4, BATCH, b"4")]
    log.first_position = 2
    assert history.read(2, 10) is not first
    for position in range(2, 5):
        for size in range(1, 9):
            history.read(position, size)
    assert len(history._reads) == READS_KEPT


def test_check_sees_a_vector_that_shrinks() -> None:
    history = History()
    history.record(MILESTONE_RECORDS, 1, 1, VersionVector({1: 5}))
    history.record(2 * MILESTONE_RECORDS, 1, 2, VersionVector({1: 4}))
    with pytest.raises(AssertionError, match="shrinks"):
        history.check()


# Gaps


def gapped() -> History:
    """Own effects 1 to 5; then a join that brought effects of others; then own effects 6 to 10."""
    history, vector = History(FakeLog(11)), VersionVector()
    for position in range(1, 6):
        vector.advance(1, position)
        history.record(position, 1, position, vector)
    vector.merge(VersionVector({2: 7, 3: 4}))
    history.record_gap(6, VersionVector({2: 7, 3: 4}), vector)
    for position in range(7, 12):
        vector.advance(1, position - 1)
        history.record(position, 1, position, vector)
    history.check()
    return history


@pytest.mark.parametrize(
    ("counters", "direct", "position"),
    [
        ({}, [], None),
        ({1: 3, 2: 7}, [], None),
        ({1: 3, 2: 7, 3: 4}, [], 1),
        ({1: 5, 2: 9, 3: 4}, [], 7),
        ({1: 3, 2: 7}, [3], 1),
        ({}, [2, 3], 1),
        ({2: 6, 3: 4}, [3], None),
    ],
)
def test_who_lacks_what_a_join_brought_is_not_served(
    counters: dict[int, int], direct: list[int], position: int | None
) -> None:
    assert gapped().position_for(VersionVector(counters), direct) == position


def test_who_covers_what_is_needed_is_served() -> None:
    history = gapped()
    assert history.needed().as_dict() == {2: 7, 3: 4}
    assert history.position_for(history.needed()) == 1


def test_needed_follows_the_cut() -> None:
    history, log, _ = history_of([1] * 3 * MILESTONE_RECORDS)
    log.first_position = MILESTONE_RECORDS + 1
    assert history.needed().as_dict() == {1: MILESTONE_RECORDS}
    assert history.position_for(history.needed()) == MILESTONE_RECORDS + 1


def test_gaps_are_kept_and_forgotten_with_the_log() -> None:
    history = gapped()
    restored = History(history.log)
    restored.restore([(7, VersionVector({1: 5, 2: 7, 3: 4}))])
    for position, gap in history.gaps():
        restored.restore_gap(position, gap)
    assert restored.gaps() == history.gaps() == [(6, VersionVector({2: 7, 3: 4}))]
    assert isinstance(history.log, FakeLog)
    history.log.first_position = 7
    assert history.gaps() == []
    assert history.position_for(VersionVector({1: 5, 2: 7, 3: 4})) == 7


def test_a_checkpoint_keeps_its_milestones() -> None:
    """They say how much of the log it stands for, and what follows is not in it."""
    kept = [(1, VersionVector())]
    history = History()
    history.restore(kept)
    history.record(MILESTONE_RECORDS, 1, MILESTONE_RECORDS, VersionVector({1: MILESTONE_RECORDS}))
    assert kept == [(1, VersionVector())]


def test_check_sees_gaps_out_of_order() -> None:
    history = gapped()
    history.restore_gap(6, VersionVector({4: 1}))
    with pytest.raises(AssertionError, match="gaps 6 and 6"):
        history.check()


# Another state


def test_a_history_that_begins_again_serves_nothing_from_before() -> None:
    history, log, _ = history_of([1, 2] * MILESTONE_RECORDS)
    last = log.last_position
    other = VersionVector({1: 5, 3: 7})
    history.record_gap(last, VersionVector({3: 7}), other)
    history.begin_again(last + 1, other)
    assert history.first_position() == last + 1
    assert history.needed() == other and history.gaps() == []
    assert history.position_for(VersionVector({1: 5, 3: 6}), [3]) is None
    assert history.position_for(other) == last + 1
    history.check()


# What is on the disk


def test_durable_is_what_was_noted_up_to_the_synced_position() -> None:
    history, durable = History(), VersionVector()
    history.record(1, 1, 1, VersionVector({1: 1}))
    history.open(FakeLog(2), 2, VersionVector({1: 4}))
    history.record(3, 2, 5, VersionVector({1: 4, 2: 5}))
    history.record_gap(4, VersionVector({3: 7, 4: 1}), VersionVector({1: 4, 2: 5, 3: 7, 4: 1}))
    history.check()
    seen = []
    for position in (1, 2, 3, 4):
        history.record_synced(position, durable)
        seen.append(durable.as_dict())
    assert seen == [{}, {1: 4}, {1: 4, 2: 5}, {1: 4, 2: 5, 3: 7, 4: 1}]


def test_what_was_replaced_is_never_durable() -> None:
    history, durable = History(FakeLog(9)), VersionVector()
    history.record(8, 1, 5, VersionVector({1: 5}))
    history.begin_again(10, VersionVector({2: 3}))
    history.record(10, 257, 1, VersionVector({2: 3, 257: 1}))
    history.record_synced(9, durable)
    assert durable.as_dict() == {2: 3}
    history.record_synced(10, durable)
    assert durable.as_dict() == {2: 3, 257: 1}


def test_what_a_batch_is_of_is_known_of_the_newest_and_read_of_the_others() -> None:
    history = History()
    payloads = {at: encode_batch(Batch(1, at, at, VersionVector(), [])) for at in (1, HEADS_KEPT + 1)}
    for position in range(1, HEADS_KEPT + 2):
        history.record(position, 1, position, VersionVector({1: position}))
    assert history.head(HEADS_KEPT + 1, b"not read") == (1, HEADS_KEPT + 1)
    assert history.head(1, payloads[1]) == (1, 1)
