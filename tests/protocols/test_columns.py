"""Columns: bytes of integers, whole and in groups, on machines of either byte order."""

from __future__ import annotations

import sys
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.uint_encoding import LITTLE, in_order
from crdtstream.core.values.entry_id import U64_MAX
from crdtstream.protocols import columns
from crdtstream.protocols.columns import (
    CodecError,
    block_pieces,
    column,
    grouped_column,
    read_column,
    read_grouped,
    shifted_down,
)

numbers = st.lists(st.integers(0, 5) | st.integers(U64_MAX - 5, U64_MAX), max_size=6)


@given(numbers)
def test_a_column_is_little_endian(values: list[int]) -> None:
    raw = b"".join(value.to_bytes(8, "little") for value in values)
    assert column(values) == raw
    assert list(read_column(raw, "x")) == values


def test_a_big_endian_machine_swaps_and_keeps_its_own() -> None:
    values = array("Q", [1, 2**40])
    swapped = in_order(values, machine_little=False)
    assert swapped.tobytes() == values.tobytes()[7::-1] + values.tobytes()[:7:-1]
    assert in_order(swapped, machine_little=False) == values == array("Q", [1, 2**40])


@pytest.mark.interpreted
def test_a_big_endian_machine_swaps_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LITTLE", not LITTLE)
    assert read_column((1).to_bytes(8, sys.byteorder) * 2, "x") == array("Q", [1 << 56] * 2)


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5), st.sampled_from([1, 60]))
def test_shifted_down(by: int, values: list[int], repeats: int) -> None:
    values = [max(value, by) for value in values] * repeats
    assert shifted_down(array("Q", values), by) == column(value - by for value in values)


@given(st.dictionaries(st.integers(1, 255), numbers, max_size=4))
def test_groups_come_back(groups: dict[int, list[int]]) -> None:
    raw = grouped_column(sorted(groups.items()))
    assert {origin: list(values) for origin, values in read_grouped(raw, "x", 1).items()} == groups


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1], "does not fit"),
        ([1, 1], "does not fit"),
        ([1, U64_MAX, 7, 7], "does not fit"),
        ([1, 3, 7, 7, 7], "does not fit"),
        ([256, 0], "not an origin"),
        ([2, 0, 1, 0], "origin 1 comes after origin 2"),
        ([2, 0, 2, 0], "origin 2 comes after origin 2"),
    ],
)
def test_bad_groups(values: list[int], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        read_grouped(column(values), "x", 2)


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=12), st.booleans(), st.data())
def test_pieces_join_to_the_slice_and_join_nothing_in_the_block(
    values: list[bytes], joined: bool, data: st.DataObject
) -> None:
    block = Block()
    for index, value in enumerate(values, 1):
        block.append((5, index), index, encode_entry((5, index), [b"f", value]))
    if joined:
        block.data()
    low = data.draw(st.integers(0, len(values) - 1))
    high = data.draw(st.integers(low + 1, len(values)))
    chunks, read = block.chunks[:], block.read
    pieces = block_pieces(block, low, high)
    assert block.chunks == chunks and block.read == read
    assert b"".join(pieces) == block.entry_slice(low, high) and b"" not in pieces
