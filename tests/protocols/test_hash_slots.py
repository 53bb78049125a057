"""Hash slots beside those that Redis documents, and hash tags beside the rule as Redis states it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols.hash_slots import HASH_SLOTS, hash_slot_of, shard_of, slot_ranges

XMODEM = 0x1021


def slot_by_definition(key: bytes) -> int:
    crc = 0
    for byte in key:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (XMODEM if crc & 0x8000 else 0)) & 0xFFFF
    return crc % HASH_SLOTS


def tag_by_definition(key: bytes) -> bytes:
    _, opened, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return tag if opened and closed and tag else key


@pytest.mark.parametrize(
    ("key", "hash_slot"),
    [(b"", 0), (b"123456789", 0x31C3), (b"foo", 12182), (b"somekey", 11058), (b"foo{hash_tag}", 2515)],
)
def test_hash_slots_are_those_of_redis(key: bytes, hash_slot: int) -> None:
    assert hash_slot_of(key) == hash_slot


@pytest.mark.parametrize(
    ("key", "tag"),
    [
        (b"{user1000}.following", b"user1000"),
        (b"foo{}{bar}", b"foo{}{bar}"),
        (b"foo{{bar}}zap", b"{bar"),
        (b"foo{bar}{zap}", b"bar"),
        (b"}foo{bar", b"}foo{bar"),
        (b"}foo{bar}", b"bar"),
    ],
)
def test_only_a_tag_counts(key: bytes, tag: bytes) -> None:
    assert tag_by_definition(key) == tag
    assert hash_slot_of(key) == slot_by_definition(tag)


@given(st.lists(st.sampled_from([b"{", b"}", b"a", b"\0", b"\xff"])).map(b"".join) | st.binary())
def test_every_key_is_as_defined(key: bytes) -> None:
    assert hash_slot_of(key) == slot_by_definition(tag_by_definition(key))


@given(st.binary(max_size=8), st.integers(1, 1000))
def test_a_key_is_in_the_shard_whose_range_has_its_hash_slot(key: bytes, count: int) -> None:
    low, high = slot_ranges(count)[shard_of(key, count)]
    assert low <= hash_slot_of(key) <= high
