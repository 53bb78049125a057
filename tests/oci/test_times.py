"""Times of the API, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.oci.errors import OciError
from crdtstream.oci.times import milliseconds, rfc3339


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-02", 86_400_000),
        ("1969-12-31T00:00:00Z", 0),
        ("2026-11-20T22:22:50.123456+00:00", 1_795_213_370_123),
    ],
)
def test_what_clients_write(text: str, time_ms: int) -> None:
    assert milliseconds(text, "time") == time_ms


@pytest.mark.parametrize("text", ["", "now", "1700000000", "2026-13-01T00:00:00Z"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(OciError, match=r"time .* is not a time: write it like") as refusal:
        milliseconds(text, "time")
    assert (refusal.value.status, refusal.value.code) == (400, "InvalidParameter")


@given(st.integers(0, 250_000_000_000_000))
def test_there_and_back(time_ms: int) -> None:
    text = rfc3339(time_ms)
    assert len(text) == len("1970-01-01T00:00:00.000Z") and text.endswith("Z")
    assert milliseconds(text, "time") == time_ms
