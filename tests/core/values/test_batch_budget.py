"""The budget of the open batch, and large removals in parts."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import Batch
from crdtstream.core.replica import Replica
from crdtstream.core.streams.removal_parts import parts_of
from crdtstream.core.values.batch_budget import BATCH_BYTES_MAX, BATCH_BYTES_MIN, LIMIT_MIN, BatchBudget

ORIGIN = 257


class Cutting:
    """Takes the batches of a replica, as a turn does."""

    def __init__(self, limit: int) -> None:
        self.replica = Replica(ORIGIN)
        self.batches: list[Batch] = []
        self.budget = self.replica.budget
        self.budget.cutter = self.cut
        self.budget.fit(limit, 1, 0)

    def cut(self) -> None:
        batch = self.replica.drain().batch
        if batch is not None:
            self.batches.append(batch)

    def add(self, at: int, size: int) -> None:
        self.replica.add_entry((0, b"s"), (at, 1), [b"f", b"v" * size])


def test_a_batch_ends_once_it_is_large() -> None:
    cutting = Cutting(BATCH_BYTES_MIN)
    for at in range(1, 40):
        cutting.add(at, 2_000)
        cutting.budget.ease()
        cutting.replica.check()
    assert len(cutting.batches) == 2
    assert cutting.budget.open_bytes < cutting.budget.cut_bytes


def test_what_is_one_piece_gets_a_batch_of_its_own_or_none() -> None:
    cutting = Cutting(BATCH_BYTES_MIN)
    cutting.add(1, 1_000)
    assert cutting.budget.allow(10_000)
    assert cutting.batches == [], "it fitted"
    assert cutting.budget.allow(cutting.budget.bytes_max)
    assert [batch.last for batch in cutting.batches] == [1]
    assert not cutting.budget.allow(cutting.budget.bytes_max + 1)


def test_a_whole_batch_does_not_end() -> None:
    cutting = Cutting(BATCH_BYTES_MIN)
    cutting.budget.whole = True
    for at in range(1, 30):
        cutting.add(at, 2_000)
        cutting.budget.ease()
    assert not cutting.budget.allow(cutting.budget.bytes_max - 1)
    assert cutting.batches == []


@pytest.mark.parametrize("limit", [BATCH_BYTES_MIN, 1 << 20, 2 << 30, 1 << 40])
def test_bounds_leave_space_for_the_header_and_fit_a_record(limit: int) -> None:
    budget = BatchBudget()
    budget.fit(limit, 3, 100)
    budget.check()
    assert budget.bytes_max < min(limit, BATCH_BYTES_MAX)
    assert budget.bound() == f"batch_bytes_max = {limit} of region 3"


@pytest.mark.parametrize("limit", [0, 1, LIMIT_MIN - 1])
def test_a_limit_that_nobody_can_have_ends_no_writes(limit: int) -> None:
    least, budget = BatchBudget(), BatchBudget()
    least.fit(LIMIT_MIN, 3, 100)
    budget.fit(limit, 3, 100)
    budget.check()
    assert budget.bytes_max == least.bytes_max


def test_a_removal_in_parts_is_the_removal() -> None:
    ranges = {1: [(at, at) for at in range(1, 20, 2)], 2: [(5, 9)]}
    references = {1: [((at, 0), (at, 1)) for at in range(7)]}
    assert parts_of(ranges, references, 18) == [(ranges, references)]
    parts = parts_of(ranges, references, 4)
    for some, others in parts:
        assert sum(map(len, some.values())) + sum(map(len, others.values())) <= 4
    assert [one for some, _ in parts for one in some.get(1, [])] == ranges[1]
    assert [one for some, _ in parts for one in some.get(2, [])] == ranges[2]
    assert [one for _, others in parts for one in others.get(1, [])] == references[1]


def test_a_removal_of_many_scattered_entries_is_several_effects() -> None:
    cutting = Cutting(BATCH_BYTES_MIN)
    for at in range(1, 4_001):
        cutting.add(at, 1)
    cutting.cut()
    ranges = {ORIGIN: [(at, at) for at in range(1, 4_001, 2)]}
    assert cutting.replica.remove_entries((0, b"s"), ranges, False, (4_000, 1)) == 2_000
    cutting.replica.check()
    stream = cutting.replica.keyspace.find((0, b"s"))
    assert stream is not None and stream.length == 2_000
    cutting.cut()
    _, removals = cutting.batches
    assert len(removals.effects) == 4
