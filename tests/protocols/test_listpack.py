"""Listpacks: what is written is read, and whatever else is a fault."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crdtstream.protocols.listpack import DumpFault, Elements, integer, packed_of, text


def elements_of(packed: bytes) -> list[bytes]:
    elements = Elements(packed)
    found = []
    while not elements.is_done():
        found.append(elements.pop())
    return found


NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(NUMBERS, st.binary(), st.sampled_from([b"x" * 64, b"x" * 5000, b"x" * 20_000]))))
@example([number + shift for bits in (7, 12, 15, 23, 31, 63) for number in (2**bits, -(2**bits)) for shift in (-1, 0)])
def test_what_is_written_is_read(values: list[int | bytes]) -> None:
    fitting = [value for value in values if isinstance(value, bytes) or -(2**63) <= value < 2**63]
    packed = packed_of([integer(value) if isinstance(value, int) else text(value) for value in fitting])
    assert elements_of(packed) == [b"%d" % value if isinstance(value, int) else value for value in fitting]


@given(st.binary(max_size=40))
def test_any_elements(body: bytes) -> None:
    with suppress(DumpFault):
        elements_of((len(body) + 7).to_bytes(4, "little") + b"\0\0" + body + b"\xff")


@pytest.mark.parametrize("packed", [b"", b"\7\0\0\0\0\0", b"\x08\0\0\0\0\0\xff", b"\7\0\0\0\0\0\0"])
def test_no_listpack(packed: bytes) -> None:
    with pytest.raises(DumpFault):
        elements_of(packed)
