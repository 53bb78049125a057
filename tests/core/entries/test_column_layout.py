"""Column layout: whatever comes back is what went in, and entries of one shape become small."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.column_layout import WIDTH_MAX, from_column_layout, to_column_layout
from crdtstream.core.entries.encoding import encode_entry

pieces = st.sampled_from([b"", b"a", b"21.5", b"\r\n", b"\r", b"\n", b"$1\r\na", b"1-1"])
rows = st.lists(st.lists(pieces, min_size=2, max_size=6).filter(lambda row: len(row) % 2 == 0), min_size=1, max_size=6)


def entries_of(rows: list[list[bytes]]) -> tuple[bytes, list[bytes]]:
    made = [encode_entry((at + 1, at * 7), row) for at, row in enumerate(rows)]
    return b"".join(made), [b"%d-%d" % (at + 1, at * 7) for at in range(len(rows))]


@given(rows)
def test_what_was_put_into_column_layout_comes_back(rows: list[list[bytes]]) -> None:
    data, ids = entries_of(rows)
    kept = to_column_layout(data, ids)
    assert not kept or from_column_layout(kept, ids) == data


@given(
    st.lists(st.lists(st.binary(max_size=9).filter(lambda one: b"\r\n" not in one), min_size=4, max_size=4), min_size=1)
)
def test_entries_of_one_shape_are_put_into_column_layout(rows: list[list[bytes]]) -> None:
    data, ids = entries_of(rows)
    kept = to_column_layout(data, ids)
    # A value that ends in CR makes another CRLF with what follows, in none of these.
    assert kept or any(one.endswith(b"\r") or one.startswith(b"\n") for row in rows for one in row)
    assert not kept or from_column_layout(kept, ids) == data


def test_names_are_there_once_and_ids_not_at_all() -> None:
    data, ids = entries_of([[b"temperature", b"%d" % at] for at in range(100)])
    kept = to_column_layout(data, ids)
    assert kept.count(b"temperature") == 1 and b"100-693" not in kept
    assert len(zlib.compress(kept)) < len(zlib.compress(data)) // 2


def test_entries_that_differ_in_shape_are_left_as_they_are() -> None:
    data, ids = entries_of([[b"a", b"1"], [b"a", b"1", b"b", b"2"]])
    assert to_column_layout(data, ids) == b""
    data, ids = entries_of([[b"a", b"1"], [b"a", b"2"]])
    assert to_column_layout(data, [*ids[1:], *ids[:1]]) == b""
    assert to_column_layout(data[:-2], ids) == b""


def test_entries_of_too_many_fields_are_left_as_they_are() -> None:
    data, ids = entries_of([[b"f"] * WIDTH_MAX])
    assert to_column_layout(data, ids) == b""


def test_a_value_that_looks_like_the_end_of_an_entry_comes_back() -> None:
    data, ids = entries_of([[b"f", b"\r\n*2\r\n$3\r\n2-7"], [b"f", b"\r\n*2\r\n$3\r\n3-7"]])
    kept = to_column_layout(data, ids)
    assert kept and from_column_layout(kept, ids) == data
