"""The age of the oldest effect that a peer lacks, compared with a list of all effects."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.runtime.metrics.ages import NOTES_MAX, Ages


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200)), max_size=60), st.integers(0, 200))
def test_ages_are_those_of_the_notes(steps: list[tuple[int, int]], applied: int) -> None:
    ages, made_ms, counter, now_ms = Ages(), [0], 0, 0
    for effects, passed_ms in steps:
        counter, now_ms = counter + effects, now_ms + passed_ms
        made_ms += [now_ms] * effects
        ages.record(1, counter, now_ms)
    expected = now_ms - made_ms[applied + 1] if applied < counter else 0
    assert ages.age_ms(applied, now_ms) == expected


def test_what_has_nothing_is_as_old_as_the_first_effect() -> None:
    ages = Ages()
    assert ages.age_ms(0, 5) == 0
    ages.record(1, 7, 100)
    ages.record(1, 9, 200)
    assert [ages.age_ms(counter, 1_000) for counter in (0, 6, 7, 8, 9, 10)] == [900, 900, 800, 800, 0, 0]


def test_another_origin_and_a_clock_set_back_begin_anew() -> None:
    ages = Ages()
    ages.record(1, 7, 100)
    ages.record(257, 2, 200)
    assert ages.age_ms(1, 300) == 100 and ages.age_ms(2, 300) == 0
    ages.record(257, 3, 50)
    assert ages.age_ms(0, 60) == 10


def test_a_peer_that_lags_for_a_year_costs_little() -> None:
    ages = Ages()
    for tick in range(1, 200_000):
        ages.record(1, tick, tick * 100)
        assert len(ages._counters) == len(ages._times_ms) <= NOTES_MAX
    now_ms = 200_000 * 100
    for counter in (0, 10, 1_000, 100_000, 190_000, 199_998):
        true_ms = now_ms - (counter + 1) * 100
        assert 0.97 * true_ms <= ages.age_ms(counter, now_ms) <= true_ms
    assert ages.age_ms(199_999, now_ms) == 0
