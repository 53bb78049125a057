"""Families have Prometheus's names and types, and labels that stay apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.runtime.metrics.families import counter, counters, gauge, histogram, info, text_of
from crdtstream.runtime.metrics.histogram import FAST_S, Histogram
from tests.runtime.metrics.scraped import scraped


def test_kinds() -> None:
    times = Histogram(FAST_S)
    times.observe(0.0001)
    times.observe(7.0)
    found = scraped(
        [
            gauge("serving", "It serves.", True),
            counter("connections_total", "Many.", 3),
            counters("errors_total", "By code.", ("code",), [(("ERR",), 2)]),
            info("region_info", "A region.", {"region": 'e"a\\s\nt'}),
            histogram("turn_duration_seconds", "Turns.", times),
        ]
    )
    assert found.types["crdtstream_connections"] == "counter"
    assert found.types["crdtstream_turn_duration_seconds"] == "histogram"
    assert (found.value("serving"), found.value("connections_total"), found.value("errors_total", code="ERR")) == (
        1,
        3,
        2,
    )
    assert found.value("region_info", region='e"a\\s\nt') == 1
    buckets = [found.value("turn_duration_seconds_bucket", le=le) for le in ("0.0001", "2.5", "+Inf")]
    assert (buckets, found.value("turn_duration_seconds_count")) == ([1, 1, 2], 2)
    assert found.value("turn_duration_seconds_sum") == 7.0001


@given(st.lists(st.binary(max_size=6), unique=True))
def test_different_names_are_different_labels(names: list[bytes]) -> None:
    assert len({text_of(name) for name in names}) == len(names)
    found = scraped([counters("x_total", "Names.", ("stream",), [((text_of(name),), 1) for name in names])])
    assert len(found.samples) == len(names)
