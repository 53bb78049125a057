"""Blocks as they lie in a file: raw, and as formats 2 and 3 had them."""

from __future__ import annotations

import pytest

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.packed_block import BlockDamaged, OpenBlockCache
from crdtstream.storage.blocks import RAW_FORMAT, RAW_HEAD_BYTES, OldBlockReader, raw_parts_of, read_raw
from crdtstream.storage.recovery import CheckpointDamaged
from tests.storage.old_blocks import as_format_2, packed_as_format_3, raw_as_format_3

FORM_BYTES = 1
PACKED_HEAD_BYTES = 81
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


def read(payload: bytes, version: int = 3) -> dict[int, Block]:
    blocks: dict[int, Block] = {}
    reader = OldBlockReader(OpenBlockCache(1 << 20), blocks)
    reader.begin("blocks-3", FILE, version)
    reader.add_section(100, payload)
    return blocks


def assert_same(again: Block, block: Block, count: int) -> None:
    again.check()
    assert again.kept(count) == block.kept(count)
    assert again.data() == block.entry_slice(0, count)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_raw_blocks_come_back_as_they_were(count: int) -> None:
    found = read(b"".join([raw_as_format_3(block, count) for block in BLOCKS]))
    for index, (block, (place, again)) in enumerate(zip(BLOCKS, found.items(), strict=True)):
        assert not again.is_packed
        assert_same(again, block, count)
        assert (place, again.place, again.stored_count) == (BASE | index, BASE | index, count)
        assert again.stored_bytes == len(raw_as_format_3(block, count))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_blocks_of_format_2_are_placed_by_their_offset(count: int) -> None:
    parts = [as_format_2(block, count) for block in BLOCKS]
    found = read(b"".join(parts), RAW_FORMAT)
    offset = 100
    for part, block, (place, again) in zip(parts, BLOCKS, found.items(), strict=True):
        assert_same(again, block, count)
        assert (place, again.place, again.stored_bytes) == (BASE | offset, BASE | offset, len(part))
        offset += len(part)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_what_is_written_raw_is_what_format_2_had(count: int) -> None:
    for block in BLOCKS:
        payload = b"".join(raw_parts_of(block, count))
        assert payload == as_format_2(block, count)
        again, end = read_raw(b"..." + payload, 3)
        assert end == 3 + len(payload)
        assert_same(again, block, count)


LARGE = [
    block_of(NOW_MS, 1, 1, sealed=True, count=64),
    block_of(NOW_MS, 1, 3, sealed=True, count=64),
    block_of(2**32 - 2, 1, 1, sealed=True, count=64),
    block_of(NOW_MS, 1, 2**40, sealed=True, count=64),
]


@pytest.mark.parametrize("is_cold", [False, True])
def test_packed_blocks_come_back_closed(is_cold: bool) -> None:
    """Packed by who wrote it, or before; then in column layout."""
    blocks = [block_of(NOW_MS, 1, 1 + index, sealed=True, count=64) for index in range(2)] if is_cold else LARGE
    for block in blocks:
        if is_cold:
            block.pack(OpenBlockCache(1 << 20))
            assert block.is_packed and block.packed_form is not None and block.packed_form.in_column_layout
    payloads = [packed_as_format_3(block) for block in blocks]
    assert all(block.is_packed == is_cold for block in blocks)
    found = read(b"".join(payloads))
    for block, payload, again in zip(blocks, payloads, found.values(), strict=True):
        assert again.is_packed and again.sealed and again.packed_form is not None
        assert len(payload) == again.stored_bytes < block.byte_count
        asked = (again.id_at(0), again.counter_at(0), again.counter_sum(0, 64))
        assert again.is_packed, "it was opened for what stands beside the packed form"
        assert asked == (block.ids(0, 1)[0], block.counters(0, 1)[0], sum(block.counters(0, 64)))
        assert_same(again, block, 64)


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
    payload = bytearray(raw_as_format_3(BLOCKS[0], 5))
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
    payload = bytearray(packed_as_format_3(LARGE[0]))
    payload[offset] = value
    with pytest.raises(CheckpointDamaged, match="blocks-3"):
        read(bytes(payload))


def test_what_a_writer_packed_can_get_column_layout_later() -> None:
    block = block_of(NOW_MS, 1, 1, sealed=True, count=256)
    again = read(packed_as_format_3(block))[BASE]
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
    payload = bytearray(packed_as_format_3(LARGE[0]))
    payload[-1] ^= 1
    payload[-20:-10] = bytes(10)
    block = read(bytes(payload))[BASE]
    with pytest.raises(BlockDamaged, match=f"of {block.count} entries from .* Restart the region"):
        block.check()
    assert block.is_packed


def test_a_packed_form_of_another_block_is_an_error_when_it_is_opened() -> None:
    blocks = [block_of(NOW_MS + at, 1, 1, sealed=True, count=300) for at in (0, 1)]
    first, other = [read(packed_as_format_3(block))[BASE] for block in blocks]
    assert first.packed_form is not None and other.packed_form is not None
    first.packed_form.packed = other.packed_form.packed
    with pytest.raises(BlockDamaged, match="unpacks to other entries"):
        first.check()


@pytest.mark.parametrize("length", [4, PACKED_HEAD_BYTES - 1])
def test_half_a_head_is_named(length: int) -> None:
    half = packed_as_format_3(LARGE[0])[:length]
    with pytest.raises(CheckpointDamaged, match="truncated"):
        read(raw_as_format_3(BLOCKS[0], 5) + half)
    with pytest.raises(CheckpointDamaged, match="truncated"):
        read(raw_as_format_3(BLOCKS[0], 5) + raw_as_format_3(BLOCKS[0], 5)[:20])
