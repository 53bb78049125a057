"""What a stream has of each origin, compared with a dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.by_origin import ByOrigin

ORIGINS = st.integers(1, 4)


PUT, MAKE, DELETE = range(3)


@given(st.lists(st.tuples(ORIGINS, st.sampled_from([PUT, MAKE, DELETE]))))
def test_it_is_a_dictionary_in_the_same_order(steps: list[tuple[int, int]]) -> None:
    parts = ByOrigin(str)
    model: dict[int, str] = {}
    for number, (origin, step) in enumerate(steps):
        if step == PUT:
            parts[origin] = model[origin] = f"part {number}"
        elif step == MAKE:
            assert parts.of(origin) == model.setdefault(origin, "")
        elif origin in model:
            del parts[origin], model[origin]
        assert parts.items() == list(model.items()) and parts.values() == list(model.values())
        assert list(parts) == list(model) and len(parts) == len(model)
        for one in range(5):
            assert parts.get(one) == model.get(one) and (one in parts) == (one in model)
        for one in model:
            assert parts[one] == model[one]


@pytest.mark.parametrize("origins", [[], [1], [1, 2]])
def test_an_origin_that_has_nothing(origins: list[int]) -> None:
    parts = ByOrigin(str)
    for origin in origins:
        parts[origin] = "part"
    with pytest.raises(KeyError):
        parts[3]
    with pytest.raises(KeyError):
        del parts[3]
