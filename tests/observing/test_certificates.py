"""When certificates end, in words."""

from __future__ import annotations

import pytest

from crdtstream.observing.certificates import DAY_S, SOON_S, end_text, ending, first_end_s

# 2026-11-26 00:00 UTC.
NOW_S = 1_795_651_200


@pytest.mark.parametrize(
    ("left_s", "text"),
    [
        (66 * DAY_S, "2027-01-31, 66 days"),
        (SOON_S, "2026-12-10, 14 days"),
        (SOON_S - 1, "ends soon: 2026-12-09, 13 days"),
        (DAY_S + 1, "ends soon: 2026-11-27, 1 day"),
        (0, "ended 2026-11-26"),
    ],
)
def test_the_end_of_a_certificate(left_s: int, text: str) -> None:
    assert end_text(NOW_S + left_s, NOW_S) == text


def test_the_first_to_end_stands_first() -> None:
    ends = {"redis": NOW_S + 4 * DAY_S, "http": NOW_S - DAY_S, "replication": NOW_S + 90 * DAY_S}
    assert first_end_s(ends) == NOW_S - DAY_S
    assert first_end_s({}) is None
    assert ending("east", ends, NOW_S) == [
        "the certificate of the http port of east ended 2026-11-25",
        "the certificate of the redis port of east ends 2026-11-30, in 4 days",
    ]
