"""When certificates end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crdtstream.dashboard.certificates import certificate_end, end_text
from crdtstream.observing.access import Access

NOW = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("Jan 31 00:00:00 2027 GMT", "2027-01-31, 66 days"),
        ("Nov 30 00:00:00 2026 GMT", "ends soon: 2026-11-30, 4 days"),
        ("Nov  1 00:00:00 2026 GMT", "ended 2026-11-01"),
    ],
)
def test_the_end_of_a_certificate(told: str, text: str) -> None:
    assert end_text(told, NOW) == text


async def test_without_tls_there_is_none() -> None:
    assert await certificate_end("127.0.0.1:1", Access()) == ""
