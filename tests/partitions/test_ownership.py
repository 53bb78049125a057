"""Ownership: by example as the documentation of the service tells it, and by its rules under any calls."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.partitions.ownership import NOBODY, Ownership

TIMEOUT_MS = 30_000


def group(partitions: int, instances: int) -> Ownership:
    """A group whose instances `i0`, `i1` and so on have joined in this order, at time 0."""
    ownership = Ownership(partitions, 0)
    for index in range(instances):
        ownership.call(f"i{index}", TIMEOUT_MS, 0)
        ownership.check()
    return ownership


def shares(ownership: Ownership) -> list[int]:
    return [len(one.owned) for one in ownership.instances.values()]


def test_before_the_first_call_nobody_owns_anything() -> None:
    ownership = Ownership(3, 7)
    assert ownership.owners == [NOBODY] * 3 and ownership.until_ms(0) == 0


@pytest.mark.parametrize(
    ("partitions", "instances", "expected"),
    [
        (8, 1, [8]),
        (8, 4, [2, 2, 2, 2]),
        (10, 4, [2, 2, 3, 3]),
        (3, 5, [0, 0, 1, 1, 1]),
        (1, 2, [0, 1]),
    ],
)
def test_shares(partitions: int, instances: int, expected: list[int]) -> None:
    assert sorted(shares(group(partitions, instances))) == expected


def test_an_instance_in_excess_takes_the_place_of_one_that_is_silent() -> None:
    ownership = group(2, 3)
    ownership.call("i0", TIMEOUT_MS, 20_000)
    ownership.call("i2", TIMEOUT_MS, 20_000)
    assert ownership.owned("i2") == []
    ownership.call("i2", TIMEOUT_MS, 30_000)
    assert ownership.owned("i2") == [1] and ownership.owned("i0") == [0]
    assert "i1" not in ownership.instances


def test_an_instance_is_silent_from_its_timeout_on() -> None:
    ownership = group(2, 2)
    ownership.call("i0", TIMEOUT_MS, TIMEOUT_MS - 1)
    assert shares(ownership) == [1, 1]
    ownership.call("i0", TIMEOUT_MS, TIMEOUT_MS)
    assert shares(ownership) == [2]


def test_a_call_moves_as_few_partitions_as_possible() -> None:
    ownership = group(8, 3)
    before = list(ownership.owners)
    ownership.call("i3", TIMEOUT_MS, 0)
    assert sum(one != other for one, other in zip(before, ownership.owners, strict=True)) == 2


def test_a_partition_that_moved_has_a_new_generation() -> None:
    ownership = group(4, 1)
    first = list(ownership.since)
    ownership.call("i1", TIMEOUT_MS, 0)
    moved = ownership.owned("i1")
    assert len(moved) == 2
    assert all((ownership.since[at] > first[at]) == (at in moved) for at in range(4))


def test_a_call_that_moves_nothing_leaves_the_generation() -> None:
    ownership = group(4, 2)
    generation = ownership.generation
    ownership.call("i0", TIMEOUT_MS, 5)
    assert ownership.generation == generation


def test_a_restart_invalidates_every_position() -> None:
    ownership = group(2, 2)
    owners = list(ownership.owners)
    ownership.restart(100)
    assert ownership.owners == owners and ownership.since == [100, 100]
    ownership.call("i2", TIMEOUT_MS, 0)
    assert ownership.generation == 101


def test_a_clock_that_was_set_back_keeps_nobody_longer_than_its_timeout() -> None:
    """i1 called at a time that was wrong by years, and never again."""
    ownership = Ownership(2, 0)
    ownership.call("i0", TIMEOUT_MS, 2**50)
    ownership.call("i1", TIMEOUT_MS, 2**50)
    ownership.call("i0", TIMEOUT_MS, 1_000)
    assert ownership.owned("i1") == [1]
    ownership.call("i0", TIMEOUT_MS, 1_000 + TIMEOUT_MS)
    assert ownership.owned("i0") == [0, 1]


class OwnershipRules(RuleBasedStateMachine):
    """Any calls, at any times, of few instances. The model knows when each of them last called."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        self.partitions = 1
        self.ownership = Ownership(1, 0)
        self.until_ms: dict[str, int] = {}
        self.generations: dict[tuple[int, int], str] = {}

    @precondition(lambda self: not self.until_ms)
    @rule(partitions=st.integers(1, 9))
    def size(self, partitions: int) -> None:
        self.partitions = partitions
        self.ownership = Ownership(partitions, 0)

    @rule(name=st.sampled_from("abcdefg"), timeout_ms=st.sampled_from([1, 10, 100]))
    def call(self, name: str, timeout_ms: int) -> None:
        before = list(self.ownership.owners)
        self.ownership.call(name, timeout_ms, self.now_ms)
        gone = {one for one, until_ms in self.until_ms.items() if until_ms <= self.now_ms and one != name}
        came = name not in self.until_ms
        self.until_ms = {one: until_ms for one, until_ms in self.until_ms.items() if one not in gone}
        self.until_ms[name] = self.now_ms + timeout_ms
        if not gone and not came:
            assert self.ownership.owners == before, "partitions moved, and nobody came or went"
        self._check_moves(before)

    def _check_moves(self, before: list[str]) -> None:
        """A partition moves only if its owner has left or has more than its share; since then it has a generation."""
        after = self.ownership.owners
        floor = self.partitions // len(self.until_ms)
        for at, owner in enumerate(before):
            if after[at] == owner:
                continue
            assert self.ownership.since[at] == self.ownership.generation
            if owner in self.until_ms and floor:
                assert after.count(owner) >= floor, f"{owner} lost {at} and has too little"

    @rule(passed_ms=st.sampled_from([1, 9, 10, 50, 101]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def reset(self) -> None:
        self.ownership.restart((1 << 40) + self.ownership.generation)

    @invariant()
    def shares_are_balanced(self) -> None:
        self.ownership.check()
        if not self.until_ms:
            return
        owners, names = self.ownership.owners, list(self.until_ms)
        assert set(self.ownership.instances) == set(names)
        counts = [owners.count(name) for name in names]
        assert sum(counts) == self.partitions and max(counts) - min(counts) <= 1
        assert [self.ownership.until_ms(at) for at in range(self.partitions)] == [self.until_ms[one] for one in owners]

    @invariant()
    def one_owner_in_a_generation(self) -> None:
        for at, owner in enumerate(self.ownership.owners):
            if owner != NOBODY:
                assert self.generations.setdefault((self.ownership.generation, at), owner) == owner


TestOwnershipRules = OwnershipRules.TestCase
