"""Offsets as text, and what is done with positions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.causality import is_origin, origin_name, origin_of
from crdtstream.spark.offsets import (
    PLAIN_ROWS,
    Positions,
    capped,
    from_json,
    is_packed,
    merged,
    offset_of,
    origin_text,
    packed,
    parse_origin,
    raised,
    stream_bytes,
    stream_text,
    to_json,
)

origins = st.builds(origin_of, st.integers(1, 255), st.integers(0, 2**53 - 1))
positions = st.dictionaries(st.text(max_size=3), st.dictionaries(origins, st.integers(0, 2**63 - 1), max_size=3))
few = st.dictionaries(
    st.sampled_from("ab"), st.dictionaries(st.sampled_from([257, 258]), st.integers(0, 9), max_size=2)
)


@given(origins)
def test_origins_are_written_as_the_engine_writes_them(origin: int) -> None:
    assert origin_text(origin) == origin_name(origin)
    assert parse_origin(origin_text(origin)) == origin
    assert is_origin(parse_origin(origin_text(origin)))


@pytest.mark.parametrize("text", ["", "eu", "0.ab", "256.ab", "1.", "1.AB", "1.xyz", "1", "1.1234567890abcdef"])
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an origin: write it as CRDT\.VECTOR shows it"):
        parse_origin(text)


@given(positions)
def test_offsets_survive_json_and_are_sorted(given: Positions) -> None:
    text = json.dumps(to_json(given))
    assert from_json(json.loads(text)) == given
    assert text == json.dumps(to_json(dict(reversed(given.items()))))
    assert text == json.dumps(to_json(given), sort_keys=True)


@given(st.binary(max_size=8))
def test_names_survive(name: bytes) -> None:
    assert stream_bytes(json.loads(json.dumps(stream_text(name)))) == name


@given(few, few)
def test_merged_is_the_least_that_lies_behind_neither(one: Positions, other: Positions) -> None:
    result = merged(one, other)
    assert result == merged(other, one)
    for stream in {*one, *other}:
        for origin in {*one.get(stream, {}), *other.get(stream, {})}:
            assert result[stream][origin] == max(
                one.get(stream, {}).get(origin, 0), other.get(stream, {}).get(origin, 0)
            )


def test_capped_stays_between_floor_and_target() -> None:
    heads = {"a": {257: 9, 258: 9, 259: 9}, "b": {257: 9}}
    assert capped(heads, {"a": {257: 5}}, {"a": {257: 3, 258: 7}}) == {"a": {257: 5, 258: 7}}
    assert capped(heads, {"a": {257: 5}}, {"a": {257: 8}}) == {"a": {257: 8}}


@given(positions)
def test_packed_offsets_survive_json_and_do_not_depend_on_order(given: Positions) -> None:
    text = json.dumps(packed(given))
    assert from_json(json.loads(text)) == given
    assert text == json.dumps(packed(dict(reversed(given.items()))))


def test_few_rows_stay_readable_and_many_are_packed() -> None:
    few_rows = {f"s{number}": {257: number} for number in range(PLAIN_ROWS)}
    assert offset_of(few_rows) == to_json(few_rows)
    many = {**few_rows, "one more": {257: 1}}
    assert is_packed(offset_of(many))
    assert offset_of(many)["streams"] == len(many)
    assert from_json(offset_of(many)) == from_json(to_json(many)) == many


def test_a_stream_may_have_the_name_of_a_member_of_packed_offsets() -> None:
    given = {"version": {257: 2}, "packed": {257: 1}, "streams": {257: 3}}
    assert not is_packed(to_json(given))
    assert from_json(to_json(given)) == given


def test_an_offset_of_a_later_release_is_refused() -> None:
    with pytest.raises(ValueError, match="the offset has version 3, which a later release wrote: run the query with"):
        from_json({"version": 3, "streams": 1, "packed": ""})


def test_ten_thousand_streams_take_a_few_kilobytes() -> None:
    origins = [origin_of(region, 0x1EEDD2CF6377F6 + region) for region in (1, 2, 3)]
    heads = {f"orders:{number}": dict.fromkeys(origins, 10000000 + number * 7919 % 100003) for number in range(10_000)}
    offset = raised(heads, {})
    assert len(json.dumps(to_json(heads))) > 1_000_000
    assert len(json.dumps(offset_of(offset))) < 2_000
    # One in a hundred has new entries since.
    later = {
        stream: {origin: seq + (number % 100 == 0) for origin, seq in row.items()}
        for number, (stream, row) in enumerate(offset.items())
    }
    assert len(json.dumps(offset_of(raised(later, offset)))) < 4_000


def test_raised_positions_pass_by_nothing_and_keep_what_did_not_move() -> None:
    begin = {f"s{number}": {257: number, 258: 5} for number in range(100)}
    end = {stream: {257: seqs[257] + (at % 2), 258: 5} for at, (stream, seqs) in enumerate(begin.items())}
    result = raised({**end, "new": {257: 3}}, begin)
    assert all(result[stream] == begin[stream] for stream in begin if end[stream] == begin[stream])
    assert {row[257] for stream, row in result.items() if end.get(stream) != begin.get(stream)} == {100}
    assert {row.get(258) for row in result.values()} == {5, None}
    assert raised({"few": {257: 3}, "others": {257: 9}}, {}) == {"few": {257: 3}, "others": {257: 9}}
