"""Handles, what a request that may wait is told, and what is read without waiting."""

from __future__ import annotations

import copy
from zlib import crc32

import pytest

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import BlockDamaged, OpenBlockCache, folded
from crdtstream.core.entries.spilled import BlockHandle, NotAtOnce, SpilledReads
from tests.core.spilled_blocks import SlowFile
from tests.core.trees import block_of, row

ROWS = [row((number, 1), number, 50) for number in range(1, 101)]


def cached() -> SlowFile:
    file = SlowFile()
    file.is_cached = True
    return file


def packed_into(file: SlowFile, block: Block, cache: OpenBlockCache) -> None:
    """As a checkpoint writes a block, whether or not it is packed in memory."""
    if file.keep(block):
        return
    packed = cache.codec.pack(folded(block.as_stored(), block.data()))
    block.lie_at(handles_of(file, packed)[0])


def handles_of(file: SlowFile, *texts: bytes) -> list[BlockHandle]:
    found = []
    for text in texts:
        found.append(BlockHandle(file, len(file.data), len(text), crc32(text), False))
        file.data += text
    return found


def test_what_is_missing_is_named_together_and_then_held() -> None:
    file, reads = SlowFile(), SpilledReads()
    one, two = handles_of(file, b"one", b"two")
    held: dict[BlockHandle, bytes] = {}
    reads.begin(held)
    with pytest.raises(NotAtOnce) as missing:
        reads.demand([one, two])
    assert missing.value.handles == [one, two]
    held[one], held[two] = one.read(), two.read()
    reads.begin(held)
    reads.demand([one, two])
    assert (reads.fetch(one), reads.fetch(two), reads.waited) == (b"one", b"two", 0)


def test_what_the_system_has_in_memory_is_no_wait() -> None:
    file, reads = cached(), SpilledReads()
    (one,) = handles_of(file, b"one")
    reads.begin({})
    reads.demand([one])
    assert (reads.fetch(one), reads.at_once, reads.waited, file.reads) == (b"one", 1, 0, 1)


def test_nothing_waits_after_the_first_effect() -> None:
    file, reads = SlowFile(), SpilledReads()
    (one,) = handles_of(file, b"one")
    reads.begin({})
    reads.may_wait = False
    reads.demand([one])
    assert (reads.fetch(one), reads.waited, reads.read_bytes) == (b"one", 1, 3)


def test_what_was_held_for_a_request_ends_with_it() -> None:
    file, reads = SlowFile(), SpilledReads()
    (one,) = handles_of(file, b"one")
    reads.begin({one: b"one"})
    reads.end()
    reads.fetch(one)
    assert reads.waited == 1


def test_copies_of_a_state_share_files() -> None:
    (one,) = handles_of(SlowFile(), b"one")
    assert copy.deepcopy(one) is one


def test_a_spilled_block_is_what_it_was() -> None:
    for was_packed, was_opened in ((False, False), (True, False), (True, True)):
        cache, file = OpenBlockCache(1 << 20), cached()
        block, twin = block_of(ROWS), block_of(ROWS)
        block.seal()
        if was_packed:
            block.pack(cache)
        if was_opened:
            block.opened()
        packed_into(file, block, cache)
        before = block.held_bytes()
        assert 0 < block.spill(cache) <= before
        assert block.is_spilled() or was_opened
        cache.limit(0)
        cache.age()
        cache.age()
        assert block.is_spilled() and block.held_bytes() == 0
        block.check()
        assert (block.data(), block.ids(0, 100)) == (twin.data(), twin.ids(0, 100))
        assert list(block.counters(0, 100)) == list(twin.counters(0, 100))
        assert block.counter_sum(0, 100) == twin.counter_sum(0, 100) and block.checksum() == twin.checksum()
        cache.check()


@pytest.mark.parametrize("harm", ["flipped", "short", "unreadable"])
def test_a_spilled_block_that_is_damaged_says_so(harm: str) -> None:
    cache, file = OpenBlockCache(1 << 20), cached()
    block = block_of(ROWS)
    block.seal()
    packed_into(file, block, cache)
    block.spill(cache)
    if harm == "flipped":
        file.data[7] ^= 1
    elif harm == "short":
        del file.data[-1:]
    else:
        file.fails = True
    with pytest.raises(BlockDamaged, match="compressed block of 100 entries"):
        block.data()
