"""Numbers, times and sizes as people read them."""

from __future__ import annotations

import pytest

from crdtstream.dashboard.words import age_ms, count, duration, moment, percent, several, size


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (850.4, "850 ms"),
        (12_900, "12 s"),
        (180_000, "3 min"),
        (7_500_000, "2 h 5 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations(ms: float, text: str) -> None:
    assert duration(ms) == text


def test_sizes_and_counts() -> None:
    assert [size(number) for number in (12, 1536, 5 << 20, 3 << 40)] == ["12 B", "1.5 KiB", "5.0 MiB", "3.0 TiB"]
    assert [count(1234567), count(None)] == ["1,234,567", "-"]
    assert [several(1, "entry", "entries"), several(2, "entry", "entries"), several(0, "link")] == [
        "1 entry",
        "2 entries",
        "0 links",
    ]
    assert [percent(1, 4), percent(1, 0)] == ["25 %", "-"]


def test_times_of_ids() -> None:
    assert moment("1700000000123-5") == "2023-11-14 22:13:20.123"
    assert [moment("0-1"), moment(""), moment("99999999999999999-0")] == ["", "", ""]
    assert [age_ms("1700000000000-0", 1_700_000_005_000), age_ms("7-1", 9)] == [5_000, None]
