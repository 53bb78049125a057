"""Histograms count every observation once, under the first bound that is not below it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.runtime.metrics.meters import FAST_S, Histogram, Meters
from crdtstream.storage.log import Log
from tests.running_region import until


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


class FakeLog:
    def __init__(self, meters: Meters) -> None:
        self.synced_position, self.last_position = 3, 3
        self.meters = meters
        self.seen: list[bool] = []

    def sync(self) -> int:
        self.seen.append(self.meters.sync_began_s is not None)
        return self.last_position


def test_only_syncs_that_have_something_to_do_are_timed() -> None:
    meters = Meters()
    fake = FakeLog(meters)
    log: Log = fake  # type: ignore[assignment]
    assert meters.sync_log(log) == 3 and sum(meters.sync.counts) == 0
    fake.last_position = 4
    assert meters.sync_log(log) == 4 and sum(meters.sync.counts) == 1
    assert fake.seen == [False, True] and meters.syncing_s() == 0.0


async def test_a_late_loop_is_seen() -> None:
    meters = Meters()
    await meters.sleep(0.0)
    assert sum(meters.loop_lag.counts) == 1
    meters.sync_began_s = 0.0
    await until(lambda: meters.syncing_s() > 0, "time passes")
