"""IDs that are minted: above the top, with the own residue, and different for each; and how their texts are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.entry_id import (
    NOT_PLAIN,
    SEQ_MODULUS,
    U64_MAX,
    EntryId,
    is_next,
    mint,
    mint_at,
    next_id,
    parse_id,
    parse_plain,
    residue_of,
    seq_above,
)

edges = st.sampled_from([2**32, 2**53, U64_MAX - SEQ_MODULUS, U64_MAX - 1, U64_MAX])
u64 = st.integers(0, 5) | st.integers(0, 3 * SEQ_MODULUS) | edges
tops: st.SearchStrategy[EntryId] = st.tuples(u64, u64)
residues = st.builds(residue_of, st.integers(1, 255), st.integers(0, 1000))


@pytest.mark.parametrize(("region", "count", "residue"), [(1, 0, 1), (1, 1, 257), (7, 255, 65287), (7, 256, 7)])
def test_residues(region: int, count: int, residue: int) -> None:
    assert residue_of(region, count) == residue


def test_a_residue_tells_regions_and_256_of_their_origins_apart() -> None:
    residues = {residue_of(region, count) for region in range(1, 256) for count in range(256)}
    assert len(residues) == 255 * 256 and min(residues) > 0 and max(residues) < SEQ_MODULUS


@given(u64, residues)
def test_the_next_sequence_number_with_a_residue(seq: int, residue: int) -> None:
    above = seq_above(seq, residue)
    assert above > seq and above % SEQ_MODULUS == residue
    assert above - SEQ_MODULUS <= seq


@given(u64, tops, residues)
def test_what_is_minted_lies_above_the_top_and_with_its_residue(now_ms: int, top: EntryId, residue: int) -> None:
    minted = mint(now_ms, top, residue)
    if minted is None:
        assert top[0] == U64_MAX and seq_above(top[1], residue) > U64_MAX
    else:
        assert minted > top and minted[0] >= max(now_ms, top[0])
        assert minted[1] % SEQ_MODULUS == residue and max(minted) <= U64_MAX


@given(u64, tops, residues)
def test_what_is_minted_at_a_millisecond(ms: int, top: EntryId, residue: int) -> None:
    minted = mint_at(ms, top, residue)
    if minted is not None:
        assert minted > top and minted[0] == ms
        assert minted[1] % SEQ_MODULUS == residue and minted[1] <= U64_MAX
    else:
        assert ms < top[0] or (ms == top[0] and seq_above(top[1], residue) > U64_MAX)


@given(tops, tops)
def test_the_next_id_is_known_when_it_is_seen(one: EntryId, two: EntryId) -> None:
    after = next_id(one)
    assert is_next(one, two) == (two == after)
    assert after is None or is_next(one, after)


@given(tops, st.sampled_from([b"", b"0", b"000000000000000000"]))
def test_an_id_in_plain_digits_is_read_like_any_other(entry_id: EntryId, zeros: bytes) -> None:
    text = zeros + b"%d-" % entry_id[0] + zeros + b"%d" % entry_id[1]
    assert parse_plain(text) in (entry_id, NOT_PLAIN)
    assert parse_id(text, 7) == entry_id


@pytest.mark.parametrize("text", [b"", b"-", b"1", b"1-", b"-1", b"1-2-3", b"1--2", b"+1-2", b"1- 2", b"1_0-2", b"1-x"])
def test_what_is_not_two_numbers_in_plain_digits(text: bytes) -> None:
    assert parse_plain(text) == NOT_PLAIN
    assert parse_plain(b"1-" + b"9" * 18) == (1, 10**18 - 1) and parse_plain(b"1-" + b"9" * 19) == NOT_PLAIN
