"""Entries as RESP, there and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.encoding import encode_entry, entry_fields
from crdtstream.core.values.entry_id import ID_MAX, U64_MAX, EntryId

u64 = st.one_of(st.integers(0, 6), st.integers(2**32 - 2, 2**32 + 2), st.just(U64_MAX))
entry_ids = st.tuples(u64, u64)


def test_an_entry_is_its_reply() -> None:
    entry = encode_entry((110, 1), [b"a", b"xyz"])
    assert entry == b"*2\r\n$5\r\n110-1\r\n*2\r\n$1\r\na\r\n$3\r\nxyz\r\n"


def test_long_values_and_many_fields() -> None:
    fields = [b"f", b"v" * 600] * 300
    entry = encode_entry(ID_MAX, fields)
    assert entry.startswith(b"*2\r\n$41\r\n18446744073709551615-18446744073709551615\r\n*600\r\n$1\r\nf\r\n$600\r\nv")
    assert entry_fields(entry) == fields


@given(entry_ids, st.lists(st.binary(max_size=30) | st.just(b"\r\n$1\r\n"), max_size=8))
def test_fields_come_back(entry_id: EntryId, fields: list[bytes]) -> None:
    assert entry_fields(encode_entry(entry_id, fields)) == fields
