"""Tokens and cursors as text, and the rows that stand for all that a region has applied."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.tokens import (
    CURSOR,
    GARBLED,
    NEWER,
    OTHER_CLUSTER,
    OTHER_SUBJECT,
    TOKEN,
    Unreadable,
    decode,
    encode,
    session_rows,
)
from crdtstream.core.values.causality import ORIGIN_MAX, VersionVector, is_origin
from tests.commands.stream_region import Region

ORIGINS = st.integers(1, ORIGIN_MAX).filter(is_origin)
VECTORS = st.dictionaries(ORIGINS, st.integers(1, 2**64 - 1), max_size=8).map(VersionVector)


def reason_of(text: bytes, kind: bytes = TOKEN, cluster: str = "shop", subject: bytes = b"") -> int:
    with pytest.raises(Unreadable) as caught:
        decode(kind, text, cluster, subject)
    return caught.value.reason


@given(VECTORS, st.text(max_size=8), st.binary(max_size=8))
def test_a_text_gives_back_its_rows(rows: VersionVector, cluster: str, subject: bytes) -> None:
    text = encode(CURSOR, cluster, rows.items(), subject)
    assert text.isascii() and text.decode().isprintable() and b" " not in text
    assert decode(CURSOR, text, cluster, subject) == rows


@given(VECTORS, st.data())
def test_a_changed_text_is_refused(rows: VersionVector, data: st.DataObject) -> None:
    text = bytearray(encode(TOKEN, "shop", rows.items()))
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[at]))
    assert reason_of(bytes(text)) in (GARBLED, NEWER)


def test_bits_behind_the_last_byte_count() -> None:
    text = encode(TOKEN, "shop", [(1, 5)])
    assert len(text[3:]) % 4, "every bit of the last character counts"
    changed = [text[:-1] + bytes([letter]) for letter in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter != text[-1]]
    assert {reason_of(one) for one in changed} == {GARBLED}


@given(VECTORS, st.integers(0, 200))
def test_a_cut_text_is_refused(rows: VersionVector, length: int) -> None:
    text = encode(TOKEN, "shop", rows.items())
    assert reason_of(text[: min(length, len(text) - 1)]) == GARBLED


@given(st.binary(max_size=60))
def test_any_other_text_is_refused(text: bytes) -> None:
    assert reason_of(text) in (GARBLED, NEWER)


@given(st.binary(max_size=40))
def test_rows_that_no_release_writes_are_refused(rows: bytes) -> None:
    body = crc32(b"shop").to_bytes(4, "big") + bytes(4) + rows
    body += crc32(b"t1-" + body).to_bytes(4, "big")
    text = b"t1-" + urlsafe_b64encode(body).rstrip(b"=")
    try:
        read = decode(TOKEN, text, "shop")
    except Unreadable as error:
        assert error.reason == GARBLED
    else:
        read.check()


def test_the_reason_says_what_the_text_is() -> None:
    text = encode(TOKEN, "shop", [(1, 5)], b"s")
    assert reason_of(text, subject=b"s", cluster="bank") == OTHER_CLUSTER
    assert reason_of(text, subject=b"other") == OTHER_SUBJECT
    assert reason_of(text, kind=CURSOR, subject=b"s") == GARBLED
    assert reason_of(b"t2-anything") == NEWER


def test_the_last_own_effect_stands_for_all_before_it() -> None:
    east, west, north = Region(1), Region(2), Region(3)
    north.say("XADD n * f v")
    west.say("XADD s * f v")
    west.hear(north)
    assert session_rows(west.replica.applied) == VersionVector({2: 1, 3: 1})
    west.say("XADD s * f v")
    west.close_turn()
    assert session_rows(west.replica.applied) == VersionVector({2: 2})
    east.say("XADD e * f v")
    west.hear(east)
    assert session_rows(west.replica.applied) == VersionVector({1: 1, 2: 2})


def test_before_the_first_own_effect_every_row_is_named() -> None:
    east, west = Region(1), Region(2)
    assert session_rows(east.replica.applied) == VersionVector()
    west.say("XADD s * f v")
    east.hear(west)
    assert session_rows(east.replica.applied) == VersionVector({2: 1})
    east.say("XADD s * f v")
    assert session_rows(east.replica.applied) == VersionVector({1: 1, 2: 1})
    east.close_turn()
    assert session_rows(east.replica.applied) == VersionVector({1: 1})


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=20))
def test_who_has_the_rows_has_everything(steps: list[tuple[int, int]]) -> None:
    """Each step: a region writes, or if both numbers differ, it hears another one. At the end every region that has
    another's rows has its vector.
    """
    regions = {number: Region(number) for number in (1, 2, 3)}
    for number, other in steps:
        if number == other:
            regions[number].say("XADD s * f v")
            regions[number].close_turn()
        else:
            hear_causally(regions, number, other)
    for one in regions.values():
        rows = session_rows(one.replica.applied)
        assert one.replica.applied.vector.descends(rows)
        for other_region in regions.values():
            vector = other_region.replica.applied.vector
            assert not vector.descends(rows) or vector.descends(one.replica.applied.vector)


def hear_causally(regions: dict[int, Region], number: int, other: int) -> None:
    """Apply what the other has applied and this one lacks, in an order that keeps causes first."""
    mine, theirs = regions[number].replica, regions[other].replica.applied.vector
    waiting = [
        batch for region in regions.values() for batch in region.batches if theirs.contains(batch.origin, batch.last)
    ]
    for _ in range(len(waiting)):
        for batch in waiting:
            if mine.applied.vector.admits(batch.origin, batch.first, batch.context):
                mine.apply_batch(batch)
