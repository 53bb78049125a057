"""Blocks that are packed, opened and packed again, against blocks that never are."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.packed_block import OPEN_BYTES, OpenBlockCache, differences, folded, sums, unfolded
from crdtstream.core.values.entry_id import EntryId
from tests.core.trees import Row, block_of, row

U64 = 2**64 - 1

steps = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 7, 2**33]), st.integers(1, 3), st.sampled_from([1, 1, 5, 2**33]), st.integers(0, 90)
    ),
    min_size=1,
    max_size=30,
)


def rows_of(made: list[tuple[int, int, int, int]]) -> list[Row]:
    """Rows whose IDs and counters ascend by these steps: some columns need 64 bits."""
    rows: list[Row] = []
    ms, seq, counter = 2**32 - 5, 0, 0
    for ms_step, seq_step, counter_step, size in made:
        ms, seq, counter = ms + ms_step, seq_step if ms_step else seq + seq_step, counter + counter_step
        rows.append(row((ms, seq), counter, size))
    return rows


def packed(rows: list[Row], open_blocks: OpenBlockCache) -> Block:
    block = block_of(rows)
    block.seal()
    block.read = False
    block.pack(open_blocks)
    return block


def compressible(count: int, first: int = 1) -> list[Row]:
    return [row((number, 1), number, 50) for number in range(first, first + count)]


@given(steps)
def test_a_folded_block_unfolds_to_the_same(made: list[tuple[int, int, int, int]]) -> None:
    block = block_of(rows_of(made))
    block.seal()
    _, _, columns = block.kept(block.count)
    again, data = unfolded(folded(columns, block.data()), block.count)
    assert data == block.data()
    assert [column.tolist() for column in again] == [column.tolist() for column in columns]
    assert [column.typecode for column in again if column] == [column.typecode for column in columns if column]


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_sums_undo_differences(numbers: list[int]) -> None:
    raw = array("I", numbers).tobytes()
    assert sums(differences(raw)) == raw


ANSWERS: dict[str, Callable[[Block, EntryId, int, int], object]] = {
    "data": lambda block, _id, _low, _high: block.data(),
    "entry": lambda block, _id, low, _high: block.entry(low),
    "slice": lambda block, _id, low, high: block.entry_slice(low, high),
    "start": lambda block, _id, low, _high: block.start_of(low),
    "size": lambda block, _id, low, high: block.byte_size(low, high),
    "fitting": lambda block, _id, low, high: block.fitting(low, high, 120),
    "id": lambda block, _id, low, _high: block.id_at(low),
    "ids": lambda block, _id, low, high: block.ids(low, high),
    "counter": lambda block, _id, low, _high: block.counter_at(low),
    "counters": lambda block, _id, low, high: list(block.counters(low, high)),
    "counter sum": lambda block, _id, low, high: block.counter_sum(low, high),
    "sum of all": lambda block, _id, _low, _high: block.counter_sum(0, block.count),
    "lower": lambda block, entry_id, _low, _high: block.lower_bound(entry_id),
    "upper": lambda block, entry_id, _low, _high: block.upper_bound(entry_id),
    "by counter": lambda block, _id, low, _high: block.lower_bound_counter(low),
    "above": lambda block, _id, low, _high: block.lies_above(low, block),
    "columns": lambda block, _id, low, _high: block.columns(low),
    "kept": lambda block, _id, low, _high: block.kept(low),
    "ends": lambda block, _id, low, high: block.ends(low, high),
    "joined": lambda block, _id, low, high: block.joined([(low, high)]).data(),
    "outside": lambda block, _id, low, high: block.outside(0, [(low, high)]),
    "checksum": lambda block, _id, _low, _high: block.checksum(),
    "part": lambda block, _id, low, high: block.checksum_of(low, high),
}


@pytest.mark.parametrize("name", ANSWERS)
@given(made=steps, data=st.data())
def test_a_packed_block_answers_as_an_open_one(
    name: str, made: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    rows = [*rows_of(made), *rows_of([*made, *made])[len(made) :]]
    open_blocks = OpenBlockCache(0)
    block, other = packed(rows, open_blocks), block_of(rows)
    other.seal()
    low = data.draw(st.integers(0, len(rows) - 1))
    high = data.draw(st.integers(low + 1, len(rows)))
    entry_id = data.draw(st.sampled_from([one[0] for one in rows]))
    assert ANSWERS[name](block, entry_id, low, high) == ANSWERS[name](other, entry_id, low, high)
    open_blocks.check()
    block.check()


def test_counts_and_contiguous_counters_need_no_opening() -> None:
    open_blocks = OpenBlockCache(1 << 20)
    block = packed(compressible(20), open_blocks)
    assert (block.count, block.byte_size(0, 20), block.counter_at(7)) == (20, block.byte_count, 8)
    assert (list(block.counters(3, 5)), block.counter_sum(0, 20), block.lower_bound_counter(5)) == ([4, 5], 210, 4)
    assert block.is_packed and open_blocks.opened == 0


def test_the_sum_of_listed_counters_needs_no_opening() -> None:
    block = packed([row((number, 1), 2 * number, 50) for number in range(1, 21)], OpenBlockCache(1 << 20))
    assert block.counter_sum(0, 20) == 420
    assert block.is_packed
    assert block.counter_sum(0, 2) == 6
    assert not block.is_packed


def test_what_does_not_shrink_stays_open() -> None:
    open_blocks = OpenBlockCache(0)
    block = Block()
    noise = bytes(number * number * 37 % 251 for number in range(60))
    block.append((1, 1), 1, encode_entry((1, 1), [b"f", noise]))
    block.seal()
    assert block.pack(open_blocks) == 0
    assert not block.is_packed and block.packed_form is not None and not block.packed_form.packed
    block.check()
    open_blocks.check()


def test_what_is_saved_is_what_is_counted() -> None:
    open_blocks = OpenBlockCache(0)
    block = block_of(compressible(64))
    block.seal()
    content = len(folded(block.kept(64)[2], block.data()))
    saved = block.pack(open_blocks)
    assert block.packed_form is not None
    assert saved == content - len(block.packed_form.packed) > content // 2


def test_entries_of_one_shape_are_packed_column_by_column_where_that_pays() -> None:
    open_blocks = OpenBlockCache(0)
    fields = [[b"temperature", b"%d.%d" % (at * 37 % 41, at * 71 % 97)] for at in range(100)]
    rows = [((2**40 + at, 5), at + 1, encode_entry((2**40 + at, 5), one)) for at, one in enumerate(fields)]
    block, again = packed(rows, open_blocks), block_of(rows)
    assert block.is_packed and block.packed_form is not None and block.packed_form.in_column_layout
    assert block.data() == again.data() and block.ids(0, 100) == again.ids(0, 100)
    hashes = [sha256(b"%d" % at).hexdigest().encode() for at in range(100)]
    noise = packed(
        [((at + 1, 0), at + 1, encode_entry((at + 1, 0), [b"f", one])) for at, one in enumerate(hashes)], open_blocks
    )
    assert noise.is_packed and noise.packed_form is not None and not noise.packed_form.in_column_layout


def test_the_first_id_and_counter_are_known_without_opening() -> None:
    for gap in (1, 3):
        rows = [(entry_id, counter * gap, entry) for entry_id, counter, entry in compressible(20, 100)]
        block = packed(rows, OpenBlockCache(1 << 20))
        assert (block.id_at(0), block.counter_at(0)) == rows[0][:2] and block.is_packed


# The cache of open blocks


def opened_size(block: Block) -> int:
    """What the block counts for in the cache."""
    open_blocks = OpenBlockCache(1 << 30)
    again = block_of([(block.id_at(at), block.counter_at(at), block.entry(at)) for at in range(block.count)])
    again.seal()
    again.pack(open_blocks)
    again.opened()
    return open_blocks.open_bytes


def test_the_cache_keeps_to_its_limit_and_closes_the_oldest_first() -> None:
    first = packed(compressible(20), OpenBlockCache(0))
    size = opened_size(first)
    assert size > OPEN_BYTES
    open_blocks = OpenBlockCache(2 * size + 100)
    blocks = [packed(compressible(20, 100 * number), open_blocks) for number in range(1, 5)]
    for block in blocks:
        block.id_at(1)
        open_blocks.check()
    assert [block.is_packed for block in blocks] == [True, True, False, False]
    assert open_blocks.opened == 4


def test_a_block_that_was_read_has_another_chance() -> None:
    size = opened_size(block_of(compressible(20)))
    open_blocks = OpenBlockCache(2 * size + 100)
    blocks = [packed(compressible(20, 100 * number), open_blocks) for number in range(1, 4)]
    blocks[0].entry(0)
    blocks[1].id_at(1)
    blocks[2].id_at(1)
    assert [block.is_packed for block in blocks] == [False, True, False]


def test_the_block_in_use_stays_open_beyond_the_limit() -> None:
    open_blocks = OpenBlockCache(0)
    one, two = packed(compressible(20), open_blocks), packed(compressible(20, 100), open_blocks)
    one.entry(0)
    assert not one.is_packed
    two.entry(0)
    assert one.is_packed and not two.is_packed
    open_blocks.check()


def test_a_lower_limit_closes_at_once() -> None:
    open_blocks = OpenBlockCache(1 << 20)
    blocks = [packed(compressible(20, 100 * number), open_blocks) for number in range(1, 4)]
    for block in blocks:
        block.entry(0)
    open_blocks.limit(0)
    assert all(block.is_packed for block in blocks)
    open_blocks.check()


def test_age_closes_what_was_not_read_since() -> None:
    open_blocks = OpenBlockCache(1 << 20)
    one, two = packed(compressible(20), open_blocks), packed(compressible(20, 100), open_blocks)
    one.entry(0)
    two.entry(0)
    open_blocks.age()
    assert not one.is_packed and not two.is_packed
    two.entry(3)
    open_blocks.age()
    assert one.is_packed and not two.is_packed
    open_blocks.age()
    open_blocks.age()
    assert two.is_packed and open_blocks.open_bytes == 0


@pytest.mark.interpreted
def test_a_copy_has_a_cache_of_its_own() -> None:
    open_blocks = OpenBlockCache(1 << 20)
    block = packed(compressible(20), open_blocks)
    block.entry(0)
    twin = copy.deepcopy(block)
    assert twin.packed_form is not None
    twin.packed_form.open_blocks.limit(0)
    assert twin.is_packed and not block.is_packed
    assert twin.data() == block.data()
    open_blocks.check()


@pytest.mark.interpreted
def test_check_finds_a_wrong_size() -> None:
    open_blocks = OpenBlockCache(1 << 20)
    packed(compressible(20), open_blocks).entry(0)
    open_blocks.open_bytes += 1
    with pytest.raises(AssertionError, match="miscounted"):
        open_blocks.check()


def test_numbers_up_to_the_largest() -> None:
    rows = [row((number, U64 if number % 2 else 0), number * 2**40, 30) for number in range(1, 20)]
    block = packed(rows, OpenBlockCache(0))
    assert [(block.id_at(at), block.counter_at(at), block.entry(at)) for at in range(block.count)] == rows
