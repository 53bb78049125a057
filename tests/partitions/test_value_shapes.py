"""Values of calls come back as they were sent; a generation does not fit into one number of the wire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.partitions.state import NUMBER_MAX
from crdtstream.partitions.value_shapes import BOOKMARK, GENERATION, MESSAGES, POLLED
from crdtstream.partitions.values import Bookmark, NewMessage, Polled

NUMBERS = st.integers(0, NUMBER_MAX)
OFFSETS = st.dictionaries(st.integers(0, 64), st.integers(-1, 1 << 50), max_size=4)
DOTS = st.tuples(st.integers(1, 1 << 40), st.integers(0, 1 << 40))


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_generation_is_three_numbers(resets: int, number: int, count: int) -> None:
    generation = GENERATION.read([resets, number, count])
    assert GENERATION.write(generation) == [resets, number, count]


@given(NUMBERS, DOTS, DOTS, OFFSETS)
def test_bookmarks_and_what_was_polled(
    generation: int, epoch: tuple[int, int], start: tuple[int, int], offsets: dict[int, int]
) -> None:
    for shape, kind in ((BOOKMARK, Bookmark), (POLLED, Polled)):
        sent = kind(generation, epoch, start, offsets)
        found = shape.read(shape.write(sent))
        assert type(found) is kind and shape.write(found) == shape.write(sent)


@given(st.lists(st.tuples(st.integers(-1, 64), st.none() | st.binary(), st.binary()), max_size=4))
def test_messages(rows: list[tuple[int, bytes | None, bytes]]) -> None:
    messages = [NewMessage(*row) for row in rows]
    assert MESSAGES.write(MESSAGES.read(MESSAGES.write(messages))) == MESSAGES.write(messages)
