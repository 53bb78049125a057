"""The search by seed: it is the same each time, finds nothing here, and stores what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.engine import TARGETS, Failed, replay, search
from fuzz.target import Target

# About ten seconds together.
RUNS = {"requests": 2_000, "commands": 60}


@pytest.mark.parametrize("name", TARGETS)
def test_no_property_is_broken(name: str) -> None:
    assert search(TARGETS[name], seed=1, runs=RUNS[name], shrink=False) == RUNS[name]


def target_of(check: Any) -> Target:
    return Target("any", lambda with_settings: with_settings(given(st.binary())(check)), batch=100)


def test_a_seed_names_the_inputs() -> None:
    def inputs(seed: int) -> list[bytes]:
        found: list[bytes] = []

        def note(data: bytes) -> None:
            found.append(data)

        assert search(target_of(note), seed, runs=250) == 250
        return found

    first, again, other = (inputs(seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) > 200


def test_the_time_ends_a_search() -> None:
    def accept(data: bytes) -> None: ...

    assert search(target_of(accept), seed=1, seconds=0.01) >= 100


def refuse(data: bytes) -> None:
    assert b"\0" not in data


def test_an_input_that_fails_is_small_and_stored_and_fails_again(tmp_path: Path) -> None:
    target = target_of(refuse)
    with pytest.raises(Failed, match="any: AssertionError") as failed:
        search(target, seed=1, runs=1000)
    cause = failed.value.__cause__
    assert cause is not None and any("b'\\x00'" in note for note in cause.__notes__)
    place = failed.value.store(tmp_path)
    with pytest.raises(AssertionError):
        replay(target, place.read_bytes())


def test_an_input_that_fails_no_more_says_nothing(tmp_path: Path) -> None:
    def accept(data: bytes) -> None: ...

    with pytest.raises(Failed) as failed:
        search(target_of(refuse), seed=1, runs=1000)
    replay(target_of(accept), failed.value.store(tmp_path).read_bytes())


def test_an_input_of_a_guided_search_is_run_again() -> None:
    seen: list[bytes] = []

    def note(data: bytes) -> None:
        seen.append(data)

    replay(target_of(note), bytes(100))
    assert len(seen) == 1
