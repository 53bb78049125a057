"""Hash slots by definition are those of the product, and what a shard must answer follows from them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols.hash_slots import hash_slot_of, slot_ranges
from crdtstream.scenarios.reply import ReplyError, Value
from simulations.property_clients import Argv
from simulations.shard_refusals import (
    EDGES,
    SHARDS,
    Refused,
    answers_expected,
    draw_keys,
    keys_in,
    refusal_of,
    requests_of,
    shard_of,
    slot_of,
    with_two_slots,
)
from simulations.spill_clients import Transaction

# `a` is a key of shard 1, `b` one of shard 0, and `c` another one of shard 0.
ADDRESSES = ["one:1", "two:2"]
A, B, C = b"a", b"b", b"c"


@given(st.lists(st.sampled_from([b"{", b"}", b"a", b"bc", b"\xff", b""]), max_size=8).map(b"".join))
def test_hash_slots_are_those_of_the_product(key: bytes) -> None:
    assert slot_of(key) == hash_slot_of(key)


def test_hash_slots_are_those_of_redis() -> None:
    assert slot_of(b"123456789") == 0x31C3
    assert slot_of(b"{user1000}.following") == slot_of(b"{user1000}.followers") == slot_of(b"user1000")
    assert slot_of(b"foo{}{bar}") == hash_slot_of(b"foo{}{bar}") != slot_of(b"bar")


def test_the_edges_are_the_first_and_the_last_hash_slots() -> None:
    assert sorted(slot_of(key) for key in EDGES) == [slot for ends in slot_ranges(SHARDS) for slot in ends]
    assert [shard_of(key) for key in sorted(EDGES, key=slot_of)] == [0, 0, 1, 1]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_keys_of_a_shard_are_in_it(shard: int) -> None:
    drawn = [draw_keys(Random(seed), shard, has_letters=False)[0] for seed in range(50)]
    assert all(shard_of(key) == shard for keys in drawn for key in keys)
    assert {len({slot_of(key) for key in keys}) for keys in drawn} == {1, 3}
    for seed in range(20):
        keys, letters = draw_keys(Random(seed), shard, has_letters=True)
        assert {slot_of(key) for key in keys} == {slot_of(letters)}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (b"XADD a * f v", [A]),
        (b"DEL a b", [A, B]),
        (b"XREAD COUNT 1 STREAMS a b 0 0", [A, B]),
        (b"XREADGROUP GROUP g c BLOCK 40 STREAMS a >", [A]),
        (b"XGROUP CREATE a g 0 CRDT DEADLETTER b", [A, B]),
        (b"CRDT.STREAM SET a MAXLEN 3", [A]),
        (b"CRDT.EVICT 2 FORCE", []),
    ],
)
def test_the_keys_of_a_command(text: bytes, keys: list[bytes]) -> None:
    assert keys_in(text.split()) == keys


def test_the_shard_that_serves_is_named() -> None:
    assert [shard_of(key) for key in (A, B, C)] == [1, 0, 0]
    assert refusal_of([A], 1, ADDRESSES) == ""
    assert refusal_of([A], 0, ADDRESSES) == f"MOVED {hash_slot_of(A)} two:2"
    assert refusal_of([A], 0, ["one:1", ""]) == "CLUSTERDOWN"
    assert {refusal_of([B, C], shard, ADDRESSES) for shard in range(SHARDS)} == {"CROSSSLOT"}


def test_a_transaction_is_refused_when_it_is_queued_or_at_its_end() -> None:
    add = [[b"XADD", key, b"*", b"f", b"v"] for key in (A, B, C)]
    moved = f"MOVED {hash_slot_of(A)} two:2"
    assert answers_expected(Transaction(add[:2]), 0, ADDRESSES) == ["OK", moved, "QUEUED", "EXECABORT"]
    assert answers_expected(Transaction(add[1:]), 0, ADDRESSES) == ["OK", "QUEUED", "QUEUED", "CROSSSLOT"]
    assert requests_of(Transaction(add[:1])) == [[b"MULTI"], add[0], [b"EXEC"]]


def test_requests_with_two_hash_slots_are_refused_everywhere() -> None:
    rng = Random(1)
    for _ in range(50):
        argv = with_two_slots(rng, B, C)
        here, elsewhere = (answers_expected(argv, shard, ADDRESSES)[-1] for shard in range(SHARDS))
        assert here == "CROSSSLOT"
        assert elsewhere in ("CROSSSLOT", "EXECABORT")


TWO: Argv = Transaction([[b"DEL", B], [b"DEL", C]])
EXPECTED = ["OK", "QUEUED", "QUEUED", "CROSSSLOT"]


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        (["OK", "QUEUED", "QUEUED", ReplyError("CROSSSLOT Keys")], True),
        (["OK", "QUEUED", "QUEUED", ReplyError("CROSSSLOTS")], False),
        (["OK", "QUEUED", "QUEUED", [1, 1]], False),
        (["OK", "QUEUED", "QUEUED"], False),
        (["OK", ReplyError("LOADING data"), "QUEUED", ReplyError("EXECABORT it")], True),
        (["OK", ReplyError("LOADING data"), "QUEUED", [1]], False),
        (["OK", ReplyError("MOVED 1 x:1"), "QUEUED", ReplyError("EXECABORT it")], False),
    ],
)
def test_answers_are_compared(values: list[Value], holds: bool) -> None:
    assert Refused(TWO, EXPECTED, values, changed=False).is_as_expected() is holds
