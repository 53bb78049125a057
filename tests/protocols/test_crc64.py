"""CRC-64 beside its check value, and beside the definition by bits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols.crc64 import POLYNOMIAL, crc64

REFLECTED = int(f"{POLYNOMIAL & (1 << 64) - 1:064b}"[::-1], 2)


def bit_by_bit(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (REFLECTED if crc & 1 else 0)
    return crc


def test_check_value() -> None:
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA


@given(st.binary())
def test_definition(data: bytes) -> None:
    assert crc64(data) == bit_by_bit(data)


@given(st.binary(), st.binary())
def test_parts(one: bytes, other: bytes) -> None:
    assert crc64(memoryview(other), crc64(one)) == crc64(one + other)
