"""Offsets as text, and what is done with positions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.causality import is_origin, origin_name, origin_of
from crdtstream.spark.offsets import (
    Positions,
    capped,
    from_json,
    merged,
    origin_text,
    parse_origin,
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
