"""Properties of a group: registers that every region merges to the same, and the rules that they select."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.groups.properties import (
    ACKNOWLEDGE,
    ANY_REGION,
    DELIVER,
    EXACT,
    NO_REGISTERS,
    ORIGIN,
    OWNER,
    PLAIN,
    TAKEOVER,
    TAKEOVER_MS,
    GroupRules,
    PropertyRegisters,
    lasting_values,
    merged,
    next_number,
    record_name,
)

registers = st.dictionaries(
    st.sampled_from([ACKNOWLEDGE, DELIVER, b"unknown"]),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from([b"a", b"b"])),
)


@given(registers, registers, registers)
def test_merging_is_a_join(one: PropertyRegisters, other: PropertyRegisters, third: PropertyRegisters) -> None:
    assert merged(one, other.items()) == merged(other, one.items())
    assert merged(merged(one, other.items()), third.items()) == merged(one, merged(other, third.items()).items())
    assert merged(one, one.items()) == one
    assert not NO_REGISTERS


@given(registers)
def test_a_later_set_wins_over_all_that_it_saw(seen: PropertyRegisters) -> None:
    number = next_number(seen)
    mine: PropertyRegisters = {ACKNOWLEDGE: (number, 1, b"mine")}
    assert merged(seen, mine.items())[ACKNOWLEDGE] == (number, 1, b"mine")


def rules(**values: bytes) -> GroupRules:
    return GroupRules({name.encode(): (1, 1, value) for name, value in values.items()})


def test_without_properties() -> None:
    assert (PLAIN.exact, PLAIN.ordered, PLAIN.takeover_ms, PLAIN.is_everywhere) == (False, False, TAKEOVER_MS, True)
    assert PLAIN.deliverer(3) == 3


@pytest.mark.parametrize("value", [b"", b"later", b"\xff"])
def test_values_of_a_later_release_select_nothing(value: bytes) -> None:
    found = rules(acknowledge=value, deliver=value, takeover=value, order=value)
    assert (found.exact, found.ordered, found.takeover_ms, found.is_everywhere) == (False, False, TAKEOVER_MS, True)


def test_rules_of_known_values() -> None:
    found = rules(acknowledge=b"exact", takeover=b"3000", order=b"all", deliver=b"origin")
    assert (found.exact, found.ordered, found.takeover_ms, found.mode) == (True, True, 3_000, ORIGIN)


def record(number: int, writer: int, region: int) -> PropertyRegisters:
    return {record_name(writer): (number, 1, b"%d" % region)}


def test_the_latest_record_says_which_region_delivers() -> None:
    owner: PropertyRegisters = {DELIVER: (1, 1, OWNER), **record(1, ANY_REGION, 2)}
    assert [GroupRules(owner).deliverer(writer) for writer in (1, 2, 3)] == [2, 2, 2]
    moved = {**owner, **record(2, 3, 1)}
    assert [GroupRules(moved).deliverer(writer) for writer in (1, 2, 3)] == [2, 2, 1]
    taken = merged(moved, record(3, ANY_REGION, 3).items())
    assert [GroupRules(taken).deliverer(writer) for writer in (1, 2, 3)] == [3, 3, 3]


def test_records_from_before_the_mode_are_of_another_one() -> None:
    found: PropertyRegisters = {**record(1, ANY_REGION, 2), **record(1, 3, 1), DELIVER: (2, 1, ORIGIN)}
    assert [GroupRules(found).deliverer(writer) for writer in (1, 2, 3)] == [1, 2, 3]


def test_a_copy_keeps_what_is_not_about_single_writers() -> None:
    found: PropertyRegisters = {ACKNOWLEDGE: (4, 1, EXACT), **record(2, ANY_REGION, 2), **record(3, 3, 1)}
    assert lasting_values(found) == {ACKNOWLEDGE: EXACT, record_name(ANY_REGION): b"2"}
    assert TAKEOVER not in found
