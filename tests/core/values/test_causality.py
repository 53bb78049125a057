"""Origins and version vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.causality import (
    NO_ORIGIN,
    ORIGIN_MAX,
    RANDOM_BITS,
    REGION_MAX,
    VersionVector,
    is_origin,
    origin_name,
    origin_of,
    region_of,
)

vectors = st.dictionaries(st.integers(1, 4), st.integers(1, 5)).map(VersionVector)


# Origins


@given(st.integers(1, REGION_MAX), st.integers(0, 2**64 - 1))
def test_an_origin_is_its_region_and_what_is_random(region: int, bits: int) -> None:
    origin = origin_of(region, bits)
    assert region_of(origin) == region and is_origin(origin)
    assert origin >> 8 == bits % (1 << RANDOM_BITS)
    assert origin_name(origin) == f"{region}.{bits % (1 << RANDOM_BITS):x}"


def test_the_first_and_the_last_origin() -> None:
    assert origin_of(1, 0) == 1 and origin_name(1) == "1.0"
    assert origin_of(REGION_MAX, 2**RANDOM_BITS - 1) == ORIGIN_MAX
    assert ORIGIN_MAX < 2**62, "it fits wherever a signed integer of 64 bits does"


@pytest.mark.parametrize("region", [0, 256, -1])
def test_a_region_that_is_none_has_no_origin(region: int) -> None:
    with pytest.raises(ValueError, match=f"region {region} is outside 1..255"):
        origin_of(region, 0)


@pytest.mark.parametrize("number", [0, -1, -255, 256, 2**40, ORIGIN_MAX + 1, ORIGIN_MAX + 2, 2**64 - 1])
def test_numbers_that_are_no_origin(number: int) -> None:
    assert not is_origin(number)


# Vectors


@given(vectors, vectors, vectors)
def test_vectors_are_a_lattice(a: VersionVector, b: VersionVector, c: VersionVector) -> None:
    union = a.copy()
    union.merge(b)
    assert union.descends(a) and union.descends(b)
    assert c.descends(union) == (c.descends(a) and c.descends(b))
    met = a.meet(b)
    assert a.descends(met) and b.descends(met)
    assert met.descends(c) == (a.descends(c) and b.descends(c))


@given(vectors, vectors)
def test_what_one_has_beyond_another(a: VersionVector, b: VersionVector) -> None:
    beyond = a.beyond(b)
    assert (beyond == VersionVector()) == b.descends(a)
    back = b.copy()
    back.merge(beyond)
    back.check()
    union = b.copy()
    union.merge(a)
    assert back == union
    assert a.origins_beyond(b) == len(set(a.as_dict()) - set(b.as_dict()))


def test_counters_begin_at_one_and_only_grow() -> None:
    vector = VersionVector({258: 0})
    assert vector.origin_count() == 0 and vector.next(258) == 1
    vector.advance(258, 7)
    vector.advance(258, 3)
    assert vector.get(258) == 7 and vector.contains(258, 7) and not vector.contains(258, 8)
    assert vector.next(258) == 8 and vector.total() == 8
    vector.drop(258)
    assert vector == VersionVector() and vector.get(258) == 0


def test_origins_ascend_in_whatever_order_they_came() -> None:
    assert list(VersionVector({258: 1, 3: 2, 1: 9}).items()) == [(1, 9), (3, 2), (258, 1)]


def test_a_origin_that_is_no_origin_is_found() -> None:
    with pytest.raises(AssertionError, match="512 is not an origin"):
        VersionVector({512: 1}).check()


actions = st.tuples(st.sampled_from(["advance", "next", "drop", "merge", "copy"]), st.integers(1, 3), st.integers(1, 9))


@given(st.lists(actions, max_size=30))
def test_a_vector_does_what_a_dictionary_does(steps: list[tuple[str, int, int]]) -> None:
    vector, model = VersionVector(), dict[int, int]()
    for action, origin, counter in steps:
        if action == "advance":
            vector.advance(origin, counter)
            model[origin] = max(counter, model.get(origin, 0))
        elif action == "next":
            model[origin] = model.get(origin, 0) + 1
            assert vector.next(origin) == model[origin]
        elif action == "drop":
            vector.drop(origin)
            model.pop(origin, None)
        elif action == "merge":
            vector.merge(VersionVector({origin: counter}))
            model[origin] = max(counter, model.get(origin, 0))
        else:
            vector = vector.copy()
        asked = (NO_ORIGIN, 1, 2, 3, 4)
        assert [vector.get(origin) for origin in asked] == [model.get(origin, 0) for origin in asked]
        if counter % 2:  # asking for all may change how they are kept
            vector.check()
            assert vector.as_dict() == dict(sorted(model.items())) and vector.total() == sum(model.values())
    assert vector == VersionVector(model)
