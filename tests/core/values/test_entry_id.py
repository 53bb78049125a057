"""IDs that are minted: above the top, in the own lane, and different in each lane; and how their texts are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.entry_id import (
    LANE_STRIDE,
    NOT_PLAIN,
    U64_MAX,
    EntryId,
    is_next,
    lane_of,
    mint,
    mint_at,
    next_id,
    parse_id,
    parse_plain,
    seq_above,
)

edges = st.sampled_from([2**32, 2**53, U64_MAX - LANE_STRIDE, U64_MAX - 1, U64_MAX])
u64 = st.integers(0, 5) | st.integers(0, 3 * LANE_STRIDE) | edges
tops: st.SearchStrategy[EntryId] = st.tuples(u64, u64)
lanes = st.builds(lane_of, st.integers(1, 255), st.integers(0, 1000))


@pytest.mark.parametrize(("region", "count", "lane"), [(1, 0, 1), (1, 1, 257), (7, 255, 65287), (7, 256, 7)])
def test_lanes(region: int, count: int, lane: int) -> None:
    assert lane_of(region, count) == lane


def test_a_lane_tells_regions_and_256_of_their_origins_apart() -> None:
    lanes = {lane_of(region, count) for region in range(1, 256) for count in range(256)}
    assert len(lanes) == 255 * 256 and min(lanes) > 0 and max(lanes) < LANE_STRIDE


@given(u64, lanes)
def test_the_next_sequence_number_of_a_lane(seq: int, lane: int) -> None:
    above = seq_above(seq, lane)
    assert above > seq and above % LANE_STRIDE == lane
    assert above - LANE_STRIDE <= seq


@given(u64, tops, lanes)
def test_what_is_minted_lies_above_the_top_and_in_its_lane(now_ms: int, top: EntryId, lane: int) -> None:
    minted = mint(now_ms, top, lane)
    if minted is None:
        assert top[0] == U64_MAX and seq_above(top[1], lane) > U64_MAX
    else:
        assert minted > top and minted[0] >= max(now_ms, top[0])
        assert minted[1] % LANE_STRIDE == lane and max(minted) <= U64_MAX


@given(u64, tops, lanes)
def test_what_is_minted_at_a_millisecond(ms: int, top: EntryId, lane: int) -> None:
    minted = mint_at(ms, top, lane)
    if minted is not None:
        assert minted > top and minted[0] == ms
        assert minted[1] % LANE_STRIDE == lane and minted[1] <= U64_MAX
    else:
        assert ms < top[0] or (ms == top[0] and seq_above(top[1], lane) > U64_MAX)


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
