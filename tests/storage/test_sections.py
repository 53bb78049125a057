"""Blocks as they lie in a file."""

from __future__ import annotations

import pytest

from crdtstream.core.block import Block
from crdtstream.core.encoding import encode_entry
from crdtstream.storage.sections import BLOCK_BYTES, CheckpointDamaged, block_parts, read_blocks

WIDTHS_OFFSET = BLOCK_BYTES - 4


def block_of(first: int, step_ms: int, gap: int, *, sealed: bool) -> Block:
    block = Block()
    for index in range(5):
        entry_id = (first + step_ms * index, 1 + 65_536 * index)
        block.append(entry_id, 9 + gap * index, encode_entry(entry_id, [b"f", b"%d" % index]))
    if sealed:
        block.seal()
    return block


BLOCKS = [
    block_of(1_795_251_600_000, 1, 1, sealed=True),
    block_of(1_795_251_600_000, 1, 3, sealed=True),
    block_of(2**32 - 2, 1, 1, sealed=True),
    block_of(1_795_251_600_000, 1, 2**40, sealed=True),
    block_of(1_795_251_600_000, 1, 1, sealed=False),
    block_of(1_795_251_600_000, 1, 3, sealed=False),
]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_blocks_come_back_as_they_were(count: int) -> None:
    payload = b"".join(part for block in BLOCKS for part in block_parts(block, count))
    found: dict[int, Block] = {}
    read_blocks("blocks-3", 3, 100, memoryview(payload), found)
    place = 3 << 40 | 100
    for block, (at, again) in zip(BLOCKS, found.items(), strict=True):
        again.check()
        assert again.kept(count) == block.kept(count)
        assert again.data() == block.entry_slice(0, count)
        assert (at, again.place, again.stored_count) == (place, place, count)
        place += again.stored_bytes
    assert place == (3 << 40 | 100) + len(payload)


@pytest.mark.parametrize(
    ("offset", "value"), [(0, 0), (0, 200), (8, 1), (WIDTHS_OFFSET, 3), (WIDTHS_OFFSET, 0), (WIDTHS_OFFSET + 3, 8)]
)
def test_a_head_that_does_not_fit_is_named(offset: int, value: int) -> None:
    payload = bytearray(b"".join(block_parts(BLOCKS[0], 5)))
    payload[offset] = value
    with pytest.raises(CheckpointDamaged, match="blocks-3"):
        read_blocks("blocks-3", 3, 100, memoryview(payload), {})


def test_half_a_head_is_named() -> None:
    payload = b"".join(block_parts(BLOCKS[0], 5)) + b"half"
    with pytest.raises(CheckpointDamaged, match="truncated"):
        read_blocks("blocks-3", 3, 100, memoryview(payload), {})
