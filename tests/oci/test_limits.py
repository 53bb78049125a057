"""Rates and limits, with a time that is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.oci import limits
from crdtstream.oci.limits import Quotas, RateLimit


def test_a_bucket_empties_and_fills() -> None:
    rate = RateLimit(5, 5)
    assert [rate.spend("a", 1, 0) for _ in range(6)] == [True] * 5 + [False]
    assert not rate.spend("a", 1, 199)
    assert rate.spend("a", 1, 200) and not rate.spend("a", 1, 200)
    assert [rate.spend("a", 1, 10_000) for _ in range(6)] == [True] * 5 + [False], "it holds no more than its burst"
    rate.check()


def test_keys_have_buckets_of_their_own() -> None:
    rate = RateLimit(1, 1)
    assert rate.spend("a", 1, 0) and rate.spend("b", 1, 0) and not rate.spend("a", 1, 0)


def test_a_clock_that_falls_gives_nothing() -> None:
    rate = RateLimit(1, 1)
    assert rate.spend("a", 1, 5_000)
    assert not rate.spend("a", 1, 0)


def test_full_buckets_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUCKETS_MAX", 3)
    rate = RateLimit(1, 1)
    for key in range(3):
        rate.spend(key, 1, 0)
    assert len(rate) == 3
    rate.spend("late", 1, 1_000)
    assert len(rate) == 1 and not rate.spend("late", 1, 1_000)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 500))))
def test_no_more_than_burst_and_rate(steps: list[tuple[int, int]]) -> None:
    rate, now_ms, taken = RateLimit(10, 4), 0, 0
    for amount, pause_ms in steps:
        now_ms += pause_ms
        taken += amount if rate.spend("a", amount, now_ms) else 0
        rate.check()
    assert taken <= 10 + 4 * now_ms / 1000 + 1e-6


def test_limits_are_off() -> None:
    off, real = Quotas(False, 2), Quotas(True, 2)
    assert off.groups_max == 0 and off.allows_partitions(5, 5)
    assert all(off.allows_get("s", 0, "g", 0) and off.allows_write("s", 0, 1 << 30, 0) for _ in range(50))
    assert real.groups_max == 50 and real.allows_partitions(1, 1) and not real.allows_partitions(1, 2)
    assert sum(real.allows_get("s", 0, "g", 0) for _ in range(50)) == 5
    assert real.allows_get("s", 0, "other", 0) and real.allows_get("s", 1, "g", 0)
    assert real.allows_write("s", 0, 1 << 20, 0) and not real.allows_write("s", 0, 1, 0)
