"""Blocks as they lie in a file: raw, packed, and as format 2 had them."""

from __future__ import annotations

import struct

import pytest

from crdtstream.core.block import Block
from crdtstream.core.cold import Codec, Shelf
from crdtstream.core.encoding import encode_entry
from crdtstream.protocols.columns import column_bytes
from crdtstream.protocols.state_rows import Placed
from crdtstream.storage.blocks import (
    BLOCK_BYTES,
    HEAD_BYTES,
    PACKED_HEAD_BYTES,
    RAW_FORMAT,
    BlockImage,
    BlockReader,
)
from crdtstream.storage.recovery import CheckpointDamaged
from crdtstream.storage.sections import FORMAT_VERSION

WIDTHS_OFFSET = BLOCK_BYTES - 4
FORM_OFFSET = BLOCK_BYTES
FILE = 3
BASE = FILE << 40


def block_of(first: int, step_ms: int, gap: int, *, sealed: bool, count: int = 5) -> Block:
    block = Block()
    for index in range(count):
        entry_id = (first + step_ms * index, 1 + 65_536 * index)
        block.append(entry_id, 9 + gap * index, encode_entry(entry_id, [b"f", b"%d" % index]))
    if sealed:
        block.seal()
    return block


NOW_MS = 1_795_251_600_000
BLOCKS = [
    block_of(NOW_MS, 1, 1, sealed=True),
    block_of(NOW_MS, 1, 3, sealed=True),
    block_of(2**32 - 2, 1, 1, sealed=True),
    block_of(NOW_MS, 1, 2**40, sealed=True),
    block_of(NOW_MS, 1, 1, sealed=False),
    block_of(NOW_MS, 1, 3, sealed=False),
]


def written(block: Block, count: int, *, packs: bool = False) -> bytes:
    return b"".join(BlockImage(block, count, packs).parts(Codec()))


def as_format_2(block: Block, count: int) -> bytes:
    """What the release before wrote."""
    data = block.entry_slice(0, count)
    ms_base, counter_base, columns = block.kept(count)
    widths = bytes([column.itemsize if column else 0 for column in columns])
    head = struct.pack("<4Q4s", count, len(data), ms_base, counter_base, widths)
    return b"".join([head, *[column_bytes(column) for column in columns], data])


def read(payload: bytes, version: int = FORMAT_VERSION) -> dict[int, Placed]:
    reader = BlockReader(Shelf(1 << 20))
    reader.begin("blocks-3", FILE, version)
    reader.take(100, payload)
    return reader.placed


def assert_same(again: Block, block: Block, count: int) -> None:
    again.check()
    assert again.kept(count) == block.kept(count)
    assert again.data() == block.entry_slice(0, count)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_raw_blocks_come_back_as_they_were(count: int) -> None:
    placed = read(b"".join([written(block, count) for block in BLOCKS]))
    for index, (block, (place, (again, low_id, low_counter))) in enumerate(zip(BLOCKS, placed.items(), strict=True)):
        assert not again.closed
        assert_same(again, block, count)
        assert (place, again.place, again.stored_count) == (BASE | index, BASE | index, count)
        assert (low_id, low_counter) == (block.id_at(0), block.counter_at(0))
        assert again.stored_bytes == block.stored_bytes == len(written(block, count))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_blocks_of_format_2_are_placed_by_their_offset(count: int) -> None:
    parts = [as_format_2(block, count) for block in BLOCKS]
    placed = read(b"".join(parts), RAW_FORMAT)
    offset = 100
    for part, block, (place, (again, _, _)) in zip(parts, BLOCKS, placed.items(), strict=True):
        assert_same(again, block, count)
        assert (place, again.place, again.stored_bytes) == (BASE | offset, BASE | offset, len(part))
        offset += len(part)


LARGE = [
    block_of(NOW_MS, 1, 1, sealed=True, count=64),
    block_of(NOW_MS, 1, 3, sealed=True, count=64),
    block_of(2**32 - 2, 1, 1, sealed=True, count=64),
    block_of(NOW_MS, 1, 2**40, sealed=True, count=64),
]


@pytest.mark.parametrize("is_cold", [False, True])
def test_packed_blocks_come_back_closed(is_cold: bool) -> None:
    """Packed by who writes it, or before; transposed then."""
    blocks = [block_of(NOW_MS, 1, 1 + index, sealed=True, count=64) for index in range(2)] if is_cold else LARGE
    for block in blocks:
        if is_cold:
            block.pack(Shelf(1 << 20))
            assert block.closed and block.cold is not None and block.cold.is_transposed
    payloads = [written(block, 64, packs=True) for block in blocks]
    assert all(block.closed == is_cold for block in blocks)
    placed = read(b"".join(payloads))
    for block, payload, (again, low_id, low_counter) in zip(blocks, payloads, placed.values(), strict=True):
        assert again.closed and again.sealed and again.cold is not None
        assert len(payload) == again.stored_bytes == block.stored_bytes < block.byte_count
        sums = [one.counter_sum(0, 64) for one in (again, block)]
        assert sums[0] == sums[1] and again.counter_sum(0, 64) == sum(block.counters(0, 64))
        assert again.closed, "it was opened for its sum"
        assert (low_id, low_counter) == (block.id_at(0), block.counter_at(0))
        assert_same(again, block, 64)


def test_what_would_not_shrink_is_raw() -> None:
    (again, _, _) = read(written(BLOCKS[0], 1, packs=True))[BASE]
    assert not again.closed


def test_what_is_captured_stays_as_it_was() -> None:
    """The block grows, or is closed, before it is written."""
    growing, resting = block_of(NOW_MS, 1, 1, sealed=False), block_of(NOW_MS, 1, 1, sealed=True, count=64)
    images = [BlockImage(growing, 5, False), BlockImage(resting, 64, True)]
    expected = [written(growing, 5), written(resting, 64, packs=True)]
    growing.append((NOW_MS + 100, 2**20), 999, encode_entry((NOW_MS + 100, 2**20), [b"f", b"v"]))
    resting.pack(Shelf(1 << 20))
    assert [b"".join(image.parts(Codec())) for image in images] == expected


@pytest.mark.parametrize(
    ("offset", "value"),
    [(0, 0), (0, 200), (8, 1), (WIDTHS_OFFSET, 3), (WIDTHS_OFFSET, 0), (WIDTHS_OFFSET + 3, 8), (FORM_OFFSET, 1)],
)
def test_a_raw_head_that_does_not_fit_is_named(offset: int, value: int) -> None:
    payload = bytearray(written(BLOCKS[0], 5))
    payload[offset] = value
    with pytest.raises(CheckpointDamaged, match="blocks-3"):
        read(bytes(payload))


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, 0),
        (0, 200),
        (8, 1),
        (WIDTHS_OFFSET, 3),
        (WIDTHS_OFFSET + 2, 4),
        (FORM_OFFSET, 0),
        (FORM_OFFSET, 3),
        (HEAD_BYTES, 0),
        (HEAD_BYTES + 2, 1),
        (PACKED_HEAD_BYTES, 0),
    ],
)
def test_a_packed_head_that_does_not_fit_is_named(offset: int, value: int) -> None:
    payload = bytearray(written(LARGE[0], 64, packs=True))
    payload[offset] = value
    with pytest.raises(CheckpointDamaged, match="blocks-3"):
        read(bytes(payload))


@pytest.mark.parametrize("length", [4, HEAD_BYTES + 10])
def test_half_a_head_is_named(length: int) -> None:
    half = written(LARGE[0], 64, packs=True)[:length]
    with pytest.raises(CheckpointDamaged, match="truncated"):
        read(written(BLOCKS[0], 5) + half)
