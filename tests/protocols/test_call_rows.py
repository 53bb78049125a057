"""Calls between regions as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols.call_rows import pack, unpack
from crdtstream.protocols.columns import CodecError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4),
)


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_a_row_comes_back(row: list[object]) -> None:
    assert unpack(pack(row)) == row


@given(st.binary(max_size=40))
def test_other_bytes_are_refused(payload: bytes) -> None:
    try:
        assert isinstance(unpack(payload), list)
    except CodecError as error:
        assert str(error)


@pytest.mark.parametrize("payload", [b"", b"\x90", b"\x01", b"\xc1", pack([1]) + b"x"])
def test_what_is_no_row_is_refused(payload: bytes) -> None:
    with pytest.raises(CodecError):
        unpack(payload)
