"""Reading what redis-benchmark prints, and how much a load is."""

from __future__ import annotations

from benchmarks.load.loads import Appends, csv_rate


def test_the_rate_is_found_by_its_title() -> None:
    text = '"test","rps","avg_latency_ms"\n"XADD k * f v","25647.60","1.809"\n'
    assert csv_rate(text) == 25647.60


def test_appends_are_for_each_port_and_key() -> None:
    assert Appends([1, 2, 3], ["a", "b"], count=10).total == 60
