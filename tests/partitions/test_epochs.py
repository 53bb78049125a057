"""Epochs: the highest one decides what counts, and a reader under another one goes on where both agree."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.partitions.epochs import NO_EPOCH, OFFSET_END, Epoch, EpochRow, Epochs

A, B, C = 1, 2, 3


def rows_of(segments: Epochs, partition: int = 0) -> list[tuple[int, int, int, int]]:
    return [(one.number, one.origin, one.start, one.end) for one in segments.segments(partition)]


def row(number: int, origin: int, start: int, parent: Epoch = NO_EPOCH) -> EpochRow:
    return EpochRow((number, origin), [start], parent)


def test_epochs_follow_each_other() -> None:
    epochs = Epochs([row(2, B, 5, (1, A)), row(1, A, 0)])
    assert epochs.current() == (2, B)
    assert rows_of(epochs) == [(1, A, 0, 5), (2, B, 5, OFFSET_END)]
    epochs.check()


def test_an_epoch_in_which_nothing_was_numbered_has_no_segment() -> None:
    epochs = Epochs([row(1, A, 0), row(2, B, 5, (1, A)), row(3, C, 5, (2, B))])
    assert rows_of(epochs) == [(1, A, 0, 5), (3, C, 5, OFFSET_END)]


def test_of_two_epochs_at_once_the_lower_one_does_not_count() -> None:
    """B took over at 5, C at 8 without knowing: below 8 stays what C had read, and nothing of B appears there."""
    epochs = Epochs([row(1, A, 0), row(2, B, 5, (1, A)), row(2, C, 8, (1, A))])
    assert rows_of(epochs) == [(1, A, 0, 8), (2, C, 8, OFFSET_END)]
    assert [epochs.counts(epoch) for epoch in ((1, A), (2, B), (2, C), (1, C))] == [True, False, True, False]
    assert epochs.clamp_offset(0, 9, (2, C)) == 9
    assert epochs.clamp_offset(0, 7, (1, A)) == 7
    assert epochs.clamp_offset(0, 20, (2, B)) == 5


def test_what_follows_a_lower_epoch_does_not_count_either() -> None:
    branch = [row(2, B, 5, (1, A)), row(3, B, 9, (2, B))]
    epochs = Epochs([row(1, A, 0), *branch, row(3, C, 7, (1, A))])
    assert rows_of(epochs) == [(1, A, 0, 7), (3, C, 7, OFFSET_END)]
    assert [epochs.clamp_offset(0, at, (3, B)) for at in (4, 6, 30)] == [4, 5, 5]


def test_a_position_that_a_later_epoch_has_cut_off() -> None:
    epochs = Epochs([row(1, A, 0), row(2, B, 5, (1, A)), row(3, C, 9, (2, B))])
    assert [epochs.clamp_offset(0, 12, epoch) for epoch in ((1, A), (2, B), (3, C))] == [5, 9, 12]


def test_an_unknown_epoch_is_valid_up_to_the_first_offset_that_is_known() -> None:
    epochs = Epochs([row(4, B, 50, (3, A)), row(5, C, 60, (4, B))])
    assert not epochs.knows((3, A)) and epochs.knows((4, B))
    assert [epochs.clamp_offset(0, at, (3, A)) for at in (20, 70)] == [20, 50]
    assert rows_of(epochs)[0] == (4, B, 50, 60)


def test_an_epoch_is_spent_once_nothing_of_it_is_left() -> None:
    first, lower, head = row(1, A, 0), row(2, A, 7, (1, A)), row(2, B, 5, (1, A))
    epochs = Epochs([first, lower, head])
    assert [epochs.is_spent(first, [at]) for at in (4, 5)] == [False, True]
    assert [epochs.is_spent(lower, [at]) for at in (6, 7)] == [False, True]
    assert not epochs.is_spent(head, [9])


def test_the_current_epoch_is_never_spent() -> None:
    only = row(1, A, 0)
    assert not Epochs([only]).is_spent(only, [9])


@pytest.mark.parametrize("parent", [(2, B), (3, C), (2, C)])
def test_a_parent_that_is_not_lower_ends_the_line(parent: Epoch) -> None:
    epochs = Epochs([row(2, B, 3, parent), row(2, C, 4, (2, B))])
    assert rows_of(epochs)[-1] == (2, C, 4, OFFSET_END)
    assert epochs.clamp_offset(0, 9, (2, B)) <= 9


@st.composite
def histories(draw: st.DrawFn) -> list[EpochRow]:
    """Epochs that processes raise from any that they know, each from what it has numbered so far."""
    made = [row(1, A, draw(st.integers(0, 3)))]
    for origin in range(2, draw(st.integers(2, 8))):
        parent = draw(st.sampled_from(made))
        start = parent.starts[0] + draw(st.integers(0, 4))
        made.append(row(parent.epoch[0] + draw(st.integers(1, 2)), origin, start, parent.epoch))
    return made


def valid_under(made: list[EpochRow], head: EpochRow, offset: int) -> Epoch | None:
    """The model: who numbered this offset, as the home of an epoch saw it."""
    known = {one.epoch: one for one in made}
    at: EpochRow | None = head
    while at is not None and offset < at.starts[0]:
        at = known.get(at.parent)
    return None if at is None else at.epoch


@given(histories(), st.integers(0, 40))
def test_segments_are_what_the_home_of_the_highest_epoch_saw(made: list[EpochRow], offset: int) -> None:
    epochs = Epochs(made)
    epochs.check()
    found = [(one.number, one.origin) for one in epochs.segments(0) if one.start <= offset < one.end]
    expected = valid_under(made, max(made, key=lambda one: one.epoch), offset)
    assert found == ([] if expected is None else [expected])


@given(histories(), st.data(), st.integers(0, 40))
def test_a_settled_position_has_the_same_messages_below_it(made: list[EpochRow], data: st.DataObject, at: int) -> None:
    """A reader of everything below `at` under an epoch has read everything below the settled position."""
    epochs, reader = Epochs(made), data.draw(st.sampled_from(made))
    head = max(made, key=lambda one: one.epoch)
    settled = epochs.clamp_offset(0, at, reader.epoch)
    assert settled <= at
    assert all(valid_under(made, reader, one) == valid_under(made, head, one) for one in range(settled))
    later = [one for one in range(settled, at) if valid_under(made, reader, one) == valid_under(made, head, one)]
    assert not later, "a position that was valid was given up"


@given(histories())
def test_segments_have_no_gap(made: list[EpochRow]) -> None:
    for one, other in pairwise(Epochs(made).segments(0)):
        assert one.end == other.start
