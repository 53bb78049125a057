"""LZF beside a plain reading of its format, in steps, and damage."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols.listpack import DumpFault
from crdtstream.protocols.lzf import CONTROL_BYTES, STEP_CONTROLS, decompressed, decompressing

LITERALS = st.binary(min_size=1, max_size=32)
# How far back, and how many bytes.
REPEATS = st.tuples(st.integers(0, 8_191), st.integers(3, 264))


def packed(parts: list[bytes | tuple[int, int]]) -> tuple[bytes, bytes]:
    """Compressed bytes made of these controls, and what they mean, byte by byte."""
    data, plain = bytearray(), bytearray()
    for part in parts:
        if isinstance(part, bytes):
            data += bytes([len(part) - 1]) + part
            plain += part
        elif plain:
            distance, count = part[0] % len(plain), part[1] - 2
            data += bytes([min(count, 7) << 5 | distance >> 8, *([count - 7] if count >= 7 else []), distance & 0xFF])
            for _ in range(count + 2):
                plain.append(plain[-1 - distance])
    return bytes(data), bytes(plain)


@given(st.lists(LITERALS | REPEATS, min_size=1))
def test_every_control(parts: list[bytes | tuple[int, int]]) -> None:
    data, plain = packed(parts)
    assert decompressed(data, len(plain)) == plain


@given(st.binary(max_size=40), st.integers(0, 300))
def test_any_compressed_data(data: bytes, size: int) -> None:
    with suppress(DumpFault):
        assert len(decompressed(data, size)) == size


def test_compressed() -> None:
    assert decompressed(b"\x02abc\xe0\x04\x02\x00!", 17) == b"abc" + b"abcabcabcabca" + b"!"
    for data, size in ((b"\x00", 1), (b"\x20\x00", 3), (b"\x00a", 2), (b"\x00a", 0), (b"\xe0", 9), (b"\x01a", 2)):
        with pytest.raises(DumpFault):
            decompressed(data, size)


@pytest.mark.parametrize(
    ("data", "size"), [(b"\x00a" * 10_000, 10_000), (b"\x00a" + b"\xe0\xff\x00" * 10_000, 2_640_001)]
)
def test_no_step_is_long(data: bytes, size: int) -> None:
    """Whether each control makes one byte or hundreds."""
    costs = list(decompressing(data, size))
    assert len(costs) >= 9
    assert max(costs) <= STEP_CONTROLS * (264 + CONTROL_BYTES)


def test_what_is_too_large_is_not_made() -> None:
    """A string that says it has one byte, and has millions."""
    steps = decompressing(b"\x00a" + b"\xe0\xff\x00" * 100_000, 1)
    assert next(steps) > 1
    with pytest.raises(DumpFault, match="another size"):
        next(steps)
