"""Rows: read from one payload, or from pieces that are cut anywhere."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols.columns import CodecError
from crdtstream.protocols.rows import Row, RowStream

values = st.one_of(st.integers(-5, 2**63), st.binary(max_size=50), st.none(), st.booleans())
rows = st.lists(st.lists(values, min_size=1, max_size=16).map(tuple), max_size=10)


def read(stream: RowStream) -> list[Row]:
    found: list[Row] = []
    row = stream.next()
    while row is not None:
        found.append(row)
        row = stream.next()
    return found


@given(rows, st.integers(1, 40))
def test_rows_may_be_cut_anywhere(written: list[Row], size: int) -> None:
    data = b"".join(msgpack.packb(row) for row in written)
    stream = RowStream()
    found: list[Row] = []
    for start in range(0, len(data), size):
        stream.feed(data[start : start + size])
        found += read(stream)
    assert found == written


@pytest.mark.parametrize("data", [b"\x05", b"\xc1", b"\x90", msgpack.packb([0] * 17), msgpack.packb({})])
def test_what_is_no_row_is_refused(data: bytes) -> None:
    stream = RowStream()
    stream.feed(data)
    with pytest.raises(CodecError):
        stream.next()
