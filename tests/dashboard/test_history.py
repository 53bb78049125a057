"""An hour of samples, and lags in time."""

from __future__ import annotations

import pytest

from crdtstream.dashboard.history import HOUR_S, Sample, SampleLog, VectorLog, sample_of, sample_of_all, thinned
from tests.dashboard.cluster import report


def sample(commands: int) -> Sample:
    return Sample(commands, 0, 0, 0, 0, 0, 0, 0)


def test_the_lag_is_the_age_of_the_first_vector_that_has_more() -> None:
    log = VectorLog()
    for time_s, counter in ((0.0, 1), (10.0, 5), (20.0, 5), (30.0, 9)):
        log.record(time_s, {"1.a": counter})
    assert [log.behind_ms({"1.a": counter}, 40.0) for counter in (0, 1, 4, 5, 8, 9, 12)] == [
        40_000,
        30_000,
        30_000,
        10_000,
        10_000,
        0,
        0,
    ]
    assert log.behind_ms({}, 40.0) == 40_000


def test_a_log_forgets_what_is_older_than_an_hour_but_the_last() -> None:
    log = VectorLog()
    log.record(0.0, {"1.a": 1})
    log.record(5.0, {"1.a": 2})
    log.record(HOUR_S + 10.0, {"1.a": 3})
    assert log.behind_ms({}, HOUR_S + 10.0) == round(1000 * (HOUR_S + 5))


def test_rates_have_gaps_where_nobody_answered_or_counting_began_again() -> None:
    history = SampleLog()
    for time_s, commands in ((0.0, 10), (2.0, 30), (4.0, None), (6.0, 50), (8.0, 5)):
        history.record(time_s, {} if commands is None else {"east": sample(commands)})
    assert history.rates("east", "commands") == [(2.0, 10.0), (4.0, None), (6.0, None), (8.0, None)]
    assert history.names() == ["east"]


def test_old_samples_are_dropped() -> None:
    history = SampleLog(keep_s=10)
    for time_s in range(0, 31, 5):
        history.record(float(time_s), {"east": sample(time_s)})
    assert list(history.times) == [20.0, 25.0, 30.0]
    assert [value for _, value in history.values("east", "commands")] == [20, 25, 30]


@pytest.mark.parametrize("most", [1, 3, 10, 100])
def test_thinning_keeps_the_peak(most: int) -> None:
    points: list[tuple[float, float | None]] = [(float(at), 7.0 if at == 33 else None) for at in range(100)]
    found = thinned(points, most)
    assert len(found) <= most and (33.0, 7.0) in found
    assert thinned([], most) == []


def test_a_region_has_what_its_shards_have() -> None:
    def shard(number: int) -> Sample:
        return sample_of(report(1, {"1.a": number}, commands=number, memory_bytes=10 * number, clients=1), 5, number)

    found = sample_of_all([shard(1), shard(3)])
    assert (found.commands, found.effects, found.behind, found.behind_ms) == (4, 4, 6, 3)
    assert (found.memory_bytes, found.disk_free_bytes, found.clients) == (40, 1 << 30, 2)
    assert sample_of_all([shard(2)]) == shard(2)
