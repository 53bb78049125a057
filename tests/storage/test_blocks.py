"""Blocks as they lie in a file: raw, packed, and as format 2 had them."""

from __future__ import annotations

import struct
from hashlib import blake2b

import pytest

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.packed_block import BlockDamaged, OpenBlockCache
from crdtstream.protocols.columns import column_bytes
from crdtstream.storage.blocks import (
    FORM_BYTES,
    PACKED_HEAD_BYTES,
    RAW_FORMAT,
    RAW_HEAD_BYTES,
    BlockImage,
    BlockPacker,
    BlockReader,
    block_parts,
)
from crdtstream.storage.recovery import CheckpointDamaged
from crdtstream.storage.sections import FORMAT_VERSION

WIDTHS_OFFSET = FORM_BYTES + RAW_HEAD_BYTES - 4
DATA_OFFSET = FORM_BYTES + 8
# In the head of a packed block: its bytes, behind entries, data and bases.
PACKED_OFFSET = FORM_BYTES + 32
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


def written(block: Block, count: int) -> bytes:
    """What a file has of a block that its writer does not pack."""
    return b"".join(block_parts(block, count))


def packed_by_writer(block: Block) -> bytes:
    return BlockPacker().pack([BlockImage(block)])[0]


def as_format_2(block: Block, count: int) -> bytes:
    """What the release before wrote."""
    data = block.entry_slice(0, count)
    ms_base, counter_base, columns = block.kept(count)
    widths = bytes([column.itemsize if column else 0 for column in columns])
    head = struct.pack("<4Q4s", count, len(data), ms_base, counter_base, widths)
    return b"".join([head, *[column_bytes(column) for column in columns], data])


def read(payload: bytes, version: int = FORMAT_VERSION) -> dict[int, Block]:
    reader = BlockReader(OpenBlockCache(1 << 20))
    reader.begin("blocks-3", FILE, version)
    reader.add_section(100, payload)
    return reader.blocks


def assert_same(again: Block, block: Block, count: int) -> None:
    again.check()
    assert again.kept(count) == block.kept(count)
    assert again.data() == block.entry_slice(0, count)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_raw_blocks_come_back_as_they_were(count: int) -> None:
    found = read(b"".join([written(block, count) for block in BLOCKS]))
    for index, (block, (place, again)) in enumerate(zip(BLOCKS, found.items(), strict=True)):
        assert not again.is_packed
        assert_same(again, block, count)
        assert (place, again.place, again.stored_count) == (BASE | index, BASE | index, count)
        assert again.stored_bytes == len(written(block, count))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_blocks_of_format_2_are_placed_by_their_offset(count: int) -> None:
    parts = [as_format_2(block, count) for block in BLOCKS]
    found = read(b"".join(parts), RAW_FORMAT)
    offset = 100
    for part, block, (place, again) in zip(parts, BLOCKS, found.items(), strict=True):
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
    """Packed by who writes it, or before; then in column layout."""
    blocks = [block_of(NOW_MS, 1, 1 + index, sealed=True, count=64) for index in range(2)] if is_cold else LARGE
    for block in blocks:
        if is_cold:
            block.pack(OpenBlockCache(1 << 20))
            assert block.is_packed and block.packed_form is not None and block.packed_form.in_column_layout
    payloads = [written(block, 64) if is_cold else packed_by_writer(block) for block in blocks]
    assert all(block.is_packed == is_cold for block in blocks)
    found = read(b"".join(payloads))
    for block, payload, again in zip(blocks, payloads, found.values(), strict=True):
        assert again.is_packed and again.sealed and again.packed_form is not None
        assert len(payload) == again.stored_bytes < block.byte_count
        assert is_cold or block.stored_bytes == len(payload)
        asked = (again.id_at(0), again.counter_at(0), again.counter_sum(0, 64))
        assert again.is_packed, "it was opened for what stands beside the packed form"
        assert asked == (block.ids(0, 1)[0], block.counters(0, 1)[0], sum(block.counters(0, 64)))
        assert_same(again, block, 64)


def test_what_would_not_shrink_is_raw() -> None:
    """The hashes of a few numbers."""
    block = Block()
    for at in range(2):
        block.append((at, 0), at + 1, encode_entry((at, 0), [b"f", blake2b(b"%d" % at).digest()]))
    block.seal()
    again = read(packed_by_writer(block))[BASE]
    assert not again.is_packed and block.stored_bytes == again.stored_bytes
    assert_same(again, block, 2)


def test_what_is_captured_stays_as_it_was() -> None:
    """The block is packed before it is written."""
    block = block_of(NOW_MS, 1, 1, sealed=True, count=64)
    image, expected = BlockImage(block), packed_by_writer(block)
    block.pack(OpenBlockCache(1 << 20))
    assert BlockPacker().pack([image]) == [expected]


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, 1),
        (0, 2),
        (FORM_BYTES, 0),
        (FORM_BYTES, 200),
        (DATA_OFFSET, 1),
        (WIDTHS_OFFSET, 3),
        (WIDTHS_OFFSET, 0),
        (WIDTHS_OFFSET + 3, 8),
    ],
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
        (0, 2),
        (0, 9),
        (FORM_BYTES, 0),
        (FORM_BYTES, 63),
        (DATA_OFFSET, 1),
        (PACKED_OFFSET, 0),
        (PACKED_OFFSET + 3, 1),
        (PACKED_HEAD_BYTES, 0),
    ],
)
def test_a_packed_head_that_does_not_fit_is_named(offset: int, value: int) -> None:
    payload = bytearray(packed_by_writer(LARGE[0]))
    payload[offset] = value
    with pytest.raises(CheckpointDamaged, match="blocks-3"):
        read(bytes(payload))


def test_what_a_writer_packed_can_get_column_layout_later() -> None:
    block = block_of(NOW_MS, 1, 1, sealed=True, count=256)
    again = read(packed_by_writer(block))[BASE]
    assert again.packed_form is not None and not again.packed_form.in_column_layout
    packed_bytes = len(again.packed_form.packed)
    saved = again.try_column_layout()
    assert (
        again.is_packed
        and again.packed_form.in_column_layout
        and len(again.packed_form.packed) == packed_bytes - saved < packed_bytes
    )
    assert again.data() == block.data() and again.ids(0, 256) == block.ids(0, 256)


def test_a_packed_form_that_was_written_wrong_is_an_error_when_it_is_opened() -> None:
    """The checksum of its section is right then, so nothing but unpacking it could tell."""
    payload = bytearray(packed_by_writer(LARGE[0]))
    payload[-1] ^= 1
    payload[-20:-10] = bytes(10)
    block = read(bytes(payload))[BASE]
    with pytest.raises(BlockDamaged, match=f"of {block.count} entries from .* Restart the region"):
        block.check()
    assert block.is_packed


def test_a_packed_form_of_another_block_is_an_error_when_it_is_opened() -> None:
    blocks = [block_of(NOW_MS + at, 1, 1, sealed=True, count=300) for at in (0, 1)]
    first, other = [read(packed_by_writer(block))[BASE] for block in blocks]
    assert first.packed_form is not None and other.packed_form is not None
    first.packed_form.packed = other.packed_form.packed
    with pytest.raises(BlockDamaged, match="unpacks to other entries"):
        first.check()


@pytest.mark.parametrize("length", [4, PACKED_HEAD_BYTES - 1])
def test_half_a_head_is_named(length: int) -> None:
    half = packed_by_writer(LARGE[0])[:length]
    with pytest.raises(CheckpointDamaged, match="truncated"):
        read(written(BLOCKS[0], 5) + half)
    with pytest.raises(CheckpointDamaged, match="truncated"):
        read(written(BLOCKS[0], 5) + written(BLOCKS[0], 5)[:20])
