"""A block against a naive list of entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES, Block, entry_checksum
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.values.entry_id import ID_MAX, U64_MAX, EntryId

Row = tuple[EntryId, int, bytes]

u64 = st.one_of(st.integers(0, 6), st.integers(2**32 - 2, 2**32 + 2), st.integers(2**53, 2**53 + 2), st.just(U64_MAX))
entry_ids = st.tuples(u64, u64)
field_lists = st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=6)), min_size=1, max_size=3).map(
    lambda pairs: [part for pair in pairs for part in pair]
)


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    ids = sorted(draw(st.sets(entry_ids, max_size=12)))
    counters = sorted(draw(st.sets(st.integers(1, 2**54), min_size=len(ids), max_size=len(ids))))
    return [(i, c, encode_entry(i, draw(field_lists))) for i, c in zip(ids, counters, strict=True)]


def same_block(block: Block) -> Block:
    """One that is read from the columns of another."""
    ms, seq, counters, ends = block.columns(block.count)
    return Block.of_columns(ms, seq, counters, ends, block.data())


def block_of(rows: list[Row]) -> Block:
    block = Block()
    for entry_id, counter, entry in rows:
        block.append(entry_id, counter, entry)
    return block


def rows_of(block: Block) -> list[Row]:
    return [(block.id_at(i), block.counter_at(i), block.entry(i)) for i in range(block.count)]


@given(row_lists())
def test_rows_come_back(rows: list[Row]) -> None:
    block = block_of(rows)
    block.check()
    assert rows_of(block) == rows
    assert block.ids(0, block.count) == [row[0] for row in rows]
    assert block.data() == b"".join(row[2] for row in rows)
    assert block.byte_count == len(block.data())
    block.check()


@given(row_lists(), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=4), st.integers(0, 12))
def test_slices_are_the_same_however_far_the_chunks_are_joined(
    rows: list[Row], slices: list[tuple[int, int]], joined: int
) -> None:
    block = block_of(rows[:joined])
    block.data()
    for row in rows[joined:]:
        block.append(*row)
    for low, high in slices:
        low, high = min(low, len(rows)), min(high, len(rows))
        assert block.entry_slice(low, high) == b"".join(row[2] for row in rows[low:high])
        block.check()


@given(row_lists(), entry_ids)
def test_bounds_by_id(rows: list[Row], entry_id: EntryId) -> None:
    block = block_of(rows)
    for wanted in [entry_id] + [row[0] for row in rows]:
        assert block.lower_bound(wanted) == sum(row[0] < wanted for row in rows)
        assert block.upper_bound(wanted) == sum(row[0] <= wanted for row in rows)


@given(row_lists(), st.integers(0, 2**54))
def test_bound_by_counter(rows: list[Row], counter: int) -> None:
    assert block_of(rows).lower_bound_counter(counter) == sum(row[1] < counter for row in rows)


@given(row_lists().filter(bool), st.data(), st.integers(0, 200))
def test_fitting_is_the_longest_slice_of_so_many_bytes(rows: list[Row], data: st.DataObject, bytes_max: int) -> None:
    block = block_of(rows)
    low = data.draw(st.integers(0, len(rows) - 1))
    high = data.draw(st.integers(low + 1, len(rows)))
    ends = [end for end in range(low + 1, high + 1) if block.byte_size(low, end) <= bytes_max]
    assert block.fitting(low, high, bytes_max) == max(ends, default=low + 1)


@given(row_lists(), st.data())
def test_extend_takes_any_slice(rows: list[Row], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    low = data.draw(st.integers(cut, len(rows)))
    high = data.draw(st.integers(low, len(rows)))
    block, other = block_of(rows[:cut]), block_of(rows)
    if data.draw(st.booleans()):
        other.data()
    block.extend(other, low, high)
    for row in rows[high:]:
        block.append(*row)
    block.check()
    assert rows_of(block) == rows[:cut] + rows[low:]
    assert rows_of(other) == rows


@pytest.mark.parametrize(("count", "size"), [(BLOCK_ENTRIES, 10), (20, BLOCK_BYTES // 20)])
def test_a_block_takes_a_slice_only_if_it_has_room_or_nothing(count: int, size: int) -> None:
    other = block_of([((ms, 0), ms, bytes(size)) for ms in range(1, count + 2)])
    block, full = Block(), Block()
    assert block.extend(other, 0, count - 1) and block.extend(other, count - 1, count)
    assert not block.extend(other, count, count + 1)
    assert block.count == count
    assert full.extend(other, 0, count + 1), "an empty block takes any slice"
    full.seal()
    assert not full.extend(other, 0, 1)
    assert other.lies_above(0, Block()), "nothing lies above all of no entries"


@given(row_lists(), entry_ids, st.integers(0, 2**54), st.data())
def test_sealing_changes_nothing_that_is_read(
    rows: list[Row], entry_id: EntryId, counter: int, data: st.DataObject
) -> None:
    if not rows:
        return
    grown, sealed = block_of(rows), block_of(rows)
    sealed.seal()
    sealed.check()
    assert rows_of(sealed) == rows
    for wanted in [entry_id] + [row[0] for row in rows]:
        assert sealed.lower_bound(wanted) == grown.lower_bound(wanted)
        assert sealed.upper_bound(wanted) == grown.upper_bound(wanted)
    assert sealed.lower_bound_counter(counter) == grown.lower_bound_counter(counter)
    low = data.draw(st.integers(0, len(rows)))
    high = data.draw(st.integers(low, len(rows)))
    assert sealed.ids(low, high) == grown.ids(low, high)
    assert list(sealed.counters(low, high)) == [row[1] for row in rows[low:high]]
    assert sealed.columns(high) == grown.columns(high)
    copy = block_of(rows[:low])
    copy.extend(sealed, low, high)
    copy.check()
    assert rows_of(copy) == rows[:high]


@pytest.mark.parametrize(("step", "room"), [(1, 12), (7, 16)])
def test_a_sealed_block_of_one_region_is_narrow(step: int, room: int) -> None:
    ids = [(1_795_251_600_000 + index // 100, 1 + 65_536 * (index % 100)) for index in range(250)]
    block = block_of([(i, 2**40 + step * at, encode_entry(i, [b"f", b"v"])) for at, i in enumerate(ids)])
    block.seal()
    block.check()
    columns = [block.ms, block.seq, block._ends, *([] if block._listed is None else [block._listed])]
    assert sum(column.itemsize for column in columns) == room
    assert len(block.chunks) == 1
    assert block.ids(0, 250) == ids


@pytest.mark.parametrize(("size", "chunks"), [(100, 1), (20_000, 3)])
def test_large_chunks_are_joined_when_they_are_read(size: int, chunks: int) -> None:
    rows = [((5, at), at, encode_entry((5, at), [b"f", bytes(size)])) for at in (1, 2, 3)]
    block = block_of(rows)
    block.seal()
    assert len(block.chunks) == chunks
    block.check()
    assert rows_of(block) == rows and block.data() == b"".join(row[2] for row in rows)
    assert len(block.chunks) == 1
    block.check()


@pytest.mark.parametrize("reads_first", [False, True])
def test_large_chunks_are_no_single_entries_once_they_are_packed(reads_first: bool) -> None:
    """Packing joins them, so no index of a chunk means an entry any more: not while the block is packed, nor open."""
    rows = [((5, at), at, encode_entry((5, at), [b"f", bytes(10_000)])) for at in range(1, 6)]
    block, open_blocks = block_of(rows), OpenBlockCache(1 << 20)
    block.seal()
    assert block.pack(open_blocks) > 0
    if reads_first:
        block.opened()
    for low in range(5):
        for high in range(low + 1, 6):
            wanted = b"".join(row[2] for row in rows[low:high])
            assert block.entry_slice(low, high) == block.texts(low, high).between(low, high) == wanted
            block.check()
            if not reads_first and not block.is_packed:
                block.drop_content()
    assert rows_of(block) == rows


@pytest.mark.parametrize("gap", [0, 1])
def test_counters_are_listed_from_the_first_gap_on(gap: int) -> None:
    rows = [((ms, 1), ms, encode_entry((ms, 1), [b"f", b"v"])) for ms in range(5, 9)]
    rows += [((ms, 1), ms, encode_entry((ms, 1), [b"f", b"v"])) for ms in range(9 + gap, 13)]
    grown, extended = block_of(rows), block_of(rows[:2])
    extended.extend(grown, 2, 4)
    extended.extend(grown, 4, len(rows))
    for block in (grown, extended, same_block(grown)):
        block.check()
        assert (block._listed is None) == (gap == 0)
        assert rows_of(block) == rows


@given(row_lists(), st.booleans(), st.integers(1, 12))
def test_what_is_kept_is_the_block_again(rows: list[Row], sealed: bool, count: int) -> None:
    if not rows:
        return
    block, count = block_of(rows), min(count, len(rows))
    if sealed:
        block.seal()
    again = Block.of_kept(*block.kept(count), block.entry_slice(0, count))
    again.check()
    assert rows_of(again) == rows[:count]
    if not again.sealed:
        again.extend(block, count, len(rows))
        again.check()
        assert rows_of(again) == rows


@given(row_lists(), st.sets(st.integers(0, 11)), st.booleans(), st.sampled_from([0, 2**32 - 5, 2**32, 2**53]))
def test_what_is_joined_is_a_block_of_its_own(rows: list[Row], gone: set[int], sealed: bool, above: int) -> None:
    if above:
        rows = [(entry_id, above + index, entry) for index, (entry_id, _, entry) in enumerate(rows)]
    kept = [row for index, row in enumerate(rows) if index not in gone]
    if not kept:
        return
    block = block_of(rows)
    if sealed:
        block.seal()
    rest = block.joined(block.outside(0, [(rows[at][1], rows[at][1]) for at in sorted(gone) if at < len(rows)]))
    assert rows_of(block) == rows and rest is not block
    rest.check()
    assert rows_of(rest) == kept and same_block(rest).byte_count == rest.byte_count
    if not rest.sealed and kept[-1][0] < ID_MAX:
        rest.append(ID_MAX, 2**63, encode_entry(ID_MAX, [b"f", b"v"]))
        rest.check()


@given(row_lists(), st.integers(0, 12))
def test_checksum_is_the_sum_whenever_it_is_asked(rows: list[Row], asked_at: int) -> None:
    block = block_of(rows[:asked_at])
    block.checksum()
    for row in rows[asked_at:]:
        block.append(*row)
    assert block.checksum() == sum(entry_checksum(row[1], row[2]) for row in rows) % 2**64
    assert block.checksum() == block_of(rows).checksum() == block.checksum_of(0, block.count)


def test_checksum_sees_values_that_changed_places() -> None:
    one = block_of([((1, 1), 1, encode_entry((1, 1), [b"f", b"a"])), ((2, 1), 2, encode_entry((2, 1), [b"f", b"b"]))])
    two = block_of([((1, 1), 1, encode_entry((1, 1), [b"f", b"b"])), ((2, 1), 2, encode_entry((2, 1), [b"f", b"a"]))])
    assert one.checksum() != two.checksum()


def test_checksum_sees_another_dot() -> None:
    entry = encode_entry((1, 1), [b"f", b"a"])
    assert block_of([((1, 1), 1, entry)]).checksum() != block_of([((1, 1), 2, entry)]).checksum()


def test_of_columns_is_the_same_block() -> None:
    block = block_of([((7, 1), 3, encode_entry((7, 1), [b"f", b"a"])), ((7, 9), 8, encode_entry((7, 9), [b"f", b"b"]))])
    same = same_block(block)
    same.check()
    assert rows_of(same) == rows_of(block)
    assert same.checksum() == block.checksum()


def test_a_sealed_block_refuses() -> None:
    block = block_of([])
    block.seal()
    with pytest.raises(AssertionError):
        block.append((1, 1), 1, encode_entry((1, 1), [b"f", b"v"]))


@pytest.mark.parametrize(
    "damage",
    [
        lambda block: block.ms.append(9),
        lambda block: block.seq.__setitem__(0, 5),
        lambda block: block._ends.__setitem__(0, 1),
        lambda block: block.chunks.__setitem__(0, b"other"),
        lambda block: block._list_counters().__setitem__(1, 1),
    ],
)
def test_check_finds_damage(damage: object) -> None:
    block = block_of([((1, 1), 1, encode_entry((1, 1), [b"f", b"a"])), ((1, 2), 2, encode_entry((1, 2), [b"f", b"b"]))])
    assert callable(damage)
    damage(block)
    with pytest.raises(AssertionError):
        block.check()


@pytest.mark.parametrize(("low", "high"), [(0, 40), (20, 40), (30, 40), (39, 40), (5, 25)])
def test_wide_slices_of_loose_entries(low: int, high: int) -> None:
    rows = [((ms, 1), ms, encode_entry((ms, 1), [b"f", b"v"])) for ms in range(1, 41)]
    block = block_of(rows[:20])
    block.data()
    for row in rows[20:]:
        block.append(*row)
    assert block.entry_slice(low, high) == b"".join(row[2] for row in rows[low:high])
    block.check()
