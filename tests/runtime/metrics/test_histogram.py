"""Histograms count every observation once, under the first bound that is not below it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.runtime.metrics.histogram import FAST_S, Histogram


@given(st.lists(st.floats(0, 100)))
def test_observations_lie_below_their_bounds(observed: list[float]) -> None:
    histogram = Histogram(FAST_S)
    for seconds in observed:
        histogram.observe(seconds)
    for at, bound in enumerate(FAST_S):
        assert sum(histogram.counts[: at + 1]) == sum(seconds <= bound for seconds in observed)
    assert sum(histogram.counts) == len(observed)
    assert histogram.total_s == pytest.approx(sum(observed))


def test_work_is_timed_also_when_it_fails() -> None:
    histogram = Histogram(FAST_S)
    assert histogram.time(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        histogram.time(divmod, 7, 0)
    assert sum(histogram.counts) == 2
