"""The search by seed: it is the same each time, finds nothing here, and stores what it finds."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from fuzz.engine import TARGETS, Failed, inputs, search
from fuzz.target import Target

# About ten seconds together.
RUNS = {"requests": 40_000, "commands": 150}


@pytest.mark.parametrize("name", TARGETS)
def test_no_property_is_broken(name: str) -> None:
    assert search(TARGETS[name], seed=1, runs=RUNS[name]) == RUNS[name]


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_names_the_inputs(name: str) -> None:
    first, again, other = (list(islice(inputs(TARGETS[name], seed), 50)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) > 40


def test_the_time_ends_a_search() -> None:
    assert search(Target("any", len, [b"a"]), seed=1, seconds=0.01) > 1


def refuse(data: bytes) -> None:
    assert b"\0" not in data


def test_an_input_that_fails_is_stored(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="any: input") as failed:
        search(Target("any", refuse, [b"a"]), seed=1, runs=1000)
    place = failed.value.store(tmp_path)
    assert place.read_bytes() == failed.value.data
    with pytest.raises(AssertionError):
        refuse(place.read_bytes())
