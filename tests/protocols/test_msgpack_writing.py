"""Values that are written one by one have the bytes that msgpack gives them."""

from __future__ import annotations

import msgpack
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from crdtstream.core.values.entry_id import U64_MAX
from crdtstream.protocols.columns import column
from crdtstream.protocols.msgpack_writing import (
    write_bytes,
    write_column_head,
    write_flag,
    write_in_column,
    write_number,
    write_row,
)

EDGES = [1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 61, 1 << 63, 1 << 64]
at_edges = st.sampled_from([number for edge in EDGES for number in (edge - 1, edge) if number <= U64_MAX])
u64 = st.integers(0, 5) | at_edges | st.integers(0, U64_MAX)
numbers = u64 | st.integers(-(1 << 63), -1) | st.sampled_from([-1, -32, -33])
values = st.lists(numbers | st.booleans() | st.binary(max_size=4), min_size=1, max_size=15)


@given(values)
@example([b"x" * 255, b"x" * 256, b"", 0, -1, U64_MAX])
def test_row_as_msgpack_packs_it(row: list[int | bool | bytes]) -> None:
    writer = BytesWriter()
    write_row(writer, len(row))
    for value in row:
        if isinstance(value, bool):
            write_flag(writer, value)
        elif isinstance(value, int):
            write_number(writer, value)
        else:
            write_bytes(writer, value)
    assert writer.getvalue() == msgpack.packb(row)


@given(st.lists(u64, max_size=31))
def test_column_as_msgpack_packs_it(row: list[int]) -> None:
    writer = BytesWriter()
    write_column_head(writer, len(row))
    for number in row:
        write_in_column(writer, number)
    assert writer.getvalue() == msgpack.packb(column(row))
