"""Numbers, times and sizes as people read them."""

from __future__ import annotations

import pytest

from crdtstream.observing.words import age_ms, count, duration, moment, percent, several, size


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (850, "850 ms"), (12_400, "12 s"), (180_000, "3 min"), (7_500_000, "2 h 5 min")],
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_counts_and_sizes() -> None:
    assert (count(None), count(12345), several(1, "effect"), several(2, "entry", "entries")) == (
        "-",
        "12,345",
        "1 effect",
        "2 entries",
    )
    assert (size(1023), size(1536), size(5 << 30), percent(1, 4), percent(1, 0)) == (
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
        "25 %",
        "-",
    )


def test_times_of_ids() -> None:
    assert moment("1700000000000-0") == "2023-11-14 22:13:20.000"
    assert (moment("5-x"), moment("x")) == ("1970-01-01 00:00:00.005", "")
    assert (age_ms("1700000000000-0", 1_700_000_000_500), age_ms("5-0", 9)) == (500, None)
