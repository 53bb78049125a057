"""Cursors: what they carry, and that nobody else can make or change one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.oci.cursors import (
    EXPIRED,
    GARBLED,
    Cursor,
    GroupCursor,
    PartitionCursor,
    decoded,
    encoded,
    seal,
    unseal,
)
from crdtstream.oci.errors import OciError
from crdtstream.partitions.values import Bookmark

SECRETS = {"one": b"a" * 32, "two": b"b" * 32}
PARTITION = PartitionCursor("ocid1.stream.oc1..s", 3, 17, (2, 1 << 40))
AT_TIME = PartitionCursor("ocid1.stream.oc1..s", 3, None, (2, 5), 1_700_000_000_123)
GROUP = GroupCursor("s", "grüppe", "i/1", 30_000, False, Bookmark(4, (2, 5), (3, 7), {0: 9, 11: 2**53}), 3, True)


def sealed(cursor: Cursor, expires_ms: int = 100) -> str:
    return seal(cursor, expires_ms, "one", SECRETS["one"])


def refused(text: str, secrets: dict[str, bytes] = SECRETS, now_ms: int = 0) -> str:
    with pytest.raises(OciError) as refusal:
        unseal(text, secrets, now_ms)
    assert (refusal.value.status, refusal.value.code) == (400, "InvalidParameter")
    return refusal.value.message


@pytest.mark.parametrize("cursor", [PARTITION, AT_TIME])
def test_partition_cursors(cursor: PartitionCursor) -> None:
    assert unseal(sealed(cursor), SECRETS, 99) == cursor


def test_group_cursors() -> None:
    back = unseal(sealed(GROUP), SECRETS, 0)
    assert isinstance(back, GroupCursor)
    assert (back.group, back.instance, back.timeout_ms, back.commit_on_get) == ("grüppe", "i/1", 30_000, False)
    assert (back.turn, back.commit_read, back.stream_id) == (3, True, "s")
    assert back.bookmark.offsets == {0: 9, 11: 2**53}
    assert (back.bookmark.generation, back.bookmark.epoch, back.bookmark.start) == (4, (2, 5), (3, 7))


def test_any_known_secret_is_good() -> None:
    assert unseal(seal(PARTITION, 100, "two", SECRETS["two"]), SECRETS, 0) == PARTITION


def test_a_foreign_secret_is_not() -> None:
    assert refused(sealed(PARTITION), {}) == GARBLED
    assert refused(sealed(PARTITION), {"one": b"c" * 32}) == GARBLED


def test_a_foreign_secret_may_be_one_of_a_region_that_is_away() -> None:
    others = {"two": SECRETS["two"]}
    with pytest.raises(OciError, match="cannot check it yet") as refusal:
        unseal(sealed(PARTITION), others, 0, lambda: True)
    assert (refusal.value.status, refusal.value.code) == (503, "ServiceUnavailable")
    with pytest.raises(OciError) as refusal:
        unseal(sealed(PARTITION), others, 100, lambda: True)
    assert refusal.value.status == 400, "it has expired, no matter which region made it"
    with pytest.raises(OciError) as refusal:
        unseal("e30.x", others, 0, lambda: True)
    assert refusal.value.status == 400


def test_it_expires() -> None:
    assert refused(sealed(PARTITION), now_ms=100) == EXPIRED
    assert unseal(sealed(PARTITION), SECRETS, 99) == PARTITION


def test_another_payload_is_noticed() -> None:
    payload, _, signature = sealed(PARTITION).partition(".")
    forged = encoded(decoded(payload).replace(b'"offset":17', b'"offset":16'))
    assert refused(f"{forged}.{signature}") == GARBLED
    assert refused(f"{payload}.{signature[:10]}") == GARBLED
    assert refused(payload) == GARBLED


@given(st.text(max_size=40))
def test_what_is_no_cursor(text: str) -> None:
    assert refused(text) == GARBLED


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_changed_byte_is_noticed(place: int, change: int) -> None:
    data = bytearray(sealed(GROUP).encode())
    data[place % len(data)] ^= change
    text = data.decode("latin-1")
    try:
        back = unseal(text, SECRETS, 0)
    except OciError:
        return
    # Of the last character of a base64 text some bits mean nothing.
    assert isinstance(back, GroupCursor) and back.bookmark.offsets == GROUP.bookmark.offsets


@pytest.mark.parametrize(
    "payload", [b"[]", b"7", b"{}", b'{"secret":[]}', b'{"secret":"three"}', b"\xff", b"[" * 20_000]
)
def test_json_that_is_no_payload(payload: bytes) -> None:
    assert refused(f"{encoded(payload)}.{encoded(bytes(32))}") == GARBLED
