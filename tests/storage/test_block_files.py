"""Block files in format 4: written from images, read with packed forms or without."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import blake2b

import pytest

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.packed_block import BlockDamaged, OpenBlockCache
from crdtstream.storage.block_files import BlockReader
from crdtstream.storage.block_heads import HEAD_BYTES
from crdtstream.storage.block_images import BlockImage, BlockPacker, PackedImage, stored_bytes
from crdtstream.storage.blocks import raw_parts_of
from crdtstream.storage.disk import DiskFailed
from crdtstream.storage.recovery import CheckpointDamaged
from crdtstream.storage.sections import FORMAT_VERSION, HEADS, PACKED, RAW, Draft, section_heads, write_section
from simulations.disk import SimulatedDisk
from tests.storage.test_blocks import BASE, FILE, LARGE, NOW_MS, assert_same, block_of

NAME = "blocks-3"


class Written:
    """A file with these blocks, in two sections, and what it told of them."""

    def __init__(self, blocks: list[Block], *, spills: bool = False) -> None:
        self.disk = SimulatedDisk()
        self.draft = Draft(NAME, FILE, RAW)
        packer = BlockPacker(spills)
        middle = len(blocks) // 2
        self.places: list[int] = []
        for at, block in enumerate(blocks):
            if at == middle:
                write_section(self.disk, self.draft.drain(), packer)
            self.places.append(self._add(block))
        section = self.draft.drain()
        section.closes = True
        write_section(self.disk, section, packer)

    def _add(self, block: Block) -> int:
        form = block.packed_form
        if form is not None and (form.packed or form.spilled):
            return self.draft.add_packed(PackedImage(block))
        if block.sealed:
            return self.draft.add_image(BlockImage(block))
        return self.draft.add(raw_parts_of(block, block.count))

    def read(self, *, spills: bool = False) -> list[Block]:
        reader = BlockReader(self.disk, OpenBlockCache(1 << 20), spills)
        reader.read(NAME, FILE, self.draft.byte_count)
        return [reader.blocks[place] for place in sorted(reader.blocks)]

    def lay(self) -> None:
        self.draft.written.file = self.disk.open_file(NAME)
        self.draft.written.lay(1_000)


def mixed() -> list[Block]:
    """Sealed ones, one that was packed before, and one that grows."""
    blocks = [block_of(NOW_MS, 1, gap, sealed=True, count=64) for gap in (1, 3, 2**40)]
    blocks[1].pack(OpenBlockCache(1 << 20))
    return [*blocks, block_of(NOW_MS, 1, 3, sealed=False), block_of(2**32 - 2, 1, 1, sealed=True, count=64)]


def incompressible() -> Block:
    """The hashes of a few numbers."""
    block = Block()
    for at in range(2):
        block.append((at, 0), at + 1, encode_entry((at, 0), [b"f", blake2b(b"%d" % at).digest()]))
    block.seal()
    return block


@pytest.mark.parametrize("spills", [False, True])
def test_blocks_come_back_as_they_were(spills: bool) -> None:
    blocks = mixed()
    written = Written(blocks)
    found = written.read(spills=spills)
    assert written.places == [block.place for block in found] == [BASE + at for at in range(len(blocks))]
    for block, again in zip(blocks, found, strict=True):
        form = again.packed_form
        assert again.stored_count == again.count and again.sealed == again.is_packed == block.sealed
        assert again.is_spilled() == (spills and block.sealed)
        if form is not None:
            assert again.stored_bytes == stored_bytes(len(form.packed) if form.packed else form_bytes(again))
        asked = (again.id_at(0), again.counter_at(0), again.counter_sum(0, again.count))
        assert again.is_packed == block.sealed, "it was opened for what its head tells"
        assert asked == (block.id_at(0), block.counter_at(0), sum(block.counters(0, block.count)))
        assert_same(again, block, block.count)


def form_bytes(block: Block) -> int:
    assert block.handle is not None
    return block.handle.length


def test_a_block_learns_where_it_lies_once_it_is_told() -> None:
    blocks = mixed()
    written = Written(blocks, spills=True)
    assert not any(block.handle for block in blocks)
    written.lay()
    for block, again in zip(blocks, written.read(spills=True), strict=True):
        if not block.sealed:
            assert block.handle is again.handle is None
            continue
        one, other = block.handle, again.handle
        assert one is not None and other is not None
        assert (one.offset, one.length, one.checksum, one.place) == (
            other.offset,
            other.length,
            other.checksum,
            other.place,
        )
        assert one.in_column_layout == other.in_column_layout and one.is_whole(one.read())
        data = block.data()
        block.spill(OpenBlockCache(1 << 20))
        assert block.data() == data


def test_the_sum_of_entries_is_known_without_them() -> None:
    blocks = mixed()
    sums = [Block.checksum(block_of_same(block)) for block in blocks]
    written = Written(blocks, spills=True)
    written.lay()
    found = written.read(spills=True)
    for block, again, total in zip(blocks, found, sums, strict=True):
        if block.sealed:
            assert block.unsummed() == again.unsummed() == 0 and again.is_spilled()
            assert block.checksum() == again.checksum() == total
    loose = Written(mixed()).read()
    assert all(block.unsummed() for block in loose)
    reader = BlockReader(written.disk, OpenBlockCache(1 << 20), True, with_sums=False)
    reader.read(NAME, FILE, written.draft.byte_count)
    assert all(block.unsummed() for block in reader.blocks.values()), "a backup is not verified"


def block_of_same(block: Block) -> Block:
    """Another one with the same entries."""
    ms_base, counter_base, columns = block.viewed().kept(block.count)
    return Block.of_kept(ms_base, counter_base, columns, block.viewed().data())


@pytest.mark.parametrize("spills", [False, True])
def test_what_would_not_shrink_is_raw_unless_the_region_spills(spills: bool) -> None:
    block = incompressible()
    written = Written([block], spills=spills)
    (again,) = written.read(spills=spills)
    assert again.is_packed == again.is_spilled() == spills
    assert block.stored_bytes == again.stored_bytes
    assert_same(again, block, 2)


def test_what_was_not_worth_packing_is_packed_to_be_spilled() -> None:
    """An idle walk has tried it, so it has an empty packed form."""
    block = incompressible()
    block.pack(OpenBlockCache(1 << 20))
    assert block.packed_form is not None and not block.packed_form.packed
    (again,) = Written([block], spills=True).read()
    assert again.is_packed
    assert_same(again, block, 2)


def test_what_is_captured_stays_as_it_was() -> None:
    block, twin = [block_of(NOW_MS, 1, 1, sealed=True, count=64) for _ in range(2)]
    draft = Draft(NAME, FILE, RAW)
    draft.add_image(BlockImage(block))
    block.pack(OpenBlockCache(1 << 20))
    disk = SimulatedDisk()
    section = draft.drain()
    section.closes = True
    write_section(disk, section, BlockPacker())
    assert disk.read(NAME, 0, 1 << 20) == (other := Written([twin]).disk).read(NAME, 0, other.size(NAME))


def test_whether_column_layout_was_tried_is_known_after_a_start() -> None:
    blocks = [block_of(NOW_MS, 1, 1, sealed=True, count=64) for _ in range(2)]
    blocks[0].pack(OpenBlockCache(1 << 20))
    tried, untried = [block.packed_form for block in Written(blocks).read()]
    assert tried is not None and tried.is_layout_tried and tried.in_column_layout
    assert untried is not None and not untried.is_layout_tried


# Copies of spilled blocks


def test_a_spilled_block_is_copied_as_it_lies() -> None:
    blocks = mixed()
    first = Written(blocks)
    first.lay()
    for block in blocks:
        if block.sealed:
            block.spill(OpenBlockCache(1 << 20))
    second = Written(blocks)
    assert not any(block.packed_alone().open_blocks.opened for block in blocks if block.is_packed)
    for block, again in zip(blocks, second.read(spills=True), strict=True):
        if block.handle is not None and again.handle is not None:
            assert block.handle.read() == again.handle.read()
        assert_same(again, block, block.count)


def test_a_damaged_block_is_not_copied_and_is_named() -> None:
    blocks = mixed()
    first = Written(blocks)
    first.lay()
    handle = blocks[0].handle
    assert handle is not None
    blocks[0].spill(OpenBlockCache(1 << 20))
    first.disk.flip_bit(NAME, handle.offset + 5)
    with pytest.raises(DiskFailed, match=f"block 0 of the file blocks-00000003, at byte {handle.offset}, is damaged"):
        Written(blocks)
    assert blocks[0].handle is handle
    first.disk.flip_bit(NAME, handle.offset + 5)
    first.disk.fail_next_read()
    with pytest.raises(DiskFailed, match="cannot read blocks-3"):
        Written(blocks)


# Damage


def sections_of(written: Written, kind: int) -> list[tuple[int, int, int]]:
    heads = section_heads(written.disk, NAME, FILE, written.draft.byte_count, FORMAT_VERSION)
    return [(head.offset, head.begin, head.length) for head in heads if head.kind == kind]


def test_heads_stand_behind_what_they_tell_of() -> None:
    written = Written(mixed())
    (offset, _, length), *others = sections_of(written, HEADS)
    assert not others and length == 4 * HEAD_BYTES
    assert all(begin < offset for begin, _, _ in sections_of(written, PACKED) + sections_of(written, RAW))


def test_a_flipped_bit_is_found_where_it_is_read() -> None:
    """In packed forms when a block is opened, or at a start that reads them; elsewhere at each start."""
    written = Written(mixed())
    packed = [range(begin, begin + length) for _, begin, length in sections_of(written, PACKED)]
    for offset in range(24, written.draft.byte_count, 7):
        written.disk.flip_bit(NAME, offset)
        with pytest.raises(CheckpointDamaged) as caught:
            written.read()
        assert caught.value.file == NAME and caught.value.offset <= offset
        if any(offset in each for each in packed):
            damaged = 0
            for block in written.read(spills=True):
                try:
                    block.data()
                except BlockDamaged as error:
                    damaged += 1
                    assert "its checksum is wrong" in str(error)
            assert damaged == 1
        else:
            with pytest.raises(CheckpointDamaged):
                written.read(spills=True)
        written.disk.flip_bit(NAME, offset)
    assert len(written.read()) == 5


def test_many_heads_are_written_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtstream.storage.sections.HEADS_BYTES_MAX", 1)
    written = Written(mixed())
    assert len(sections_of(written, HEADS)) == 2
    for block, again in zip(mixed(), written.read(spills=True), strict=True):
        assert_same(again, block, block.count)


# Files that lie on disks since the format was made


def test_a_file_of_format_4_is_what_it_was() -> None:
    blocks = [*LARGE[:2], block_of(NOW_MS, 1, 3, sealed=False)]
    disk = SimulatedDisk()
    data = b64decode(FORMAT_4)
    disk.create(NAME, 0)
    disk.write(NAME, 0, data)
    for spills in (False, True):
        reader = BlockReader(disk, OpenBlockCache(1 << 20), spills)
        reader.read(NAME, FILE, len(data))
        found = [reader.blocks[BASE + at] for at in range(3)]
        for block, again in zip(blocks, found, strict=True):
            assert again.is_spilled() == (spills and block.sealed)
            assert_same(again, block, block.count)
    assert FORMAT_VERSION == 4


def as_text(written: Written) -> str:
    """For the constant below, when there is another format."""
    return b64encode(written.disk.read(NAME, 0, written.draft.byte_count)).decode()


FORMAT_4 = (
    "Q1JEVFNFQwoEAAAAAwAAAAAAAABS6qOlXZ5iBwJIAgAAAAAAAPp/okYotS/9YKQO9REA5mhZIKAnGQ7+/7/+WdUljtWvpeLEkVLKJFNKVrBFjbfW"
    "Y+0OYABKAEoACT2TVpBSFhJKwnvt7HF21unDyi/7RFGxPgedRlXH58NSY3xCdAzXJTSjUpZ/Cp4gKCQUEhgiIkJ8f8VCwimgkNABLodhKPCgwUBg"
    "ADA8eBCAwQIDwzAAcHAggQKEAQEhjDOR2xhWNUfFKPJZikGXMRPjU7LWGVO3LjnDba84w2jZl8oMVlrpGT9lHG3oigxjcUhGkeo2wiCWI7aLz+XF"
    "izk63sK1h6yiLAQ0FAfNhzfX+MzcZo0Zjxit4em8r0aHc2TU4MjIWO5/42yy3DTMtk2nUfb17gbZVL42brfWNsY2KrFh+6yTRm0SLQ3ahYSKby5y"
    "AYUEU1k5YSrVJBMlEtWdgyQkdCcic9ztQjGHvf67HHW6SJGD/s8IOf75me+Y++Mah99byTh63h07eLn8pmQdNzb1ocOmhmLiqKEJgJmoYUBQiEiu"
    "hfYMYIMkSdMBEkhwIBSDMAQIhkAcEBbSdo/67+Ub3xg83GrYnGy61spEIaUTSis5X3UcH4MN11iRCCR0QGFp7I/8dGzeqHwgul+ss3n8D9NtvOUU"
    "YL98RzZQITU2hx7LloIYNeMDdApgAfIMrlgW6Rd5FDcYgOqtPsYQEdBJo8D4bXaJxAx/BEUerEJURQ2QJ9nbEJtBinI7gYE3nbsJDtWsyqiMmimZ"
    "ki2VKHoWSFeHwURpBaQ/dFV0WDqHdhNPYFX20J8eQLS7/mGoAUQJMPICUQIAAAAAAACa93xHKLUv/WCkDz0SAHZpWyCwJ8sBSJIUcsEoHEEKlQBV"
    "l1LKJFPKxhCiWKwBqFvbAWYASwBKAEFKaTiUhPfa2ePsrNOHlV/2iaJifQ46jaqOz4elxviE6BiuS2hGpSz/FDxJYDgYDgwRESG+v6LhcBIwHFrA"
    "ZaFQMJCQkJBAQKFQCJDgoDCgAKCQkBCgAYMDhUIBwAMEChYgICAgBHIbw6rmqBhFPksx6DJmYnxK1jpj6tYlZ7jtFWcYLftSmcFKKz3jp4yjDV2R"
    "YSwOyShS3UYYxHLEdvG5vHgxR8dbuPaQVZSGQ8+kFeKg+fDmGp+Z26wx4xGjNTyd99XocI6MGhwZGcv9b5xNlpuG2bbpNMq+3t0gm8rXxu3W2sbY"
    "RiU2bJ910qhNoqVB23Co+OYixziThoOprJwwlWqSiRKJ6s5BEhK6E5E57nahmMNe/12OOl2kyEH/Z4Qc//zMd8z9cY3D761kHD3vjh28XH5Tso4b"
    "m/rQYVNDMXHU0NAwgJqoYUBQiEjshfYMYIMkSdMBEkhwIBSDMAQIhkAcUBbSdo/67+WvvxpcbiXkgNGGttrp3bfa2mo7hTqILLrqUF8dMdxwUzvp"
    "80d+OjYdJTCDCHrvs5ARzvFWa4kG2BDfkQ1USNXtospaMiPIF+OBTgEkQN7BJcs0/YJH5wQDeA4VXgwRV500CozfypdIzOLVUOSJKotV1AB5kr0N"
    "sRmoKLcTGHjTuZugKfwmzdVc25Vd2bqaomeBdXUYTJRWQPpDV0WHpXNoN/GEWBb16Y/20wPIueu3hhoS+MzpAbsBAAAAAAAAsSaTLgIAAAAAAAAA"
    "BQAAAAAAAADvAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAICAgIgHpV/aEBAACBelX9oQEAAIJ6Vf2hAQAAg3pV/aEBAACEelX9oQEAAAEAAAAAAAAA"
    "AQABAAAAAAABAAIAAAAAAAEAAwAAAAAAAQAEAAAAAAAJAAAAAAAAAAwAAAAAAAAADwAAAAAAAAASAAAAAAAAABUAAAAAAAAALAAAAAAAAABcAAAA"
    "AAAAAI0AAAAAAAAAvgAAAAAAAADvAAAAAAAAACoyDQokMTUNCjE3OTUyNTE2MDAwMDAtMQ0KKjINCiQxDQpmDQokMQ0KMA0KKjINCiQxOQ0KMTc5"
    "NTI1MTYwMDAwMS02NTUzNw0KKjINCiQxDQpmDQokMQ0KMQ0KKjINCiQyMA0KMTc5NTI1MTYwMDAwMi0xMzEwNzMNCioyDQokMQ0KZg0KJDENCjIN"
    "CioyDQokMjANCjE3OTUyNTE2MDAwMDMtMTk2NjA5DQoqMg0KJDENCmYNCiQxDQozDQoqMg0KJDIwDQoxNzk1MjUxNjAwMDA0LTI2MjE0NQ0KKjIN"
    "CiQxDQpmDQokMQ0KNA0K/TZSJAPaAAAAAAAAACUqFykRAAAAAAAAAAApAAAAAAAAAEgCAAAAAAAAe2IXj0AAAAAAAAAAoAwAAAAAAAAAAAAAoQEA"
    "AAkAAAAAAAAAgHpV/aEBAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAFVJqJY3NaeaFQEAAAAAAAAAggIAAAAAAABRAgAAAAAAAGzu"
    "u59AAAAAAAAAAKAMAAAAAAAAAAAAAKEBAAAAAAAAAAAAAIB6Vf2hAQAAAQAAAAAAAAAJAAAAAAAAAOAZAAAAAAAAAAAAAAAAAAAcqgtp2gScDw=="
)
